"""What marker policies cost on recorded agent conversations, and whether every prediction equalled the bill.

    python bench/trace_cost.py RUNS.json [--runs 5] [--model claude-opus-5-5] [--json]

RUNS.json holds a list of runs with `traj`: OpenAI chat messages with tool calls and results (tau-bench's form).
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lamella.app.replay import ReplayOptions, ReplayReport, replay
from lamella.app.trace import Trace, parse_trace
from tables import arguments, emit, show

POLICIES = ("planner", "auto_tail", "off")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
STEP_MS = 4_000
THINKING_SECONDS = 40
"""What a user takes to answer."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One policy over all runs."""

    policy: str
    cost: float
    bound: float
    read: int
    input: int
    wrong: int


def trace_of(messages: list[dict[str, Any]], model: str) -> Trace:
    """A recorded run as a trace: the user's messages are turns, the assistant's are steps."""
    results = {m["tool_call_id"]: str(m["content"]) for m in messages if m["role"] == "tool"}
    names: set[str] = set()
    turns: list[dict[str, Any]] = []
    system, at = "", START
    for number, message in enumerate(messages):
        match message["role"]:
            case "system":
                system = message["content"]
            case "user":
                turns.append({"at": at.isoformat(), "user": message["content"], "steps": []})
            case "assistant" if turns:
                calls = [_call(call, number, results) for call in message.get("tool_calls") or ()]
                names |= {call["name"] for call in calls}
                turns[-1]["steps"].append({"text": message.get("content") or "", "tool_calls": calls, "ms": STEP_MS})
                at += timedelta(milliseconds=STEP_MS) + (
                    timedelta(seconds=THINKING_SECONDS) if not calls else timedelta()
                )
            case _:
                pass
    tools = [{"name": name, "description": f"The tool {name}."} for name in sorted(names)]
    raw = {"lamella_trace": 1, "model": model, "system": system, "tools": tools}
    return parse_trace(json.dumps(raw | {"turns": [turn for turn in turns if turn["steps"]]}).encode())


def _call(call: dict[str, Any], number: int, results: dict[str, str]) -> dict[str, Any]:
    function = call["function"]
    arguments_ = json.loads(function["arguments"])
    return {
        "id": f"{call['id']}_{number}",
        "name": function["name"],
        "arguments": arguments_,
        "result": results.get(call["id"], ""),
    }


async def measure(traces: list[Trace], policy: str) -> Cost:
    """Replay every trace under one policy."""
    reports: list[ReplayReport] = [await replay(trace, ReplayOptions(marker_policy=policy)) for trace in traces]
    requests = [request.record for report in reports for request in report.requests]
    usages = [record.usage for record in requests if record.usage is not None]
    wrong = [r for r in requests if r.usage and r.usage.input and r.usage.cache_read != r.predicted_read]
    return Cost(
        policy,
        sum(report.cost for report in reports),
        sum(report.bound for report in reports),
        sum(usage.cache_read for usage in usages),
        sum(usage.input for usage in usages),
        len(wrong),
    )


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("path", type=Path, help="the recorded runs")
    parser.add_argument("--runs", type=int, default=5, help="how many of them")
    parser.add_argument("--model", default="claude-opus-5-5")
    given = parser.parse_args()
    runs = json.loads(given.path.read_bytes())[: given.runs]
    traces = [trace_of(run["traj"], given.model) for run in runs]
    costs = [asyncio.run(measure(traces, policy)) for policy in POLICIES]
    off = costs[-1].cost
    if given.json:
        emit([{"policy": c.policy, "to_off": c.cost / off, "to_bound": c.cost / c.bound} for c in costs])
        return
    rows = [
        [c.policy, f"{c.cost / off:.3f}", f"{c.cost / c.bound:.2f}", f"{c.read / c.input:.1%}", str(c.wrong)]
        for c in costs
    ]
    show([["policy", "cost to off", "cost to bound", "read", "reads not as predicted"], *rows])


def _row(cost: Cost, off: float) -> list[str]:
    ratios = f"{cost.cost / off:.3f}", f"{cost.cost / cost.bound:.2f}", f"{cost.read / cost.input:.1%}"
    return [cost.policy, *ratios, str(cost.wrong)]


if __name__ == "__main__":
    main()
