"""Recorded conversations: their format, the export of a stored one, and the replay of one against the simulator."""
