"""The journal and the bus: numbered packets that every follower gets exactly once, whenever it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.clock import SystemClock
from lamella.core.errors import LeaseLost, StoreFailed
from lamella.core.packets import TextPacket, decode_packet
from lamella.core.records import JournalEntry
from lamella.turns.journal import Journal, MemoryBus

pytestmark = pytest.mark.anyio


class Pages:
    """As much of a store as a journal writes to; it refuses as often as it is told to."""

    def __init__(self, refusals: int = 0) -> None:
        self.entries: list[JournalEntry] = []
        self.refusals = refusals
        self.lost = False
        self.written = asyncio.Event()

    @property
    def turns(self) -> Pages:
        """The object of the store that has the journal."""
        return self

    async def append_journal(self, entries: Sequence[JournalEntry]) -> None:
        await asyncio.sleep(0)
        if self.lost:
            raise LeaseLost("Another process has it.")
        if self.refusals:
            self.refusals -= 1
            raise StoreFailed("The disk is full.")
        self.entries += entries
        self.written.set()

    def numbers(self, turn_id: str) -> list[int]:
        lines = [line for e in self.entries if e.turn_id == turn_id for line in e.data.split(b"\n")]
        return [decode_packet(line).n for line in lines]


def journal(pages: Pages) -> tuple[Journal, MemoryBus]:
    bus = MemoryBus()
    return Journal(pages, bus, SystemClock()), bus  # type: ignore[arg-type]  # only what a journal needs


async def followed(bus: MemoryBus, turn_id: str, after: int) -> list[int]:
    return [n async for batch in bus.follow(turn_id, after) for n, _ in batch]


async def ended(packets: Journal, pages: Pages) -> None:
    """The turn ends with one more packet."""
    async with packets.ending("turn_1", [TextPacket(text="end")]) as entry:
        await pages.append_journal([entry])


@given(st.lists(st.sampled_from(["packet", "pause", "flush", "join"]), max_size=40), st.integers(0, 45))
async def test_every_follower_gets_every_packet_once(script: list[str], after: int) -> None:
    pages = Pages()
    packets, bus = journal(pages)
    packets.open("user_ann", "turn_1")
    followers = [asyncio.create_task(followed(bus, "turn_1", after))]
    for action in script:
        if action == "packet":
            packets.append("turn_1", TextPacket(text="x"))
        elif action == "pause":
            await asyncio.sleep(0)
        elif action == "flush":
            await packets.flush()
        else:
            followers.append(asyncio.create_task(followed(bus, "turn_1", after)))
    await asyncio.sleep(0)
    await ended(packets, pages)
    whole = list(range(1, script.count("packet") + 2))
    for numbers in await asyncio.gather(*followers):
        assert numbers == whole[after:]
    assert pages.numbers("turn_1") == whole
    assert all(before.last + 1 == entry.first for before, entry in pairwise(pages.entries))


async def test_turns_are_stored_together(anyio_backend: str) -> None:
    pages = Pages()
    packets, _ = journal(pages)
    packets.start()
    for name in ("turn_1", "turn_2", "turn_3"):
        packets.open("user_ann", name)
        packets.append(name, TextPacket(text="x"))
    await asyncio.sleep(0.5)
    assert [(entry.turn_id, entry.first, entry.last) for entry in pages.entries] == [
        (name, 1, 1) for name in ("turn_1", "turn_2", "turn_3")
    ]
    await packets.close()


@pytest.mark.parametrize("refusals", [1, 3])
async def test_packets_that_are_refused_are_stored_later(refusals: int) -> None:
    pages = Pages(refusals)
    packets, _ = journal(pages)
    packets.start()
    packets.open("user_ann", "turn_1")
    packets.append("turn_1", TextPacket(text="x"))
    async with asyncio.timeout(5):
        await pages.written.wait()
    assert pages.numbers("turn_1") == [1]
    await packets.close()
    assert pages.numbers("turn_1") == [1]


async def test_a_turn_whose_end_is_refused_goes_on_and_keeps_its_packets() -> None:
    pages = Pages(refusals=1)
    packets, bus = journal(pages)
    packets.open("user_ann", "turn_1")
    packets.append("turn_1", TextPacket(text="x"))
    follower = asyncio.create_task(followed(bus, "turn_1", 0))
    with pytest.raises(StoreFailed):
        await ended(packets, pages)
    assert bus.is_live("turn_1")
    packets.append("turn_1", TextPacket(text="not saved yet"))
    await ended(packets, pages)
    assert not bus.is_live("turn_1")
    assert await follower == [1, 2, 3]
    assert pages.numbers("turn_1") == [1, 2, 3]
    await packets.flush()
    assert pages.numbers("turn_1") == [1, 2, 3]


async def test_what_is_being_stored_is_not_stored_again_with_the_end() -> None:
    pages = Pages()
    packets, _ = journal(pages)
    packets.open("user_ann", "turn_1")
    packets.append("turn_1", TextPacket(text="x"))
    flushing = asyncio.create_task(packets.flush())
    await asyncio.sleep(0)
    await ended(packets, pages)
    await flushing
    assert pages.numbers("turn_1") == [1, 2]


async def test_a_turn_that_never_began_leaves_nothing() -> None:
    pages = Pages()
    packets, bus = journal(pages)
    packets.open("user_ann", "turn_1")
    packets.abandon("turn_1")
    assert not bus.is_live("turn_1")
    await packets.flush()
    assert pages.entries == []
    assert await followed(bus, "turn_1", 0) == []


async def test_nothing_more_is_said_of_a_turn_that_another_process_has_taken_over() -> None:
    """Its packets are dropped by the flush that learns of it, while its task may still be at the last ones."""
    pages = Pages()
    packets, bus = journal(pages)
    packets.open("user_ann", "turn_1")
    packets.append("turn_1", TextPacket(text="here"))
    await packets.flush()
    pages.lost = True
    packets.append("turn_1", TextPacket(text="dropped"))
    await packets.flush()
    packets.append("turn_1", TextPacket(text="too late"))
    with pytest.raises(LeaseLost):
        await ended(packets, pages)
    packets.abandon("turn_1")
    assert pages.numbers("turn_1") == [1]
    assert not bus.is_live("turn_1")
