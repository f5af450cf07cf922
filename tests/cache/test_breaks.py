"""Fifty planted breaks of a prefix: each is named with its cause, who did it, and the exact block and byte."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from lamella.cache.difference import Cause, Origin
from lamella.cache.why import Evidence, Why, why
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.json import digest
from lamella.core.records import RequestRecord, StoredDecision, StoredSegment
from lamella.core.tokens import Usage

from .test_why import FACTS, NOON, record

WORDS = ("harbour", "ledger", "wind", "copper", "signal", "orchard", "valve", "letter", "bridge", "ember", "quay")
CLOCK = "The time is {time}."


@dataclass
class Window:
    """Segments with the bytes of their blocks; a break changes it."""

    kinds: list[tuple[str, str, str]] = field(default_factory=list)
    blocks: list[list[bytes]] = field(default_factory=list)

    def add(self, id: str, kind: str, *blocks: object, lifetime: str = "session") -> None:
        self.kinds.append((id, kind, lifetime))
        self.blocks.append([json.dumps(block).encode() for block in blocks])

    def copy(self) -> Window:
        return Window(list(self.kinds), [list(blocks) for blocks in self.blocks])

    def segments(self) -> tuple[StoredSegment, ...]:
        return tuple(
            StoredSegment(id, kind, lifetime, id, "user", id, "U1", 100, tuple(digest(block) for block in blocks))
            for (id, kind, lifetime), blocks in zip(self.kinds, self.blocks, strict=True)
        )

    def data(self) -> dict[str, bytes]:
        return {digest(block): block for blocks in self.blocks for block in blocks}


@dataclass
class Planted:
    """What was done to a conversation, and what has to be said of it."""

    cause: Cause
    by: Origin | None
    block: int | None = None
    byte: int | None = None
    minutes: float = 1.0
    decision: Decision | None = None
    change: Callable[[RequestRecord], RequestRecord] = field(default=lambda made: made)


def conversation(random: random.Random) -> Window:
    """Some tools, a system prompt with a clock in it, and up to twelve turns."""

    def words(least: int, most: int) -> str:
        return " ".join(random.choices(WORDS, k=random.randint(least, most)))

    window = Window()
    names = random.sample(WORDS, random.randint(2, 6))
    window.add("tools", "tools", *({"name": name, "description": words(3, 20)} for name in names))
    clock = CLOCK.format(time="2026-03-01T12:00:00Z")
    window.add("system", "system", {"type": "text", "text": f"{words(20, 80)}. {clock}"})
    for number in range(random.randint(3, 12)):
        window.add(f"user {number}", "user", {"type": "text", "text": words(3, 40)})
        results = [{"type": "text", "text": words(5, 60)} for _ in range(random.randint(1, 3))]
        window.add(f"step {number}", "step", *results)
    return window


def first_block(window: Window, segment: int) -> int:
    return sum(len(blocks) for blocks in window.blocks[:segment])


def common(one: bytes, other: bytes) -> int:
    """Counted the slow way: the longest beginning that both have."""
    return max(length for length in range(min(len(one), len(other)) + 1) if one[:length] == other[:length])


def rewritten(window: Window, segment: int, block: int, old: str, new: str) -> tuple[int, int]:
    """Change a text in a block; where that is, as block and byte."""
    before = window.blocks[segment][block]
    after = before.replace(old.encode(), new.encode(), 1)
    assert after != before
    window.blocks[segment][block] = after
    return first_block(window, segment) + block, common(before, after)


def description(window: Window, random: random.Random) -> Planted:
    tool = random.randrange(len(window.blocks[0]))
    place = rewritten(window, 0, tool, '"description": "', '"description": "New: ')
    return Planted(Cause.TOOLS, Origin.TOOLS, *place)


def clock(window: Window, random: random.Random) -> Planted:
    later = f"2026-03-01T12:{random.randint(1, 59):02}:{random.randint(0, 59):02}Z"
    return Planted(Cause.TIME, Origin.CLOCK, *rewritten(window, 1, 0, "2026-03-01T12:00:00Z", later))


def order(window: Window, random: random.Random) -> Planted:
    tools = window.blocks[0]
    moved = random.randrange(1, len(tools))
    changed = [tools[moved], *tools[:moved], *tools[moved + 1 :]]
    planted = Planted(Cause.TOOLS, Origin.TOOLS, 0, common(tools[0], changed[0]))
    window.blocks[0] = changed
    return planted


def expired(window: Window, random: random.Random) -> Planted:
    return Planted(Cause.EXPIRED, None, minutes=random.uniform(5, 3_000))


def missed(window: Window, random: random.Random) -> Planted:
    return Planted(Cause.MISSED, None, minutes=random.uniform(0.1, 4.9))


def edited(window: Window, random: random.Random) -> Planted:
    message = 2 + 2 * random.randrange((len(window.kinds) - 2) // 2)
    return Planted(Cause.EDITED, Origin.USER, *rewritten(window, message, 0, '"text": "', '"text": "No: '))


def agent(window: Window, random: random.Random) -> Planted:
    place = rewritten(window, 1, 0, '"text": "', '"text": "You are Ada. ')
    decision = Decision(DecisionKind.SETTING, "agent", "a@2", "user", "the agent was edited", first_changed="system")
    return Planted(Cause.DECIDED, Origin.AGENT, *place, decision=decision)


def pruned(window: Window, random: random.Random) -> Planted:
    step = 3 + 2 * random.randrange((len(window.kinds) - 2) // 2)
    place = rewritten(window, step, 0, '"text": "', '"text": "[search] ')
    decision = Decision(DecisionKind.PRUNE, "c", "s", "engine", "8k tokens", first_changed=window.kinds[step][0])
    return Planted(Cause.SHORTER, Origin.ENGINE, *place, decision=decision)


def granted(window: Window, random: random.Random) -> Planted:
    place = rewritten(window, 0, 0, '"description": "', '"description": "Searches the base. ')
    decision = Decision(DecisionKind.SETTING, "grant:kb_1", "none", "admin", "access ended", first_changed="tools")
    return Planted(Cause.DECIDED, Origin.GRANT, *place, decision=decision)


def chosen(window: Window, random: random.Random) -> Planted:
    def head(made: RequestRecord) -> RequestRecord:
        return replace(made, head={"tool_choice": {"type": "none"}})

    return Planted(Cause.SETTINGS, Origin.SETTING, change=head)


BREAKS = (description, clock, order, expired, missed, edited, agent, pruned, granted, chosen)


def told(seed: int) -> tuple[Planted, Why]:
    """Plant a break in a generated conversation, and ask why."""
    drawn = random.Random(seed)
    before = conversation(drawn)
    after = before.copy()
    planted = BREAKS[seed % len(BREAKS)](after, drawn)
    after.add("newest", "user", {"type": "text", "text": "And then?"})
    first = record(0, *before.segments(), written=12_400)
    second = replace(record(0, *after.segments(), written=12_500), id="second")
    second = planted.change(replace(second, at=NOON + timedelta(minutes=planted.minutes)))
    decisions = [StoredDecision("d", NOON + timedelta(seconds=3), planted.decision)] if planted.decision else []
    return planted, why(Evidence(second, first, decisions, FACTS, before.data() | after.data()))


@pytest.mark.parametrize("seed", range(50))
def test_a_break_is_named_with_its_cause_and_its_byte(seed: int) -> None:
    planted, found = told(seed)
    place = (found.difference.block, found.difference.byte) if found.difference is not None else (None, None)
    assert (found.cause, found.by, *place) == (planted.cause, planted.by, planted.block, planted.byte)
    assert found.lost == 12_400
    assert found.lost_cost == pytest.approx(12_400 * 1.15 * 5 / 1_000_000)
    assert found.text.startswith("0 of 12.6k tokens were read from the cache")
    assert "12.4k cached tokens were not read, $0.0713 more than reading them" in found.text
    if planted.block is not None:
        assert f"block {planted.block}, byte {planted.byte})" in found.text


def test_without_their_bytes_the_block_is_still_known() -> None:
    window = conversation(random.Random(1))
    after = window.copy()
    block, _ = rewritten(after, 2, 0, '"text": "', '"text": "No: ')
    now = replace(record(1, *after.segments(), written=12_500), usage=Usage(input=12_600, cache_write_5m=12_500))
    found = why(Evidence(now, record(0, *window.segments(), written=12_400), (), FACTS))
    assert found.difference is not None
    assert (found.difference.block, found.difference.was) == (block, "")
    assert "byte" not in found.text
