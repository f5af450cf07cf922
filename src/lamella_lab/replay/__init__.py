"""Replay: a trace through the real engine against the simulator, on virtual time. Read `run.py` first."""
