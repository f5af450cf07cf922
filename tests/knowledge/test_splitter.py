"""Passages: together they are the text, none is torn, each knows where it stands, and long texts cost no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.knowledge.passages import LEAST, PASSAGE, Cut, last_boundary, split
from measures import MOST_GROWTH, growth

LINES = st.sampled_from(
    [
        "# One",
        "## Two ##",
        "### Three",
        "Title\n=====",
        "Below\n-----",
        "```python",
        "```",
        "~~~",
        "",
        "   ",
        "\f",
        "- a point",
        "| a | b |",
        "A sentence. Another one! A third? And a last, with a comma;",
        "漢字かな交じり文。" * 12,
        "e\u0301" * 40,
        "👨\u200d👩\u200d👧\u200d👦🇩🇪🇫🇷" * 5,
        "각" * 30,
        "क्षत्रिय" * 9,
        "word " * 60,
        "x" * 300,
        "\r",
    ]
)
TEXTS = st.lists(LINES | st.text(max_size=80), max_size=60).map("\n".join) | st.text(max_size=600)
SIZES = st.sampled_from([(40, 10), (120, 30), (PASSAGE, LEAST)])


def is_boundary(text: str, at: int) -> bool:
    """Whether a text can be cut before its character `at`: after a line break there is always a place to go back to."""
    return last_boundary(f"\n{text}", at + 1, 0) == at + 1


@given(TEXTS, SIZES)
def test_passages_are_the_text_in_pieces_that_are_neither_too_long_nor_torn(text: str, sizes: tuple[int, int]) -> None:
    most, least = sizes
    cuts = list(split(text, most, least))
    if not text.strip():
        assert cuts == []
        return
    assert "".join(text[cut.start : cut.end] for cut in cuts) == text
    assert cuts[0].start == 0
    assert cuts[-1].end == len(text)
    assert all(0 < cut.end - cut.start <= most for cut in cuts)
    torn = [cut.start for cut in cuts if not is_boundary(text, cut.start)]
    # What nobody reads as one character, such as a letter under a hundred accents, is cut where it has to be.
    assert all(last_boundary(text, at, max(at - 30, 0)) == at for at in torn)


@given(TEXTS)
def test_the_page_counts_form_feeds(text: str) -> None:
    assert all(cut.page == text.count("\f", 0, cut.start) + 1 or "\f" in text[cut.start :] for cut in split(text))


def shown(text: str, most: int = 80, least: int = 10) -> list[tuple[str, tuple[str, ...]]]:
    return [(text[cut.start : cut.end].strip(), cut.headings) for cut in split(text, most, least)]


def test_a_passage_knows_the_headings_that_it_stands_under() -> None:
    text = (
        "# Handbook\n\nWelcome to all of you.\n\n## Leave\n\nThirty days a year.\n\n"
        "### Sick leave\n\nTell us by nine.\n\n## Money\n\nOn the last day of the month.\n"
    )
    assert shown(text) == [
        ("# Handbook\n\nWelcome to all of you.", ("Handbook",)),
        ("## Leave\n\nThirty days a year.", ("Handbook", "Leave")),
        ("### Sick leave\n\nTell us by nine.", ("Handbook", "Leave", "Sick leave")),
        ("## Money\n\nOn the last day of the month.", ("Handbook", "Money")),
    ]


def test_short_sections_stand_together() -> None:
    text = "# A\n\none\n\n# B\n\ntwo\n"
    assert shown(text, 80, 40) == [("# A\n\none\n\n# B\n\ntwo", ("A",))]


def test_a_heading_is_not_left_behind() -> None:
    text = "Some words that come first.\n\n## Next\n\n" + "word " * 15 + "end."
    first, second = shown(text, 100, 10)
    assert first == ("Some words that come first.", ())
    assert second[0].startswith("## Next")
    assert second[1] == ("Next",)


def test_what_looks_like_a_heading_in_code_is_none() -> None:
    text = "# Real\n\n```sh\n# not one\nls\n```\n\nAfter the code there is more to say, and it is long enough."
    assert [headings for _, headings in shown(text, 60, 10)] == [("Real",)] * 2


def test_underlined_lines_are_headings() -> None:
    text = "Guide\n=====\n\nHello there, reader.\n\nInstall\n-------\n\nPut it in.\n"
    assert [headings for _, headings in shown(text, 60, 10)] == [("Guide",), ("Guide", "Install")]


def test_long_blocks_are_cut_at_lines_and_sentences_before_words() -> None:
    text = "The first sentence is here. The second is here too. The third one ends it."
    assert [piece for piece, _ in shown(text, 60, 10)] == [
        "The first sentence is here. The second is here too.",
        "The third one ends it.",
    ]


def test_pages_begin_passages() -> None:
    text = "The first page says this.\fThe second page says that.\fThe third page."
    assert list(split(text, 80, 10)) == [Cut(0, 25, (), 1), Cut(25, 52, (), 2), Cut(52, 68, (), 3)]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("e\u0301", 1),
        ("\r\n", 1),
        ("🇩🇪", 1),
        ("👍🏽", 1),
        ("👩\u200d🚀", 1),
        ("👩\u200d🚀", 2),
        ("\u1100\u1161", 1),
        ("क्ष", 2),
        ("❤\ufe0f", 1),
    ],
)
def test_a_character_that_is_read_as_one_is_not_cut(text: str, at: int) -> None:
    assert not is_boundary(text, at)
    assert is_boundary(text, 0)
    assert is_boundary(text, len(text))


@pytest.mark.parametrize(("text", "at"), [("ab", 1), ("🇩🇪🇫🇷", 2), ("\n\u0301", 1), ("한국", 1), ("👍👍", 1)])
def test_between_two_characters_there_is_a_boundary(text: str, at: int) -> None:
    assert is_boundary(text, at)


@pytest.mark.parametrize("piece", ["a", "e\u0301", " ", "\n", "# x\n", "\u0301", "```\n", "a. b\n\n", "\f", "🇩"])
def test_the_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    assert growth(lambda text: sum(1 for _ in split(text)), piece * (20_000 // len(piece))) < MOST_GROWTH
