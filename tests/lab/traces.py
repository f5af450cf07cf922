"""A small trace to change in tests."""

from __future__ import annotations

import json
from typing import Any

from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.options import ReplayOptions
from lamella_lab.replay.report import ReplayReport
from lamella_lab.replay.run import replay
from lamella_lab.trace.format import Trace
from lamella_lab.trace.reader import parse_trace

Raw = dict[str, Any]
SYSTEM = "You are careful. " * 200
SEARCH = {"name": "search", "description": "Looks up.", "input_schema": {}, "kind": "search"}


def example(**changes: Any) -> Raw:
    """A trace with a file, a tool with an empty schema that is called in two steps under one id, and two turns."""
    call = {"id": "c1", "name": "search", "arguments": {"query": "x"}}
    raw = {
        "lamella_trace": 1,
        "model": "claude-opus-5-5",
        "timezone": "Europe/Berlin",
        "system": SYSTEM,
        "tools": [SEARCH],
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


def asked(minute: int, text: str = "And now?", answer: str = "The same.", **more: Any) -> Raw:
    """A turn with one answer, so many minutes after ten."""
    return {"at": f"2026-03-01T10:{minute:02d}:00+00:00", "user": text, "steps": [{"text": answer}], **more}


def then(minute: int, do: str, **more: Any) -> Raw:
    """What changes, so many minutes after ten."""
    return {"at": f"2026-03-01T10:{minute:02d}:00+00:00", "do": do, **more}


def parsed(raw: Raw) -> Trace:
    """The trace of a JSON value."""
    return parse_trace(json.dumps(raw).encode())


async def run(raw: Raw, ground: ReplayEnvironment | None = None, **options: Any) -> ReplayReport:
    """Replay it."""
    return await replay(parsed(raw), ReplayOptions(**options), ground)


def letters(report: ReplayReport) -> list[str]:
    """The windows of a replay."""
    return [request.record.letters for request in report.requests]
