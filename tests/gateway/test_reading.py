"""A body of any API is read into the same canonical request; what can't be carried is named or refused."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from lamella.core.errors import InvalidRequest
from lamella.core.messages import Image, Reasoning, Text, ToolCall, ToolResult
from lamella.core.prompt import PromptMessage, ToolSpec, Ttl
from lamella.gateway.canonical import INSTRUCTIONS, OWN_SEAL, ClientRequest, ToolForm, wrapped_seal
from lamella.gateway.dialects import Dialect
from lamella.gateway.reading import read_request
from lamella.llm.responses_wire import ReasoningSeal

PIXEL = b64encode(b"a picture").decode()
DIALECTS = pytest.mark.parametrize("dialect", [Dialect.MESSAGES, Dialect.CHAT, Dialect.RESPONSES])
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
SPEC = ToolSpec("Weather", "Tells.", '{"type":"object","properties":{"place":{"type":"string"}}}')


def told(role: Any, *parts: Any) -> PromptMessage:
    return PromptMessage(role, parts)


def chat(*messages: Any, **fields: Any) -> ClientRequest:
    return read_request(Dialect.CHAT, {"model": "m", "messages": messages, **fields})


def messages(*messages: Any, **fields: Any) -> ClientRequest:
    return read_request(Dialect.MESSAGES, {"model": "m", "max_tokens": 9, "messages": messages, **fields})


def responses(*items: Any, **fields: Any) -> ClientRequest:
    return read_request(Dialect.RESPONSES, {"model": "m", "input": items, **fields})


CONVERSATION: dict[Dialect, Any] = {
    Dialect.MESSAGES: {
        "model": "m",
        "max_tokens": 500,
        "system": "Be brief.",
        "temperature": 0.5,
        "tools": [{"name": "Weather", "description": "Tells.", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any"},
        "messages": [
            {"role": "user", "content": "Hi ☕"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "call_a", "name": "Weather", "input": {"place": "Oslo"}},
                    {"type": "tool_use", "id": "call_b", "name": "Weather", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_a", "content": "Rain"},
                    {"type": "tool_result", "tool_use_id": "call_b", "content": [{"type": "text", "text": "Sun"}]},
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
    },
    Dialect.CHAT: {
        "model": "m",
        "max_completion_tokens": 500,
        "temperature": 0.5,
        "tools": [{"type": "function", "function": {"name": "Weather", "description": "Tells.", "parameters": SCHEMA}}],
        "tool_choice": "required",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi ☕"},
            {
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [
                    {
                        "id": "call_a",
                        "type": "function",
                        "function": {"name": "Weather", "arguments": '{"place":"Oslo"}'},
                    },
                    {"id": "call_b", "type": "function", "function": {"name": "Weather", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "call_a", "content": "Rain"},
            {"role": "tool", "tool_call_id": "call_b", "content": [{"type": "text", "text": "Sun"}]},
            {"role": "user", "content": "Well?"},
        ],
    },
    Dialect.RESPONSES: {
        "model": "m",
        "max_output_tokens": 500,
        "temperature": 0.5,
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "Weather", "description": "Tells.", "parameters": SCHEMA}],
        "tool_choice": "required",
        "input": [
            {"role": "user", "content": "Hi ☕"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
            {"type": "function_call", "call_id": "call_a", "name": "Weather", "arguments": '{"place":"Oslo"}'},
            {"type": "function_call", "call_id": "call_b", "name": "Weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_a", "output": "Rain"},
            {
                "type": "function_call_output",
                "call_id": "call_b",
                "output": [{"type": "input_text", "text": "Sun"}],
            },
            {"role": "user", "content": [{"type": "input_text", "text": "Well?"}]},
        ],
    },
}


@DIALECTS
def test_one_conversation_is_the_same_in_every_api(dialect: Dialect) -> None:
    request = read_request(dialect, CONVERSATION[dialect])
    assert request.instructions == ("Be brief.",)
    assert request.messages == (
        told("user", Text("Hi ☕")),
        told(
            "assistant",
            Text("Looking."),
            ToolCall("call_a", "Weather", '{"place":"Oslo"}'),
            ToolCall("call_b", "Weather", "{}"),
        ),
        told("tool", ToolResult("call_a", "Weather", "Rain"), ToolResult("call_b", "Weather", "Sun")),
        told("user", Text("Well?")),
    )
    assert request.tools == (SPEC,)
    settings = request.settings
    assert (settings.max_output, settings.temperature, settings.tool_choice) == (500, 0.5, "required")
    assert request.changes == ()


# System messages


def test_a_system_message_after_others_stays_in_its_place_in_tags() -> None:
    later = {"role": "system", "content": "Now be loud."}
    in_tags = told("user", Text("<system-message>\nNow be loud.\n</system-message>"))
    hi, ho = {"role": "user", "content": "Hi"}, {"role": "user", "content": "Ho"}
    for request in (chat(hi, later, ho), messages(hi, later, ho), responses(hi, later, ho)):
        assert request.instructions == ()
        assert request.messages == (told("user", Text("Hi")), in_tags, told("user", Text("Ho")))
        assert "stays in its place" in request.changes[0]
    body: Any = {"model": "m", "messages": [hi, later]}
    kept = read_request(Dialect.CHAT, body, tags_system=False)
    assert kept.messages[1] == told("system", Text("Now be loud."))
    assert kept.changes == ()


def test_system_and_developer_messages_in_front_are_instructions_each() -> None:
    front = ({"role": "system", "content": "A"}, {"role": "developer", "content": [{"type": "text", "text": "B"}]})
    assert chat(*front, {"role": "user", "content": "Hi"}).instructions == ("A", "B")
    items = ({"role": "developer", "content": "B"}, {"role": "user", "content": "Hi"})
    assert responses(*items, instructions="A").instructions == ("A", "B")


# Parts


def test_results_come_before_what_the_user_says_and_their_pictures_after_all_of_them() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    content = [
        {"type": "text", "text": "Look"},
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "Shot"}, picture]},
        {"type": "tool_result", "tool_use_id": "b", "is_error": True},
    ]
    results, said = messages({"role": "user", "content": content}).messages
    assert results == told("tool", ToolResult("a", "", "Shot"), ToolResult("b", "", "", is_error=True))
    label, image, text = said.parts
    assert (label, text) == (Text("From the result of a:"), Text("Look"))
    assert isinstance(image, Image)
    assert (image.media_type, image.data) == ("image/png", b"a picture")


def test_pictures_of_results_in_chat_wait_for_the_last_result() -> None:
    shot = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]
    found = chat(
        {"role": "tool", "tool_call_id": "a", "content": shot},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
        {"role": "assistant", "content": "Seen."},
    )
    assert [message.role for message in found.messages] == ["tool", "user", "assistant"]
    assert len(found.messages[0].parts) == 2
    assert found.changes == ("messages.0: pictures of a result follow the results (1)",)


def test_a_picture_at_an_address_is_carried_as_its_address() -> None:
    url = "https://example.org/a.png"
    for request in (
        chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}),
        messages({"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": url}}]}),
        responses({"role": "user", "content": [{"type": "input_image", "image_url": url}]}),
    ):
        [image] = request.messages[0].parts
        assert isinstance(image, Image)
        assert (image.url, image.data) == (url, b"")


def test_thinking_keeps_its_seal() -> None:
    seal = ReasoningSeal("rs_1", (3, 2)).text()
    content = [
        {"type": "thinking", "thinking": "Hm", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "cmVk"},
        {"type": "thinking", "thinking": "Of another", "signature": wrapped_seal(seal, "enc")},
        {"type": "redacted_thinking", "data": wrapped_seal(seal, "enc")},
    ]
    assert messages({"role": "assistant", "content": content}).messages[0].parts == (
        Reasoning("Hm", "EqQB"),
        Reasoning("", None, "cmVk"),
        Reasoning("Of another", seal, "enc"),
        Reasoning("", seal, "enc"),
    )
    summary = [{"type": "summary_text", "text": text} for text in ("One", "Tw")]
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "enc"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": wrapped_seal("EqQB", None)},
        {"type": "reasoning", "id": "rs_3", "summary": [], "content": [{"type": "reasoning_text", "text": "Open"}]},
    ]
    [answer] = responses(*items).messages
    assert answer.parts == (Reasoning("One\n\nTw", seal, "enc"), Reasoning("", "EqQB", None), Reasoning("Open"))
    assert chat({"role": "assistant", "content": "A", "reasoning_content": "Hm"}).messages[0].parts[0] == Reasoning(
        "Hm"
    )


@pytest.mark.parametrize("seal", ["lamella.????", OWN_SEAL])
def test_a_seal_of_ours_that_was_damaged_or_is_an_agents_is_no_vendors(seal: str) -> None:
    content = [
        {"type": "thinking", "thinking": "Hm", "signature": seal},
        {"type": "redacted_thinking", "data": seal},
    ]
    [answer] = messages({"role": "assistant", "content": content}).messages
    assert answer.parts == (Reasoning("Hm"), Reasoning(""))
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": seal}
    assert responses(item).messages[0].parts == (Reasoning(""),)


def test_custom_tools_and_namespaces_are_functions_with_a_form() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
    tools = [
        {
            "type": "namespace",
            "name": "code",
            "tools": [
                {"type": "custom", "name": "exec", "description": "Runs.", "format": grammar},
                {"type": "function", "name": "wait", "parameters": {}, "strict": True},
            ],
        },
        {"type": "web_search"},
    ]
    call = {"type": "custom_tool_call", "call_id": "c", "name": "exec", "namespace": "code", "input": "x = 1"}
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]}
    request = responses({"type": "additional_tools", "role": "developer", "tools": tools}, call, output)
    assert [tool.name for tool in request.tools] == ["code__exec", "code__wait"]
    assert request.tools[0].description == "Runs.\n\nThe input follows this grammar:\nstart: X"
    assert request.forms == {"code__exec": ToolForm("exec", "code", True), "code__wait": ToolForm("wait", "code")}
    assert request.settings.strict_tools == {"code__wait"}
    assert request.messages == (
        told("assistant", ToolCall("c", "code__exec", '{"input":"x = 1"}')),
        told("tool", ToolResult("c", "code__exec", "1")),
    )
    assert [change.split(":")[0] for change in request.changes] == ["input.0.tools.0.tools.0", "input.0.tools.1"]


def test_markers_are_known_by_their_place() -> None:
    control = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    request = chat(
        {"role": "system", "content": [{"type": "text", "text": "S", **control}]},
        {"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B", **control}]},
    )
    assert request.marked == {(INSTRUCTIONS, 0): Ttl.ONE_HOUR, (0, 1): Ttl.ONE_HOUR}
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    request = responses({"role": "user", "content": [{"type": "input_text", "text": "A", **mark}]})
    assert request.marked == {(0, 0): Ttl.THIRTY_MINUTES}


# Settings


@pytest.mark.parametrize(
    ("request_", "effort"),
    [
        (messages(thinking={"type": "enabled", "budget_tokens": 5000}), "5000"),
        (messages(thinking={"type": "adaptive"}, output_config={"effort": "xhigh"}), "xhigh"),
        (messages(thinking={"type": "disabled"}), "off"),
        (messages(), None),
        (chat(reasoning_effort="none"), "off"),
        (chat(reasoning_effort="minimal"), "minimal"),
        (responses(reasoning={"effort": "low", "summary": "auto"}), "low"),
    ],
)
def test_the_effort_of_thinking(request_: ClientRequest, effort: str | None) -> None:
    assert request_.settings.effort == effort


def test_the_form_of_the_answer() -> None:
    named = {"name": "city", "schema": SCHEMA, "strict": True}
    wanted = [
        chat(response_format={"type": "json_schema", "json_schema": named}),
        responses(text={"format": {"type": "json_schema", **named}}),
        messages(output_config={"format": {"type": "json_schema", "schema": SCHEMA}}),
    ]
    assert [one.settings.answer_format for one in wanted] == [named, named, {**named, "name": "answer"}]
    assert chat(response_format={"type": "json_object"}).settings.answer_format == {}
    assert chat(response_format={"type": "text"}).settings.answer_format is None


def test_a_tool_that_must_be_called_and_calls_one_at_a_time() -> None:
    for request in (
        chat(tool_choice={"type": "function", "function": {"name": "Weather"}}, parallel_tool_calls=False),
        responses(tool_choice={"type": "function", "name": "Weather"}, parallel_tool_calls=False),
        messages(tool_choice={"type": "tool", "name": "Weather", "disable_parallel_tool_use": True}),
    ):
        settings = request.settings
        assert (settings.tool_choice, settings.tool, settings.parallel_calls) == ("required", "Weather", False)


def test_streams_and_their_usage() -> None:
    asked = chat(stream=True, stream_options={"include_usage": True}).settings
    assert (asked.streams, asked.asks_for_usage) == (True, True)
    assert chat(stream=True).settings.asks_for_usage is False


def test_what_only_hints_is_named() -> None:
    request = chat(seed=7, user="u", frequency_penalty=None, logprobs=False, of_tomorrow=1)
    assert request.changes == (
        "seed: the other API has no such field",
        "user: it only concerns the provider",
        "of_tomorrow: the other API has no such field",
    )
    assert messages(top_k=5, context_management={"edits": []}).changes[1].startswith("context_management: ")


# Refusals


def user(part: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": "Hi"}, part]}


@pytest.mark.parametrize(
    ("dialect", "body", "place"),
    [
        (Dialect.CHAT, {"n": 2}, "n"),
        (Dialect.CHAT, {"logprobs": True}, "logprobs"),
        (Dialect.CHAT, {"functions": [{"name": "f"}]}, "functions"),
        (Dialect.CHAT, {"temperature": "hot"}, "temperature"),
        (Dialect.CHAT, {"stop": [1]}, "stop"),
        (Dialect.CHAT, {"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        (Dialect.CHAT, {"response_format": {"type": "grammar"}}, "response_format"),
        (Dialect.CHAT, {"messages": [user({"type": "input_audio"})]}, "messages.0.content.1"),
        (Dialect.CHAT, {"messages": [{"role": "function", "content": "x"}]}, "messages.0.role"),
        (Dialect.CHAT, {"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "messages.0.audio"),
        (Dialect.CHAT, {"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages.0.tool_calls.0"),
        (
            Dialect.CHAT,
            {"messages": [user({"type": "image_url", "image_url": {"url": "data:image/png,x"}})]},
            "messages.0.content.1",
        ),
        (Dialect.MESSAGES, {"messages": [user({"type": "container_upload"})]}, "messages.0.content.1"),
        (Dialect.MESSAGES, {"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]},
         "messages.0.content.0"),
        (
            Dialect.MESSAGES,
            {"messages": [user({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "tool_reference"}]})]},
            "messages.0.content.1.content.0",
        ),
        (Dialect.MESSAGES, {"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        (Dialect.MESSAGES, {"system": [{"type": "image"}]}, "system.0"),
        (Dialect.RESPONSES, {"previous_response_id": "resp_1"}, "previous_response_id"),
        (Dialect.RESPONSES, {"background": True}, "background"),
        (Dialect.RESPONSES, {"input": [{"type": "item_reference", "id": "msg_1"}]}, "input.0"),
        (Dialect.RESPONSES, {"input": [{"type": "web_search_call"}]}, "input.0"),
        (Dialect.RESPONSES, {"include": ["message.output_text.logprobs"]}, "include"),
        (Dialect.RESPONSES, {"tools": [{"type": "function"}]}, "tools.0"),
        (Dialect.EMBEDDINGS, {}, "model"),
    ],
)  # fmt: skip
def test_what_can_not_be_carried_is_refused_with_its_place(dialect: Dialect, body: Any, place: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_request(dialect, {"model": "m", **body})
    assert caught.value.param == place
    assert place in caught.value.message
    assert caught.value.hint
