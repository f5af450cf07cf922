"""What the planner knows of a window: where things begin, and about how many tokens there are up to a block."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lamella.cache.window import COUNTED, ITEM, PlannedWindow, chain, window_of
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, Segment, WireBlock, Zone

from .windows import CLAUDE, GPT, segment

CALIBRATION = 1.4

groups = st.lists(st.tuples(st.lists(st.text("ab", max_size=9), max_size=4), st.integers(0, 900)), max_size=9)
"""Segments: the texts of their blocks, and their tokens."""


def window(drawn: list[tuple[list[str], int]], model: ModelFacts) -> PlannedWindow:
    segments = [replace(segment(f"s{number}"), tokens=tokens) for number, (_, tokens) in enumerate(drawn)]
    blocks = [
        WireBlock.of("messages", "user", {"text": text}, segments[number].id, markable=True)
        for number, (texts, _) in enumerate(drawn)
        for text in texts
    ]
    return window_of(chain(tuple(blocks), "root", {}), {s.id: s for s in segments}, model, CALIBRATION)


@given(groups)
def test_a_segment_s_tokens_are_split_over_its_blocks_by_their_bytes(drawn: list[tuple[list[str], int]]) -> None:
    made, total, index = window(drawn, CLAUDE), 0.0, 0
    for number, (texts, tokens) in enumerate(drawn):
        sizes = [len(block.data) for block in made.chain.blocks[index : index + len(texts)]]
        for size in sizes:
            total += tokens * size / sum(sizes)
            assert abs(made.tokens(index) - total * CALIBRATION) <= 0.5 + 1e-6
            assert made.segment(index).id == f"s{number}"
            index += 1
    assert index == len(made.chain.blocks) == made.starts[-1]


@given(groups)
def test_messages_of_one_segment_weigh_more_and_the_whole_the_same(drawn: list[tuple[list[str], int]]) -> None:
    """The calibration is that of the whole: what one segment has more, the others have less."""
    claude, gpt = window(drawn, CLAUDE), window(drawn, GPT)
    weights = [b - a for a, b in zip(gpt.sums, gpt.sums[1:], strict=False)]
    there = [(texts, tokens) for texts, tokens in drawn if texts]
    assert weights == [max(1, tokens + ITEM * len(texts) - COUNTED) for texts, tokens in there]
    for made in (claude, gpt):
        if made.sums[-1]:
            assert (
                abs(made.tokens(made.starts[-1] - 1) - CALIBRATION * sum(tokens for _, tokens in there)) <= 0.5 + 1e-6
            )


def test_the_first_of_something_is_a_block_and_none_is_the_end() -> None:
    segments: list[Segment] = [
        segment("tools", Zone.FIXED, kind=Kind.TOOLS),
        segment("question"),
        segment("late", Zone.TRAILING, Lifetime.STEP),
    ]
    blocks = tuple(
        WireBlock.of("messages", "user", {"text": text}, name, markable=text != "b")
        for name, text in (("tools", "a"), ("tools", "b"), ("question", "b"), ("question", "a"), ("late", "a"))
    )
    made = window_of(chain(blocks, "root", {}), {s.id: s for s in segments}, GPT, 1.0)
    assert made.first(one.zone is Zone.HISTORY for one in made.segments) == 2
    assert made.first(one.kind is Kind.SUMMARY for one in made.segments) == 5
    assert made.moving() == 4
    assert [made.last_markable(end) for end in range(6)] == [None, 0, 0, 0, 3, 4]
    assert made.sums == (0, 1_000, 2_000, 3_000 - ITEM), "tools are no messages"
