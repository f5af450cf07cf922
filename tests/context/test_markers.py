"""Law 6: at most 4 markers under every policy, only where one can stand; where the planner puts its own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given

from lamella.cache.ledger import Ledger
from lamella.cache.plan import MAX_MARKERS, MarkerPolicy, Plan, note_billed, note_written
from lamella.core.prompt import Lifetime, WireBlock
from lamella.core.tokens import Usage

from .conversations import Grown, Sent, grown, laws
from .wires import WIRES, adapter, planned

POLICIES = tuple(MarkerPolicy)


def plans_of(conversation: Grown, wire: str, policy: MarkerPolicy) -> list[tuple[Sent, Plan]]:
    """The plans of all requests, each made after the bills of those before it."""
    ledger = Ledger()
    made = []
    for sent in conversation.sent:
        plan, facts = planned(sent, wire, policy, ledger)
        note_written(plan, ledger, facts)
        note_billed(plan, Usage(input=5_000, cache_write_5m=4_000), ledger, facts)
        made.append((sent, plan))
    return made


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("wire", WIRES)
@laws
@given(grown())
def test_four_markers_at_most_and_only_on_blocks_that_take_one(
    wire: str, policy: MarkerPolicy, conversation: Grown
) -> None:
    for sent, plan in plans_of(conversation, wire, policy):
        indexes = [marker.index for marker in plan.markers]
        assert len(indexes) <= MAX_MARKERS
        assert indexes == sorted(set(indexes))
        assert all(plan.chain.blocks[index].markable for index in indexes)
        model = adapter(wire, sent.context.model)
        body = model.body(model.request(sent.assembled.prompt, plan.chain.blocks, plan.markers))
        assert keys_of(body).count(MARKER[wire]) == len(indexes)


MARKER = {"anthropic": "cache_control", "openai": "prompt_cache_breakpoint"}


def keys_of(value: object) -> list[str]:
    """The keys of all objects in a JSON value."""
    if isinstance(value, dict):
        return [*value, *(key for inner in value.values() for key in keys_of(inner))]
    return [key for inner in value for key in keys_of(inner)] if isinstance(value, list) else []


@pytest.mark.parametrize("wire", WIRES)
@laws
@given(grown())
def test_the_planner_marks_what_stays_and_its_end(wire: str, conversation: Grown) -> None:
    """None on a segment of lifetime step; one on the last markable block before the first that may move."""
    for sent, plan in plans_of(conversation, wire, MarkerPolicy.PLANNER):
        lifetime = {segment.id: segment.lifetime for segment in sent.assembled.prompt.segments}
        blocks = plan.chain.blocks
        marked = [marker.index for marker in plan.markers]
        assert all(lifetime[blocks[index].segment] is not Lifetime.STEP for index in marked)
        moving = [index for index, block in enumerate(blocks) if lifetime[block.segment] is not Lifetime.SESSION]
        expected = last_markable(blocks[: moving[0]] if moving else blocks)
        if sent.context.model.markers != "none" and expected is not None:
            assert expected in marked


def last_markable(blocks: Sequence[WireBlock]) -> int | None:
    return max((index for index, block in enumerate(blocks) if block.markable), default=None)


@laws
@given(grown())
def test_no_marker_goes_to_a_provider_without_markers(conversation: Grown) -> None:
    for policy in POLICIES:
        for sent, plan in plans_of(conversation, "openai", policy):
            if sent.context.model.markers == "none" or policy is MarkerPolicy.OFF:
                assert plan.markers == ()
