"""What was spent in the last sixty seconds, by account or by key: the vendors' limits are per minute."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

SECONDS = 60.0


@dataclass(slots=True)
class Moment:
    """All requests of one moment: on a virtual clock there may be thousands."""

    at: float
    requests: int
    tokens: int


class Minutes:
    """Sums by name. Times are arguments and need not grow: what lies after `now` is forgotten like what is too old."""

    def __init__(self) -> None:
        self._moments: dict[str, deque[Moment]] = {}

    @property
    def held(self) -> int:
        """Moments in memory."""
        return sum(len(moments) for moments in self._moments.values())

    def clear(self) -> None:
        self._moments.clear()

    def add(self, name: str, now: float, tokens: int = 0) -> None:
        moments = self._last_minute(name, now)
        if moments and moments[-1].at == now:
            moments[-1].requests += 1
            moments[-1].tokens += tokens
        else:
            moments.append(Moment(now, 1, tokens))

    def spent(self, name: str, now: float) -> tuple[int, int, float]:
        """Requests and tokens of the last minute, and the time of the first of them (now, where there is none)."""
        moments = self._last_minute(name, now)
        requests, tokens = sum(each.requests for each in moments), sum(each.tokens for each in moments)
        return requests, tokens, moments[0].at if moments else now

    def _last_minute(self, name: str, now: float) -> deque[Moment]:
        moments = self._moments.setdefault(name, deque())
        while moments and not now - SECONDS < moments[0].at <= now:
            moments.popleft()
        return moments
