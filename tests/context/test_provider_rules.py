"""Grown conversations against the provider's own rules: never refused, and read from the cache as predicted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import cycle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lamella.cache.ledger import Ledger
from lamella.cache.planner import MarkerPolicy, Plan, note_billed, note_written, plan
from lamella.core.messages import AnswerPart
from lamella.core.prompt import WireBlock

from .growing import Sent, grow
from .judge import Judge, Judged
from .plans import (
    BINDING,
    CHAT,
    GPT,
    LEGACY,
    LOOSE,
    ODD_TEXTS,
    SONNET,
    PlannedStep,
    in_lamella,
    laws,
    long_text,
)
from .plans import Plan as Conversation
from .plans import plans as all_plans
from .wires import NOW, adapter, keyed

GAPS = (5, 100, 290, 301, 1_700, 1_801, 4_000)
"""Seconds between requests, on both sides of every life time of a cache entry."""

HUGE = "You answer from documents and from nothing else. " * 300


@dataclass
class Exchange:
    """The engine's side of a conversation with the judge: plans, sends, and learns from the bill."""

    policy: MarkerPolicy
    gaps: Iterable[int]
    judge: Judge = field(default_factory=Judge)
    ledger: Ledger = field(default_factory=Ledger)
    now: datetime = NOW
    seen: list[tuple[Sent, Plan, Judged]] = field(default_factory=list)

    def infer(self, sent: Sent, planned: PlannedStep) -> tuple[AnswerPart, ...]:
        """One request. One that fails has begun to answer and gets no bill."""
        self.now += timedelta(seconds=next(iter(self.gaps)))
        wire = str(sent.context.model.protocol)
        model = adapter(wire, sent.context.model)
        blocks = model.wire(sent.assembled.prompt).blocks
        keys, facts = keyed(sent.assembled, wire, blocks, sent.context.calibration, self.now)
        made = plan(keys, self.ledger, facts, self.policy)
        body: Any = model.body(model.request(sent.assembled.prompt, blocks, made.markers))
        judged = self.judge.send(wire, body, self.now, planned.parts)
        note_written(made, self.ledger, facts)
        if planned.kept:
            note_billed(made, judged.usage, self.ledger, facts)
        self.seen.append((sent, made, judged))
        return judged.parts


def positions(block: WireBlock) -> int:
    """How many blocks the provider splits one of ours into: OpenAI's messages fall into their parts."""
    value: Any = block.value
    if block.level == "tools" or "role" not in value:
        return 1
    content = value["content"]
    return len(value.get("tool_calls", ())) + (len(content) if isinstance(content, list) else 1 if content else 0)


def converse(conversation: Conversation, gaps: list[int], policy: MarkerPolicy) -> Exchange:
    exchange = Exchange(policy, cycle(gaps))
    grow(conversation, exchange.infer)
    return exchange


def with_much_before_it(conversation: Conversation) -> Conversation:
    turns = tuple(
        replace(turn, agent=None if turn.agent is not None and turn.agent.replaces_system else turn.agent)
        for turn in conversation.turns
    )
    return replace(conversation, system=HUGE, turns=turns)


def with_little_before_it(conversation: Conversation) -> Conversation:
    turns = tuple(
        replace(
            turn,
            steps=tuple(step for step in turn.steps if step.kept),
            agent=None,
            project=None,
            tools=turn.tools[:1],
        )
        for turn in conversation.turns
    )
    return replace(conversation, system="Help.", summaries=(), turns=turns)


plans = partial(all_plans, contents=st.sampled_from((*ODD_TEXTS, long_text(300), long_text(1_500))))
"""Results small enough for the windows of the smallest models, whatever was learnt of their counting."""

binding_in_lamella = plans(st.sampled_from((BINDING, SONNET)), in_lamella)
"""Elsewhere the provider drops thinking that has lost its prefix, which no plan can know of."""

gaps = st.lists(st.sampled_from(GAPS), min_size=1, max_size=6)


@laws
@given(plans(), gaps, st.sampled_from(MarkerPolicy))
def test_no_request_is_ever_refused(conversation: Conversation, gaps: list[int], policy: MarkerPolicy) -> None:
    """Roles, pairs, ids, names, markers, and thinking that binds to all that stood before it."""
    converse(conversation, gaps, policy)


@laws
@given(plans(st.sampled_from((BINDING, SONNET))), gaps)
def test_thinking_that_binds_is_never_refused(conversation: Conversation, gaps: list[int]) -> None:
    converse(conversation, gaps, MarkerPolicy.PLANNER)


@laws
@given(binding_in_lamella | plans(st.sampled_from((LOOSE, GPT, CHAT))), gaps, st.booleans())
def test_the_provider_reads_what_the_planner_predicts(conversation: Conversation, gaps: list[int], large: bool) -> None:
    """To the block: the hit of the plan is where the provider's read ends.

    Near the least size that is cached only a bill tells whether it was, and only for the end of a request. So what
    never changes is far above it here, or far below, and in small windows no request fails without a bill.
    """
    tried = with_much_before_it(conversation) if large else with_little_before_it(conversation)
    for _, made, judged in converse(tried, gaps, MarkerPolicy.PLANNER).seen:
        counts = [positions(block) for block in made.chain.blocks]
        assert sum(counts) == len(judged.sums)
        predicted = 0 if made.hit is None else judged.sums[sum(counts[: made.hit + 1]) - 1]
        assert judged.usage.cache_read == predicted


@laws
@given(plans(st.just(LEGACY)), gaps)
def test_a_provider_without_markers_is_predicted_to_its_step(conversation: Conversation, gaps: list[int]) -> None:
    """It reads whole steps of 128 tokens of any common prefix: never less than was predicted, rounded down."""
    for _, made, judged in converse(with_much_before_it(conversation), gaps, MarkerPolicy.PLANNER).seen:
        if made.hit is not None:
            counts = [positions(block) for block in made.chain.blocks]
            known = judged.sums[sum(counts[: made.hit + 1]) - 1]
            assert judged.usage.cache_read >= known // 128 * 128
