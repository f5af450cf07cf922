"""The limits that the reading child sets on itself before it opens a file from outside."""

from __future__ import annotations

import math
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from lamella.knowledge.extraction_job import ExtractionLimits

if sys.platform != "win32":
    import resource

GRACE_SECONDS = 5
MAX_OPEN_FILES = 64


def confine(limits: ExtractionLimits) -> None:
    """Permanently limit this process's memory, time and priority, and its right to write files.

    On systems without such limits (Windows, partly macOS) only the server's time limit applies.
    """
    if sys.platform == "win32":
        return
    with suppress(OSError):  # Linux only: when memory runs out the kernel ends the child, not the server
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    os.nice(10)
    # The server kills a child that is late. Should the server die first, the alarm ends the child.
    signal.alarm(math.ceil(limits.seconds) + GRACE_SECONDS)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    _limit(resource.RLIMIT_CPU, 2 * math.ceil(limits.seconds) + GRACE_SECONDS)
    _limit(resource.RLIMIT_AS, limits.memory_bytes)


def _limit(which: int, value: int) -> None:
    """Lower one limit; a lower one stays, an unknown one is skipped."""
    if sys.platform == "win32":
        return
    with suppress(ValueError, OSError):
        _, hard = resource.getrlimit(which)
        lowered = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (lowered, lowered))
