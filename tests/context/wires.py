"""Both adapters as pure functions: what a window looks like on each wire, and where a policy puts its markers."""

from __future__ import annotations

from functools import cache

from lamella.cache.chain import chain
from lamella.cache.ledger import Ledger
from lamella.cache.plan import Facts, MarkerPolicy, Plan, plan
from lamella.context.assemble import Assembled
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel
from lamella.core.prompt import Wired
from lamella.llm import anthropic, openai

from .conversations import NINE, Sent

WIRES = ("anthropic", "openai")


@cache
def adapter(wire: str, facts: ModelFacts) -> ChatModel:
    """An adapter that nothing is sent with."""
    module = {"anthropic": anthropic, "openai": openai}[wire]
    model: ChatModel = module.connect(facts, base_url="http://127.0.0.1:9", key="none", timeout=1.0, retries=0)
    return model


def wired(sent: Sent, wire: str) -> Wired:
    """The wire blocks of a request."""
    return adapter(wire, sent.context.model).wire(sent.assembled.prompt)


def body(assembled: Assembled, wire: str, before: Assembled | None = None) -> dict[str, object]:
    """The whole body without markers; `before` is an earlier window whose blocks may be used again."""
    model = adapter(wire, assembled.model)
    known = model.wire(before.prompt) if before is not None else None
    blocks = model.wire(assembled.prompt, known).blocks
    return model.body(model.request(assembled.prompt, blocks, ()))


def planned(sent: Sent, wire: str, policy: MarkerPolicy, ledger: Ledger) -> tuple[Plan, Facts]:
    """Where a policy puts the markers of a request."""
    model = adapter(wire, sent.context.model)
    blocks = wired(sent, wire).blocks
    keys = chain(blocks, f"account/{model.facts.name}", model.salts(sent.context.sampling))
    segments = {segment.id: segment for segment in sent.assembled.prompt.segments}
    facts = Facts(model.facts, segments, sent.context.calibration, NINE, sent.layout.seed_markers)
    return plan(keys, ledger, facts, policy), facts
