"""The adapters as pure functions: what a window looks like on each wire, and where a policy puts its markers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from lamella.cache.planner import Facts
from lamella.cache.window import Chain, chain
from lamella.context.assemble import Assembled
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel
from lamella.core.prompt import Marker, WireBlock
from lamella.llm import anthropic, openai, responses

WIRES = ("anthropic", "openai", "responses")
NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)


@cache
def adapter(wire: str, facts: ModelFacts) -> ChatModel:
    """An adapter that nothing is sent with."""
    module = {"anthropic": anthropic, "openai": openai, "responses": responses}[wire]
    model: ChatModel = module.connect(facts, base_url="http://127.0.0.1:9", key="none", timeout=1.0, retries=0)
    return model


def blocks_of(assembled: Assembled, wire: str, before: Assembled | None = None) -> tuple[WireBlock, ...]:
    """The wire blocks of a request; those of `before`, an earlier window, may be used again."""
    model = adapter(wire, assembled.model)
    known = model.wire(before.prompt) if before is not None else None
    return model.wire(assembled.prompt, known).blocks


def body_of(
    assembled: Assembled, wire: str, blocks: tuple[WireBlock, ...], markers: tuple[Marker, ...] = ()
) -> dict[str, object]:
    """The whole body."""
    model = adapter(wire, assembled.model)
    return model.body(model.request(assembled.prompt, blocks, markers))


def body(assembled: Assembled, wire: str, before: Assembled | None = None) -> dict[str, object]:
    """The whole body without markers."""
    return body_of(assembled, wire, blocks_of(assembled, wire, before))


def keyed(
    assembled: Assembled, wire: str, blocks: tuple[WireBlock, ...], calibration: float, now: datetime = NOW
) -> tuple[Chain, Facts]:
    """What markers are planned from."""
    model = adapter(wire, assembled.model)
    keys = chain(blocks, f"account/{model.facts.name}", model.salts(assembled.prompt.sampling))
    segments = {segment.id: segment for segment in assembled.prompt.segments}
    return keys, Facts(model.facts, segments, calibration, now, assembled.layout.seed_markers)
