"""Recorded runs of tau-bench's form (OpenAI chat messages with tool calls and results) as traces, on virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from writing.parts import Json

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
STEP = timedelta(seconds=4)
USER = timedelta(seconds=40)
"""What a user takes to answer."""

SUMMARY = 3_200
"""Characters of a summary, about 800 tokens."""

Messages = Sequence[dict[str, Any]]


def trace(runs: Sequence[Messages], summaries: int, **settings: int | str) -> Json:
    """The runs as one conversation, each after the one before. If it is summarised so often, each summary says what was
    said at about that time."""
    joined: list[dict[str, Any]] = []
    for run in runs:
        joined += run if not joined else [message for message in run if message["role"] != "system"]
    made = conversation(joined)
    said = [step["text"].replace("\n", " ") for turn in made["turns"] for step in turn["steps"] if step["text"]]
    share = max(1, len(said) // max(1, summaries))
    parts = [said[start : start + share] for start in range(0, len(said), share)]
    return made | {"settings": settings, "side": {"summary": [_lines(part) for part in parts]}}


def _lines(said: Sequence[str]) -> str:
    """A summary: a line for each, all together of about the size of one."""
    each = SUMMARY // len(said)
    return "# Facts\n" + "\n".join(f"- {text[:each]}" for text in said)


def conversation(messages: Messages) -> Json:
    """A recorded run as a trace: the user's messages are turns, the assistant's are steps."""
    results = {m["tool_call_id"]: str(m["content"]) for m in messages if m["role"] == "tool"}
    names: set[str] = set()
    turns: list[Json] = []
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
                ms = round(STEP.total_seconds() * 1000)
                turns[-1]["steps"].append({"text": message.get("content") or "", "tool_calls": calls, "ms": ms})
                at += STEP if calls else STEP + USER
            case _:
                pass
    tools = [{"name": name, "description": f"The tool {name}."} for name in sorted(names)]
    answered = [turn for turn in turns if turn["steps"]]
    for turn in answered:  # a run may end with a call
        if turn["steps"][-1]["tool_calls"]:
            turn["steps"].append({"text": "Done.", "tool_calls": [], "ms": round(STEP.total_seconds() * 1000)})
    return {"system": system, "tools": tools, "turns": answered}


def _call(call: dict[str, Any], number: int, results: dict[str, str]) -> Json:
    function = call["function"]
    return {
        "id": f"{call['id']}_{number}",
        "name": function["name"],
        "arguments": json.loads(function["arguments"]),
        "result": results.get(call["id"], ""),
    }
