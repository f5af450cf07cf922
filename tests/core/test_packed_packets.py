"""Packed packets are those that were sent, byte for byte, whatever the rows of their turn tell."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lamella.core.packed_packets import packed, unpacked
from lamella.core.packets import (
    AnyPacket,
    CitationPacket,
    ContextDegraded,
    Packet,
    ReasoningPacket,
    RequestStarted,
    RunFinished,
    RunStarted,
    TextPacket,
    ToolArgsPacket,
    ToolCallPacket,
    ToolResultPacket,
    ToolVerdictPacket,
    TurnFinished,
    UsageBody,
    encode_packet,
)

USAGE = UsageBody(input=10, cache_read=2, cache_write=0, fresh=8, output=3, reasoning=0)

words = st.text(st.sampled_from('abë \n"日😀'), max_size=6)
placed = {"model_index": st.integers(0, 1), "block_index": st.sampled_from([None, 0, 1, 2])}
ids = st.sampled_from(["c1", "c2"])
packets = st.one_of(
    st.builds(TextPacket, text=words, **placed),
    st.builds(ReasoningPacket, text=words, **placed),
    st.builds(ToolCallPacket, call_id=ids, name=words, **placed),
    st.builds(ToolArgsPacket, call_id=ids, json=words, **placed),
    st.builds(ToolVerdictPacket, call_id=ids, approved=st.booleans(), **placed),
    st.builds(
        ToolResultPacket,
        call_id=ids,
        name=words,
        content=words,
        seconds=st.sampled_from([None, 0.25]),
        queries=st.lists(words, max_size=2).map(tuple),
        **placed,
    ),
    st.builds(CitationPacket, document=st.integers(1, 3), start=st.integers(0, 9), end=st.integers(0, 9), **placed),
    st.builds(ContextDegraded, subject=words, why=words, **placed),
    st.builds(RunStarted, run_id=ids, model=words, **placed),
    st.builds(RunFinished, run_id=ids, status=words, usage=st.sampled_from([None, USAGE]), **placed),
    st.builds(TurnFinished, status=words, usage=st.just(USAGE), cost=st.sampled_from([0.0, 0.1]), **placed),
)


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[bytes], list[Packet]]:
    """Packets that were sent, and some that rows tell: many are the same, or the whole of which others are pieces."""
    sent: list[AnyPacket] = draw(st.lists(packets, max_size=12))
    told: list[Packet] = []
    for packet in draw(st.permutations(sent)):
        match draw(st.sampled_from(["same", "same", "longer", "left out"])):
            case "same":
                told.append(packet)
            case "longer" if isinstance(packet, TextPacket | ReasoningPacket):
                told.append(structs.replace(packet, text=packet.text + draw(words)))
    told += draw(st.lists(packets, max_size=3))
    n, lines = 0, []
    for packet in sent:
        n += draw(st.integers(1, 3))
        lines.append(encode_packet(structs.replace(packet, n=n, turn_id="turn_1")))
    return lines, told


@given(turns())
def test_what_is_unpacked_is_what_was_packed(turn: tuple[list[bytes], list[Packet]]) -> None:
    lines, told = turn
    assert unpacked(packed(lines, told), told) == lines


def sent(*given: Packet) -> list[bytes]:
    return [encode_packet(structs.replace(packet, n=n, turn_id="turn_1")) for n, packet in enumerate(given, start=1)]


def pieces(text: str, size: int) -> list[Packet]:
    return [TextPacket(text=text[at : at + size], block_index=0) for at in range(0, len(text), size)]


ANSWER = "".join(f"The mill number {number} was built in {1500 + 7 * number}. " for number in range(40))
BEGINS = (
    RunStarted(run_id="run_1", model="m"),
    RequestStarted(request_id="req_1", step=0, purpose="chat", letters="S", estimate=5, budget=9, predicted_read=0),
)
ENDS = (
    RunFinished(run_id="run_1", status="end_turn", usage=USAGE),
    TurnFinished(status="finished", usage=USAGE, cost=0.5),
)


def rows(answer: str) -> Sequence[Packet]:
    return (*BEGINS, TextPacket(text=answer, block_index=0), *ENDS)


def test_of_a_text_only_the_lengths_of_its_pieces_are_kept() -> None:
    lines = sent(*BEGINS, *pieces(ANSWER, 4), *ENDS)
    data = packed(lines, rows(ANSWER))
    assert len(data) < 80
    assert len(b"\n".join(lines)) > 30_000
    assert unpacked(data, rows(ANSWER)) == lines


def test_what_no_row_tells_is_kept() -> None:
    verdict = ToolVerdictPacket(call_id="c1", approved=True, block_index=1)
    lines = sent(*BEGINS, *pieces(ANSWER[:50], 7), verdict, *pieces("not stored", 5), *ENDS)
    assert unpacked(packed(lines, rows(ANSWER[:50])), rows(ANSWER[:50])) == lines


def test_rows_that_have_changed_since_are_told() -> None:
    data = packed(sent(*BEGINS, *pieces(ANSWER, 4), *ENDS), rows(ANSWER))
    for changed in (rows(ANSWER.replace("built", "sold ")), rows("short"), rows(ANSWER)[1:], ()):
        with pytest.raises(ValueError, match="packe"):
            unpacked(data, changed)


def test_packets_of_an_earlier_build_are_kept_as_they_are() -> None:
    lines = [b'{"type":"text.delta","n":4,"turn_id":"turn_1","model_index":0,"text":"A"}', b"no packet"]
    assert unpacked(packed(lines, rows("A")), rows("A")) == lines
