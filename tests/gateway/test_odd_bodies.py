"""Bodies and answers with anything anywhere: translated, or refused with a place; never an error of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lamella.app.app import LOCAL_OWNER
from lamella.core.errors import InvalidRequest, ProviderError
from lamella.core.json import decode_object
from lamella.gateway.across import CrossedAnswer
from lamella.gateway.dialects import Dialect
from lamella.gateway.exchange import Exchange, Route
from lamella.gateway.translation import translated
from lamella.llm.event_stream import EventDecoder
from lamella.llm.model_table import facts
from lamella.llm.upstream import Upstream

from .test_reading import CONVERSATION, PIXEL, SCHEMA
from .test_writing import ANSWER, written

MODELS = {
    Dialect.MESSAGES: "claude-opus-5-5",
    Dialect.CHAT: "gpt-6.1-terra",
    Dialect.RESPONSES: "gpt-6.1-terra",
}
PAIRS = st.sampled_from(list(permutations(MODELS, 2)))
MORE: dict[Dialect, Any] = {
    Dialect.MESSAGES: {
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}},
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                    {"type": "document", "source": {"type": "text", "data": "x"}, "title": "t"},
                ],
            },
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "EqQB"}]},
            {"role": "system", "content": "Now."},
        ],
    },
    Dialect.CHAT: {
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}],
            },
        ],
    },
    Dialect.RESPONSES: {
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}, "verbosity": "low"},
        "include": ["reasoning.encrypted_content"],
        "input": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "x"}]},
            {"type": "custom_tool_call", "call_id": "c", "name": "e", "namespace": "n", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "e"}]},
        ],
    },
}
ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [None, True, 0, -1, 1.5, 10**30, "", "x", "none", {}, {"type": "text"}, [None], [[]], "data:image/png;base64,x"]
    ),
    st.text(max_size=5),
    st.lists(st.dictionaries(st.sampled_from(["type", "text", "role", "id"]), st.text(max_size=3)), max_size=2),
)


def whole_body(dialect: Dialect) -> Any:
    """A body with all that is carried."""
    more = MORE[dialect]
    joined = {name: CONVERSATION[dialect][name] + more[name] for name in ("messages", "input") if name in more}
    return json.loads(json.dumps({**CONVERSATION[dialect], **more, **joined}))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each element of a value: what holds it, and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from places(inner)


def changed(data: st.DataObject, value: Any) -> None:
    """Put something odd somewhere, or take something away."""
    holder, key = data.draw(st.sampled_from(list(places(value))))
    if data.draw(st.booleans()):
        holder[key] = deepcopy(data.draw(ODD))  # a later change may be in it
    else:
        del holder[key]


@given(pair=PAIRS, times=st.integers(0, 3), data=st.data())
def test_a_body_is_translated_or_refused_with_a_place(
    pair: tuple[Dialect, Dialect], times: int, data: st.DataObject
) -> None:
    caller, target = pair
    body = whole_body(caller)
    for _ in range(times):
        changed(data, body)
    sent, model = decode_object(json.dumps(body)), MODELS[target]
    try:
        made = translated(caller, sent, target, model, facts(model))
    except InvalidRequest as error:
        refused: str | None = error.param
    else:
        refused = None
        assert made.body == translated(caller, sent, target, model, facts(model)).body
        assert decode_object(made.body)["model"] == model
    assert times or refused is None, refused
    assert refused != ""


@given(pair=PAIRS, times=st.integers(0, 3), streams=st.booleans(), data=st.data())
def test_an_answer_is_translated_or_an_error_of_the_upstream(
    pair: tuple[Dialect, Dialect], times: int, streams: bool, data: st.DataObject
) -> None:
    caller, target = pair
    model = MODELS[target]
    body = decode_object(json.dumps({**whole_body(caller), "stream": streams}))
    made = translated(caller, body, target, model, facts(model))
    route = Route(Upstream("it", "", 1), "", "", model, "account", facts(model), target)
    exchange = Exchange(LOCAL_OWNER, target, "a client", None, route, made.body, datetime(2026, 1, 1, tzinfo=UTC))
    exchange.status, exchange.headers = 200, {"content-type": "text/event-stream"}
    answer = CrossedAnswer(exchange, made)
    stream, _ = written(target, ANSWER, asks_for_usage=True)
    events = [json.loads(event.data) for event in EventDecoder().feed(stream) if event.data.startswith(b"{")]
    for _ in range(times):
        changed(data, events)
    sent = b""
    for event in events:
        kind = event.get("type") if isinstance(event, dict) else ""
        sent += b"event: %b\ndata: %b\n\n" % (str(kind).encode("utf-8", "replace"), json.dumps(event).encode())
    try:
        got = b"".join([*(answer.feed(sent[start : start + 99]) for start in range(0, len(sent), 99)), answer.end()])
    except ProviderError as error:
        assert times
        got = answer.fail(error)
    assert got
