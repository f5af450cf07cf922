from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import TypeEngine

from lamella.core.errors import InvalidRequest, StoreFailed
from lamella.core.json import decode
from lamella.core.messages import AnswerPart, Reasoning, StoredPart, Text, ToolCall, ToolResult
from lamella.core.records import StoredSegment
from lamella.storage.columns import ColumnType, Json, LocalMoment, Parts, Results, UtcMoment, fixed_offset
from lamella.storage.tables import messages

from .examples import segment, step

DIALECT = sqlite.dialect()
PARTS, RESULTS, SEGMENTS = Parts(), Results(), Json(tuple[StoredSegment, ...])

# Every character there is, the halves of surrogate pairs left out.
texts = st.text(st.characters(exclude_categories=["Cs"]))
halves = st.text(st.characters(categories=["Cs"]), min_size=1, max_size=1)
maybe = st.none() | texts
answers: st.SearchStrategy[AnswerPart] = st.one_of(
    st.builds(Text, texts),
    st.builds(Reasoning, texts, maybe, maybe),
    st.builds(ToolCall, texts, texts, texts),
)
results = st.builds(ToolResult, texts, texts, texts, st.booleans())
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28), timezones=zones)


def written(kind: TypeEngine[Any], value: Any) -> str:
    """What the database holds of a value."""
    assert isinstance(kind, ColumnType)
    return str(kind.process_bind_param(value, DIALECT))


def read(kind: TypeEngine[Any], value: str) -> Any:
    """What a row has of a stored value."""
    assert isinstance(kind, ColumnType)
    return kind.result_processor(DIALECT, None)(value)


@given(st.lists(answers), st.lists(results))
def test_parts_come_back_as_they_were(several: list[AnswerPart], given_back: list[ToolResult]) -> None:
    assert read(PARTS, written(PARTS, several)) == tuple(several)
    assert read(RESULTS, written(RESULTS, given_back)) == tuple(given_back)


@pytest.mark.parametrize(
    ("kind", "parts"), [(PARTS, step().results), (RESULTS, [Text("x")]), (RESULTS, [ToolCall("1", "search", "{}")])]
)
def test_results_are_no_answer_and_answers_are_no_result(kind: ColumnType, parts: list[StoredPart]) -> None:
    with pytest.raises(StoreFailed, match="damaged"):
        read(kind, written(kind, parts))


@given(texts, halves, texts, st.sampled_from([Text, Reasoning, lambda text: ToolCall("", "", text)]))
def test_half_a_character_is_refused_in_words(before: str, half: str, after: str, make: type[Text]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        written(PARTS, [make(before + half + after)])
    assert f"U+{ord(half):04X}" in caught.value.message


@pytest.mark.parametrize("kind", [PARTS, RESULTS, SEGMENTS, UtcMoment()])
@given(column=st.text(max_size=40))
def test_whatever_lies_in_a_column_is_read_or_refused(kind: ColumnType, column: str) -> None:
    try:
        found = read(kind, column)
        again = written(kind, found)
    except (StoreFailed, InvalidRequest):
        return
    assert read(kind, again) == found


def test_a_damaged_value_names_its_column() -> None:
    with pytest.raises(StoreFailed, match=r"^A stored row is damaged: messages\.parts\.$"):
        read(messages.c.parts.type, "[{]")


@given(moments)
def test_a_moment_keeps_its_offset_where_it_matters(moment: datetime) -> None:
    kept = read(LocalMoment(), written(LocalMoment(), moment))
    assert kept == fixed_offset(moment) == moment
    assert kept.utcoffset() == fixed_offset(moment).utcoffset() == moment.utcoffset()
    assert read(UtcMoment(), written(UtcMoment(), moment)) == moment


@given(moments, moments)
def test_stored_moments_sort_by_time(one: datetime, other: datetime) -> None:
    texts = written(UtcMoment(), one), written(UtcMoment(), other)
    assert (texts[0] < texts[1]) == (one.astimezone(UTC) < other.astimezone(UTC))


@pytest.mark.parametrize("kind", [UtcMoment(), LocalMoment()])
def test_a_moment_without_a_zone_is_refused(kind: ColumnType) -> None:
    with pytest.raises(InvalidRequest, match="time zone"):
        written(kind, datetime(2026, 3, 1))


def test_the_stored_form_is_this_one() -> None:
    # What lies in databases: a change here needs a revision that rewrites it.
    assert (decode(written(PARTS, step().parts)), decode(written(RESULTS, step().results))) == snapshot(
        (
            [
                {"type": "reasoning", "text": "Hm.", "signature": "sealed"},
                {"type": "text", "text": "Found it."},
                {"type": "tool_call", "id": "call_1", "name": "search", "arguments": '{"b": 1, "a": 2}'},
            ],
            [{"type": "tool_result", "call_id": "call_1", "name": "search", "content": "a result", "is_error": True}],
        )
    )
    assert decode(written(SEGMENTS, [segment(1)])) == snapshot(
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
    assert read(SEGMENTS, written(SEGMENTS, [segment(1)])) == (segment(1),)
