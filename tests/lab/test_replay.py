"""Replays: every request accepted and every read predicted, the report's form, and what changes between turns."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lamella_lab.replay.environment import ReplayEnvironment

from .traces import Raw, asked, example, letters, run, then

pytestmark = pytest.mark.anyio

APPORTIONED = 1.05
"""The bound knows what two requests share only by local weight."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def ground() -> AsyncIterator[ReplayEnvironment]:
    shared = ReplayEnvironment()
    yield shared
    await shared.close()


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
@pytest.mark.parametrize("layout", ["lamella", "onyx", "lis", "wegent"])
async def test_every_request_is_accepted_and_every_read_predicted(
    ground: ReplayEnvironment, vendor: str, layout: str
) -> None:
    report = await run(example(), ground, provider=vendor, layout=layout, marker_policy="planner")
    # A layout that takes something away loses the thinking behind it, where the model binds it; nothing else is told.
    told = [why for request in report.requests for kind, why in request.events if kind != "thinking_effort"]
    assert all("earlier thinking" in why for why in told)
    assert told == [] or layout != "lamella"
    for request in report.requests:
        assert request.record.usage is not None
        # An entry in the middle of a window has an estimated size; where the last one is read, it is known exactly.
        slack = 0 if layout == "lamella" else 0.05 * request.record.usage.input
        assert abs(request.record.usage.cache_read - request.record.predicted_read) <= slack
    if layout == "lamella":
        assert report.bound <= report.input_cost * APPORTIONED
    bodies = [json.loads(request.body) for request in report.requests]
    assert "ONE" in json.dumps(bodies[1])
    if layout != "onyx":
        assert json.dumps(bodies[2]).index("ONE") < json.dumps(bodies[2]).index("TWO")


async def test_the_report_has_the_documented_form(ground: ReplayEnvironment) -> None:
    report = (await run(example(), ground)).as_json()
    requests: Any = report["requests"]
    assert [request["letters"] for request in requests] == [
        "S F U1",
        "S F U1 TC TR R",
        "S F U1 TC TR R TC TR",
        "S F U1 TC TR R TC TR A1 U2",
    ]
    assert set(requests[0]) == {
        *("n", "at", "turn", "step", "run", "purpose", "letters", "model", "layout", "marker_policy", "tokens"),
        *("predicted", "read_block", "cost", "events", "body", "difference"),
    }
    totals: Any = report["totals"]
    assert totals["input"] == sum(request["tokens"]["input"] for request in requests)
    assert totals["cost"] == pytest.approx(sum(request["cost"] for request in requests))


async def test_two_runs_of_a_trace_are_the_same_bytes(ground: ReplayEnvironment) -> None:
    shared, own = await run(example(), ground), await run(example())
    assert [r.body for r in shared.requests] == [r.body for r in own.requests]
    assert shared.as_json() == own.as_json()


@pytest.mark.parametrize("policy", ["planner", "auto_tail", "off"])
async def test_no_policy_costs_less_than_the_bound(ground: ReplayEnvironment, policy: str) -> None:
    turns = [asked(0) | {"at": f"2026-03-01T{hour:02d}:00:00+00:00"} for hour in range(8, 18, 3)]
    report = await run(example(turns=turns), ground, marker_policy=policy)
    assert report.bound <= report.input_cost * APPORTIONED


AGENT: Raw = {"name": "Ledger", "prompt": "You keep the books of a bakery."}
PLAN: Raw = {"name": "plan.md", "text": "Flour is bought on Mondays."}
PRICES: Raw = {"name": "prices.md", "text": "A loaf is 4 euros."}


async def test_an_agent_may_be_a_reminder_alone(ground: ReplayEnvironment) -> None:
    report = await run(example(turns=[asked(0)], agent={"name": "Kind", "reminder": "Be kind."}), ground)
    assert letters(report) == ["S U1 R"]
    assert b"still apply" not in report.requests[0].body


async def test_an_agent_comes_and_goes(ground: ReplayEnvironment) -> None:
    turns = [asked(0), then(1, "agent", agent=AGENT), asked(2), then(3, "agent", agent=None), asked(4)]
    report = await run(example(turns=turns), ground, layout="onyx")
    assert letters(report) == ["S U1", "S U1 A1 CA U2", "S U1 A1 U2 A2 U3"]
    events = [r.events for r in report.requests]
    assert events[:2] == [(), (("agent", "the agent “Ledger” is used from here on"),)]
    assert [kind for kind, _ in events[2]] == ["agent"]


async def test_a_projects_files_change(ground: ReplayEnvironment) -> None:
    both = {"name": "Bakery", "files": [PLAN, PRICES]}
    changed = {"name": "Bakery", "files": [PRICES | {"text": "A loaf is 5 euros."}]}
    turns = [asked(0), then(1, "project", project=changed), asked(2), then(3, "project", project=None), asked(4)]
    report = await run(example(turns=turns, project=both), ground, layout="lis")
    assert letters(report) == ["S P U1", "S U1 A1 P U2", "S U1 A1 U2 A2 U3"]
    first, second, third = (request.body.decode() for request in report.requests)
    assert "Mondays" in first
    assert "4 euros" in first
    assert "Mondays" not in second
    assert "5 euros" in second
    assert "euros" not in third


