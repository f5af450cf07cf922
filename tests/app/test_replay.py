"""Replays: the format's own example, the figures' form, and what is wrong with a trace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lamella.app.replay import ReplayOptions, ReplayReport, replay
from lamella.app.trace import parse_trace
from lamella.core.errors import InvalidRequest

pytestmark = pytest.mark.anyio


APPORTIONED = 1.05
"""The bound knows what two requests share only by local weight."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def example(**changes: Any) -> dict[str, Any]:
    """A trace with a file, a tool with an empty schema that is called in two steps under one id, and two turns."""
    call = {"id": "c1", "name": "search", "arguments": {"query": "x"}}
    raw = {
        "lamella_trace": 1,
        "model": "claude-opus-5-5",
        "timezone": "Europe/Berlin",
        "system": "You are careful. " * 200,
        "tools": [{"name": "search", "description": "Looks up.", "input_schema": {}, "kind": "search"}],
        "turns": [
            {
                "at": "2026-03-01T09:00:00+01:00",
                "user": "What is it?",
                "files": [{"name": "a.txt", "text": "It is a heat pump."}],
                "steps": [
                    {"text": "I look.", "reasoning": "Hm.", "tool_calls": [call | {"result": "ONE"}], "ms": 900},
                    {"text": "Again.", "tool_calls": [call | {"result": "TWO"}]},
                    {"text": "A heat pump."},
                ],
            },
            {"at": "2026-03-01T09:02:00+01:00", "user": "Sure?", "steps": [{"text": "Yes."}]},
        ],
    }
    return raw | changes


async def run(raw: dict[str, Any], **options: Any) -> ReplayReport:
    return await replay(parse_trace(json.dumps(raw).encode()), ReplayOptions(**options))


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize("layout", ["lamella", "onyx", "lis", "wegent"])
async def test_every_request_is_accepted_and_every_read_predicted(provider: str, layout: str) -> None:
    report = await run(example(), provider=provider, layout=layout, marker_policy="planner")
    assert [r.events for r in report.requests] == [()] * 4
    for request in report.requests:
        assert request.record.usage is not None
        # An entry in the middle of a window has an estimated size; where the last one is read, it is known exactly.
        slack = 0 if layout == "lamella" else 0.05 * request.record.usage.input
        assert abs(request.record.usage.cache_read - request.record.predicted_read) <= slack
    if layout == "lamella":
        assert report.bound <= report.cost * APPORTIONED
    bodies = [json.loads(request.body) for request in report.requests]
    assert "ONE" in json.dumps(bodies[1])
    if layout != "onyx":
        assert json.dumps(bodies[2]).index("ONE") < json.dumps(bodies[2]).index("TWO")


async def test_the_report_has_the_documented_form() -> None:
    report = (await run(example())).as_json()
    requests: Any = report["requests"]
    assert [request["letters"] for request in requests] == [
        "S F U1",
        "S F U1 TC TR R",
        "S F U1 TC TR R TC TR",
        "S F U1 TC TR R TC TR A1 U2",
    ]
    assert set(requests[0]) == {
        *("n", "at", "turn", "step", "run", "purpose", "letters", "model", "tokens"),
        *("predicted", "cost", "events", "body"),
    }
    totals: Any = report["totals"]
    assert totals["input"] == sum(request["tokens"]["input"] for request in requests)
    assert totals["cost"] == pytest.approx(sum(request["cost"] for request in requests))


async def test_two_runs_of_a_trace_are_the_same_bytes() -> None:
    first, second = await run(example()), await run(example())
    assert [r.body for r in first.requests] == [r.body for r in second.requests]
    assert first.as_json() == second.as_json()


@pytest.mark.parametrize("policy", ["planner", "auto_tail", "off"])
async def test_no_policy_costs_less_than_the_bound(policy: str) -> None:
    turns = [
        {"at": f"2026-03-01T{hour:02d}:00:00+00:00", "user": "And now?", "steps": [{"text": "The same."}]}
        for hour in range(8, 18, 3)
    ]
    report = await run(example(turns=turns), marker_policy=policy)
    assert report.bound <= report.cost * APPORTIONED


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lamella_trace": 2}, "not a trace"),
        ({"surprise": 1}, "surprise"),
        ({"users": []}, "does not replay: users"),
        ({"account": {"provider": "foo"}}, "foo"),
        ({"settings": {"context_budget": -1}}, "context_budget"),
        ({"turns": [{"at": "2026-03-01T09:00:00", "user": "?", "steps": [{"text": "!"}]}]}, "offset"),
        ({"turns": [{"at": "2026-03-01T09:00:00Z", "user": "/compact", "steps": [{"text": "!"}]}]}, "command"),
        ({"turns": [{"at": "2026-03-01T09:00:00Z", "user": "?", "steps": [{"ms": -5}]}]}, "ms"),
        ({"tools": []}, "not among the trace's tools"),
    ],
)
def test_what_is_wrong_with_a_trace_is_said(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        parse_trace(json.dumps(example(**changes)).encode())
