"""Replay: a trace through the real engine against the simulator, on virtual time (DESIGN 7). Read `run.py` first."""
