"""An execution request comes back from its OpenAI form as it was, whatever is in it; what can't travel is an error."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.chat.message import ExecutionRequest
from lamella.core.errors import InvalidRequest
from lamella.core.json import decode_object, encode, encode_text
from lamella.core.messages import ToolResult, ToolSpec
from lamella.core.records import UNCHANGED, AnswerChoices
from lamella.server.routes.openai_request import KEY_LENGTH, NATIVE, OWN, PAIRS, VALUE_LENGTH, from_openai, to_openai

TEXT = st.text(max_size=40)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
MAYBE = st.none() | TEXT
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.text(min_size=1, max_size=KEY_LENGTH).filter(lambda key: not key.startswith("lamella."))
TOOLS = st.builds(
    ToolSpec,
    st.from_regex(r"[a-z_]{1,20}", fullmatch=True),
    TEXT,
    st.dictionaries(st.sampled_from(["a", "b"]), st.just({"type": "string"})).map(
        lambda named: encode_text({"type": "object", "properties": named})
    ),
)
ANSWERS = st.builds(
    AnswerChoices,
    max_output=st.none() | st.integers(16, 10_000),
    tool_choice=st.sampled_from(["auto", "none", "required", "function look"]),
    parallel_calls=st.booleans(),
    temperature=st.none() | st.just(0.5),
    schema=st.sampled_from(["", '{"name":"a","schema":{"type":"object"},"strict":true}']),
    max_calls=st.none() | st.integers(1, 9),
    stop=st.lists(st.sampled_from(["END", "\n"]), max_size=2).map(tuple),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXT,
    "conversation_id": MAYBE,
    "file_ids": TEXTS,
    "models": TEXTS,
    "timezone": TEXT,
    "parent_message_id": MAYBE | st.just(UNCHANGED),
    "layout": MAYBE,
    "marker_policy": MAYBE,
    "agent_id": MAYBE | st.just(UNCHANGED),
    "thinking_effort": MAYBE,
    "knowledge_base_ids": TEXTS,
    "kb_meta_prompt": MAYBE | st.text(max_size=1_500) | TEXT.map(lambda text: text * 300),
    "dynamic_context": st.none() | TEXTS,
    "tools": st.none() | st.lists(TOOLS, max_size=2).map(tuple),
    "results": st.lists(st.builds(ToolResult, TEXT, st.just(""), TEXT, st.booleans()), max_size=2).map(tuple),
    "answer": ANSWERS,
    "metadata": st.dictionaries(KEYS, st.text(max_size=VALUE_LENGTH), max_size=5),
    "extra_fields": st.dictionaries(TEXT.filter(lambda name: name not in {*OWN, "models"}), JSON, max_size=3),
    "body_fields": st.dictionaries(TEXT.filter(lambda name: name not in NATIVE), JSON, max_size=3),
}


def test_every_field_is_drawn() -> None:
    assert set(FIELDS) == {one.name for one in fields(ExecutionRequest)}


@settings(max_examples=80, deadline=None)
@given(st.fixed_dictionaries({"text": TEXT}, optional={k: v for k, v in FIELDS.items() if k != "text"}))
def test_a_request_comes_back_as_it_was_and_its_metadata_is_what_the_api_takes(drawn: dict[str, Any]) -> None:
    request = ExecutionRequest(**drawn)
    body = to_openai(request)
    metadata = body.get("metadata", {})
    assert isinstance(metadata, dict)
    assert len(metadata) <= PAIRS
    assert all(len(key) <= KEY_LENGTH and len(str(value)) <= VALUE_LENGTH for key, value in metadata.items())
    sent = decode_object(encode(body))
    assert from_openai(sent) == request
    assert to_openai(from_openai(sent)) == sent


def test_what_the_metadata_cannot_hold_is_a_field_of_the_body_and_not_cut() -> None:
    most = ExecutionRequest(text="Hi", kb_meta_prompt="x" * (PAIRS * VALUE_LENGTH - len('{"kb_meta_prompt":""}')))
    assert set(to_openai(most)) == {"input", "metadata"}
    assert from_openai(to_openai(most)) == most
    for request in (
        ExecutionRequest(text="Hi", kb_meta_prompt=f"{most.kb_meta_prompt}x", models=("a", "b", "c")),
        ExecutionRequest(text="Hi", kb_meta_prompt=most.kb_meta_prompt, metadata={"mine": "1"}),
        ExecutionRequest(text="Hi", dynamic_context=("Wer fragt: Jürgen. " * 5_000, "役割：管理者。" * 2_000)),
        ExecutionRequest(text="Hi", layout="onyx", metadata={f"mine.{number}": "1" for number in range(15)}),
    ):
        sent = decode_object(encode(to_openai(request)))
        assert from_openai(sent) == request
        assert to_openai(from_openai(sent)) == sent


def test_a_pair_that_is_missing_is_told_with_the_way() -> None:
    """The caller's own pairs leave no room for the one that says where our fields are."""
    with pytest.raises(InvalidRequest) as caught:
        to_openai(ExecutionRequest(text="Hi", layout="onyx", metadata={f"mine.{n}": "1" for n in range(16)}))
    assert caught.value.param == "metadata"
    assert "15 pairs at most" in str(caught.value.hint)


