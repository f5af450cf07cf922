"""The context core: stored data in, a `Prompt` out; no I/O, clock, randomness or logging in here.

Read `assemble.py` first, then the tables in `layouts/`.
"""
