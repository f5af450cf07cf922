"""When the next request of a conversation comes, by what it did so far, and what is worth being written for it. Pure.

The prices are those of PROVIDERS 5.2 and 5.3: a token that is written costs more than a plain one, and pays when it is
read before it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from lamella.core.messages import Turn
from lamella.core.models import ModelFacts
from lamella.core.ttl import Ttl

FORGETS = 0.75
"""What an older gap weighs of the one after it: people come in bursts."""

UNKNOWN = 0.5
"""The chance of what was never seen; it weighs as much as one observation. Nothing is taken to come between the
shortest life and an hour before it was seen to: what lives longer is dearer."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """`more` is the chance that this turn makes another request; `gaps` are the seconds between the starts of the turns
    so far, the oldest first."""

    more: float = 1.0
    gaps: tuple[float, ...] = ()

    def within(self, life: Ttl) -> float:
        """The chance that the next request, of this turn or of another, begins before this life has ended."""
        weight, seen, soon = 1.0, 1.0, UNKNOWN
        for gap in reversed(self.gaps):
            seen += weight
            soon += weight if gap < life.seconds else 0.0
            weight *= FORGETS
        return self.more + (1 - self.more) * soon / seen

    def later(self, silent: float) -> float:
        """The chance that somebody who has been silent for so many seconds returns at all.

        Of the gaps that were at least as long, against the end of the conversation, which was never seen. Shorter gaps
        between them say nothing of it: they ended before anybody could doubt a return.
        """
        weight, late = 1.0, 0.0
        for gap in reversed(self.gaps):
            if gap >= silent:
                late += weight
                weight *= FORGETS
        return late / (late + UNKNOWN)


def rhythm_of(history: Sequence[Turn], turn: Turn, *, may_call: bool) -> Rhythm:
    """The rhythm of a conversation in the step that `turn` is at; `may_call`: the model may call tools in it.

    A clock that was set back makes no gap.
    """
    return Rhythm(_more(history, turn) if may_call else 0.0, rhythm_between((*history, turn)).gaps)


def rhythm_between(turns: Sequence[Turn]) -> Rhythm:
    """The rhythm of a conversation behind the last of these turns."""
    sent = [turn.user.sent_at for turn in turns]
    gaps = (_gap(before, after) for before, after in pairwise(sent))
    return Rhythm(0.0, tuple(gap for gap in gaps if gap > 0))


def _gap(before: datetime, after: datetime) -> float:
    return (after - before).total_seconds()


def _more(history: Sequence[Turn], turn: Turn) -> float:
    """The share of the turns that came as far as this one and went on from there."""
    asked = len(turn.steps) + 1
    came = [len(one.steps) for one in history if len(one.steps) >= asked]
    return (sum(1 for steps in came if steps > asked) + UNKNOWN) / (len(came) + 1)


@dataclass(frozen=True, slots=True)
class Tail:
    """What could be written: `whole` tokens up to its end, of which `cached` are read now and live for `life` more."""

    whole: int
    cached: int
    life: Ttl | None


def life_worth(tail: Tail, rhythm: Rhythm, model: ModelFacts) -> Ttl | None:
    """The life with which writing a tail costs least until the next request has been paid; None: it is not worth it."""
    read, write = model.price.read, model.write
    fresh = tail.whole - tail.cached
    kept = rhythm.within(tail.life) if tail.life is not None else 0.0
    least = fresh + kept * (tail.cached * read + fresh * write) + (1 - kept) * tail.whole * write
    best: Ttl | None = None
    for life in model.lives:
        chance = rhythm.within(life)
        cost = fresh * model.write_price(life) + tail.whole * (chance * read + (1 - chance) * write)
        if cost < least or (best is None and cost == least):
            best, least = life, cost
    return best


def worth_a_step(rhythm: Rhythm, model: ModelFacts, life: Ttl) -> bool:
    """Whether what only the next step of this turn reads is worth being written (PROVIDERS 5.2)."""
    write, read = model.write_price(life), model.price.read
    return rhythm.more * (write - read) >= write - 1
