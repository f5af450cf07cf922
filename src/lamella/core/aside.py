"""Where work goes that grows with a window: beside the event loop, so that no stream stands still for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONG = 20
"""Turns of a window from which on it is worked on in a thread; for a shorter one the thread would cost more."""


async def aside(turns: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` gives for a window of so many turns; it must be pure, for it may run in a thread."""
    if turns >= LONG:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)
