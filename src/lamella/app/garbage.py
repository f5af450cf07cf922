"""Runs the garbage collector's full collections between answers, not while one streams.

A full collection takes longer the more objects there are, and stops every stream. Objects loaded at the start are
frozen and never examined again; later ones are collected in pauses, and at the latest after `RARELY` young collections.
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
    """Freeze the objects loaded so far, and postpone full collections to pauses."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, RARELY)


def is_due(counts: Sequence[int], *, is_idle: bool) -> bool:
    """Whether a full collection is due. `counts` as from `gc.get_count`."""
    return is_idle and counts[2] >= OFTEN


async def collect_in_pauses(is_idle: Callable[[], bool], *, seconds: float = PAUSE) -> None:
    """Run due full collections while no turn runs, until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        if is_due(gc.get_count(), is_idle=is_idle()):
            gc.collect()
