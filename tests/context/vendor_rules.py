"""What the vendors ask of a history, as checks of a body that raise AssertionError."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from lamella.core.json import decode_arguments

Json = dict[str, Any]
CLAUDE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
GPT_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
CLAUDE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GPT_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
THINKING = ("thinking", "redacted_thinking", "reasoning")


def check_anthropic(sent: Json) -> None:
    """Roles take turns, every call has its result next, no text is empty, thinking is sealed and not last."""
    messages = sent["messages"]
    assert messages[0]["role"] == "user"
    assert messages[-1]["role"] in ("user", "system")
    assert all(first["role"] != second["role"] for first, second in pairwise(messages))
    ids: list[str] = []
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        blocks = message["content"]
        assert blocks
        if message["role"] == "system":
            check_system_message(messages, message)
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        if message["role"] == "assistant":
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            ids += calls
            assert all(CLAUDE_NAME.fullmatch(block["name"]) for block in blocks if block["type"] == "tool_use")
            assert blocks[-1]["type"] not in THINKING
            assert all(block["signature"] for block in blocks if block["type"] == "thinking")
            assert calls == results_first(following["content"])
        else:
            assert all(block["type"] not in (*THINKING, "tool_use") for block in blocks)
    assert len(ids) == len(set(ids))
    assert all(CLAUDE_ID.fullmatch(id) for id in ids)


def check_system_message(messages: list[Json], message: Json) -> None:
    """In the middle of a conversation: behind a user message, before an answer or last."""
    place = messages.index(message)
    assert messages[place - 1]["role"] == "user"
    assert place == len(messages) - 1 or messages[place + 1]["role"] == "assistant"


def results_first(blocks: list[Json]) -> list[str]:
    """The ids of the results that open a message; none may stand behind anything else."""
    kinds = [block["type"] for block in blocks]
    count = kinds.count("tool_result")
    assert kinds[:count] == ["tool_result"] * count
    assert all(block.get("content", "x").strip() for block in blocks[:count])
    return [block["tool_use_id"] for block in blocks[:count]]


def check_openai(sent: Json) -> None:
    """Every call has its result next and in order, late system messages stand where they may, nothing is empty."""
    ids: list[str] = []
    waiting: list[str] = []
    roles = [message["role"] for message in sent["messages"]]
    late = [index for index, role in enumerate(roles) if role in ("system", "developer") and "user" in roles[:index]]
    assert all(roles[index - 1] in ("user", "tool") for index in late)
    for message in sent["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
        else:
            assert waiting == []
        calls = message.get("tool_calls", [])
        assert said(message["content"]) or calls
        for call in calls:
            assert GPT_NAME.fullmatch(call["function"]["name"])
            decode_arguments(call["function"]["arguments"])
            waiting.append(call["id"])
        ids += waiting if message["role"] == "assistant" else []
    assert waiting == []
    assert sent["messages"][-1]["role"] in ("user", "tool", "system", "developer")
    assert len(ids) == len(set(ids))
    assert all(GPT_ID.fullmatch(id) for id in ids)


def said(content: str | list[Json] | None) -> bool:
    """Whether there is anything in a message, and no empty text among its parts."""
    if isinstance(content, list):
        return bool(content) and all(part["text"].strip() for part in content if part["type"] == "text")
    return bool((content or "").strip())


def check_responses(sent: Json) -> None:
    """Every call has its output behind it and in order, reasoning stands before what it led to, nothing is empty."""
    items = sent["input"]
    ids: list[str] = []
    waiting: list[str] = []
    roles = [item.get("role") for item in items]
    late = [index for index, role in enumerate(roles) if role == "developer" and "user" in roles[:index]]
    assert all(roles[index - 1] == "user" or items[index - 1]["type"] == "function_call_output" for index in late)
    for item, following in zip(items, [*items[1:], None], strict=True):
        match item["type"]:
            case "function_call":
                assert GPT_NAME.fullmatch(item["name"])
                decode_arguments(item["arguments"])
                waiting.append(item["call_id"])
                ids.append(item["call_id"])
            case "function_call_output":
                assert item["call_id"] == waiting.pop(0)
                assert item["output"].strip()
            case "reasoning":
                assert waiting == []
                assert item["encrypted_content"]
                assert following is not None
                assert following["type"] in ("reasoning", "function_call") or following["role"] == "assistant"
            case _:
                assert waiting == [] or item["role"] == "assistant"
                assert said_in(item["content"])
    assert waiting == []
    assert items[-1].get("role") in ("user", "developer") or items[-1]["type"] == "function_call_output"
    assert len(ids) == len(set(ids))
    assert all(CLAUDE_ID.fullmatch(id) for id in ids)


def said_in(content: str | list[Json]) -> bool:
    """As `said`, for parts whose kind says who wrote them."""
    if isinstance(content, list):
        return bool(content) and all(part["text"].strip() for part in content if part["type"].endswith("_text"))
    return bool(content.strip())


CHECKS = {"anthropic": check_anthropic, "openai": check_openai, "responses": check_responses}
