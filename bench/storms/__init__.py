"""Turns on bad days: a real server over a simulated provider that fails at a place that a seed chooses."""
