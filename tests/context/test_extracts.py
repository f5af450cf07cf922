"""What a stub keeps of a result: what was used, what stands apart, else its beginning; the same bytes for ever."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.context.choices import EXTRACTS, KnownDecisions
from lamella.context.results import EXTRACT_TOKENS, EXTRACT_VERSION, extract, extracts_of, stubs_of
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import ToolCall, ToolResult

from .windows import answer, call, made, request, result, turn

LOG = "\n".join(f"2026-03-01T09:00:{n:02}Z INFO gateway req-{n:04} took {n} ms, ok" for n in range(60))
NOTE = "The on-call engineer of the checkout team is Aiko Mori, reachable under 4417."
ROWS = json.dumps([{"id": f"r_{n:03}", "name": f"Item {n}", "price": n * 7 + 1000, "stock": n % 9} for n in range(80)])
CHINESE = "".join(f"第{n}号泵站的压力为{n * 13}毫巴，运行正常。" for n in range(60))


@pytest.mark.parametrize(
    ("content", "asked", "said", "kept"),
    [
        (LOG, "What was slow?", "Request req-0042 was the slowest, at 42 ms.", "req-0042 took 42 ms"),
        (ROWS, "What is the dearest below 1,330?", "That is Item 47, which costs 1,329.", "1329"),
        (ROWS, "Which one?", '{"id": "r_061"}', "r_061"),
        (CHINESE, "有异常吗？", "37号泵站的压力为481毫巴。", "481"),
        ("Deliveries arrive on Tuesdays. " * 40 + "The gate keeper is called Ottilie Brandner.", "Who?",
         "Ottilie Brandner keeps it.", "Ottilie Brandner"),
        (f"{LOG}\n\n{NOTE}\n\n{LOG}", "Anything wrong?", "Nothing at all.", NOTE),
        ("# Manual of the pump\n\nIt has two valves.", "Go on", "Yes.", "# Manual of the pump It has two valves."),
        ("", "Go on", "Yes.", ""),
    ],
)  # fmt: skip
def test_it_keeps_what_mattered(content: str, asked: str, said: str, kept: str) -> None:
    found = extract(content, asked, said)
    assert kept in found
    assert count_tokens(found) <= EXTRACT_TOKENS


def test_what_was_known_before_tells_nothing() -> None:
    """A figure of the question or of the call itself is in the window already."""
    found = extract(LOG, "What of req-0042?", "Nothing of req-0042, but req-0007 is odd.")
    assert "req-0007" in found
    assert "req-0042" not in found


def test_a_figure_is_not_found_in_a_longer_one() -> None:
    found = extract("port 18443 is closed\nport 8443 is open\n" * 2 + "no port 84430", "Which port?", "It is 8443.")
    assert "port 8443 is open" in found


@given(st.text(max_size=400), st.text(max_size=100), st.text(max_size=100))
def test_it_is_short_and_on_one_line_whatever_it_is_made_of(content: str, before: str, after: str) -> None:
    found = extract(content, before, after)
    assert count_tokens(found) <= EXTRACT_TOKENS
    assert len(found.splitlines()) <= 1
    assert found == extract.__wrapped__(content, before, after)


def test_a_stub_keeps_of_each_result_what_the_rest_of_its_turn_used() -> None:
    """A later step's arguments count as its answer does; what has a digest keeps that; what is short stays."""
    used = call("step_1", result("c1", LOG), result("c2", "Fine."), ToolResult("c3", "search", LOG, digest="A log."))
    then = replace(call("step_2", result("c4", "Closed.")), parts=(ToolCall("c4", "search", '{"query":"req-0031"}'),))
    whole = turn(1, used, then, answer("step_3"))
    stubs = {stub.call_id: stub.content for stub in stubs_of(used, readable=True, extracts=extracts_of(whole, used))}
    assert stubs["c1"].startswith("search [read_message c1], in part: ")
    assert "req-0031" in stubs["c1"]
    assert (stubs["c2"], stubs["c3"]) == ("Fine.", "A log. [read_message c3]")


def test_the_decision_that_made_a_stub_says_whether_it_keeps_an_extract() -> None:
    """Later decisions, and those of before extracts, change nothing of it."""
    turns = [turn(n, call(f"step_{n}", result(f"c{n}", LOG)), answer(f"step_{n}a")) for n in range(1, 5)]

    def pruned(boundary: str, **numbers: float) -> Decision:
        return Decision(DecisionKind.PRUNE, "conv", boundary, "engine", "it pays", numbers)

    old, new, bare = pruned("step_1"), pruned("step_2a", **{EXTRACTS: EXTRACT_VERSION}), pruned("step_3a")
    assert KnownDecisions("m", [old]).extracted(turns) == frozenset()
    assert KnownDecisions("m", [old, new]).extracted(turns) == {"step_1a", "step_2", "step_2a"}
    assert KnownDecisions("m", [old, new, bare]).extracted(turns) == {"step_1a", "step_2", "step_2a"}
    assert KnownDecisions("m", [new, bare]).extracted(turns[1:]) == {"step_2", "step_2a"}, "a window that begins later"
    shown = made(request(*turns, turn(5), decisions=(new, bare)), "lis").prompt
    texts = [p.content for s in shown.segments for m in s.messages for p in m.parts if isinstance(p, ToolResult)]
    assert texts == ["search", "search", "search", LOG], "a seed layout keeps its letters"
