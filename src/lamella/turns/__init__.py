"""A turn from its first row to its last: load, begin, run, finish, and recover after a crash."""
