"""What is wrong with a trace is said, with turn, step, field and what to do; and what a file of a trace holds."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from lamella.core.errors import InvalidRequest
from lamella_lab.trace.content import content_of, png
from lamella_lab.trace.format import RestartChange, SetChange, TraceTurn
from lamella_lab.trace.parts import TraceFile
from lamella_lab.trace.reader import parse_trace

from .traces import SEARCH, Raw, asked, example, parsed, then


def turn(**changes: Any) -> Raw:
    """A trace whose second turn is changed."""
    return example(turns=[asked(0), asked(1, **changes)])


def step(**changes: Any) -> Raw:
    """A trace whose second turn has a changed second step."""
    return turn(steps=[{"text": "Well."}, {"text": "Yes."} | changes, {"text": "So."}])


def file(**what: Any) -> Raw:
    """A trace whose second turn has a file."""
    return turn(files=[{"name": "a.txt", "text": "Fine."}, {"name": "b", **what}])


def answers(runs: Any, **changes: Any) -> Raw:
    """A trace whose second turn has these runs."""
    made = turn(runs=runs, **{"models": ["a"], **changes})
    del made["turns"][1]["steps"]
    return made


def named(**changes: Any) -> Raw:
    """A trace whose first turn is “t1”, and whose second is changed."""
    return example(turns=[asked(0, id="t1"), asked(1, **changes)])


CALL = {"id": "c1", "name": "search", "arguments": {}}

WRONG: list[tuple[Raw, str, str]] = [
    (example(lamella_trace=2), "not a trace", "lamella_trace"),
    (example(surprise=1), "The trace: object contains unknown field `surprise`", ""),
    (example(turns=[]), "no turns", "at least one"),
    (example(turns=[3]), "Entry 1 of `turns` is no object", ""),
    (example(users=[]), "does not replay `users` of the trace", "one user"),
    (example(knowledge_bases=[{"id": "kb_1", "grant": "half"}]), "The trace, `knowledge_bases[0].grant`: ", ""),
    (example(side={"safe_summary": "x"}), "does not replay `safe_summary` of the trace's `side`", "No second"),
    (example(side={"title": 7}), "The trace, `side.title`: expected", ""),
    (example(side={"digest": 3}), "The trace, `side.digest`: expected", ""),
    (example(tools=[SEARCH | {"when_old": "digest"}]), "tool 1 (“search”) asks for digests", "“side”"),
    (example(tools=[SEARCH, SEARCH]), "The trace, tool 2: “search” comes twice", "once"),
    (example(account={"provider": "foo"}), "The trace, `account.provider`: invalid enum value 'foo'", ""),
    (example(settings={"context_budget": -1}), "The trace, `settings.context_budget`", ""),
    (example(settings={"colour": "red"}), "The trace, `settings.colour`: There is no setting “colour”", "max_output"),
    (example(turns=[asked(0), then(1, "set", settings={"compaction_when": "late"})]), "Entry 2 of `turns`, `set", ""),
    (example(timezone="Mars/Base"), "“Mars/Base” is no time zone", "Europe/Berlin"),
    (example(tools=[]), "Turn 1, step 1 calls “search”, which is not among", "`tools`"),
    (turn(at="2026-03-01T10:01:00"), "Turn 2: `at` has no offset", "+01:00"),
    (turn(at="2026-03-01T09:59:00Z"), "Turn 2 is earlier than turn 1", "order"),
    (turn(at="yesterday"), "Turn 2, `at`: invalid RFC3339", ""),
    (turn(user="/compact now"), "Entry 2 of `turns` (/compact): object contains unknown field `steps`", ""),
    (turn(user=""), "Turn 2: `user` says nothing", "what the user sent"),
    (turn(steps=[]), "Turn 2 has no steps", "`steps`"),
    (turn(stop={"step": 2}), "Turn 2 is stopped in run 0, step 2, which it has not", "from 0"),
    (turn(stop={"in": "tools"}), "no call of that step is `interrupted`", "“interrupted”"),
    (turn(stop=[{}, {"step": 1}]), "Turn 2: run 0 is stopped twice", "one `stop`"),
    (turn(stop={"cause": "rain"}), "Turn 2, `stop.cause`: invalid enum value 'rain'", ""),
    (turn(runs={"0": {}}), "Turn 2 has `steps` and `runs`", "run 0"),
    (answers({"1": {}}), "Turn 2: its runs are 1", "“0”"),
    (answers({"0": {"steps": [{"ms": -1}]}}), "Turn 2, run 0, step 1, `ms`: expected `int` >= 0", ""),
    (answers({"0": {"steps": [{}]}, "1": {"steps": [{}]}}), "Turn 2 has 1 models and 2 runs", "`models`"),
    (answers({"0": {"steps": [{}]}}, models=["a", "a"]), "Turn 2: a model is named twice", "once"),
    (turn(prefer=1), "Turn 2 prefers run 1, and it has 1", ""),
    (turn(parent="t9"), "Turn 2 names the turn “t9”, and no turn before it has this `id`", "`id`"),
    (named(parent="t1/3"), "Turn 2 names run 3 of the turn “t1”, which has 1", "from 0"),
    (named(parent="t1", edit_of="t1"), "Turn 2 has `edit_of` and `parent`", "one of them"),
    (named(regenerate="t1"), "Turn 2 asks a turn again and has words or files of its own", "`edit_of`"),
    (named(id="t1"), "Turn 2: the `id` “t1” comes twice", "its own"),
    (named(id="a/b"), "Turn 2, `id`: expected `str` matching regex", ""),
    (named(sent="2026-03-01T10:01:00"), "Turn 2: `sent` has no offset", "+01:00"),
    (step(parts=[{"text": "x"}]), "Turn 2, step 2 has `parts` and their short form", "one of the two"),
    (step(text="", parts=[{"text": "x", "reasoning": "y"}]), "Turn 2, step 2, part 1 is not one thing", "`call`"),
    (step(sent={}), "Turn 2, step 2 says what was sent", "`exported`"),
    (turn(timezone="Nowhere"), "Turn 2, `timezone`", ""),
    (step(ms=-5), "Turn 2, step 2, `ms`: expected `int` >= 0", ""),
    (step(surprise=1), "Turn 2, step 2: object contains unknown field `surprise`", ""),
    (step(fault={"kind": "flood"}), "Turn 2, step 2, `fault.kind`: invalid enum value 'flood'", ""),
    (step(tool_calls=[CALL | {"id": 7}]), "Turn 2, step 2, call 1, `id`: expected `str`", ""),
    (step(tool_calls=[CALL | {"rich": {}}]), "Turn 2, step 2, call 1, `rich`: expected `str`, got `object`", ""),
    (step(tool_calls=[CALL | {"arguments": "{"}]), "Turn 2, step 2, call c1: its arguments are no JSON", ""),
    (step(tool_calls=[CALL | {"result": "x", "interrupted": True}]), "call c1 was interrupted and has a result", ""),
    (turn(steps=[{"tool_calls": [CALL]}]), "Turn 2 ends with a step that calls tools", "answer"),
    (file(), "Turn 2, file 2 (“b”): it is given by nothing", "`text`"),
    (file(text="x", size=4), "is given by text and size", "one of"),
    (file(width=4), "`width` and `height` go together", "both"),
    (file(width=4, height=4, media_type="image/webp"), "image/png, not image/webp", "Leave"),
    (file(text="x", media_type="image/png"), "can't be given by `text`", "`width`"),
    (file(data="AAAA"), "holds a picture, not a file without `media_type`", "image/png"),
    (file(data="?", media_type="image/png"), "not base64", ""),
    (file(text="x", name="a.txt"), "the name “a.txt” comes twice", "own name"),
    (example(turns=[asked(0), then(1, "dance")]), "Entry 2 of `turns` (dance): there is no such", "set, agent"),
    (example(turns=[asked(0), then(1, "kill")]), "does not replay “do”: “kill”", "Take it out"),
    (example(turns=[asked(0), then(1, "prefer", turn="t1")]), "Entry 2 of `turns` names the turn “t1”", "`id`"),
    (example(turns=[asked(0, id="t1"), then(1, "prune", turn="t1", step=1)]), "names step 1, which the turn", ""),
    (example(turns=[asked(0), then(1, "resume", session=0)]), "Entry 2 of `turns` (resume), `session`", ""),
    (example(turns=[asked(0), then(1, "agent")]), "Entry 2 of `turns` (agent): object missing required field", ""),
    (example(turns=[asked(0), then(1, "set", surprise=2)]), "Entry 2 of `turns` (set): object contains unknown", ""),
    (example(agent={"replaces_system": True}), "The trace, agent: The agent replaces the system prompt", "prompt"),
    (
        example(turns=[asked(0), then(1, "agent", agent={"replaces_system": True, "prompt": " "})]),
        "Entry 2 of `turns`: The agent replaces the system prompt, and its prompt is empty",
        "Write a prompt",
    ),
    (example(turns=[asked(2), then(1, "set")]), "Entry 2 of `turns` is earlier than turn 1", "order"),
]


@pytest.mark.parametrize(("raw", "said", "hint"), WRONG, ids=[said for _, said, _ in WRONG])
def test_what_is_wrong_with_a_trace_is_said(raw: Raw, said: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parsed(raw)
    assert said in caught.value.message
    assert not hint or hint in (caught.value.hint or "")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'"trace"', b"\xff\xfe", b"null"])
def test_what_is_no_trace_is_said(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"not JSON|not a trace"):
        parse_trace(data)


def test_turns_and_changes_are_read_in_order() -> None:
    settings = {"max_output": 500, "debounce_ms": 0, "tool_prune_threshold": 9}
    trace = parsed(example(turns=[asked(0), then(1, "set", settings=settings), then(2, "restart"), asked(3)]))
    assert [type(entry) for entry in trace.entries] == [TraceTurn, SetChange, RestartChange, TraceTurn]
    assert len(trace.turns) == 2
    assert trace.unused == ("debounce_ms",)


def test_a_file_made_to_measure_is_the_same_every_time() -> None:
    first, second = (content_of(TraceFile("a.txt", size=4_000)) for _ in range(2))
    assert first == second
    assert first.size == 4_000
    assert first.text != content_of(TraceFile("b.txt", size=4_000)).text


def test_a_picture_is_given_or_made() -> None:
    made = content_of(TraceFile("a.png", width=40, height=20))
    assert made.media_type == "image/png"
    assert made.text is None
    given = content_of(TraceFile("b.png", media_type="image/png", data=b64encode(png(40, 20, seed="a.png")).decode()))
    assert given == made
