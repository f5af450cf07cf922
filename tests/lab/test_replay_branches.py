"""Replays of trees: edits, repeats, several models, preferred answers, stops, and messages that waited."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lamella.core.errors import InvalidRequest
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.report import ReplayReport

from .traces import SEARCH, Raw, asked, example, letters, run, then

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def ground() -> AsyncIterator[ReplayEnvironment]:
    shared = ReplayEnvironment()
    yield shared
    await shared.close()


def said(report: ReplayReport) -> list[list[str]]:
    """The messages of each request without the dates of those of users, and without thinking and calls."""
    return [
        [text for message in json.loads(request.body)["messages"] for text in _texts(message)]
        for request in report.requests
    ]


def _texts(message: Any) -> list[str]:
    shown = [block["text"] for block in message["content"] if block["type"] == "text"]
    return [text.partition("\n\n[Sent")[0] for text in shown]


def ran(steps: dict[str, list[Raw]]) -> Raw:
    """Runs by number with their steps."""
    return {number: {"steps": of} for number, of in steps.items()}


async def test_an_edit_follows_what_the_first_text_followed(ground: ReplayEnvironment) -> None:
    turns = [
        asked(0, "One?", "1", id="a"),
        asked(1, "Two?", "2", id="b"),
        asked(2, "Three?", "3"),
        asked(3, "Two, I mean?", "22", edit_of="b"),
        asked(4, "And?", "23"),
        asked(5, "One, I mean?", "11", edit_of="a"),
    ]
    report = await run(example(turns=turns), ground)
    assert said(report) == [
        ["One?"],
        ["One?", "1", "Two?"],
        ["One?", "1", "Two?", "2", "Three?"],
        ["One?", "1", "Two, I mean?"],
        ["One?", "1", "Two, I mean?", "22", "And?"],
        ["One, I mean?"],
    ]


async def test_a_turn_is_asked_again_with_its_text_and_files(ground: ReplayEnvironment) -> None:
    first = asked(0, "What is in it?", "A pump.", id="a", files=[{"name": "a.txt", "text": "A heat pump."}])
    again = {"at": "2026-03-01T10:01:00Z", "regenerate": "a", "steps": [{"text": "A heat pump."}]}
    report = await run(example(turns=[first, again, asked(2, "Sure?", "Yes.")]), ground)
    one, two, three = said(report)
    assert one == two
    assert three == [*two, "A heat pump.", "Sure?"]


async def test_several_models_answer_and_one_is_preferred(ground: ReplayEnvironment) -> None:
    both = ["claude-opus-5-5", "claude-haiku-4-5"]
    call = {"id": "c1", "name": "search", "arguments": {}, "result": "FOUND"}
    runs = ran({"0": [{"text": "From opus."}], "1": [{"tool_calls": [call]}, {"text": "From haiku."}]})
    turns = [
        {"at": "2026-03-01T10:00:00Z", "user": "Who?", "models": both, "runs": runs, "id": "a"},
        asked(1, "Go on", "I do."),
        then(2, "prefer", turn="a", run=1),
        asked(3, "And you?", "So do I."),
    ]
    report = await run(example(turns=turns), ground)
    requests = [(r.turn, r.run, r.record.model, r.record.letters) for r in report.requests]
    assert sorted(requests) == [
        (1, 0, "claude-opus-5-5", "S U1"),
        (1, 1, "claude-haiku-4-5", "S U1"),
        (1, 1, "claude-haiku-4-5", "S U1 TC TR R"),
        (2, 0, "claude-opus-5-5", "S U1 A1 U2"),
        (3, 0, "claude-opus-5-5", "S U1 TC TR R A1 U2"),
    ]
    assert "From opus." in said(report)[3]
    assert "From haiku." in said(report)[4]
    preferred = turns[0] | {"prefer": 1}
    assert "From haiku." in said(await run(example(turns=[preferred, turns[1]]), ground))[-1]


async def test_a_turn_follows_the_answer_that_it_names(ground: ReplayEnvironment) -> None:
    both = ["claude-opus-5-5", "claude-haiku-4-5"]
    runs = ran({"0": [{"text": "From opus."}], "1": [{"text": "From haiku."}]})
    first = {"at": "2026-03-01T10:00:00Z", "user": "Who?", "models": both, "runs": runs, "id": "a"}
    turns = [first, asked(1, parent="a/1"), asked(2, parent="a/0"), asked(3, parent=None)]
    found = said(await run(example(turns=turns), ground))
    assert found[2:] == [["Who?", "From haiku.", "And now?"], ["Who?", "From opus.", "And now?"], ["And now?"]]


async def test_an_answer_is_stopped_after_some_characters(ground: ReplayEnvironment) -> None:
    turns = [asked(0, "Tell.", "One two three four.", stop={"after_chars": 7}), asked(1, "Go on", "Eight.")]
    report = await run(example(turns=turns), ground)
    assert said(report)[1][:2] == ["Tell.", "One two"]
    assert "stopped" in said(report)[1][2]
    assert len(report.requests) == 2


async def test_an_answer_is_stopped_while_its_tools_run(ground: ReplayEnvironment) -> None:
    calls = [
        {"id": "c1", "name": "search", "arguments": {}, "result": "FOUND"},
        {"id": "c2", "name": "search", "arguments": {}, "interrupted": True},
    ]
    steps = [{"text": "I look.", "tool_calls": calls}]
    turns = [asked(0) | {"steps": steps, "stop": {"in": "tools"}}, asked(1, "And?", "Found.")]
    report = await run(example(turns=turns), ground)
    last = report.requests[-1].body.decode()
    assert letters(report) == ["S U1", "S U1 TC TR U2"]
    assert last.count('"tool_result"') == 2
    assert "FOUND" in last
    assert "interrupted" in last


async def test_a_step_that_was_never_sent_makes_no_request(ground: ReplayEnvironment) -> None:
    call = {"id": "c1", "name": "search", "arguments": {}, "result": "FOUND"}
    first = asked(0) | {"steps": [{"tool_calls": [call]}], "stop": {"step": 1}}
    report = await run(example(turns=[first, asked(1)]), ground)
    assert letters(report) == ["S U1", "S U1 TC TR U2"]
    before = asked(0, stop={"step": 0}) | {"steps": []}
    assert letters(await run(example(turns=[before, asked(1)]), ground)) == ["S U1 U2"]


async def test_a_server_that_ends_interrupts_its_answer(ground: ReplayEnvironment) -> None:
    turns = [asked(0, "Tell.", "One two three.", stop={"after_chars": 3, "cause": "restart"}), asked(1, "Well?", "So.")]
    report = await run(example(turns=turns), ground)
    assert said(report)[1][:2] == ["Tell.", "One"]
    assert "cut off" in said(report)[1][2]


async def test_one_of_several_models_is_stopped_and_the_other_goes_on(ground: ReplayEnvironment) -> None:
    both = ["claude-opus-5-5", "claude-haiku-4-5"]
    runs = ran({"0": [{"text": "Half of it."}], "1": [{"text": "Whole."}]})
    first = {"at": "2026-03-01T10:00:00Z", "user": "Who?", "models": both, "runs": runs, "stop": {"after_chars": 4}}
    report = await run(example(turns=[first, asked(1)]), ground)
    assert said(report)[-1] == ["Who?", "Whole.", "And now?"]


async def test_a_message_that_comes_during_an_answer_waits_and_keeps_its_time(ground: ReplayEnvironment) -> None:
    long = asked(0) | {"steps": [{"text": "Wait.", "ms": 90_000}]}
    report = await run(example(turns=[long, asked(1, "Quick?", "Yes."), asked(9)]), ground)
    first, second, third = report.requests
    assert "[Sent: Sunday 2026-03-01 11:01 +01:00" in second.body.decode()
    assert (second.record.at - first.record.at).total_seconds() == 90
    assert third.record.at.minute == 9


async def test_a_message_says_when_it_was_sent(ground: ReplayEnvironment) -> None:
    turns = [asked(0), asked(30, "Late.", "Yes.", sent="2026-03-01T10:05:00+00:00", timezone="UTC")]
    report = await run(example(turns=turns), ground)
    assert "Late.\\n\\n[Sent: Sunday 2026-03-01 10:05 +00:00" in report.requests[1].body.decode()
    assert report.requests[1].record.at.minute == 30


async def test_what_a_turn_chooses_holds_for_it_alone(ground: ReplayEnvironment) -> None:
    turns = [asked(0), asked(1, layout="onyx", marker_policy="off", effort="high"), asked(2)]
    report = await run(example(turns=turns), ground)
    shown = [(r.record.layout, r.record.marker_policy, r.record.thinking_effort) for r in report.requests]
    assert shown == [("lamella", "planner", "off"), ("onyx", "off", "high"), ("lamella", "planner", "off")]


async def test_what_a_tool_found_takes_a_number(ground: ReplayEnvironment) -> None:
    call = {"id": "c1", "name": "search", "arguments": {}, "result": "FOUND"}
    page = {"title": "A page", "text": "It is.", "url": "https://example.org/"}
    first = asked(0, found=[page]) | {"steps": [{"tool_calls": [call]}, {"text": "So."}]}
    turns = [first, asked(1, files=[{"name": "b.txt", "text": "Words."}])]
    for found, number in ((turns, 2), ([turns[0] | {"found": []}, turns[1]], 1)):
        report = await run(example(turns=found, tools=[SEARCH]), ground)
        assert f'{{\\"document\\":{number},\\"title\\":\\"b.txt\\"' in report.requests[-1].body.decode()


async def test_a_turn_that_is_told_is_stored_and_no_model_is_asked(ground: ReplayEnvironment) -> None:
    """By itself, and as what another turn follows; it gives the results of its calls."""
    call = {"id": "c1", "name": "search", "arguments": {}, "result": "Found: slate."}
    first = asked(0, "What is the roof made of?", told=True, id="a")
    first["steps"] = [{"text": "I look.", "tool_calls": [call]}, {"text": "Slate."}]
    turns = [first, asked(1, "Since when?", "1901."), asked(2, "And the door?", "Oak.", parent="a")]
    report = await run(example(tools=[SEARCH], turns=turns), ground)
    assert said(report) == [
        ["What is the roof made of?", "I look.", "Slate.", "Since when?"],
        ["What is the roof made of?", "I look.", "Slate.", "And the door?"],
    ]
    assert all(b"Found: slate." in request.body for request in report.requests)
    assert [request.turn for request in report.requests] == [2, 3]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"told": True, "stop": {"step": 0}}, "Turn 2 is `told` and has `stop`."),
        ({"told": True, "effort": "low", "layout": "lis"}, "Turn 2 is `told` and has `layout` and `effort`."),
    ],
)
async def test_what_a_told_turn_can_not_have(ground: ReplayEnvironment, more: Raw, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await run(example(turns=[asked(0, "One?", "1"), asked(1, "Two?", "2", **more)]), ground)
    assert caught.value.message == message


async def test_a_told_turn_that_branches_without_an_agent_is_refused(ground: ReplayEnvironment) -> None:
    turns = [asked(0, "One?", "1", id="a"), asked(1, "Two?", "2"), asked(2, "Three?", "3", told=True, parent="a")]
    with pytest.raises(InvalidRequest, match="follows the newest one here"):
        await run(example(turns=turns), ground)