async def test_the_layout_of_a_turn_and_of_what_follows(ground: ReplayEnvironment) -> None:
    turns = [
        asked(0),
        asked(1, layout="onyx"),
        asked(2),
        then(3, "set", layout="wegent", marker_policy="off"),
        asked(4),
    ]
    report = await run(example(turns=turns), ground)
    assert [(r.record.layout, r.record.marker_policy) for r in report.requests] == [
        ("lamella", "planner"),
        ("onyx", "seed"),
        ("lamella", "planner"),
        ("wegent", "off"),
    ]
    assert report.requests[1].events[0][0] == "layout"
    held = await run(example(turns=turns), ground, layout="lis", marker_policy="seed")
    assert {(r.record.layout, r.record.marker_policy) for r in held.requests} == {("lis", "seed")}


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
async def test_other_tools_from_a_turn_on(ground: ReplayEnvironment, vendor: str) -> None:
    weather = {"name": "weather", "description": "Tells the weather."}
    call = {"id": "c1", "name": "weather", "arguments": {}, "result": "Rain."}
    wet = asked(2) | {"steps": [{"tool_calls": [call]}, {"text": "It rains."}]}
    report = await run(example(turns=[asked(0), then(1, "tools", tools=[weather]), wet]), ground, provider=vendor)
    assert letters(report)[-1] == "S U1 A1 U2 TC TR"
    bodies = [json.loads(request.body) for request in report.requests]
    assert ["search" in json.dumps(body["tools"]) for body in bodies] == [True, False, False]
    assert report.requests[1].events == (("tools", "the tools of the deployment are weather from here on"),)
    assert all(r.record.error is None for r in report.requests)


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
async def test_pictures_ride_on_their_question(ground: ReplayEnvironment, vendor: str) -> None:
    files = [{"name": "a.png", "width": 300, "height": 200}, {"name": "b.txt", "size": 500}]
    report = await run(example(turns=[asked(0, files=files), asked(1)]), ground, provider=vendor)
    assert letters(report) == ["S F U1", "S F U1 A1 U2"]
    assert b"iVBORw0KGgo" in report.requests[0].body
    usage = report.requests[0].record.usage
    assert usage is not None
    plain = await run(example(turns=[asked(0, files=files[1:])]), ground, provider=vendor)
    without = plain.requests[0].record.usage
    assert without is not None
    assert usage.input > without.input


@pytest.mark.parametrize("layout", ["lamella", "onyx"])
async def test_a_search_shows_every_query_that_ran(ground: ReplayEnvironment, layout: str) -> None:
    call = {"id": "c1", "name": "search", "arguments": {"query": "pump"}, "result": "It hums."}
    looked = asked(0) | {
        "steps": [{"tool_calls": [call | {"expanded_queries": ["pump", "heat pump noise"]}]}, {"text": "It hums."}]
    }
    report = await run(example(turns=[looked, asked(1)]), ground, layout=layout)
    assert b"heat pump noise" not in report.requests[0].body
    assert b"heat pump noise" in report.requests[-1].body


@pytest.mark.parametrize(
    ("digest", "shown", "failed"),
    [
        ("It hums at night, FACT-7.", b"It hums at night, FACT-7.", 0),
        ("keep_facts", b"FACT-7", 0),
        ({"fault": {"kind": 500}}, b"is no longer available", 1),
    ],
)
async def test_digests_of_old_results(ground: ReplayEnvironment, digest: Any, shown: bytes, failed: int) -> None:
    tool = {"name": "read", "description": "Reads.", "when_old": "digest"}
    call = {"id": "c1", "name": "read", "arguments": {}, "result": "The pump of FACT-7 hums. " + "It is grey. " * 60}
    looked = asked(0) | {"steps": [{"tool_calls": [call]}, {"text": "It hums."}]}
    trace = example(tools=[tool], side={"digest": digest}, turns=[looked, asked(1)])
    report = await run(trace, ground, layout="onyx")
    assert [r.record.purpose for r in report.requests] == ["chat", "chat", "digest", "chat"]
    assert [r.record.error is not None for r in report.requests].count(True) == failed
    assert b"It is grey." in report.requests[2].body
    assert letters(report)[-1] == "S U1 TC tr A1 U2"
    assert shown in report.requests[-1].body
    assert b"It is grey." not in report.requests[-1].body


async def test_the_model_changes_and_the_server_starts_again(ground: ReplayEnvironment) -> None:
    turns = [
        asked(0),
        then(1, "set", model="claude-haiku-4-5", settings={"max_output": 900}),
        asked(2),
        then(3, "restart"),
        asked(4),
        then(5, "set", model="gpt-6.1-terra"),
        asked(6),
    ]
    report = await run(example(turns=turns), ground)
    assert [r.record.model for r in report.requests] == [
        "claude-opus-5-5",
        "claude-haiku-4-5",
        "claude-haiku-4-5",
        "gpt-6.1-terra",
    ]
    assert json.loads(report.requests[1].body)["max_tokens"] == 900
    assert ("restart", "the server started again") in report.requests[2].events
    held = await run(example(turns=turns), ground, model="claude-sonnet-5-5")
    assert {r.record.model for r in held.requests} == {"claude-sonnet-5-5"}