def test_a_field_that_was_dropped_on_the_way_is_told() -> None:
    body = to_openai(ExecutionRequest(text="Hi", dynamic_context=("The user may read only. " * 1_000,)))
    del body["lamella"]
    with pytest.raises(InvalidRequest, match="dropped on the way") as caught:
        from_openai(body)
    assert caught.value.param == "lamella"


@pytest.mark.parametrize("own", ['{"dynamic_context":null}', '{"dynamic_context":[]}'])
def test_null_is_no_dynamic_context(own: str) -> None:
    plain = ExecutionRequest(text="Hi")
    assert from_openai({"input": "Hi", "metadata": {"lamella.0": own}}) == plain
    assert from_openai({"input": "Hi", "lamella": decode_object(own)}) == plain
    assert ExecutionRequest(text="Hi", dynamic_context=None) == plain


@pytest.mark.parametrize(
    ("changed", "param"),
    [
        ({"metadata": {"lamella.0": "1"}}, "metadata"),
        ({"metadata": {"lamella.body": "1"}}, "metadata"),
        ({"metadata": {"k" * 65: "1"}}, "metadata"),
        ({"metadata": {"k": "1" * 513}}, "metadata"),
        ({"body_fields": {"input": "Other"}}, "body_fields.input"),
        ({"body_fields": {"lamella": {}}}, "body_fields.lamella"),
        ({"extra_fields": {"layout": "onyx"}}, "extra_fields.layout"),
    ],
)
def test_names_that_are_taken_are_refused(changed: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        to_openai(ExecutionRequest(text="Hi", **changed))
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "input.1"),
        ({"input": [{"role": "assistant", "content": "a"}]}, "input.0"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "x"}]}]}, "input.0.content.0"),
        ({"input": [{"role": "user", "content": None}]}, "input.0.content.0"),
        ({"input": "a", "model": 5}, "model"),
        ({"input": "a", "conversation": ["conv_1"]}, "conversation"),
        ({"input": "a", "metadata": {"a": 1}}, "metadata"),
        ({"input": "a", "metadata": {"lamella.1": "}"}}, "metadata.lamella.0"),
        ({"input": "a", "metadata": {"lamella.0": '{"layout"'}}, "metadata.lamella.0"),
        ({"input": "a", "metadata": {"lamella.0": '{"layout":5}'}}, "metadata.lamella.0.layout"),
        ({"input": "a", "metadata": {"lamella.0": '{"dynamic_context":"x"}'}}, "metadata.lamella.0.dynamic_context"),
        ({"input": "a", "metadata": {"lamella.0": '{"timezone":null}'}}, "metadata.lamella.0.timezone"),
        ({"input": "a", "lamella": ["x"]}, "lamella"),
        ({"input": "a", "lamella": {}, "metadata": {"lamella.0": "{}"}}, "lamella"),
    ],
)
def test_a_body_that_is_not_one_message_is_refused_with_its_place(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        from_openai(body)
    assert caught.value.param == param


def test_other_ways_to_write_the_same_message_are_read() -> None:
    plain = from_openai({"input": "Hi", "conversation": {"id": "conv_1"}})
    listed = from_openai({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]})
    assert (plain.text, plain.conversation_id) == ("Hi", "conv_1")
    assert listed == from_openai({"input": [{"type": "message", "role": "user", "content": "Hi"}]})
