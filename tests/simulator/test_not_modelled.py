"""What the vendors have and the simulator does not: it says so, and ignores nothing in silence."""

from __future__ import annotations

from typing import Any

import anthropic.types.beta.message_create_params as claude_params
import openai.types.chat.completion_create_params as chat_params
import openai.types.responses.response_create_params as responses_params
import pytest
from msgspec.structs import fields

from lamella_simulator.anthropic.editing import ON_DEMAND_BETA
from lamella_simulator.anthropic.request import NOT_SIMULATED as NOT_BY_CLAUDE
from lamella_simulator.anthropic.request import MessagesRequest
from lamella_simulator.openai.request import NOT_SIMULATED as NOT_BY_GPT
from lamella_simulator.openai.request import ChatRequest
from lamella_simulator.responses.request import ResponsesRequest
from lamella_simulator.testing import InProcess

from .texts import Json, assistant, user

pytestmark = pytest.mark.anyio
HEADERS = {"betas", "user_profile_id", "workspace_id"}
"""The SDK sends them as headers."""
HOSTED: Json = {"type": "code_execution_20250825", "name": "code_execution"}
SEARCH: Json = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
ADDITION: Json = {"type": "tool_addition", "tool": {"name": "t"}}
SEARCHED: Json = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
ASK: Json = {"messages": [user("a")]}

