"""How long cache entries live; beside everything else, because models and prompts both speak of it."""

from __future__ import annotations

from enum import StrEnum


class Ttl(StrEnum):
    """How long a cache entry lives."""

    FIVE_MINUTES = "5m"
    THIRTY_MINUTES = "30m"
    ONE_HOUR = "1h"

    @property
    def seconds(self) -> int:
        """The life time in seconds."""
        return {"5m": 300, "30m": 1800, "1h": 3600}[self.value]
