"""Law 4, the edges: a boundary that lies elsewhere, calls without results, and results that gave way in their turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from lamella.context.results import INTERRUPTED, NO_LONGER_THERE, ResultCut, cut_results, notices_of, stubs_of
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Step, StopReason, ToolCall, ToolResult
from lamella.core.prompt import ToolSpec

from .growing import Grown, grown
from .laws import pruned
from .plans import in_lamella, laws
from .windows import answer, call, made, request, result, results, turn, words

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


def test_a_stub_names_the_id_by_which_its_result_can_be_read() -> None:
    """What is no longer than that stays, and what was read by that tool is named by its call already."""
    long = "word " * 50
    step = replace(
        STEP,
        parts=tuple(ToolCall(id, name, "{}") for id, name in (("a", "look"), ("b", "look"), ("c", "read_message"))),
        results=(ToolResult("a", "look", long), ToolResult("b", "look", "Yes."), ToolResult("c", "read_message", long)),
    )
    stubs = stubs_of(step, readable=True)
    assert [stub.content for stub in stubs] == ["look [read_message a]", "Yes.", "read_message"]
    [cut, *_] = cut_results(step, [ResultCut("a", 10, 5)], readable=True)
    assert cut.content.startswith(
        "[Cut to fit the window: 235 of 250 characters are left out in the middle. read_message a "
    )


@pytest.mark.parametrize(
    ("layout", "tools", "shown"),
    [
        ("lamella", ("search", "read_message"), "search [read_message c1]"),
        ("lamella", ("search",), "search"),
        ("lis", ("search", "read_message"), "search"),
    ],
)
def test_only_a_layout_that_names_ids_does_and_only_where_the_tool_is(
    layout: str, tools: tuple[str, ...], shown: str
) -> None:
    boundary = Decision(DecisionKind.PRUNE, "conv", "step_1", "engine", "it pays")
    specs = tuple(ToolSpec(name, name, "{}") for name in tools)
    old = turn(1, call("step_1", result("c1", words(50))), answer("step_2"))
    assert results(made(request(old, turn(2), decisions=(boundary,), tools=specs), layout)) == {"c1": shown}
