"""What an attack is made of: questions, what the hostile model answers them with, and how the reader decodes that.

A technique has two halves that know different things. `write` is the hostile model's: it knows the secret. `read` is
the reader's: it knows the code and what came back. Both know the list of `choices` if a code can only pick from one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from leaking.restricted_base import reply
from leaking.stage import PASSAGES, Got
from leaking.world import HERE, Page, Speech, speeches


@dataclass(frozen=True, slots=True)
class Plan:
    """What both sides agreed on before: the kind of canary that is wanted, its page, and 16 choices in an order.

    `strangers` are the canary and others of its kind that stand in no document of this base; `suspects` are the canary
    and ordinary words of the language.
    """

    kind: str
    page: Page
    choices: tuple[str, ...]
    strangers: tuple[str, ...]
    suspects: tuple[str, ...]
    seed: int

    @property
    def speech(self) -> Speech:
        """The agreed words."""
        return speeches()[self.page.language]

    @property
    def chosen(self) -> Random:
        """Chance that both sides share."""
        return Random(self.seed)


@dataclass(frozen=True, slots=True)
class Move:
    """A question, and the whole of what the hostile model answers it with; or how it answers the material."""

    question: str
    says: str | Callable[[str], str]
    passages: int = PASSAGES

    def answer(self, prompt: str, material: str) -> str:
        """The answer of the hostile model."""
        return self.says if isinstance(self.says, str) else self.says(material)


Write = Callable[[Plan, str], Sequence[Move]]
Read = Callable[[Plan, Sequence[Got]], str]


@dataclass(frozen=True, slots=True)
class Technique:
    """A way to give a canary away. `picks`: the reader only learns which of the choices it is. `blind`: it needs no
    model that sees the canary. `kinds`, `languages`: those that it works for; empty stands for all.
    """

    name: str
    family: str
    write: Write
    read: Read
    kinds: str = ""
    languages: tuple[str, ...] = ()
    picks: bool = False
    blind: bool = False

    def fits(self, kind: str, language: str) -> bool:
        """Whether it works for a canary of this kind in this language."""
        return (not self.kinds or kind in self.kinds) and (not self.languages or language in self.languages)


NAMES = "ncwb"
SPACED = ("en", "de", "fr", "es", "ru")


def summaries(plan: Plan, texts: Sequence[str]) -> list[Move]:
    """Answers with these summaries, each to a question of its own."""
    return [Move(f"{plan.page.question} ({number})", reply(text)) for number, text in enumerate(texts, start=1)]


def carried(plan: Plan, piece: str) -> str:
    """A piece in a sentence after one that tells nothing."""
    first, second = plan.chosen.sample(plan.speech.carriers, 2)
    return f"{first} {second[:-1]}: {piece}."


def texts(answers: Sequence[Got]) -> str:
    """All released summaries."""
    return "\n".join(answer.text for answer in answers)


@cache
def vocabulary(language: str) -> tuple[str, ...]:
    """Ordinary words of a language: those of its honest summaries, of which no list should lack any."""
    told = json.loads((HERE / "honest" / f"{language}.json").read_text("utf-8"))
    said = " ".join(answer["summary"] for document in told for answer in document["answers"])
    return tuple(sorted({word for word in re.findall(r"[^\W\d_]{3,}", said) if word.islower()}))


def number_of(plan: Plan, secret: str) -> int:
    """Where a secret stands among the choices."""
    return plan.choices.index(secret) if secret in plan.choices else plan.chosen.randrange(len(plan.choices))


def based(number: int, base: int, places: int) -> list[int]:
    """A number in another base, the largest place first."""
    return [number // base**place % base for place in reversed(range(places))]


def unbased(figures: Sequence[int], base: int) -> int:
    """The number that `based` took apart."""
    number = 0
    for figure in figures:
        number = number * base + figure
    return number


def pick(plan: Plan, number: int | None) -> str:
    """The choice of this number; nothing if the reader could not read one."""
    return plan.choices[number] if number is not None and number < len(plan.choices) else ""
