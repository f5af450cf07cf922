"""A turn from its first row to its last: load, begin, run, finish; and what recovers it after a crash."""
