"""When the next request of a conversation comes, and which part of the window is worth writing to the cache for it.

The gaps between a conversation's turns are taken as log-normal. A prior (a median of 90 seconds, worth one gap) is
updated with each gap that was seen, the newest first, each older one with 0.9 of the weight of the one after it,
because users arrive in bursts. Example: before any gap, the next turn comes within five minutes with a chance of 0.85
and within an hour with 0.995; after gaps of ten to twelve minutes it is 0.41 and 0.97, so an hour's life is worth its
price.

Someone who has been silent for long is another question (`Rhythm.later`): of the gaps that were at least as long,
against an end that nobody saw, which counts half. Two gaps of more than an hour make a return after an hour 0.79
likely; none makes it 0.

A token that is written costs more than a plain one and pays when it is read before it expires. `life_worth` compares,
for each life that the provider sells, what writing costs now with what the following calls save, taking all calls to
come to be like the usual one. `bench/gaps.py` measures the rules on paces of many kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from math import exp, log, sqrt

from lamella.core.caching import Ttl
from lamella.core.messages import Turn
from lamella.core.models import ModelFacts

FORGETS = 0.9
"""What an older gap weighs of the one after it: people come in bursts."""

USUAL_GAP = 90.0
"""Seconds between two turns of somebody who was never seen; it weighs as much as one gap that was."""

USUAL_SPREAD = 0.7
"""The sum of squares, in the logarithm of seconds, that is taken to have been seen with it."""

RECENT = 40
"""Gaps that are looked at; what is older weighs nothing."""

GOES_ON = 0.95
"""The chance that a conversation has another turn at all."""

UNKNOWN = 0.5
"""What the end of a conversation, which was never seen, weighs of a return."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The gaps between the turns of a conversation as a log-normal distribution that is learned from them.

    `middle` is the logarithm of its median in seconds, `spread` its scale: with few gaps it is wide. What is as long as
    nothing before is so neither impossible nor, as in counts of gaps, as likely as what has just happened twice.
    """

    middle: float
    spread: float

    @classmethod
    def of(cls, gaps: Sequence[float]) -> Pace:
        """That of these gaps in seconds, the oldest first: the predictive distribution of a normal-inverse-gamma prior
        of weight one, its Student's t taken as logistic."""
        usual, weight, seen, total, squares = log(USUAL_GAP), 1.0, 0.0, 0.0, 0.0
        for gap in islice(reversed(gaps), RECENT):
            off = log(max(gap, 1.0)) - usual
            seen, total, squares = seen + weight, total + weight * off, squares + weight * off * off
            weight *= FORGETS
        off = total / (1 + seen)
        variance = (USUAL_SPREAD + (squares - total * off) / 2) / (1 + seen / 2)
        return cls(usual + off, sqrt(variance * (2 + seen) / (1 + seen)))

    def within(self, life: Ttl) -> float:
        """The chance that a gap is shorter than this life."""
        return 1 / (1 + exp(-1.7 * (log(life.seconds) - self.middle) / self.spread))


@dataclass(frozen=True, slots=True)
class Chance:
    """How likely a request is to come in time: the one after this, and the usual one behind any other."""

    next: float
    usual: float


@dataclass(frozen=True, slots=True)
class Rhythm:
    """`more` is the chance that this turn makes another request; `gaps` are the seconds between the starts of the turns
    so far, the oldest first; `calls` are the requests that a turn makes on average; `goes_on` is the chance of another
    turn at all."""

    more: float = 1.0
    gaps: tuple[float, ...] = ()
    calls: float = 1.0
    goes_on: float = GOES_ON

    @property
    def is_over(self) -> bool:
        """Whether no request comes after this one, in this turn or in a later one."""
        return not (self.more or self.goes_on)

    def within(self, lives: Sequence[Ttl]) -> dict[Ttl, Chance]:
        """For each life the chances of a request that begins before it has ended."""
        pace, usual = Pace.of(self.gaps), 1 - 1 / self.calls
        returns = {life: self.goes_on * pace.within(life) for life in lives}
        return {
            life: Chance(self.more + (1 - self.more) * back, usual + (1 - usual) * back)
            for life, back in returns.items()
        }

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


ALONE = Rhythm(0.0, goes_on=0.0)
"""That of a request which no other goes on from, such as that of a summary."""


def rhythm_of(history: Sequence[Turn], turn: Turn, *, may_call: bool, before: Sequence[datetime] = ()) -> Rhythm:
    """The rhythm of a conversation in the step that `turn` is at; `may_call`: the model may call tools in it.

    `before` are the moments at which earlier messages were sent, of which the window holds no turn any more. A clock
    that was set back makes no gap.
    """
    more = _more(history, turn) if may_call else 0.0
    calls = sum(max(1, len(one.steps)) for one in history) + len(turn.steps) + 1 + more
    return Rhythm(more, rhythm_between((*history, turn), before).gaps, calls / (len(history) + 1))


def rhythm_between(turns: Sequence[Turn], before: Sequence[datetime] = ()) -> Rhythm:
    """The rhythm of a conversation after the last of these turns; `before` as in `rhythm_of`."""
    sent = [*before, *(turn.user.sent_at for turn in turns)]
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

    @property
    def fresh(self) -> int:
        """What is not cached."""
        return self.whole - self.cached

    @property
    def growth(self) -> int:
        """What a call adds: as much as this one, where the one before is known."""
        return self.fresh if self.cached else 0

    def saved(self, write: float, read: float) -> float:
        """What a call costs less that finds the tail than one that writes all of it, at these prices."""
        return (write - read) * self.whole - write * self.growth


def life_worth(tail: Tail, rhythm: Rhythm, model: ModelFacts) -> Ttl | None:
    """The life with which writing a tail costs least in the long run; None: it is not worth it.

    What a call costs while the cache is cold, or warm, is reckoned for each life as if all calls to come were like the
    usual one: what is read again renews what was written once (5.3). None of the costs holds what every choice costs.
    """
    chances = rhythm.within(model.lives if tail.life is None else (*model.lives, tail.life))
    cold = _cold(tail, chances, model)

    def spared(life: Ttl) -> float:
        """What a later call saves where it finds the tail: against one that writes anew, or that and all behind it."""
        if cold is not None:
            return tail.saved(model.write_price(cold), model.price.read)
        return (1 - model.price.read) * tail.whole / (1 - chances[life].usual)

    best, least = None, float(tail.fresh)
    if tail.life is not None and tail.cached:
        missed = (1 if cold is None else model.write_price(cold)) - model.price.read
        least -= chances[tail.life].next * (spared(tail.life) - missed * tail.fresh)
    for life in model.lives:
        cost = model.write_price(life) * tail.fresh - chances[life].next * spared(life)
        if cost < least:
            best, least = life, cost
    return best


def _cold(tail: Tail, chances: Mapping[Ttl, Chance], model: ModelFacts) -> Ttl | None:
    """The life with which a call costs least over time that finds nothing in the cache; None: it writes nothing."""
    best, least = None, float(tail.whole + tail.growth)
    for life in model.lives:
        write = model.write_price(life)
        cost = write * tail.whole - chances[life].usual * tail.saved(write, model.price.read)
        if cost < least:
            best, least = life, cost
    return best


def worth_a_step(rhythm: Rhythm, model: ModelFacts, life: Ttl) -> bool:
    """Whether what only the next step of this turn reads is worth being written."""
    write, read = model.write_price(life), model.price.read
    return rhythm.more * (write - read) >= write - 1
