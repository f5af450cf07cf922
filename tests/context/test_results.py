"""Tool results in the window: expanded queries, digests, and what each layout shows of old ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lamella.context.layouts import LAYOUTS
from lamella.context.results import INTERRUPTED, NO_LONGER_THERE
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.json import decode_object
from lamella.core.messages import StopReason, ToolCall

from .plans import TWICE
from .windows import answer, call, calls, made, request, result, results, turn
from .wires import WIRES, blocks_of, body

EXPANDED = call("step_1", result("c1", "Much text.", queries=("x", "the letter x", "字母 x")), result("c2", "More."))
DIGESTED = call("step_1", result("c1", "Much text.", digest="It was about x."), result("c2", "More."))
BOUNDARY = Decision(DecisionKind.PRUNE, "conv", "step_1", "engine", "it pays")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_call_shows_every_query_from_the_request_that_holds_its_result_for_ever(layout: str) -> None:
    path = (
        request(turn(1, EXPANDED)),
        request(turn(1, EXPANDED, call("step_2", result("c3", "Other.")))),
        request(turn(1, EXPANDED, answer("step_2")), turn(2)),
        request(turn(1, EXPANDED, answer("step_2")), turn(2), decisions=(BOUNDARY,)),
        request(turn(1, EXPANDED, answer("step_2")), turn(2, answer("step_3")), turn(3)),
    )
    shown = {calls(made(asked, layout))["c1"] for asked in path}
    assert len(shown) == 1
    assert decode_object(shown.pop()) == {"query": "x", "expanded_queries": ["x", "the letter x", "字母 x"]}
    assert {calls(made(asked, layout))["c2"] for asked in path} == {'{"query":"x"}'}


def test_arguments_that_were_encoded_twice_are_kept_where_the_wire_has_a_text() -> None:
    """As the model sent them to the servers whose field is a text; as the object that it meant where it is one."""
    step = call("step_1", result("c1", "Red."))
    step = replace(step, parts=(ToolCall("c1", "search", TWICE),))
    window, later = made(request(turn(1, step))), made(request(turn(1, step, answer("step_2")), turn(2)))
    assert calls(window) == calls(later) == {"c1": TWICE}
    for wire in WIRES:
        sent, again = ([block.data for block in blocks_of(one, wire)] for one in (window, later))
        assert again[: len(sent)] == sent
    shown: Any = [body(window, wire) for wire in WIRES]
    [used] = [part for message in shown[0]["messages"] for part in message["content"] if part["type"] == "tool_use"]
    [asked] = [one["tool_calls"][0]["function"] for one in shown[1]["messages"] if "tool_calls" in one]
    [item] = [one for one in shown[2]["input"] if one["type"] == "function_call"]
    assert (used["input"], asked["arguments"], item["arguments"]) == ({"query": "red"}, TWICE, TWICE)


def test_every_query_is_shown_of_a_call_that_was_encoded_twice() -> None:
    step = replace(EXPANDED, parts=(ToolCall("c1", "search", TWICE), EXPANDED.parts[1]))
    shown = calls(made(request(turn(1, step))))["c1"]
    assert decode_object(shown) == {"query": "red", "expanded_queries": ["x", "the letter x", "字母 x"]}


def test_a_digest_stands_in_place_of_a_stub_and_never_before() -> None:
    running = request(turn(1, DIGESTED))
    over = request(turn(1, DIGESTED, answer("step_2")), turn(2))
    pruned = replace(over, decisions=(BOUNDARY,))
    whole = {"c1": "Much text.", "c2": "More."}
    assert {layout: results(made(running, layout)) for layout in LAYOUTS} == dict.fromkeys(LAYOUTS, whole)
    assert {layout: results(made(over, layout)) for layout in LAYOUTS} == {
        "lamella": whole,
        "lis": whole,
        "wegent": whole,
        "onyx": {"c1": "It was about x.", "c2": NO_LONGER_THERE},
    }
    assert {layout: results(made(pruned, layout)) for layout in LAYOUTS} == {
        "lamella": {"c1": "It was about x.", "c2": "search"},
        "lis": {"c1": "It was about x.", "c2": "search"},
        "wegent": {"c1": "It was about x.", "c2": "search"},
        "onyx": {"c1": "It was about x.", "c2": NO_LONGER_THERE},
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_call_without_a_result_reads_as_interrupted_however_old(layout: str) -> None:
    broken = replace(DIGESTED, results=DIGESTED.results[:1], stop_reason=StopReason.INTERRUPTED)
    for asked in (
        request(turn(1, broken)),
        request(turn(1, broken), turn(2)),
        request(turn(1, broken), turn(2), decisions=(BOUNDARY,)),
    ):
        assert results(made(asked, layout))["c2"] == INTERRUPTED
