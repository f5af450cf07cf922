"""The place in a document that a statement comes from: quoted, retold, on its page, and nobody is held up."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.agent.citations import CitationWatch, PassageFinder, statement_before
from lamella.core.messages import Attachment
from lamella.core.packets import CitationPacket
from measures import MOST_GROWTH, growth, loop_pauses

pytestmark = pytest.mark.anyio

LEASE = (
    "The tenant pays the rent on the first day of the month.\n\n"
    "Pets are allowed, except for snakes. The landlord repairs the roof.\f"
    "The lease ends on 31 May 2027. Notice has to be given three months before.\f"
    "Die Kaution beträgt drei Monatsmieten. 押金为三个月的租金。租客不得养蛇。"
)


async def passage(statement: str, text: str = LEASE) -> tuple[str, int | None] | None:
    found = await PassageFinder().find(statement, "file_1", text)
    return (text[found.start : found.end], found.page) if found else None


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("Pets are allowed, except for snakes", ("Pets are allowed, except for snakes", 1)),
        ("**pets are ALLOWED** except — for “snakes”", ("Pets are allowed, except for snakes", 1)),
        ("the lease ends\non 31 May 2027", ("The lease ends on 31 May 2027", 2)),
        ("You must give notice three months before the end", ("Notice has to be given three months before.", 2)),
        ("Repairs of the roof are the landlord's business", ("The landlord repairs the roof.", 1)),
        ("Die KAUTION beträgt drei Monatsmieten", ("Die Kaution beträgt drei Monatsmieten", 3)),
        ("押金为三个月的租金", ("押金为三个月的租金", 3)),
        ("租客不能养蛇", ("租客不得养蛇。", 3)),
        ("Quantum chromodynamics binds quarks", None),
        ("", None),
        ("!!!", None),
    ],
)
async def test_a_statement_is_found_where_it_stands(statement: str, expected: tuple[str, int] | None) -> None:
    assert await passage(statement) == expected


@pytest.mark.parametrize("text", ["", " ", "\f\f", "...", "\u200b"])
async def test_a_text_without_words_holds_nothing(text: str) -> None:
    assert await passage("Pets are allowed", text) is None


@given(st.text(max_size=300), st.text(max_size=60))
async def test_every_passage_lies_within_its_text(text: str, statement: str) -> None:
    found = await PassageFinder().find(statement, "file_1", text)
    if found is not None:
        assert 0 <= found.start < found.end <= len(text)
        assert not text[found.start : found.end][0].isspace()


@given(
    st.lists(st.sampled_from(["rent", "due", "May", "June", "the", "Straße", "漢", "字"]), min_size=3, max_size=8),
    st.data(),
)
async def test_a_quotation_is_found_word_for_word(words: list[str], data: st.DataObject) -> None:
    gaps = [data.draw(st.sampled_from([" ", ", ", "\n", " — ", "_", "\f"])) for _ in words]
    quoted = "".join(word + gap for word, gap in zip(words, gaps, strict=True))
    text = f"Before. {quoted}After."
    found = await PassageFinder().find(" ".join(words), "file_1", text)
    assert found is not None
    assert text[found.start : found.end].startswith(words[0])
    assert text[found.start : found.end].endswith(words[-1])


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("One. Two is true", "Two is true"),
        ("One. Two is true [1]", "Two is true"),
        ("One [3]. Two is true [1][2, 4] ", "Two is true"),
        ("“One.” Two is true", "Two is true"),
        ("- One\n- **Two** is true", "Two** is true"),
        ("One? Two!", "Two"),
        ("一。二是真的", "二是真的"),
        ("一。二是真的。", "二是真的"),
        ("The end.", "The end"),
        ("", ""),
        (" \n [1]", ""),
    ],
)
def test_the_statement_is_the_sentence_before_the_citation(text: str, statement: str) -> None:
    assert statement_before(text) == statement


@pytest.mark.parametrize("piece", [" ", "[1] ", "[", "\n", ".", '"', ". "])
def test_the_work_for_a_statement_grows_with_the_text_and_no_faster(piece: str) -> None:
    assert growth(statement_before, piece * 3_000) < MOST_GROWTH


def long_document(characters: int) -> list[str]:
    chosen = random.Random(7)
    rare = [f"word{number}" for number in range(4_000)]
    common = ["the", "of", "and", "to", "in"]
    sentences: list[str] = []
    size = 0
    while size < characters:
        words = [chosen.choice(common if number % 3 else rare) for number in range(18)]
        sentences.append(" ".join(words).capitalize() + ".")
        size += len(sentences[-1]) + 1
    return sentences


async def test_a_large_document_holds_nobody_up() -> None:
    """1 MB, and an answer of 50 citations, half of them quoted and half retold."""
    sentences = long_document(1_000_000)
    text = " ".join(sentences)
    chosen = random.Random(8)
    said = []
    for number in range(50):
        words = chosen.choice(sentences).strip(".").split()
        said.append(" ".join(words if number % 2 else chosen.sample(words, 14)) + " [1]. ")
    answer = "".join(said)
    watch = CitationWatch([Attachment("file_1", 1, "a.txt", "text/plain", len(text), 1, text)])
    packets = []
    async with loop_pauses() as pauses:
        for start in range(0, len(answer), 24):
            packets += await watch.text(0, answer[start : start + 24])
        packets += [packet for _, packet in await watch.end()]
    citations = [packet for packet in packets if isinstance(packet, CitationPacket)]
    assert len(citations) == 50
    assert sum(citation.passage_start is not None for citation in citations) == 50
    # Alone on a machine: pauses of at most 20 ms.
    assert sorted(pauses)[-2] < 0.15


@pytest.mark.parametrize(
    "text",
    ["a " * 50_000, "a" * 100_000, " " * 100_000, "." * 100_000, "a. " * 30_000, "\n" * 100_000, "_-" * 50_000],
)
async def test_the_work_for_a_document_grows_with_it_and_no_faster(text: str) -> None:
    def find(whole: str) -> None:
        finder = PassageFinder()

        async def find_all() -> None:
            for statement in ("a a a a b", "a " * 200 + "b", "a", "nothing of this is there"):
                await finder.find(statement, "file_1", whole)

        asyncio.run(find_all())

    assert await asyncio.to_thread(growth, find, text) < MOST_GROWTH
