"""Server-sent events are decoded as the HTML standard says, wherever the chunks of a stream are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.llm.event_stream import EventDecoder, StreamEvent

CASES = {
    "a name and data": (b"event: ping\ndata: {}\n\n", [("ping", b"{}")]),
    "no name": (b"data: 1\n\n", [("", b"1")]),
    "CR LF": (b"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", [("a", b"1"), ("", b"2")]),
    "CR": (b"event: a\rdata: 1\r\rdata: 2\r\r", [("a", b"1"), ("", b"2")]),
    "mixed ends": (b"data: 1\r\ndata: 2\rdata: 3\n\r\n", [("", b"1\n2\n3")]),
    "several lines of data": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [("", b"YHOO\n+2\n10")]),
    "comments": (b": hello\n\n:\ndata: 1\n: in between\ndata: 2\n\n", [("", b"1\n2")]),
    "a byte order mark": (b"\xef\xbb\xbfdata: 1\n\n", [("", b"1")]),
    "a mark that begins a later line": (b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n", [("", b"1")]),
    "one blank is part of the syntax": (b"data:  1 \nevent:a\n\n", [("a", b" 1 ")]),
    "empty data": (b"data\n\ndata\ndata\n\ndata:\n\n", [("", b""), ("", b"\n"), ("", b"")]),
    "a name without data": (b"event: a\n\ndata: 1\n\n", [("", b"1")]),
    "the last name counts": (b"event: a\nevent: b\ndata: 1\n\n", [("b", b"1")]),
    "other fields": (b"id: 7\nretry: 10\ndatas: no\n data: no\ndata: 1\n\n", [("", b"1")]),
    "a colon in data": (b"data: a: b\n\n", [("", b"a: b")]),
    "characters of several bytes": ("data: 東京 🙂\n\n".encode(), [("", "東京 🙂".encode())]),
    "ends of lines that are none": (
        "data: \u2028\u0085\x0b\x0c\x1c1\n\n".encode(),
        [("", "\u2028\u0085\x0b\x0c\x1c1".encode())],
    ),
    "an event that is not whole": (b"data: 1\n\ndata: 2\n", [("", b"1")]),
    "a line that is not whole": (b"data: 1\n\ndata: 2", [("", b"1")]),
    "nothing": (b"", []),
}


def decoded(stream: bytes, cuts: list[int]) -> list[StreamEvent]:
    decoder = EventDecoder()
    places = [0, *sorted(cuts), len(stream)]
    return [event for a, b in pairwise(places) for event in decoder.feed(stream[a:b])]


@pytest.mark.parametrize(("stream", "events"), CASES.values(), ids=CASES)
def test_a_stream_is_read_as_the_standard_says(stream: bytes, events: list[tuple[str, bytes]]) -> None:
    assert decoded(stream, []) == events
    assert decoded(stream, list(range(len(stream)))) == events
    for cut in range(len(stream)):
        assert decoded(stream, [cut]) == events


LINES = st.one_of(
    st.sampled_from(
        [b"", b"", b":", b": c", b"data", b"data:", b"event", b"event: a", b"id: 1", b"\xef\xbb\xbfdata: 1"]
    ),
    st.builds(
        lambda field, blank, text: field + b":" + blank + text.encode(),
        st.sampled_from([b"data", b"event", b"other"]),
        st.sampled_from([b"", b" ", b"  "]),
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=6),
    ),
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=12).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(stream=STREAMS, data=st.data())
def test_any_chunks_give_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))
    assert decoded(stream, cuts) == by_character(stream)


def by_character(stream: bytes) -> list[tuple[str, bytes]]:
    """The standard's algorithm, one byte after the other."""
    lines, line, before = [], b"", b""
    for byte in (stream[i : i + 1] for i in range(len(stream))):
        if byte in b"\r\n":
            if not (byte == b"\n" and before == b"\r"):
                lines.append(line)
            line = b""
        else:
            line += byte
        before = byte
    events, name, data = [], b"", b""
    for number, one in enumerate(lines):
        text = one[3:] if number == 0 and one.startswith(b"\xef\xbb\xbf") else one
        if text == b"":
            if data:
                events.append((name.decode(), data[:-1]))
            name, data = b"", b""
            continue
        field, _, value = text.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            data += value + b"\n"
        if field == b"event":
            name = value
    return events
