"""Lamella: a chat engine whose context is a pure function of stored data."""

__version__ = "0.1.0"
