from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from lamella.core.errors import InvalidRequest, StoreFailed
from lamella.core.json import decode
from lamella.core.messages import Reasoning, StoredPart, Text, ToolCall, ToolResult
from lamella.storage.columns import (
    SEGMENTS,
    fixed_offset,
    json_of,
    json_text,
    local_moment_text,
    moment_text,
    parts_of,
    parts_text,
)

from .examples import segment, step

# Every character there is, the halves of surrogate pairs left out.
texts = st.text(st.characters(exclude_categories=["Cs"]))
halves = st.text(st.characters(categories=["Cs"]), min_size=1, max_size=1)
maybe = st.none() | texts
parts: st.SearchStrategy[StoredPart] = st.one_of(
    st.builds(Text, texts),
    st.builds(Reasoning, texts, maybe, maybe),
    st.builds(ToolCall, texts, texts, texts),
    st.builds(ToolResult, texts, texts, texts, st.booleans()),
)
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28), timezones=zones)


@given(st.lists(parts))
def test_parts_come_back_as_they_were(several: list[StoredPart]) -> None:
    assert parts_of(parts_text(several), "test") == tuple(several)


@given(texts, halves, texts, st.sampled_from([Text, Reasoning, lambda text: ToolCall("", "", text)]))
def test_half_a_character_is_refused_in_words(before: str, half: str, after: str, make: type[Text]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parts_text([make(before + half + after)])
    assert f"U+{ord(half):04X}" in caught.value.message


@given(st.text(max_size=40))
def test_whatever_lies_in_a_column_is_read_or_refused(column: str) -> None:
    try:
        found = parts_of(column, "test")
    except StoreFailed:
        return
    assert parts_of(parts_text(found), "test") == found


@given(moments)
def test_a_moment_keeps_its_offset_where_it_matters(moment: datetime) -> None:
    assert fixed_offset(moment) == moment
    assert fixed_offset(moment).utcoffset() == moment.utcoffset()
    assert datetime.fromisoformat(moment_text(moment)) == moment


@given(moments, moments)
def test_stored_moments_sort_by_time(one: datetime, other: datetime) -> None:
    assert (moment_text(one) < moment_text(other)) == (one.astimezone(UTC) < other.astimezone(UTC))


def test_a_moment_without_a_zone_is_refused() -> None:
    for text in (moment_text, local_moment_text):
        with pytest.raises(InvalidRequest, match="time zone"):
            text(datetime(2026, 3, 1))


def test_the_stored_form_is_this_one() -> None:
    # What lies in databases: a change here needs a revision that rewrites it.
    assert decode(parts_text([*step().parts, *step().results])) == snapshot(
        [
            {"type": "reasoning", "text": "Hm.", "signature": "sealed"},
            {"type": "text", "text": "Found it."},
            {"type": "tool_call", "id": "call_1", "name": "search", "arguments": '{"b": 1, "a": 2}'},
            {"type": "tool_result", "call_id": "call_1", "name": "search", "content": "a result", "is_error": True},
        ]
    )
    assert decode(json_text([segment(1)])) == snapshot(
        [
            {
                "id": "s1",
                "kind": "step",
                "lifetime": "session",
                "source": "step_1",
                "owner": "model:m-1",
                "label": "Step 1",
                "letters": "A1",
                "tokens": 5,
                "blocks": ["00000000000000000000000000000001", "0000000000000000000000000000001b"],
            }
        ]
    )
    assert json_of(SEGMENTS, json_text([segment(1)]), "test") == (segment(1),)
