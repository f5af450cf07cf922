"""What bench/predictions.py counts as right: the block, exact tokens of a measured prefix, about as many of another."""

from __future__ import annotations

from dataclasses import replace

from lamella.core.records import StoredMarker
from lamella_lab.replay.report import PromptRead, Replayed
from predictions import Predictions

from .test_why import record, segment


def asked(
    *names: str, hit: int | None, predicted: int | None, read: int = 0, written: int = 0, expected: int = 0
) -> Replayed:
    """A request of these segments, one block each, marked at its first and its last."""
    made = record(0, *(segment(name) for name in names), read=read, written=written, predicted=expected)
    marks = (StoredMarker(0, "5m", ""), *made.markers)
    made = replace(made, predicted_hit=predicted, markers=marks)
    return Replayed(1, 1, made, b"", (), PromptRead(len(names), hit))


def counted(*requests: Replayed) -> tuple[str, str, str]:
    """Blocks, exact tokens, about as many tokens."""
    made = Predictions()
    made.note(requests)
    return str(made.block), str(made.exact), str(made.near)


def test_a_measured_prefix_is_to_be_known_to_the_token() -> None:
    """Measured by the end of an earlier request, or by what an earlier one read."""
    start = asked("a", "b", hit=None, predicted=None, written=2_000)
    read = asked("a", "b", "c", hit=1, predicted=1, read=2_000, written=500, expected=2_000)
    assert counted(start, read) == ("2 of 2", "1 of 1", "0 of 0")
    assert counted(start, replace(read, record=replace(read.record, predicted_read=2_001))) == (
        *("2 of 2", "0 of 1", "0 of 0"),
    )
    other = asked("a", "x", hit=0, predicted=0, read=1_000, written=500, expected=990)
    again = asked("a", "y", hit=0, predicted=0, read=1_000, written=500, expected=1_000)
    assert counted(start, other, again) == ("3 of 3", "1 of 1", "1 of 1")


def test_another_is_to_be_known_within_two_percent() -> None:
    start = asked("a", "b", hit=None, predicted=None, written=2_000)
    for expected, near in ((980, "1 of 1"), (979, "0 of 1"), (1_021, "0 of 1")):
        read = asked("a", "x", hit=0, predicted=0, read=1_000, expected=expected)
        assert counted(start, read) == ("2 of 2", "0 of 0", near)


def test_another_block_is_wrong_whatever_its_tokens() -> None:
    start = asked("a", "b", hit=None, predicted=None, written=2_000)
    missed = asked("a", "b", "c", hit=None, predicted=1, written=2_500, expected=2_000)
    sooner = asked("a", "b", "c", hit=0, predicted=1, read=2_000, expected=2_000)
    assert counted(start, missed) == ("1 of 2", "0 of 0", "0 of 0")
    assert counted(start, sooner)[0] == "1 of 2"
