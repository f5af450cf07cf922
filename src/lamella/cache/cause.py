"""What can have happened to what was cached."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What happened to what was cached."""

    NOT_BILLED = "not_billed"
    FIRST = "first"
    READ = "read"
    NOTHING_CACHED = "nothing_cached"
    MODEL = "model"
    EXPIRED = "expired"
    CLOCK = "clock"
    COUNTERS = "counters"
    EFFORT = "effort"
    SETTINGS = "settings"
    TOOLS = "tools"
    TIME = "time"
    EDITED = "edited"
    SHORTER = "shorter"
    DECIDED = "decided"
    MOVED = "moved"
    MISSED = "missed"
