"""The turn engine: turn → runs → loop → step → tools (DESIGN 5, hops 4 to 11)."""
