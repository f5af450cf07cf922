"""Tool results in the window: expanded queries, digests, and what each layout shows of old ones (SPEC O9, L8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.context.layouts import LAYOUTS
from lamella.context.results import INTERRUPTED, NO_LONGER_THERE
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.json import decode_object
from lamella.core.messages import StopReason

from .windows import answer, call, calls, made, request, result, results, turn

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
