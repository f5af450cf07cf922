"""The time zone of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def local_zone() -> str:
    """The IANA name of this machine's time zone, or UTC when it does not tell."""
    named = os.environ.get("TZ", "").lstrip(":")
    if "/" in named and _is_zone(named):
        return named
    link = Path("/etc/localtime")
    if link.is_symlink():
        _, found, name = str(link.readlink()).partition("zoneinfo/")
        if found and _is_zone(name):
            return name
    return "UTC"


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
