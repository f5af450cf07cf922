"""Windows of plain blocks, one segment each, so that a test can count positions and tokens on its fingers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, MarkerPolicy, Plan, note_written, plan
from lamella.cache.window import Chain, chain
from lamella.core.models import Markers, ModelFacts, Price
from lamella.core.prompt import Kind, Level, Lifetime, Marker, Segment, Ttl, WireBlock, Zone

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
CLAUDE = ModelFacts(
    name="claude",
    provider="anthropic",
    window=1_000_000,
    max_output=8_000,
    min_cacheable=512,
    price=Price(4, 20, 0.05, 1.25, 2),
    markers=Markers.ANTHROPIC,
    lives=(Ttl.FIVE_MINUTES, Ttl.ONE_HOUR),
)
GPT = replace(CLAUDE, name="gpt", provider="openai", markers=Markers.OPENAI, lives=(Ttl.THIRTY_MINUTES,))
FREE = replace(CLAUDE, name="free", provider="openai", markers=Markers.NONE, lives=(Ttl.FIVE_MINUTES,))
TOKENS = 1_000
"""Of every block."""


def segment(
    id: str, zone: Zone = Zone.HISTORY, lifetime: Lifetime = Lifetime.SESSION, kind: Kind = Kind.USER
) -> Segment:
    return Segment(id, kind, zone, lifetime, id, "user", id, id, TOKENS, id)


def block(segment: Segment, *, level: Level = "messages", markable: bool = True) -> WireBlock:
    return WireBlock.of(level, "user", {"type": "text", "text": segment.id}, segment.id, markable=markable)


def history(count: int, start: int = 1) -> list[Segment]:
    """Segments of messages that stay: `m1`, `m2` …"""
    return [segment(f"m{number}") for number in range(start, start + count)]


def chained(segments: list[Segment], salts: dict[Level, str] | None = None, root: str = "account/model") -> Chain:
    """The chain of a window of one block for each segment."""
    return chain(tuple(block(each) for each in segments), root, salts or {})


def facts(segments: list[Segment], model: ModelFacts = CLAUDE, minutes: float = 0.0) -> Facts:
    """What a plan is made from, `minutes` after the start."""
    return Facts(model, {each.id: each for each in segments}, 1.0, START + timedelta(minutes=minutes))


def send(
    segments: list[Segment],
    ledger: Ledger,
    *,
    model: ModelFacts = CLAUDE,
    minutes: float = 0.0,
    policy: MarkerPolicy = MarkerPolicy.PLANNER,
) -> Plan:
    """Plan a request, and note that its response began."""
    known = facts(segments, model, minutes)
    made = plan(chained(segments), ledger, known, policy)
    note_written(made, ledger, known)
    return made


def positions(made: Plan) -> list[int]:
    """Where the markers are, counted from 1 as the vendors' guides do."""
    return [marker.index + 1 for marker in made.markers]


def at(*places: int) -> tuple[Marker, ...]:
    """Markers at these positions, counted from 1."""
    return tuple(Marker(place - 1, Ttl.FIVE_MINUTES, "test") for place in places)
