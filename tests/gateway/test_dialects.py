"""Bodies of every dialect as windows: one canonical form, whatever the client writes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.json import decode_object, encode
from lamella.core.prompt import Ttl
from lamella.gateway.dialects import Dialect, effort_of, read

MARK = {"cache_control": {"type": "ephemeral"}}
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
MESSAGES: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "system": [{"type": "text", "text": "You are brief.", **MARK}],
    "tools": [TOOL],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hello", **MARK}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Rain"}]},
    ],
}
CHAT: dict[str, Any] = {
    "model": "gpt-6.1-terra",
    "messages": [
        {"role": "developer", "content": "You are brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "Rain"},
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "gpt-6.1-terra",
    "instructions": "You are brief.",
    "input": [
        {"role": "user", "content": "Hello"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Rain"},
    ],
}
BODIES = {Dialect.MESSAGES: MESSAGES, Dialect.CHAT: CHAT, Dialect.RESPONSES: RESPONSES}


@pytest.mark.parametrize("dialect", BODIES)
def test_every_dialect_gives_the_same_window(dialect: Dialect) -> None:
    window = read(dialect, BODIES[dialect])
    messages = [segment for segment in window.segments if segment.letters not in ("T", "S")]
    assert [segment.letters for segment in messages] == ["U", "A", "TR"]
    assert [segment.letters for segment in window.segments if segment not in messages][-1] == "S"
    assert window.is_follow_up == (False, True, True)
    assert window.texts[0] == "Hello"
    assert len(window.keys) == 3


def test_markers_are_taken_out_and_named_with_their_life() -> None:
    window = read(Dialect.MESSAGES, MESSAGES)
    assert [(marker.index, marker.ttl) for marker in window.markers] == [(1, Ttl.FIVE_MINUTES), (2, Ttl.FIVE_MINUTES)]
    assert all("cache_control" not in str(block.value) for block in window.blocks)
    plain = copy.deepcopy(MESSAGES)
    plain["system"], plain["messages"][0]["content"] = "You are brief.", "Hello"
    again = read(Dialect.MESSAGES, plain)
    assert again.keys == window.keys
    assert [block.digest for block in again.blocks] == [block.digest for block in window.blocks]
    assert again.markers == ()


def test_an_hour_is_an_hour_and_a_breakpoint_half_of_one() -> None:
    body = copy.deepcopy(MESSAGES)
    body["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    assert read(Dialect.MESSAGES, body).markers[-1].ttl is Ttl.ONE_HOUR
    part = {"type": "text", "text": "Hello", "prompt_cache_breakpoint": {"mode": "explicit"}}
    chat: Any = {"messages": [{"role": "user", "content": [part]}]}
    window = read(Dialect.CHAT, chat)
    assert [marker.ttl for marker in window.markers] == [Ttl.THIRTY_MINUTES]
    assert "breakpoint" not in str(window.blocks[0].value)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
        {"role": "assistant", "content": "Hi"},
    ],
)  # fmt: skip
def test_an_answer_that_comes_back_is_the_same_in_each_of_its_forms(item: dict[str, Any]) -> None:
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
    bare: Any = {"input": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]}
    other: Any = {"input": [asked, item]}
    assert read(Dialect.RESPONSES, bare).keys == read(Dialect.RESPONSES, other).keys


def test_the_id_of_a_call_counts_and_that_of_an_item_does_not() -> None:
    one, other = copy.deepcopy(MESSAGES), copy.deepcopy(MESSAGES)
    other["messages"][1]["content"][0]["id"] = "t2"
    keys, others = read(Dialect.MESSAGES, one).keys, read(Dialect.MESSAGES, other).keys
    assert (keys[0] == others[0], keys[1] == others[1]) == (True, False)


def test_the_effort_is_read_from_its_field_in_every_dialect() -> None:
    assert effort_of(read(Dialect.MESSAGES, {"output_config": {"effort": "high"}})) == "high"
    assert effort_of(read(Dialect.RESPONSES, {"reasoning": {"effort": "low"}})) == "low"
    assert effort_of(read(Dialect.CHAT, {"reasoning_effort": "medium"})) == "medium"
    assert effort_of(read(Dialect.CHAT, {})) == "off"


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
part = st.one_of(
    st.text(max_size=20).map(lambda text: {"type": "text", "text": text}),
    st.dictionaries(st.sampled_from(["type", "id", "data", "cache_control", "of_tomorrow"]), json, max_size=4),
    json,
)
message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool", "of_tomorrow"])},
    optional={"content": st.one_of(st.text(max_size=20), st.lists(part, max_size=3), json), "type": st.text()},
)
body = st.fixed_dictionaries(
    {},
    optional={
        "model": json,
        "system": st.one_of(st.text(max_size=20), st.lists(part, max_size=3), json),
        "tools": st.lists(json, max_size=3) | json,
        "messages": st.lists(message, max_size=5) | json,
        "input": st.lists(message | json, max_size=5) | json,
        "instructions": json,
        "metadata": json,
        "cache_control": json,
        "of_tomorrow": json,
    },
)


@given(body, st.sampled_from(list(BODIES)))
def test_nothing_that_a_client_sends_is_refused_or_lost(sent: dict[str, Any], dialect: Dialect) -> None:
    """Every field is a block or in the head, and the same body gives the same window."""
    window = read(dialect, decode_object(encode(sent)))
    assert read(dialect, decode_object(encode(sent))) == window
    assert len(window.keys) == len(window.roles) == len(window.texts) == len(window.is_follow_up)
    assert len(window.paths) == len(window.blocks)
    known = {"cache_control", "tools", "system" if dialect is Dialect.MESSAGES else "instructions", "messages", "input"}
    assert {name for name in sent if name not in known} <= set(window.head)


@given(st.lists(message, min_size=1, max_size=5), st.lists(message, max_size=3), st.sampled_from(list(BODIES)))
def test_a_conversation_that_goes_on_begins_with_the_same_keys(
    first: list[Any], more: list[Any], dialect: Dialect
) -> None:
    name = "input" if dialect is Dialect.RESPONSES else "messages"
    leading = [{"role": "user", "content": "Hello"}]  # behind it a system message is one among the messages
    before = read(dialect, {name: [*leading, *first]}).keys
    assert read(dialect, {name: [*leading, *first, *more]}).keys[: len(before)] == before


def test_a_turn_begins_with_a_message_even_if_settings_follow_it() -> None:
    update: dict[str, Any] = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    window = read(Dialect.RESPONSES, {**RESPONSES, "input": [{"role": "user", "content": "Hello"}, update]})
    assert window.roles == ("user", "developer")
    assert window.is_follow_up == (False, False)


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.RESPONSES])
def test_openai_caches_after_the_last_message_of_the_user_or_of_a_tool(dialect: Dialect) -> None:
    window = read(dialect, BODIES[dialect])
    places = [window.blocks[index].role for index in window.endings]
    assert places == ["user", "tool"]
    assert window.endings[-1] == len(window.blocks) - 1
    assert not window.is_marked
    assert read(dialect, {**BODIES[dialect], "prompt_cache_options": {"mode": "explicit"}}).endings == ()
    assert read(Dialect.MESSAGES, MESSAGES).endings == ()


@pytest.mark.parametrize("dialect", [Dialect.MESSAGES, Dialect.CHAT, Dialect.RESPONSES])
def test_fields_in_another_order_are_the_same_block_and_arguments_are_not(dialect: Dialect) -> None:
    part: Any = {"type": "output_text" if dialect is Dialect.RESPONSES else "text", "text": "Hi", "annotations": []}
    message: Any = {"role": "assistant", "content": [part]}
    name = "input" if dialect is Dialect.RESPONSES else "messages"

    def digests(*messages: Any) -> list[str]:
        return [block.digest for block in read(dialect, {name: list(messages)}).blocks]

    other: Any = {"content": [dict(reversed(part.items()))], "role": "assistant"}
    assert digests(message) == digests(other)
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1, "b": 2}}
    if dialect is Dialect.MESSAGES:
        one, two = ({**call, "input": dict.fromkeys(keys, 1)} for keys in ("ab", "ba"))
        assert digests({"role": "assistant", "content": [one]}) != digests({"role": "assistant", "content": [two]})
    tools: Any = [{"name": "look", "description": "Looks."}, {"description": "Looks.", "name": "look"}]
    one_tool, other_tool = (read(dialect, {name: [message], "tools": [tool]}).blocks[0].digest for tool in tools)
    assert one_tool != other_tool
