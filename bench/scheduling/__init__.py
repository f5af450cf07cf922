"""Deterministic schedules: real chat, engine and storage code in an order that a seed chooses. Read `loop.py` first."""
