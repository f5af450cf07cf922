"""Conversations that have to go on: stored paths of many kinds, providers that count as they like, and the law."""
