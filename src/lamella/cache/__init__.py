"""What a provider's cache holds, where markers go, what a window weighs, and when taking something out of it pays.

Everything here is pure: data in, decisions out. Read `planner.py` for a request, `weighing.py` for what follows a turn.
"""
