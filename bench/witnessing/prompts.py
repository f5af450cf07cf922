"""The prompts of a trace as plain messages: what people, model and tools said, growing with every request.

What was attached to a message stands before it. Dynamic context stands before the current message alone, and is gone
in the next turn, so that a prompt also leaves the one before it: in the middle, not only at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Message = dict[str, str]


def prompts_of(trace: dict[str, Any]) -> Iterator[list[Message]]:
    """The messages of each request in order, of the roles system, user and assistant."""
    history: list[Message] = [said("system", str(trace["system"]))]
    for turn in trace["turns"]:
        if "user" not in turn or "steps" not in turn:
            continue
        files = [said("user", f"{file['name']}\n{file['text']}") for file in turn.get("files", ()) if "text" in file]
        passing = [said("user", text) for text in turn.get("dynamic_context", ())]
        asked = [said("user", turn["user"])]
        for step in turn["steps"]:
            yield [*history, *files, *passing, *asked]
            asked += list(answered(step))
        history += [*files, *asked]


def answered(step: dict[str, Any]) -> Iterator[Message]:
    """What the model said and called, and what the tools gave."""
    calls = step.get("tool_calls", ())
    made = [f"{call['name']} {call['arguments']}" for call in calls]
    yield said("assistant", "\n".join([step.get("text", ""), *made]))
    for call in calls:
        yield said("user", str(call.get("result", call.get("error", ""))))


def said(role: str, text: str) -> Message:
    return {"role": role, "content": text or "…"}