REFUSED: dict[str, tuple[str, Json]] = {
    "threads": ("messages", {**ASK, "thread": {"type": "create"}}),
    "fallbacks": ("messages", {**ASK, "fallbacks": "default"}),
    "containers": ("messages", {**ASK, "container": "c"}),
    "tool servers of Claude": ("messages", {**ASK, "mcp_servers": [{"name": "a"}]}),
    "a tool that runs at the vendor's": ("messages", {**ASK, "tools": [HOSTED]}),
    "tool search": ("messages", {**ASK, "tools": [SEARCH]}),
    "tools added in the middle": ("messages", {"messages": [user("a"), {"role": "system", "content": [ADDITION]}]}),
    "calls of server tools": ("messages", {"messages": [user("a"), assistant(SEARCHED), user("b")]}),
    "several answers": ("chat", {"messages": [{"role": "user", "content": "a"}], "n": 2}),
    "probabilities": ("chat", {"messages": [{"role": "user", "content": "a"}], "logprobs": True}),
    "tools of another type": ("chat", {"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "custom"}]}),
    "speech": ("chat", {"messages": [{"role": "user", "content": "a"}], "audio": {"voice": "x"}}),
    "stored responses": ("responses", {"input": "a", "store": True}),
    "an earlier response": ("responses", {"input": "a", "previous_response_id": "resp_1"}),
    "conversations": ("responses", {"input": "a", "conversation": "conv_1"}),
    "the background": ("responses", {"input": "a", "background": True}),
    "truncation": ("responses", {"input": "a", "truncation": "auto"}),
    "templates": ("responses", {"input": "a", "prompt": {"id": "p"}}),
    "an item of a hosted tool": ("responses", {"input": [{"type": "local_shell_call", "id": "a", "call_id": "c"}]}),
    "tools of OpenAI": ("responses", {"input": "a", "tools": [{"type": "web_search"}]}),
    "an odd choice": ("responses", {"input": "a", "tool_choice": {"type": "mcp"}}),
}


@pytest.mark.parametrize(("wire", "body"), REFUSED.values(), ids=REFUSED)
async def test_it_is_refused_by_name(provider: InProcess, wire: str, body: Json) -> None:
    answer = await getattr(provider, wire)(body)
    assert answer.status == 400
    assert "simulator" in answer.error


@pytest.mark.parametrize(
    ("params", "request_type", "others"),
    [
        (claude_params.MessageCreateParamsBase, MessagesRequest, NOT_BY_CLAUDE | HEADERS),
        (chat_params.CompletionCreateParamsBase, ChatRequest, NOT_BY_GPT),
        (responses_params.ResponseCreateParamsBase, ResponsesRequest, NOT_BY_GPT),
    ],
)
def test_every_parameter_of_the_sdks_is_known(params: Any, request_type: Any, others: frozenset[str]) -> None:
    known = {field.name for field in fields(request_type)}
    assert set(params.__annotations__) - known - others == set()


TOOL: Json = {"name": "t", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral", "ttl": "5m"}}
CALL: Json = {"type": "tool_use", "id": "c1", "name": "t", "input": {"a": 1}}
PICTURE: Json = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x"}, PICTURE]}
PAPER: Json = {"type": "document", "source": {"type": "text", "data": "x"}, "citations": {"enabled": True}}
CLEAR: Json = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 1}, "exclude_tools": ["x"]}
EDITS: list[Json] = [
    {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}},
    {**CLEAR, "keep": {"type": "tool_uses", "value": 1}, "clear_tool_inputs": ["t"]},
    {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 60_000}, "instructions": "x"},
]
MESSAGES: Json = {
    "model": "claude-opus-5",
    "max_tokens": 10,
    "system": [{"type": "text", "text": "s"}],
    "tools": [TOOL],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
    "messages": [user("a", PAPER), assistant(CALL), user(RESULT), {"role": "system", "content": "s"}],
    "cache_control": {"type": "ephemeral"},
    "context_management": {"edits": EDITS},
    "diagnostics": {"previous_message_id": "msg_1"},
    "stop_sequences": ["x"],
}
SUMMARIZE: Json = {"compaction": {"type": "summarize", "instructions": "x"}}
FUNCTION: Json = {"type": "function", "function": {"name": "t", "parameters": {}}}
CHAT: Json = {
    "model": "gpt-5.6",
    "messages": [
        {
            "role": "developer",
            "content": [{"type": "text", "text": "s", "prompt_cache_breakpoint": {"mode": "explicit"}}],
        },
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ],
    "tools": [FUNCTION],
    "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [FUNCTION]}},
    "response_format": {"type": "json_object"},
    "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
    "stream_options": {"include_usage": True},
    "stop": ["x"],
}
RESPONSES: Json = {
    "model": "gpt-5.6",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "s"},
                {"type": "input_image", "image_url": "https://example.org/a.png"},
            ],
        },
        {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "u"}]},
        {"type": "custom_tool_call", "call_id": "d", "name": "u", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "x"},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
    ],
    "tools": [
        {"type": "function", "name": "t", "parameters": {}},
        {"type": "namespace", "name": "n", "description": "", "tools": [{"type": "function", "name": "v"}]},
    ],
    "tool_choice": {"type": "function", "name": "t"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "context_management": [{"type": "compaction", "compact_threshold": 2_000}],
    "prompt_cache_options": {"comparison_response_id": "resp_1"},
}
JUNK: tuple[Any, ...] = (None, True, -1, 1e300, "", "odd", [], [[]], [None], {}, {"type": []}, {"a": {}})


def places(value: Any) -> list[list[Any]]:
    """Every way into a body, its keys and indexes in order."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [[step, *rest] for step, inner in steps for rest in ([], *places(inner))]


def replaced(value: Any, way: list[Any], new: Any) -> Any:
    step, *rest = way
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[step] = replaced(copy[step], rest, new) if rest else new
    return copy


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", MESSAGES),
        ("/v1/messages", {**MESSAGES, "context_management": None, **SUMMARIZE}),
        ("/v1/chat/completions", CHAT),
        ("/v1/responses", RESPONSES),
    ],
)
async def test_no_part_of_a_body_makes_the_simulator_itself_fail(provider: InProcess, path: str, body: Json) -> None:
    betas = f"{ON_DEMAND_BETA},compact-2026-01-12,context-management-2025-06-27,thinking-binding-controls-2026-08-01"
    assert (await provider.post(path, body, beta=betas)).status == 200
    for number, way in enumerate(places(body)):
        for junk in JUNK[number % 4 :: 4]:
            answer = await provider.post(path, replaced(body, way, junk), beta=betas)
            assert answer.status in (200, 400, 404), (way, junk)
            assert answer.status == 200 or answer.error, (way, junk)
