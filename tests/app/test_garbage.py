"""When the interpreter looks through everything: in pauses, and what was loaded never again."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from lamella.app.garbage import OFTEN, RARELY, collect_in_pauses, is_due, keep_loaded


@pytest.fixture
def interpreter() -> Iterator[None]:
    """The interpreter's own rule again afterwards."""
    rule = gc.get_threshold()
    yield
    gc.set_threshold(*rule)
    gc.unfreeze()


def test_what_is_loaded_is_kept_out_and_full_looks_are_rare(interpreter: None) -> None:
    young, middle, _ = gc.get_threshold()
    keep_loaded()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == (young, middle, RARELY)


def test_a_pause_is_used_when_enough_has_come() -> None:
    assert is_due((0, 0, OFTEN), is_idle=True)
    assert not is_due((0, 0, OFTEN), is_idle=False)
    assert not is_due((0, 0, OFTEN - 1), is_idle=True)


class Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.mark.anyio
async def test_cyclic_garbage_goes_in_a_pause(interpreter: None) -> None:
    keep_loaded()
    gone = asyncio.Event()
    cycle = Cycle()
    weakref.finalize(cycle, gone.set)
    for _ in range(OFTEN + 1):
        gc.collect(1)
    del cycle
    gc.collect(1)
    assert not gone.is_set()  # it is too old for that look

    looking = asyncio.create_task(collect_in_pauses(lambda: True, seconds=0))
    async with asyncio.timeout(30):
        await gone.wait()
    looking.cancel()
