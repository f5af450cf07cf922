"""The parts that conversations are written of: turns at moments, steps, calls, and numbers drawn the same every "
"time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

Json = dict[str, Any]

READING = 14
"""Characters that a person reads in a second, and a model writes in 15 milliseconds."""


class Telling:
    """The turns of a trace, each after the one before: the answer is read, thought about, and the next question "
    "typed."""

    def __init__(self, begun: str) -> None:
        self.at = datetime.fromisoformat(begun)
        self.turns: list[Json] = []

    def turn(self, user: str, *steps: Json, **more: Any) -> None:
        """The next turn."""
        self.at += timedelta(seconds=5 + len(user) // 3)
        self.turns.append({"at": self.at.isoformat(), "user": user, "steps": list(steps), **more})
        spent = sum(step["ms"] + max((call["ms"] for call in step.get("tool_calls", ())), default=0) for step in steps)
        self.at += timedelta(milliseconds=spent, seconds=len(steps[-1]["text"]) // READING)

    def then(self, do: str, **more: Any) -> None:
        """What changes now."""
        self.at += timedelta(seconds=2)
        self.turns.append({"at": self.at.isoformat(), "do": do, **more})

    def wait(self, **time: float) -> None:
        """Nobody writes for a while."""
        self.at += timedelta(**time)


def said(text: str, *calls: Json, thought: str = "") -> Json:
    """A step: what the model says and which tools it calls."""
    written = len(text) + len(thought) + sum(len(str(call["arguments"])) for call in calls)
    step: Json = {"text": text, "ms": 400 + written * 1000 // (READING * 15)}
    if thought:
        step["reasoning"] = thought
    if calls:
        step["tool_calls"] = list(calls)
    return step


def call(id: str, name: str, result: str, ms: int = 700, /, **arguments: Any) -> Json:
    """A call with its result."""
    return {"id": id, "name": name, "arguments": arguments, "result": result, "ms": ms}


def tool(name: str, description: str, /, *, kind: str = "other", **properties: str) -> Json:
    """A tool whose parameters are strings; `properties` are their descriptions."""
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
        "required": list(properties),
    }
    return {"name": name, "description": description, "kind": kind, "input_schema": schema}


class Draw:
    """Numbers that are the same in every run and on every machine."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % limit

    def of(self, choices: Sequence[str]) -> str:
        """One of these."""
        return choices[self.below(len(choices))]
