"""Requests that Chat Completions refuses."""

from __future__ import annotations

from typing import Any

import pytest

from lamella_simulator.openai.request import callable_names
from lamella_simulator.testing import InProcess

from .texts import Json, tokens

pytestmark = pytest.mark.anyio
USER: Json = {"role": "user", "content": "a"}


def calls(*names: str) -> Json:
    function = {"name": "t", "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": n, "type": "function", "function": function} for n in names]}


def result(name: str) -> Json:
    return {"role": "tool", "tool_call_id": name, "content": "found"}


REFUSED: dict[str, tuple[list[Any], str]] = {
    "no messages": ([], "empty array"),
    "tool message without a call": ([USER, result("c1")], "must be a response to a preceding message"),
    "tool message of another call": ([USER, calls("c1"), result("c2")], "must be a response to a preceding message"),
    "tool message twice": ([USER, calls("c1"), result("c1"), result("c1")], "must be a response to a preceding"),
    "no tool message": ([USER, calls("c1"), USER], "did not have response messages: c1"),
    "no tool message at the end": ([USER, calls("c1")], "did not have response messages: c1"),
    "one of two": ([USER, calls("c1", "c2"), result("c1"), USER], "did not have response messages: c2"),
    "same id twice": ([USER, calls("c1", "c1"), result("c1")], "every call needs an id of its own"),
    "no tool_call_id": ([USER, calls("c1"), {"role": "tool", "content": "x"}], "tool_call_id"),
    "null content": ([{"role": "user", "content": None}], "got null"),
    "nothing said": ([USER, {"role": "assistant", "content": None}, USER], "got null"),
    "part of an unknown type": ([{"role": "user", "content": [{"type": "video"}]}], "'video'"),
    "arguments that are no text": (
        [USER, {**calls("c1"), "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "t"}}]}],
        "function.arguments",
    ),
    "unknown role": ([{"role": "bot", "content": "a"}], "role"),
}


@pytest.mark.parametrize(("messages", "words"), REFUSED.values(), ids=REFUSED)
async def test_a_refused_history(provider: InProcess, messages: list[Any], words: str) -> None:
    answer = await provider.chat({"messages": messages})
    assert answer.status == 400
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert words in answer.error


async def test_an_accepted_history(provider: InProcess) -> None:
    history = [{"role": "developer", "content": "d"}, USER, calls("c1", "c2"), result("c2"), result("c1"), USER]
    assert (await provider.chat({"messages": history})).status == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "gpt-5.6", "messages": [USER], "top_n": 1}, 400, "unknown_parameter"),
        ({"model": "gpt-5.6"}, 400, "missing_required_parameter"),
        ({"model": "gpt-5.6", "messages": [USER], "stream": 3}, 400, "invalid_type"),
        ({"model": "claude-opus-5", "messages": [USER]}, 404, "model_not_found"),
        ({"model": "gpt-9-future", "messages": [USER]}, 200, None),
        ({"model": "lamella-demo", "messages": [USER]}, 200, None),
    ],
)
async def test_codes(provider: InProcess, body: Json, status: int, code: str | None) -> None:
    answer = await provider.post("/v1/chat/completions", body)
    assert answer.status == status
    if code is not None:
        assert answer.json["error"]["code"] == code


async def test_a_prompt_over_the_window(provider: InProcess) -> None:
    body = {"model": "lamella-demo", "messages": [{"role": "user", "content": tokens(200_001)}]}
    answer = await provider.chat(body)
    assert (answer.status, answer.json["error"]["code"]) == (400, "context_length_exceeded")
    assert "maximum context length is 200000 tokens" in answer.error


async def test_breakpoints_only_where_they_may_stand(provider: InProcess) -> None:
    call = calls("c1")
    call["tool_calls"][0]["prompt_cache_breakpoint"] = {"mode": "explicit"}
    assert (await provider.chat({"messages": [USER, call, result("c1")]})).status == 400
    part = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "implicit"}}
    assert (await provider.chat({"messages": [{"role": "user", "content": [part]}]})).status == 400


FUNCTION: Json = {"type": "function", "function": {"name": "t"}}


FLAT: Json = {"type": "function", "name": "t"}


@pytest.mark.parametrize(
    ("chat", "responses", "status"),
    [
        ("required", "required", 200),
        (FUNCTION, FLAT, 200),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [FUNCTION]}},
            {"type": "allowed_tools", "mode": "auto", "tools": [FLAT]},
            200,
        ),
        ({"type": "function", "function": {"name": "other"}}, {"type": "function", "name": "other"}, 400),
        ({"type": "allowed_tools", "allowed_tools": {}}, {"type": "allowed_tools"}, 400),
        ("sometimes", "sometimes", 400),
    ],
)
async def test_choices_of_a_tool(provider: InProcess, chat: object, responses: object, status: int) -> None:
    asked = await provider.chat({"messages": [USER], "tools": [FUNCTION], "tool_choice": chat})
    assert asked.status == status
    assert (await provider.responses({"input": "a", "tools": [FLAT], "tool_choice": responses})).status == status
    assert (await provider.chat({"messages": [USER], "tool_choice": "required"})).status == 400


@pytest.mark.parametrize(
    ("choice", "allowed"),
    [(None, {"t", "u"}), ("none", set()), ({"type": "allowed_tools", "tools": [{"name": "u"}]}, {"u"})],
)
def test_the_model_may_call_what_is_allowed(choice: Any, allowed: set[str]) -> None:
    assert callable_names(choice, [{"name": "t"}, {"function": {"name": "u"}}]) == allowed


async def test_bad_json_and_bad_key(provider: InProcess) -> None:
    assert (await provider.post("/v1/chat/completions", b"[")).status == 400
    refused = await provider.chat({"messages": [USER]}, key="invalid")
    assert (refused.status, refused.json["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("role", ["developer", "system"])
async def test_instructions_may_stand_later_in_the_list(provider: InProcess, role: str) -> None:
    late = {"role": role, "content": "Now in French."}
    answered = {"role": "assistant", "content": "ok"}
    for history in ([USER, late], [USER, answered, late, USER], [USER, calls("c1"), result("c1"), late, late]):
        assert (await provider.chat({"messages": history})).status == 200
    refused = await provider.chat({"messages": [USER, calls("c1"), late, result("c1")]})
    assert (refused.status, "did not have response messages: c1" in refused.error) == (400, True)
    picture = {"role": role, "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}
    assert (await provider.chat({"messages": [USER, picture]})).status == 400
