"""Kills of the server under load, and the laws that have to hold after each."""
