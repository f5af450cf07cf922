"""How much a model thinks: off, low, medium, high or a number of tokens, and what a model can be asked of it (L14)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from lamella.core.errors import InvalidRequest
from lamella.core.models import ModelFacts, Thinking

OFF = "off"
LEVELS = {"low": 1_024, "medium": 4_096, "high": 16_384}
"""The tokens that a level stands for."""

LEAST = 1_024
"""Tokens of the smallest budget: providers refuse less."""

MOST = 1_000_000
"""Tokens above which a number is a mistake; a model's own output bounds it long before."""

SUBJECT = "thinking_effort"
"""What a decision about the effort is about."""

CHOICES = f"off, low, medium, high or a number of tokens from {LEAST} to {MOST}"


def effort_named(text: str | int, param: str = SUBJECT) -> str:
    """The effort in its one spelling: `off`, a level, or the digits of a number; a level's number is the level.

    Raises `InvalidRequest` for anything else.
    """
    name = str(text).strip().lower()
    if name == OFF or name in LEVELS:
        return name
    if name.isascii() and name.isdigit() and len(name) <= len(str(MOST)) and _is_budget(int(name)):
        return effort_of(int(name))
    raise InvalidRequest(f"There is no thinking effort “{name[:40]}”.", hint=f"It is {CHOICES}.", param=param)


def _is_budget(tokens: int) -> bool:
    return tokens == 0 or LEAST <= tokens <= MOST


def effort_of(tokens: int) -> str:
    """The effort of so many tokens."""
    if tokens == 0:
        return OFF
    return next((name for name, size in LEVELS.items() if size == tokens), str(tokens))


def tokens_of(effort: str) -> int:
    """The tokens of an effort in its one spelling; 0 for off."""
    return 0 if effort == OFF else LEVELS.get(effort) or int(effort)


@dataclass(frozen=True, slots=True)
class AskedThinking:
    """What a model is asked for: a budget in tokens, a level, to be without, or nothing at all.

    `note` says where that is not what was wanted, and why.
    """

    budget: int = 0
    level: str | None = None
    without: bool = False
    note: str = ""


def asked_thinking(facts: ModelFacts, effort: str, max_output: int) -> AskedThinking:
    """What `facts` can be asked of an effort. Thinking is output: a quarter of `max_output` is left for the answer."""
    wanted = tokens_of(effort)
    room = max_output * 3 // 4
    match facts.thinking:
        case Thinking.NONE:
            note = f"{facts.name} takes no thinking effort" if wanted else ""
            return AskedThinking(note=note)
        case Thinking.BUDGET:
            return _budget(facts, wanted, room)
        case Thinking.ADAPTIVE | Thinking.ALWAYS if wanted:
            return _level(facts, effort, min(wanted, room))
        case Thinking.ADAPTIVE:
            return AskedThinking(without=True)
        case Thinking.ALWAYS:
            return AskedThinking(note=f"{facts.name} can't be without thinking: it thinks as much as it finds right")


def _budget(facts: ModelFacts, wanted: int, room: int) -> AskedThinking:
    budget = min(wanted, room)
    if budget >= LEAST:
        less = f"{wanted} tokens do not fit its output: {budget} are asked for"
        return AskedThinking(budget=budget, note=less if budget < wanted else "")
    if not wanted:
        return AskedThinking()
    return AskedThinking(note=f"the output of {facts.name} is set too small for the least budget of {LEAST}")


def _level(facts: ModelFacts, effort: str, tokens: int) -> AskedThinking:
    """The level that is nearest to so many tokens, by their ratio."""
    level = min(facts.efforts, key=lambda name: abs(log(LEVELS[name] / tokens)))
    note = "" if level == effort else f"{facts.name} takes levels and no numbers: {effort} is {level}"
    if effort in LEVELS and level != effort:
        note = f"{effort} does not fit the output of {facts.name}: {level} is asked for"
    return AskedThinking(level=level, note=note)
