"""When the next request of a conversation comes, and which part of the window is worth writing to the cache for it.

The gaps between a conversation's turns are taken as log-normal. A prior (a median of 90 seconds, worth one gap) is
updated with each gap that was seen, the newest first, each older one with 0.9 of the weight of the one after it,
because users arrive in bursts. Example: before any gap, the next turn comes within five minutes with a chance of 0.85
and within an hour with 0.995; after gaps of ten to twelve minutes it is 0.41 and 0.97, so an hour's life is worth its
price.

Someone who has been silent for long is another question (`RequestForecast.later`): of the gaps that were at least as
long, against an end that nobody saw, which counts half. Two gaps of more than an hour make a return after an hour 0.79
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
"""Decay per gap: recent gaps count more, because users arrive in bursts."""

USUAL_GAP = 90.0
"""Median gap in seconds of the prior, which counts as one gap."""

USUAL_SPREAD = 0.7
"""The sum of squares, in the logarithm of seconds, that is taken to have been seen with it."""

RECENT = 40
"""Number of gaps that are used; older ones have almost no weight."""

GOES_ON = 0.95
"""The chance that a conversation has another turn at all."""

UNKNOWN = 0.5
"""Weight of the unobserved end of a conversation, in the chance of a return."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The gaps between a conversation's turns as a log-normal distribution, learned from them.

    `middle` is the logarithm of the median in seconds, `spread` the scale, wide after few gaps. So a gap longer than
    all before it has a chance above zero, but below that of lengths that were just observed twice.
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

    def within(self, ttl: Ttl) -> float:
        """The chance that a gap is shorter than this life."""
        return 1 / (1 + exp(-1.7 * (log(ttl.seconds) - self.middle) / self.spread))


@dataclass(frozen=True, slots=True)
class Chance:
    """The chance that a request comes in time: the next one, and the usual one after any other."""

    next: float
    usual: float


@dataclass(frozen=True, slots=True)
class RequestForecast:
    """`more` is the chance that this turn makes another request; `gaps` are the seconds between the starts of the turns
    so far, the oldest first; `calls` are the requests that a turn makes on average; `goes_on` is the chance of another
    turn at all."""

    more: float = 1.0
    gaps: tuple[float, ...] = ()
    calls: float = 1.0
    goes_on: float = GOES_ON

    @property
    def is_over(self) -> bool:
        """Whether no request follows this one, in this turn or a later one."""
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
        """The chance that a user who has been silent for so many seconds returns at all.

        It compares the earlier gaps that were at least as long with the unobserved end of the conversation. Shorter
        gaps are no evidence: they ended before a return was in doubt.
        """
        weight, late = 1.0, 0.0
        for gap in reversed(self.gaps):
            if gap >= silent:
                late += weight
                weight *= FORGETS
        return late / (late + UNKNOWN)


ALONE = RequestForecast(0.0, goes_on=0.0)
"""The forecast of a request that no other continues from, such as a request for a summary."""


def forecast_of(
    history: Sequence[Turn], turn: Turn, *, may_call: bool, before: Sequence[datetime] = ()
) -> RequestForecast:
    """The rhythm of a conversation in the step that `turn` is at; `may_call`: the model may call tools in it.

    `before` are the moments at which earlier messages were sent, of which the window holds no turn any more. A clock
    that was set back makes no gap.
    """
    more = _more(history, turn) if may_call else 0.0
    calls = sum(max(1, len(one.steps)) for one in history) + len(turn.steps) + 1 + more
    return RequestForecast(more, forecast_between((*history, turn), before).gaps, calls / (len(history) + 1))


def forecast_between(turns: Sequence[Turn], before: Sequence[datetime] = ()) -> RequestForecast:
    """The rhythm of a conversation after the last of these turns; `before` as in `forecast_of`."""
    sent = [*before, *(turn.user.sent_at for turn in turns)]
    gaps = (_gap(before, after) for before, after in pairwise(sent))
    return RequestForecast(0.0, tuple(gap for gap in gaps if gap > 0))


def _gap(before: datetime, after: datetime) -> float:
    return (after - before).total_seconds()


def _more(history: Sequence[Turn], turn: Turn) -> float:
    """The share of the turns that came as far as this one and went on from there."""
    asked = len(turn.steps) + 1
    came = [len(one.steps) for one in history if len(one.steps) >= asked]
    return (sum(1 for steps in came if steps > asked) + UNKNOWN) / (len(came) + 1)


@dataclass(frozen=True, slots=True)
class Tail:
    """A prefix that could be written: `whole` tokens, of which `cached` are read now and live for `life` more."""

    whole: int
    cached: int
    life: Ttl | None

    @property
    def fresh(self) -> int:
        """The tokens that are not cached."""
        return self.whole - self.cached

    @property
    def growth(self) -> int:
        """The tokens that a call adds: as many as this one added, if the one before is known."""
        return self.fresh if self.cached else 0

    def saved(self, write: float, read: float) -> float:
        """The saving of a call that reads this prefix instead of writing it, at these prices."""
        return (write - read) * self.whole - write * self.growth


def life_worth(tail: Tail, forecast: RequestForecast, model: ModelFacts) -> Ttl | None:
    """The lifetime with which writing the prefix costs least in the long run. Returns None if it does not pay.

    The cost of a call with a cold or a warm cache is estimated for each lifetime, as if all calls were like the usual
    one; reading renews an entry. Costs that all choices share are left out.
    """
    chances = forecast.within(model.lives if tail.life is None else (*model.lives, tail.life))
    cold = _cold(tail, chances, model)

    def spared(ttl: Ttl) -> float:
        """The saving of a later call that finds the prefix, compared with one that writes it, and everything after it,
        again.
        """
        if cold is not None:
            return tail.saved(model.write_price(cold), model.price.read)
        return (1 - model.price.read) * tail.whole / (1 - chances[ttl].usual)

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
    """The lifetime with which a call that finds nothing in the cache costs least over time; None to write nothing."""
    best, least = None, float(tail.whole + tail.growth)
    for life in model.lives:
        write = model.write_price(life)
        cost = write * tail.whole - chances[life].usual * tail.saved(write, model.price.read)
        if cost < least:
            best, least = life, cost
    return best


def worth_a_step(forecast: RequestForecast, model: ModelFacts, ttl: Ttl) -> bool:
    """Whether it pays to write a part that only the next step of this turn reads."""
    write, read = model.write_price(ttl), model.price.read
    return forecast.more * (write - read) >= write - 1
