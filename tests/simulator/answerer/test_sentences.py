"""Real sentences from real-looking text."""

from __future__ import annotations

import pytest

from lamella_simulator.answerer.sentences import split

PDF = """\
ANNUAL REPORT

1. Results
The company earned more than in any year be-
fore, cf. Table 2. Dr. Smith of Acme Inc.
called it "a good start." The board agreed.

3

Region   Revenue   Growth
North    1,200     4 %
South    980       -1 %

Outlook
• Prices stay stable, says Mr. Jones.
• Two sites open in Q3;
  a third one follows.
"""


def texts(document: str) -> list[str]:
    return [sentence.text for sentence in split(document)]


def test_a_page_of_a_pdf() -> None:
    assert [(sentence.kind, sentence.text) for sentence in split(PDF)] == [
        ("heading", "ANNUAL REPORT"),
        ("heading", "1. Results"),
        ("sentence", "The company earned more than in any year before, cf. Table 2."),
        ("sentence", 'Dr. Smith of Acme Inc. called it "a good start."'),
        ("sentence", "The board agreed."),
        ("row", "Region | Revenue | Growth"),
        ("row", "North | 1,200 | 4 %"),
        ("row", "South | 980 | -1 %"),
        ("heading", "Outlook"),
        ("item", "Prices stay stable, says Mr. Jones."),
        ("item", "Two sites open in Q3; a third one follows."),
    ]
    assert {s.heading for s in split(PDF) if s.kind == "row"} == {"1. Results"}


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It costs 3.50 EUR. It lasts.", ["It costs 3.50 EUR.", "It lasts."]),
        ("See e.g. Section 4. Then stop!", ["See e.g. Section 4.", "Then stop!"]),
        ("Is it so? Yes! Good…", ["Is it so?", "Yes!", "Good…"]),
        ("J. R. R. Tolkien wrote it. He was 62. It sold.", ["J. R. R. Tolkien wrote it.", "He was 62.", "It sold."]),
        ("Der Termin ist am 3. März, d.h. bald. Gut.", ["Der Termin ist am 3. März, d.h. bald.", "Gut."]),
        ("今天很冷。明天会下雪！你来吗？", ["今天很冷。", "明天会下雪！", "你来吗？"]),
        ("Он пришёл. Она ушла.", ["Он пришёл.", "Она ушла."]),
        ("¿Qué es? «Nada». Fin.", ["¿Qué es?", "«Nada».", "Fin."]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", ["a | b", "1 | 2"]),
        ("Name: Anna\nCity: Paris", ["Name: Anna", "City: Paris"]),
        ("# Title\n\nText *here*.", ["Title", "Text *here*."]),
        ("1. First thing.\n2. Second thing.", ["First thing.", "Second thing."]),
        ("", []),
        ("\n\n  \n", []),
        ("no end", ["no end"]),
    ],
)
def test_small_cases(text: str, sentences: list[str]) -> None:
    assert texts(text) == sentences


def test_whole_paragraphs_on_one_line_stay_apart() -> None:
    paragraphs = ["This is a long line that ends here. " * 5, "And this is another one of them. " * 5]
    assert len(texts("\n".join(paragraphs))) == 10


def test_nothing_is_lost_but_marks_and_white_space() -> None:
    kept = "".join("".join(texts(PDF)).split()).replace("|", "")
    given = "".join(PDF.replace("be-\nfore", "before").replace("\n3\n", "\n").split()).replace("•", "")
    assert kept == given
