"""A request in another vendor's API: the same bytes each time, append-only, and every change a note."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.core.errors import InvalidRequest
from lamella.core.json import decode_object
from lamella.gateway.canonical import wrapped_seal
from lamella.gateway.dialects import Dialect
from lamella.gateway.translation import NO_USER, Translation, plain_name, translated
from lamella.llm.model_table import facts
from lamella.llm.responses_wire import ReasoningSeal

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
PAIRS = pytest.mark.parametrize(("caller", "target"), list(permutations([MESSAGES, CHAT, RESPONSES], 2)))
MODELS = {MESSAGES: "claude-opus-5-5", CHAT: "gpt-6.1-terra", RESPONSES: "gpt-6.1-terra"}
PIXEL = b64encode(b"a picture").decode()
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
SEAL = ReasoningSeal("rs_1", (4,)).text()


def across(caller: Dialect, target: Dialect, body: Mapping[str, Any], model: str = "") -> Translation:
    name = model or MODELS[target]
    return translated(caller, decode_object(json.dumps({"model": "m", **body})), target, name, facts(name))


def sent(made: Translation) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.body)
    return found


def chat_to_messages(*messages: Any, model: str = "", **fields: Any) -> dict[str, Any]:
    return sent(across(CHAT, MESSAGES, {"messages": messages, **fields}, model))


def messages_to_chat(*messages: Any, model: str = "", **fields: Any) -> dict[str, Any]:
    return sent(across(MESSAGES, CHAT, {"max_tokens": 9, "messages": messages, **fields}, model))


# Growing conversations


@st.composite
def turns(draw: st.DrawFn) -> list[Any]:
    """Turns of a conversation, in no API: what a user says, calls with their results, answers, system messages."""
    texts = st.one_of(st.text(max_size=6), st.sampled_from(["", " ", "Grüße ☕", '"}]}', "\n"]))
    found: list[Any] = []
    for number in range(draw(st.integers(1, 5))):
        if number and draw(st.booleans()):
            found.append(("system", draw(texts)))
        found.append(("user", draw(st.lists(texts, min_size=1, max_size=2)), draw(st.booleans())))
        for step in range(draw(st.integers(0, 2))):
            count = draw(st.integers(1, 3))
            calls = [(f"call_{number}_{step}_{n}", draw(st.sampled_from(NAMES)), draw(ARGUMENTS)) for n in range(count)]
            found.append(("calls", draw(texts), draw(texts), calls))
            found.append(("results", [(id, name, draw(texts), draw(st.booleans())) for id, name, _ in calls]))
        found.append(("answer", draw(texts), draw(texts)))
    return found


NAMES = ("Read", "mcp.files/read", "x" * 100)
ARGUMENTS = st.sampled_from(
    ['{"place":"Oslo"}', "{}", "", '{"place":', '"{\\"place\\":\\"Oslo\\"}"', '{"a":[1,{"b":2.50}]}']
)


def as_object(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def body_of(dialect: Dialect, conversation: list[Any]) -> dict[str, Any]:
    makers = {MESSAGES: messages_turn, CHAT: chat_turn, RESPONSES: responses_turn}
    history = [one for turn in conversation for one in makers[dialect](turn)]
    if dialect is MESSAGES:
        tools: list[Any] = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
        return {"system": "Be brief.", "max_tokens": 500, "messages": history, "tools": tools}
    if dialect is CHAT:
        tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]
        return {"messages": [{"role": "system", "content": "Be brief."}, *history], "tools": tools}
    tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]
    return {"instructions": "Be brief.", "input": history, "tools": tools}


def messages_turn(turn: Any) -> list[Any]:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    match turn:
        case ("system", text):
            return [{"role": "system", "content": text}]
        case ("user", texts, shows):
            parts = [*({"type": "text", "text": text} for text in texts), *([picture] if shows else [])]
            return [{"role": "user", "content": parts}]
        case ("calls", thought, text, calls):
            made = [{"type": "tool_use", "id": id, "name": name, "input": as_object(a)} for id, name, a in calls]
            sealed = {"type": "thinking", "thinking": thought, "signature": wrapped_seal(SEAL, "enc")}
            return [{"role": "assistant", "content": [sealed, {"type": "text", "text": text}, *made]}]
        case ("results", results):
            parts = [
                {
                    "type": "tool_result",
                    "tool_use_id": id,
                    "content": [{"type": "text", "text": t}, *([picture] * shows)],
                }
                for id, _, t, shows in results
            ]
            return [{"role": "user", "content": parts}]
        case (_, thought, text):
            sealed = {"type": "thinking", "thinking": thought, "signature": "EqQB"}
            return [{"role": "assistant", "content": [sealed, {"type": "text", "text": text}]}]
    raise AssertionError


def chat_turn(turn: Any) -> list[Any]:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    match turn:
        case ("system", text):
            return [{"role": "system", "content": text}]
        case ("user", texts, shows):
            parts = [*({"type": "text", "text": text} for text in texts), *([picture] if shows else [])]
            return [{"role": "user", "content": parts if len(parts) > 1 else texts[0]}]
        case ("calls", thought, text, calls):
            made = [{"id": id, "type": "function", "function": {"name": n, "arguments": a}} for id, n, a in calls]
            return [{"role": "assistant", "content": text or None, "reasoning_content": thought, "tool_calls": made}]
        case ("results", results):
            return [
                {"role": "tool", "tool_call_id": id, "content": [{"type": "text", "text": t}, *([picture] * shows)]}
                for id, _, t, shows in results
            ]
        case (_, _, text):
            return [{"role": "assistant", "content": text}]
    raise AssertionError


def responses_turn(turn: Any) -> list[Any]:
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    match turn:
        case ("system", text):
            return [{"role": "developer", "content": text}]
        case ("user", texts, shows):
            parts = [*({"type": "input_text", "text": text} for text in texts), *([picture] if shows else [])]
            return [{"role": "user", "content": parts}]
        case ("calls", thought, text, calls):
            made = [{"type": "function_call", "call_id": id, "name": n, "arguments": a} for id, n, a in calls]
            return [*thinking_item(thought, wrapped_seal("EqQB", None)), *message_item(text), *made]
        case ("results", results):
            return [
                {
                    "type": "function_call_output",
                    "call_id": id,
                    "output": [{"type": "input_text", "text": text}, *([picture] * shows)],
                }
                for id, _, text, shows in results
            ]
        case (_, thought, text):
            return [*thinking_item(thought, "enc"), *message_item(text)]
    raise AssertionError


def thinking_item(text: str, sealed: str) -> list[Any]:
    summary = [{"type": "summary_text", "text": text}]
    return [{"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": sealed}]


def message_item(text: str) -> list[Any]:
    return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]


@PAIRS
@settings(max_examples=60)
@given(conversation=turns())
def test_a_request_that_goes_on_begins_with_the_bytes_of_the_one_before(
    caller: Dialect, target: Dialect, conversation: list[Any]
) -> None:
    ends = [n + 1 for n, turn in enumerate(conversation) if turn[0] in ("user", "results")]
    before = b""
    for end in ends:
        body = body_of(caller, conversation[:end])
        made = across(caller, target, body)
        assert made.body == across(caller, target, body).body
        assert made.body.startswith(before)
        before = _open(made.body)


def _open(body: bytes) -> bytes:
    """A body without the brackets that close it."""
    closing = re.search(rb"[\]}]+$", body)
    assert closing is not None
    return body[: closing.start()]


@PAIRS
@settings(max_examples=60)
@given(conversation=turns())
def test_a_translated_request_is_one_that_its_vendor_takes(
    caller: Dialect, target: Dialect, conversation: list[Any]
) -> None:
    end = max(n + 1 for n, turn in enumerate(conversation) if turn[0] in ("user", "results"))
    made = sent(across(caller, target, body_of(caller, conversation[:end])))
    calls, results = (_of_messages if target is MESSAGES else _of_chat if target is CHAT else _of_responses)(made)
    said = [one[0] for turn in conversation[:end] if turn[0] == "calls" for one in turn[3]]
    answered = [one[0] for turn in conversation[:end] if turn[0] == "results" for one in turn[1]]
    assert (calls, results) == (said, answered)


def _of_messages(body: Any) -> tuple[list[str], list[str]]:
    calls, results, open_calls = [], [], list[str]()
    for message in body["messages"]:
        kinds = [block["type"] for block in message["content"]]
        assert message["role"] in ("user", "assistant")
        assert kinds == sorted(kinds, key="tool_result".__ne__) or message["role"] == "assistant"
        for block in message["content"]:
            assert block["type"] != "text" or block["text"].strip()
            if block["type"] == "tool_result":
                results.append(block["tool_use_id"])
        answered = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert answered == open_calls
        open_calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert all(re.fullmatch(r"[\w-]{1,128}", b["name"]) for b in message["content"] if b["type"] == "tool_use")
        calls += open_calls
    return calls, results


def _of_chat(body: Any) -> tuple[list[str], list[str]]:
    calls, results, open_calls = [], [], list[str]()
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
            results.append(message["tool_call_id"])
            continue
        assert not open_calls, "a message between a call and its result"
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
        calls += open_calls
    return calls, results


def _of_responses(body: Any) -> tuple[list[str], list[str]]:
    calls = [item["call_id"] for item in body["input"] if item["type"] == "function_call"]
    return calls, [item["call_id"] for item in body["input"] if item["type"] == "function_call_output"]


# Names and ids


def test_a_name_that_changes_stays_apart_from_others_and_comes_back() -> None:
    names = ["Read", "mcp.files/read", "mcp_files_read", "mcp/files.read", "x" * 128, "x" * 127 + "y"]
    made = [plain_name(name, 64) for name in names]
    assert made[0] == "Read"
    assert made[2] == "mcp_files_read"
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[\w-]{1,64}", name) for name in made)
    tools = [{"name": name, "input_schema": SCHEMA} for name in names]
    found = across(MESSAGES, CHAT, {"max_tokens": 9, "messages": [], "tools": tools})
    assert [found.names.get(name, name) for name in made] == names
    forced = across(
        MESSAGES,
        CHAT,
        {"max_tokens": 9, "messages": [], "tools": tools, "tool_choice": {"type": "tool", "name": names[1]}},
    )
    assert sent(forced)["tool_choice"] == {"type": "function", "function": {"name": made[1]}}


def test_an_id_that_the_upstream_refuses_is_the_same_in_call_and_result() -> None:
    id = "functions.read:0" * 5
    call = {"id": id, "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [call]}]
    body = {"messages": [*history, {"role": "tool", "tool_call_id": id, "content": "x"}]}
    made = across(CHAT, MESSAGES, body)
    [_, answer, results] = sent(made)["messages"]
    assert answer["content"][0]["id"] == results["content"][0]["tool_use_id"] != id
    assert (
        "message 2 and 1 more: the id of a call is not one that the upstream takes, and is sent as another"
        in made.notes
    )


# Thinking


def test_thinking_of_another_vendor_is_left_out_and_the_upstreams_own_goes_back() -> None:
    own, foreign = wrapped_seal("EqQB", None), "enc"
    items = [*thinking_item("A", own), *thinking_item("B", foreign), *message_item("Hi")]
    made = across(RESPONSES, MESSAGES, {"input": [{"role": "user", "content": "Hi"}, *items]})
    assert sent(made)["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "A", "signature": "EqQB"},
        {"type": "text", "text": "Hi"},
    ]
    assert "message 2: thinking that is not the upstream's own is left out" in made.notes
    content = [
        {"type": "thinking", "thinking": "A", "signature": "EqQB"},
        {"type": "thinking", "thinking": "Hm!!", "signature": wrapped_seal(SEAL, "enc")},
        {"type": "text", "text": "Hi"},
    ]
    back = sent(across(MESSAGES, RESPONSES, {"max_tokens": 9, "messages": [{"role": "assistant", "content": content}]}))
    summary = [{"type": "summary_text", "text": "Hm!!"}]
    assert back["input"][0] == {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "enc"}
    assert [item["type"] for item in back["input"]] == ["reasoning", "message"]
    chat = messages_to_chat({"role": "assistant", "content": content})
    assert chat["messages"] == [{"role": "assistant", "content": "Hi"}]


@pytest.mark.parametrize(
    ("effort", "model", "head"),
    [
        ("high", "claude-opus-5-5", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("minimal", "claude-opus-5-5", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("low", "claude-haiku-4-5", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (None, "claude-opus-5-5", {}),
    ],
)
def test_the_effort_of_thinking_is_asked_for_as_the_model_takes_it(
    effort: str | None, model: str, head: dict[str, Any]
) -> None:
    made = chat_to_messages({"role": "user", "content": "Hi"}, model=model, reasoning_effort=effort)
    assert {name: made[name] for name in ("thinking", "output_config") if name in made} == head


def test_a_step_whose_calls_came_without_thinking_asks_for_none_where_the_vendor_would_refuse() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [call]}]
    result = {"role": "tool", "tool_call_id": "a", "content": "x"}
    body = {"messages": [*history, result], "reasoning_effort": "low"}
    assert "thinking" not in sent(across(CHAT, MESSAGES, body, "claude-haiku-4-5"))
    assert "thinking" in sent(across(CHAT, MESSAGES, body, "claude-opus-5-5"))
    assert "thinking" in sent(across(CHAT, MESSAGES, {**body, "messages": history[:1]}, "claude-haiku-4-5"))


def test_an_effort_of_anthropics_is_one_of_openais() -> None:
    made = messages_to_chat(
        {"role": "user", "content": "Hi"}, thinking={"type": "adaptive"}, output_config={"effort": "max"}
    )
    assert made["reasoning_effort"] == "low"  # 9 tokens of output leave no room for more
    body = {"max_tokens": 32_000, "messages": [], "thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}
    found = across(MESSAGES, RESPONSES, body)
    assert sent(found)["reasoning"] == {"effort": "high", "summary": "auto"}
    assert "effort: “max” is “high”" in found.notes


# Settings


def test_an_answer_needs_a_limit_over_messages() -> None:
    made = across(CHAT, MESSAGES, {"messages": []})
    assert sent(made)["max_tokens"] == 128_000
    assert any(note.startswith("max_tokens: the caller set none") for note in made.notes)
    assert chat_to_messages(max_completion_tokens=10**9)["max_tokens"] == 128_000


def test_sampling() -> None:
    hot: Any = {"temperature": 1.5, "top_p": 0.5, "stop": "END"}
    made = chat_to_messages(**hot, model="claude-haiku-4-5")
    assert (made["temperature"], made["top_p"], made["stop_sequences"]) == (1, 0.5, ["END"])
    made = chat_to_messages(**hot)
    assert "temperature" not in made
    assert "top_p" not in made
    with pytest.raises(InvalidRequest, match="stop: Responses has no stop sequences"):
        across(MESSAGES, RESPONSES, {"max_tokens": 9, "messages": [], "stop_sequences": ["END"]})


def test_tool_choice_and_strict_schemas() -> None:
    tools = [{"type": "function", "function": {"name": "Read", "parameters": SCHEMA, "strict": True}}]
    made = chat_to_messages(tools=tools, tool_choice="required", parallel_tool_calls=False)
    assert made["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert made["tools"][0]["strict"] is True
    named = {"type": "function", "function": {"name": "Read"}}
    assert chat_to_messages(tools=tools, tool_choice=named)["tool_choice"] == {"type": "tool", "name": "Read"}
    assert chat_to_messages(tools=tools, tool_choice="none")["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in chat_to_messages(tools=tools)
    assert "tool_choice" not in chat_to_messages(tool_choice="none")
    response = sent(across(CHAT, RESPONSES, {"messages": [], "tools": tools, "tool_choice": named}))
    assert response["tool_choice"] == {"type": "function", "name": "Read"}
    assert response["tools"][0]["strict"] is True


def test_the_form_of_the_answer() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}
    made = chat_to_messages(response_format=form, reasoning_effort="high")
    assert made["output_config"] == {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}}
    response = sent(across(CHAT, RESPONSES, {"messages": [], "response_format": form, "verbosity": "low"}))
    assert response["text"] == {"format": {"type": "json_schema", **form["json_schema"]}, "verbosity": "low"}  # type: ignore[dict-item]
    back = messages_to_chat(output_config={"format": {"type": "json_schema", "schema": SCHEMA}})
    assert back["response_format"]["json_schema"] == {"name": "answer", "schema": SCHEMA, "strict": True}
    loose = across(CHAT, MESSAGES, {"messages": [], "response_format": {"type": "json_object"}})
    assert "output_config" not in sent(loose)
    assert any(note.startswith("response_format: ") for note in loose.notes)


# Markers and files


def test_markers_of_a_caller_are_kept_for_anthropic_and_noted_for_others() -> None:
    control = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "S", **control}]},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "A", **control}]},
    ]
    made = chat_to_messages(*messages)
    assert made["system"] == [{"type": "text", "text": "S", **control}]
    assert made["messages"] == [{"role": "user", "content": [{"type": "text", "text": "A", **control}]}]
    back = across(
        MESSAGES,
        CHAT,
        {"max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "text", "text": "A", **control}]}]},
    )
    assert b"cache" not in back.body
    assert "cache_control: markers are left out, since the upstream caches by itself" in back.notes


def test_a_pdf_is_a_document_a_file_or_an_input_file() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": PIXEL}
    message = {"role": "user", "content": [{"type": "document", "source": source}]}
    url = f"data:application/pdf;base64,{PIXEL}"
    [said] = messages_to_chat(message)["messages"]
    assert said["content"] == [{"type": "file", "file": {"filename": "document.pdf", "file_data": url}}]
    back = chat_to_messages(said)
    assert back["messages"] == [message]
    there = sent(across(MESSAGES, RESPONSES, {"max_tokens": 9, "messages": [message]}))
    assert there["input"][0]["content"] == [{"type": "input_file", "filename": "document.pdf", "file_data": url}]
    assert sent(across(RESPONSES, MESSAGES, {"input": there["input"]}))["messages"] == [message]
    at = {
        "role": "user",
        "content": [{"type": "document", "source": {"type": "url", "url": "https://a.example/a.pdf"}}],
    }
    there = sent(across(MESSAGES, RESPONSES, {"max_tokens": 9, "messages": [at]}))
    assert there["input"][0]["content"] == [{"type": "input_file", "file_url": "https://a.example/a.pdf"}]
    with pytest.raises(InvalidRequest, match="message 1: a PDF at an address"):
        across(MESSAGES, CHAT, {"max_tokens": 9, "messages": [at]})


# What another vendor would refuse


@pytest.mark.parametrize("target", [MESSAGES, CHAT])
def test_results_that_come_later_follow_their_calls(target: Dialect) -> None:
    calls = [{"type": "function_call", "call_id": id, "name": "Read", "arguments": "{}"} for id in ("a", "b")]
    results = [{"type": "function_call_output", "call_id": id, "output": f"of {id}"} for id in ("a", "b")]
    later = {"role": "user", "content": "Wait"}
    items = [
        {"role": "user", "content": "Hi"},
        *calls,
        results[0],
        later,
        results[1],
        {"role": "user", "content": "Go"},
    ]
    made = across(RESPONSES, target, {"input": items})
    found = sent(made)["messages"]
    if target is CHAT:
        assert [one.get("content") for one in found] == ["Hi", None, "of a", "of b", "Wait", "Go"]
    else:
        kinds = [[block["type"] for block in one["content"]] for one in found]
        assert kinds == [["text"], ["tool_use"] * 2, ["tool_result", "tool_result", "text", "text"]]
    assert "message 5: results that came later follow their calls" in made.notes
    plain = across(RESPONSES, target, {"input": [items[0], *calls, *results, later]})
    assert not [note for note in plain.notes if "came later" in note]


def test_a_conversation_that_does_not_begin_with_the_user_gets_a_message_that_stands_for_it() -> None:
    stands = {"role": "user", "content": [{"type": "text", "text": NO_USER}]}
    first = {"role": "assistant", "content": "Hello"}
    said = {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]}
    empty = {"role": "user", "content": ""}
    assert chat_to_messages(first)["messages"] == [stands, said]
    assert chat_to_messages(empty, first)["messages"] == [stands, said]
    assert chat_to_messages({"role": "system", "content": "S"})["messages"] == [stands]
    assert chat_to_messages()["messages"] == []
    assert sent(across(MESSAGES, CHAT, {"max_tokens": 9, "messages": [first]}))["messages"] == [first]


def test_a_limit_below_the_least_of_responses_is_raised() -> None:
    made = across(MESSAGES, RESPONSES, {"max_tokens": 1, "messages": [], "thinking": {"type": "adaptive"}})
    assert sent(made)["max_output_tokens"] == 16
    assert "max_tokens: 16 is the least" in made.notes


def test_a_probe_for_one_token_asks_for_the_least_thinking() -> None:
    body = {"max_tokens": 1, "messages": [], "thinking": {"type": "adaptive"}}
    assert sent(across(MESSAGES, CHAT, body))["reasoning_effort"] == "low"


def test_a_second_tool_of_one_name_is_for_the_upstream_to_refuse() -> None:
    tool = {"type": "function", "function": {"name": "Read", "parameters": SCHEMA}}
    assert [one["name"] for one in chat_to_messages(tools=[tool, tool])["tools"]] == ["Read", "Read"]
