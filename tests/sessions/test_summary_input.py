"""Stored turns as data in pieces: nothing is lost, in order, and each piece fits whoever reads it. Pure."""

from __future__ import annotations

import sysconfig
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.counting import count_tokens
from lamella.core.messages import Attachment, Step, StopReason, Text, ToolCall, ToolResult, Turn, UserMessage
from lamella.sessions.summary_input import Piece, conversation, packed, text_of

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)
LETTERS = "ab XYZ019.,-\n\t#/+=äßñ漢字かナ한글אבعرнахहिन्दी🙂👩‍🔬"
TEXTS = st.text(LETTERS, max_size=400) | st.builds(
    lambda text, times: text * times, st.text(LETTERS), st.integers(0, 60)
)
PIECES = st.lists(
    st.builds(Piece, st.sampled_from(["[msg_1] User:", "[msg_22] Result of look {}:"]), TEXTS), max_size=12
)


def whole(pieces: list[Piece] | tuple[Piece, ...]) -> list[tuple[str, str]]:
    """The texts by the heads of the pieces that they belong to, parts put together."""
    found: list[tuple[str, str]] = []
    for piece in pieces:
        if piece.head.endswith(", continued:"):
            head, text = found[-1]
            assert piece.head == f"{head.removesuffix(':')}, continued:"
            found[-1] = head, text + piece.text
        else:
            found.append((piece.head, piece.text))
    return found


@given(PIECES, st.integers(40, 2_000))
def test_nothing_is_lost_and_each_group_fits(pieces: list[Piece], room: int) -> None:
    groups = packed(pieces, room)
    parts = [part for group in groups for part in group]
    assert whole(parts) == [(piece.head, piece.text) for piece in pieces]
    assert all(sum(part.tokens for part in group) <= room for group in groups)
    assert all(count_tokens(text_of(group)) <= room for group in groups)
    if sum(piece.tokens for piece in pieces) <= room:
        assert len(groups) <= 1


@given(PIECES, st.integers(200, 2_000), st.integers(60, 199))
def test_what_was_too_large_is_packed_again_in_smaller_groups(pieces: list[Piece], room: int, less: int) -> None:
    groups = packed(pieces, room)
    again = packed([part for group in groups for part in group], less)
    assert whole([part for group in again for part in group]) == [(piece.head, piece.text) for piece in pieces]


def test_a_manual_is_split_between_its_lines() -> None:
    """A real text, larger than any group: whole lines, and about as few groups as there can be."""
    manual = "\n".join(path.read_text("utf-8") for path in sorted(Path(sysconfig.get_path("stdlib")).glob("a*.py")))
    piece = Piece("[msg_1] Result of read_file {}:", manual)
    groups = packed([piece], 2_000)
    assert "".join(part.text for (part,) in groups) == manual
    assert all(part.text.endswith("\n") for (part,) in groups[:-1])
    assert len(groups) <= 1.5 * piece.tokens / 2_000


def test_where_not_even_a_head_has_room_it_says_so() -> None:
    with pytest.raises(ValueError, match="no room for a part of"):
        packed([Piece("[msg_1] User:", "a word " * 90)], 5)


def test_a_turn_as_data_has_its_files_calls_and_results() -> None:
    """What stood in the window is there in full; a file that was only listed is named; long arguments are split off."""
    files = (
        Attachment("file_1", 1, "plan.txt", "text/plain", 9, 3, "The plan."),
        Attachment("file_2", 2, "book.txt", "text/plain", 9, 90_000, "The book."),
    )
    calls = (ToolCall("c1", "write", "x" * 400), ToolCall("c2", "look", "{}"))
    results = (ToolResult("c1", "write", "Done."), ToolResult("c2", "look", "Ships."))
    step = Step("step_1", "m", (Text("Let me see."), *calls), StopReason.TOOL_CALLS, "", 9, results=results)
    turn = Turn("turn_1", UserMessage("msg_1", "Well?", NINE, "UTC", 2, attachments=files), (step,))
    assert text_of(conversation([turn], listed={"file_2#2"})) == (
        "[msg_1] File “plan.txt”:\nThe plan.\n\n"
        "[msg_1] File “book.txt”:\n(about 90000 tokens; listed by its name, and not shown)\n\n"
        "[msg_1] User, 2026-03-01 09:00:\nWell?\n\n"
        "[msg_1] Assistant:\nLet me see.\n\n"
        f"[msg_1] Call of write with:\n{'x' * 400}\n\n"
        "[msg_1] Result of write with these arguments:\nDone.\n\n"
        "[msg_1] Result of look {}:\nShips."
    )
