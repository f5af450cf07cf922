"""Requests that the Messages API refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lamella_simulator.anthropic.history import check_history
from lamella_simulator.anthropic.request import Message, MessagesRequest
from lamella_simulator.anthropic.validation import MAX_BODY
from lamella_simulator.errors import ProviderError
from lamella_simulator.models import BY_ID
from lamella_simulator.testing import EXACT, InProcess

from .texts import Json, assistant, text, tokens, user

pytestmark = pytest.mark.anyio
CALL: Json = {"type": "tool_use", "id": "c1", "name": "t", "input": {}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "c1", "content": "found"}
SYSTEM: Json = {"role": "system", "content": "Now in French."}

REFUSED_HISTORIES: dict[str, tuple[list[Any], str]] = {
    "no messages": ([], "at least one message"),
    "assistant first": ([assistant("a"), user("b")], 'first message must use the "user" role'),
    "prefill": ([user("a"), assistant("b")], "does not support assistant message prefill"),
    "empty text": ([user("")], "text content blocks must be non-empty"),
    "blank text": ([user("  \n")], "must contain non-whitespace text"),
    "no content": ([{"role": "user", "content": []}], "non-empty content"),
    "call without result": ([user("a"), assistant(CALL), user("b")], "without `tool_result` blocks immediately after"),
    "call at the end": ([user("a"), assistant(CALL)], "without `tool_result` blocks immediately after: c1"),
    "result without call": ([user("a"), assistant("b"), user(RESULT)], "unexpected `tool_use_id`"),
    "result of an older call": (
        [user("a"), assistant(CALL), user(RESULT), assistant("b"), user(RESULT)],
        "unexpected `tool_use_id`",
    ),
    "result twice": ([user("a"), assistant(CALL), user(RESULT, RESULT)], "each tool_use must have a single result"),
    "text before result": ([user("a"), assistant(CALL), user("b", RESULT)], "must come before any other content"),
    "one of two results": (
        [user("a"), assistant(CALL, {**CALL, "id": "c2"}), user(RESULT)],
        "without `tool_result` blocks immediately after: c2",
    ),
    "call id twice": ([user("a"), assistant(CALL, CALL), user(RESULT)], "`tool_use` ids must be unique"),
    "odd call id": ([user("a"), assistant({**CALL, "id": "a.b"}), user("b")], "tool_use.id: String should match"),
    "input not an object": ([user("a"), assistant({**CALL, "input": "x"}), user("b")], "valid dictionary"),
    "call from the user": ([user(CALL)], "is not allowed in a message of role 'user'"),
    "image without source": ([user({"type": "image"})], "image.source: Field required"),
    "result content of the wrong type": (
        [user("a"), assistant(CALL), user({**RESULT, "content": 5})],
        "Input should be a string or a list of blocks",
    ),
    "empty text in a result": (
        [user("a"), assistant(CALL), user({**RESULT, "content": [text("")]})],
        "text content blocks must be non-empty",
    ),
    "system first": ([SYSTEM, user("a")], "first message"),
    "system before user": ([user("a"), SYSTEM, user("b")], "a system message must follow a user message"),
    "system after system": ([user("a"), SYSTEM, SYSTEM], "a system message must follow a user message"),
    "picture in a system message": (
        [user("a"), {"role": "system", "content": [{"type": "image", "source": {}}]}],
        "is not allowed in a message of role 'system'",
    ),
    "clear_at without its header": (
        [user("a"), {**SYSTEM, "clear_at": "next_user_message"}],
        "messages.1.clear_at: Extra inputs are not permitted",
    ),
    "system after assistant": ([user("a"), assistant("b"), SYSTEM], "a system message must follow a user message"),
    "clear_at on a user message": ([{**user("a"), "clear_at": "never"}], "only permitted on role 'system'"),
    "unknown role": ([{"role": "tool", "content": "a"}], "messages.0.role"),
    "unknown field": ([{**user("a"), "name": "x"}], "messages.0.name: Extra inputs are not permitted"),
}

TOOL: Json = {"name": "t", "input_schema": {"type": "object"}}

REFUSED_PARAMETERS: dict[str, tuple[Json, str]] = {
    "no max_tokens": ({"max_tokens": None}, "max_tokens: Field required"),
    "huge max_tokens": ({"max_tokens": 200_000}, "max_tokens: 200000 > 128000"),
    "unknown parameter": ({"top_n": 1}, "top_n: Extra inputs are not permitted"),
    "wrong type": ({"stream": "yes"}, "stream: Expected `bool`, got `str`"),
    "budget on a newer model": ({"thinking": {"type": "enabled", "budget_tokens": 2_000}}, "is not supported"),
    "unknown thinking": ({"thinking": {"type": "deep"}}, "thinking.type: Input should be one of"),
    "binding without its beta": (
        {"thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}},
        "thinking.adaptive.block_binding: Extra inputs are not permitted",
    ),
    "unknown effort": ({"output_config": {"effort": "huge"}}, "output_config.effort"),
    "unknown tool choice": ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
    "choice of an absent tool": ({"tool_choice": {"type": "tool", "name": "t"}}, "not found in provided tools"),
    "tool without schema": ({"tools": [{"name": "t"}]}, "input_schema: Field required"),
    "tool names twice": (
        {"tools": [{"name": "t", "input_schema": {"type": "object"}}] * 2},
        "Tool names must be unique",
    ),
    "bad tool name": ({"tools": [{"name": "a b", "input_schema": {"type": "object"}}]}, "String should match pattern"),
    "warming while streaming": ({"max_tokens": 0, "stream": True}, "0 cannot be combined"),
    "warming while forcing a tool": (
        {"max_tokens": 0, "tools": [TOOL], "tool_choice": {"type": "any"}},
        "0 cannot be combined",
    ),
    "warming with a format": (
        {"max_tokens": 0, "output_config": {"format": {"type": "json_schema"}}},
        "0 cannot be combined",
    ),
    "tool servers of the vendor": ({"mcp_servers": [{"name": "a"}]}, "does not model this feature"),
    "compaction without its beta": ({"compaction": {"type": "summarize"}}, "Extra inputs are not permitted"),
    "empty system text": ({"system": [text("")]}, "text content blocks must be non-empty"),
}


@pytest.mark.parametrize(("messages", "words"), REFUSED_HISTORIES.values(), ids=REFUSED_HISTORIES)
async def test_a_refused_history(provider: InProcess, messages: list[Any], words: str) -> None:
    answer = await provider.messages({"messages": messages})
    assert answer.status == 400
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert words in answer.error


@pytest.mark.parametrize(("change", "words"), REFUSED_PARAMETERS.values(), ids=REFUSED_PARAMETERS)
async def test_a_refused_parameter(provider: InProcess, change: Json, words: str) -> None:
    answer = await provider.messages({"messages": [user("a")], **change})
    assert answer.status == 400
    assert words in answer.error


@pytest.mark.parametrize(
    "messages",
    [
        [user("a"), assistant(CALL), user(RESULT, "and?")],
        [user("a"), assistant(CALL), user(RESULT), SYSTEM],
        [user("a"), user("b"), assistant("c"), assistant("d"), user("e")],
        [user("a"), SYSTEM, assistant("b"), user("c"), SYSTEM],
        [user("a"), assistant(CALL, {**CALL, "id": "c2"}), user({**RESULT, "tool_use_id": "c2"}), user(RESULT)],
    ],
)
async def test_an_accepted_history(provider: InProcess, messages: list[Any]) -> None:
    assert (await provider.messages({"messages": messages})).status == 200


async def test_ignored_parameters(provider: InProcess) -> None:
    extra = {"temperature": 0.2, "top_p": 0.9, "top_k": 3, "stop_sequences": ["x"], "metadata": {"user_id": "u"}}
    assert (await provider.messages({"messages": [user("a")], **extra})).status == 200


@pytest.mark.parametrize(
    ("model", "change", "status"),
    [
        ("claude-opus-5-5", {"thinking": {"type": "disabled"}}, 400),
        ("claude-opus-5", {"thinking": {"type": "disabled"}}, 200),
        ("claude-haiku-4-5", {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 3_000}, 200),
        ("claude-haiku-4-5", {"thinking": {"type": "enabled", "budget_tokens": 100}}, 400),
        ("claude-haiku-4-5", {"thinking": {"type": "adaptive"}}, 400),
        ("claude-haiku-4-5", {"messages": [user("a"), assistant("b")]}, 200),
        ("claude-sonnet-5-5", {"thinking": {"type": "between_tools"}}, 200),
        ("claude-sonnet-4-6", {"messages": [user("a"), SYSTEM]}, 400),
        ("claude-future-9", {}, 200),
        ("gpt-5.6", {}, 404),
        ("mistral-9", {}, 404),
    ],
)
async def test_rules_by_model(provider: InProcess, model: str, change: Json, status: int) -> None:
    assert (await provider.messages({"model": model, "messages": [user("a")], **change})).status == status


async def test_forcing_a_tool_is_refused_where_the_model_cannot(provider: InProcess) -> None:
    body: Json = {"tools": [{"name": "t", "input_schema": {"type": "object"}}], "messages": [user("a")]}
    for model, status in (("claude-opus-5", 200), ("claude-opus-5-5", 400), ("claude-sonnet-5-5", 400)):
        answer = await provider.messages({**body, "model": model, "tool_choice": {"type": "any"}})
        assert answer.status == status


async def test_a_prompt_over_the_window(provider: InProcess) -> None:
    fits = await provider.messages({"model": "claude-haiku-4-5", "messages": [user(tokens(200_000))]})
    assert fits.json["stop_reason"] == "model_context_window_exceeded"
    answer = await provider.messages({"model": "claude-haiku-4-5", "messages": [user(tokens(200_001))]})
    assert (answer.status, answer.error) == (400, "prompt is too long: 200001 tokens > 200000 maximum")


async def test_an_answer_that_fills_the_window_stops_there(provider: InProcess) -> None:
    await provider.script(r={"text": tokens(500)})
    for asked, stop, said in ((100, "max_tokens", 100), (1_000, "model_context_window_exceeded", 400)):
        body = {"model": "claude-haiku-4-5", "max_tokens": asked, "messages": [user(tokens(199_600))]}
        answer = (await provider.messages(body, reply="r")).json
        assert (answer["stop_reason"], answer["usage"]["output_tokens"]) == (stop, said)


async def test_a_body_and_a_list_that_are_too_large(provider: InProcess) -> None:
    large = await provider.post("/v1/messages", b" " * (MAX_BODY + 1))
    assert (large.status, large.json["error"]["type"]) == (413, "request_too_large")
    request = MessagesRequest(model="claude-opus-5", messages=[Message("user", "a")] * 100_001)
    with pytest.raises(ProviderError, match="at most 100000 messages"):
        check_history(request, (), BY_ID["claude-opus-5"])


async def test_a_count_never_compacts(provider: InProcess) -> None:
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
    body: Json = {"messages": [user(tokens(60_000))], "context_management": {"edits": [edit]}}
    counted = await provider.messages(body, path="/v1/messages/count_tokens", beta="compact-2026-01-12")
    assert counted.json["input_tokens"] == 60_000
    assert (await provider.get("/_sim/ledger")).json == {"entries": []}


async def test_by_option_the_model_may_have_the_first_word() -> None:
    provider = InProcess(replace(EXACT, assistant_may_begin=True))
    assert (await provider.messages({"messages": [assistant("a"), user("b")]})).status == 200
    assert (await provider.messages({"messages": [SYSTEM, user("a")]})).status == 400


async def test_bad_json_and_no_key(provider: InProcess) -> None:
    broken = await provider.post("/v1/messages", b"{")
    assert (broken.status, broken.json["error"]["type"]) == (400, "invalid_request_error")
    refused = await provider.messages({"messages": [user("a")]}, key="invalid-key")
    assert (refused.status, refused.json["error"]["type"]) == (401, "authentication_error")
    assert refused.json["request_id"] == refused.headers["request-id"]


async def test_counting_needs_no_max_tokens_and_costs_nothing(provider: InProcess) -> None:
    body = {"messages": [user(tokens(123))], "max_tokens": None}
    counted = await provider.messages(body, path="/v1/messages/count_tokens")
    assert counted.json == {"input_tokens": 123}
