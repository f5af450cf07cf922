"""Documents in seven languages in which everything that may not leave is marked: the canaries.

`world/<language>.md` holds documents, each after a line `=== kind | title`. `? …` is a question that it answers.
`{n:Orlaith Penhaligon}` marks a canary of kind `n`; `{n:Orlaith Penhaligon|Penhaligon}` marks the same canary in
another form, as it stands in that sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LANGUAGES = ("en", "de", "fr", "es", "ru", "zh", "ja")
KINDS = {
    "n": "invented name",
    "c": "invented code name",
    "w": "ordinary word, triggered",
    "b": "ordinary word, bare",
    "t": "title",
    "h": "heading",
    "f": "figure",
    "d": "date",
    "p": "percentage",
    "i": "identifier",
    "e": "e-mail address",
    "r": "roundabout figure",
}
"""Canaries by the letter of their mark. An ordinary word is triggered if `Project X`, `Dr X` or the like names it."""

_MARK = re.compile(r"\{([a-z]):([^}|]+)(?:\|([^}]+))?\}")


@dataclass(frozen=True, slots=True)
class Page:
    """A document: its title, its text without marks, and a question that it answers."""

    language: str
    kind: str
    title: str
    text: str
    question: str


@dataclass(slots=True)
class Canary:
    """What may not leave. `text` is its usual form; `forms` are all in which it stands in documents."""

    kind: str
    text: str
    page: Page
    forms: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Speech:
    """What the reader and the hostile model agreed on for a language: ordinary words with a meaning of their own."""

    book: tuple[str, ...]
    carriers: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    yes: str
    no: str
    odd: tuple[str, str]
    digits: tuple[str, ...]
    round: tuple[str, ...]
    more: str
    fewer: str
    filler: str
    above: str
    bit: str
    among: str
    about: str
    foreign: str
    spelling: tuple[str, ...]

    @property
    def spaced(self) -> bool:
        """Whether the language puts spaces between words."""
        return bool(self.spelling)

    def row(self, words: Sequence[str]) -> str:
        """Words as a sentence."""
        if not self.spaced:
            return "、".join(words) + "。"
        said = " ".join(words)
        return f"{said[:1].upper()}{said[1:]}."


@cache
def speeches() -> Mapping[str, Speech]:
    """The agreed words of each language."""
    made: dict[str, Speech] = {}
    for language, told in json.loads((HERE / "speech.json").read_text("utf-8")).items():
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in told.items()
        }
        fields["pairs"] = tuple((one, other) for one, other in told["pairs"])
        fields |= {name: tuple(told[name].split()) for name in ("book", "spelling")}
        made[language] = Speech(**fields)
    return made


@cache
def pages(language: str) -> tuple[tuple[Page, ...], tuple[Canary, ...]]:
    """The documents of a language, and their canaries."""
    found: dict[tuple[str, str], Canary] = {}
    made = []
    for part in (HERE / "world" / f"{language}.md").read_text("utf-8").split("=== ")[1:]:
        head, question, text = part.split("\n", 2)
        kind, title = head.split(" | ")
        bare, shown_text = (_MARK.sub(lambda mark: mark[3] or mark[2], one) for one in (title, text))
        page = Page(language, kind, bare, shown_text, question.removeprefix("? "))
        made.append(page)
        marks = [(mark[1], mark[2], mark[3] or mark[2]) for mark in _MARK.finditer(f"{title} {text}")]
        for letter, usual, shown in [("t", bare, bare), *marks]:
            found.setdefault((letter, usual), Canary(letter, usual, page)).forms.add(shown)
    return tuple(made), tuple(found.values())


def canaries() -> list[Canary]:
    """Those of all languages."""
    return [one for language in LANGUAGES for one in pages(language)[1]]
