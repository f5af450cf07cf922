"""Law 5, beyond grown conversations: requests over rows of any origin, and thinking that has to come back."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from lamella.context.assemble import assemble
from lamella.context.input import ContextInput
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.messages import Reasoning, Text, ToolCall

from .growing import Grown, Sent, grown
from .plans import in_lamella, laws, raw_contexts
from .vendor_rules import CHECKS, THINKING, Json
from .wires import WIRES, body


@laws
@given(raw_contexts())
def test_a_request_over_any_rows_is_valid(context: ContextInput) -> None:
    assembled = assemble(context, LAMELLA)
    for wire in WIRES:
        sent: Any = body(assembled, wire)
        CHECKS[wire](sent)


@laws
@given(raw_contexts())
def test_thinking_made_after_something_else_is_not_sent(context: ContextInput) -> None:
    """No fingerprint in these rows is that of what stands before them."""
    sent: Any = body(assemble(context, LAMELLA), "anthropic")
    messages: list[Json] = sent["messages"]
    kinds = {block["type"] for message in messages for block in message["content"]}
    assert kinds.isdisjoint(THINKING)


@laws
@given(grown(layouts=in_lamella))
def test_sealed_thinking_comes_back_to_the_model_that_made_it(conversation: Grown) -> None:
    """With one model and nothing that changed before a step: all sealed thinking with words behind it is sent."""
    if len({turn.model.name for turn in conversation.plan.turns}) > 1:
        return
    for sent in conversation.sent:
        if not any(decision.first_changed for decision in sent.decisions):
            assert given_back(conversation, sent) == owed(sent)


def owed(sent: Sent) -> list[tuple[str, str]]:
    """The sealed thinking of a path that something is said or called behind, in the same step."""
    return [
        (step.id, part.text if part.redacted is None else part.redacted)
        for turn in sent.path
        for step in turn.steps
        for position, part in enumerate(step.parts)
        if isinstance(part, Reasoning) and (part.signature or part.redacted)
        if any(isinstance(p, ToolCall) or (isinstance(p, Text) and p.text.strip()) for p in step.parts[position:])
    ]


def given_back(conversation: Grown, sent: Sent) -> list[tuple[str, Any]]:
    """The thinking in a request."""
    return [
        (block.segment, block.value.get("thinking", block.value.get("data")))
        for block in conversation.wired(sent, "anthropic")
        if block.value.get("type") in THINKING
    ]
