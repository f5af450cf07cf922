"""When the interpreter looks through everything it holds for cyclic garbage: between answers, not while one streams.

A look through everything takes longer the more there is, and stops every stream meanwhile. What a server has loaded
when it is up is never looked through again; what comes later is, in a pause, and at the latest every `RARELY` looks
at what is younger.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence

OFTEN = 10
"""Looks at younger objects after which a pause is used to look through all; the interpreter's own number."""

RARELY = 400
"""Looks at younger objects after which it is done while answers stream, too: about every 800 turns without a pause."""

PAUSE = 1.0
"""Seconds between two looks whether there is a pause."""


def keep_loaded() -> None:
    """Keep what is loaded now out of every later look, and let full ones wait for a pause."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, RARELY)


def is_due(counts: Sequence[int], *, is_idle: bool) -> bool:
    """Whether to look through everything now; `counts` as `gc.get_count` gives them."""
    return is_idle and counts[2] >= OFTEN


async def collect_in_pauses(is_idle: Callable[[], bool], *, seconds: float = PAUSE) -> None:
    """Look through everything whenever it is due and nobody is being answered; until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        if is_due(gc.get_count(), is_idle=is_idle()):
            gc.collect()
