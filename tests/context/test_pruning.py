"""Law 4, the edges: a boundary that lies elsewhere, calls without results, and results that gave way in their turn."""

from __future__ import annotations

from hypothesis import given

from lamella.context.results import INTERRUPTED, NO_LONGER_THERE, notices_of, stubs_of
from lamella.core.decisions import DecisionKind
from lamella.core.messages import Step, StopReason, ToolCall, ToolResult

from .growing import Grown, grown
from .laws import pruned
from .plans import in_lamella, laws

STEP = Step(
    "step_1",
    "a-model",
    (ToolCall("one", "search", "{}"), ToolCall("two", "search", "{}"), ToolCall("three", "now", "{}")),
    StopReason.INTERRUPTED,
    "",
    9,
    results=(ToolResult("three", "now", "09:00", digest="It was nine."), ToolResult("one", "search", "Much text.")),
)


@laws
@given(grown(layouts=in_lamella))
def test_a_boundary_that_is_not_on_the_path_changes_nothing(conversation: Grown) -> None:
    for sent in conversation.sent:
        if not any(decision.kind is DecisionKind.PRUNE for decision in sent.decisions):
            assert pruned(conversation, sent, "step_elsewhere").prompt == sent.assembled.prompt


def test_a_call_without_a_result_has_none_to_replace() -> None:
    """So the first step that a boundary changes is the first with results, as its decision says."""
    interrupted = ToolResult("two", "search", INTERRUPTED, is_error=True)
    assert stubs_of(STEP) == (
        ToolResult("one", "search", "search"),
        interrupted,
        ToolResult("three", "now", "It was nine."),
    )
    assert notices_of(STEP) == (
        ToolResult("one", "search", NO_LONGER_THERE),
        interrupted,
        ToolResult("three", "now", "It was nine."),
    )
