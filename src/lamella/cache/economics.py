"""When pruning, compaction and a form of dynamic context pay, from a model's prices (PROVIDERS 5.4 to 5.10). Pure.

The unit is the price of one input token of the model: `read`, `write` and `output` are multiples of it. Sizes are in
tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt

from lamella.core.caching import Ttl
from lamella.core.models import ModelFacts


@dataclass(frozen=True, slots=True)
class Rates:
    """What a token costs: read from the cache, written to it, made by the model."""

    read: float
    write: float
    output: float

    @classmethod
    def of(cls, facts: ModelFacts, life: Ttl | None = None) -> Rates:
        """Those of a model, for entries of this life; None: the shortest."""
        price = facts.price
        output = price.output / price.input if price.input else 0.0
        return cls(price.read, facts.write_price(life) if life is not None else facts.write, output)

    def with_gaps(self, cold: float) -> Rates:
        """With this share of calls after the cache has ended: those write what others read (5.7)."""
        return Rates(self.read * (1 - cold) + self.write * cold, self.write, self.output)


@dataclass(frozen=True, slots=True)
class Prospect:
    """What is ahead of a conversation: what its calls cost, how many are expected, whether its cache has ended, and how
    likely a result that is taken out is read again."""

    rates: Rates
    calls: float
    cold: bool = False
    again: float = 0.0


def expected_calls(made: int, growth: float, room: float) -> float:
    """How many calls are expected to read what stands in a window now.

    A conversation is expected to go on as long as it has, and only until the next compaction: `room` are the tokens
    that its window may still grow by, each call adding `growth`.
    """
    return min(made, max(0.0, room) / growth) if growth > 0 else float(made)


def until_next_pruning(since: int) -> float:
    """How many calls a pruning may take to pay, `since` so many calls have been made behind the last one.

    Where each call adds the same and each pruning costs the same, both together cost least when a pruning is made as
    soon as leaving it has cost as much as making it: what was there half of these calls on average (as in 5.7).
    """
    return since / 2


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another model that makes summaries: what a token costs that it reads, or makes, in input tokens of the
    conversation's own model. `always`: it makes them even where they cost less here."""

    read: float
    output: float
    always: bool = True

    @classmethod
    def of(cls, other: ModelFacts, own: ModelFacts, *, always: bool) -> Elsewhere | None:
        """The prices of `other` for a window of `own`; None where one of them has no price."""
        if not own.price.input or not other.price.input:
            return None
        share = other.token_factor / own.token_factor / own.price.input
        return cls(share * other.price.input, share * other.price.output, always)


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction would come to: `static` stands before the history and stays, `history` is all behind it, of
    which `carried` are earlier summaries that stay where they are, in the cache, and `kept` stay word for word;
    `summary` are its tokens, `question` those of the instruction. A model `elsewhere` reads what goes, and none of it
    from the cache."""

    static: int
    history: int
    kept: int
    summary: int
    question: int = 300
    elsewhere: Elsewhere | None = None
    carried: int = 0

    @property
    def left(self) -> int:
        """The window after it."""
        return self.static + self.carried + self.summary + self.kept

    @property
    def freed(self) -> int:
        """How much shorter the window is."""
        return self.static + self.history - self.left

    def now(self, rates: Rates) -> float:
        """What making the summary costs on the prefix that is cached."""
        return self._made(rates, rates.read)

    def _made(self, rates: Rates, read: float) -> float:
        """What making the summary costs where a token of the window is read at this price (5.4)."""
        here = read * (self.static + self.history) + self.question + rates.output * self.summary
        if self.elsewhere is None:
            return here
        goes = self.history - self.carried - self.kept + self.question
        there = self.elsewhere.read * goes + self.elsewhere.output * self.summary
        return there if self.elsewhere.always else min(here, there)

    def calls(self, rates: Rates) -> float:
        """After how many calls it has paid, while the cache is warm (5.4)."""
        if self.freed <= 0 or not rates.read:
            return inf
        after = (rates.write - rates.read) * (self.summary + self.kept)
        return (self.now(rates) + after) / (rates.read * self.freed)

    def when_cold(self, rates: Rates) -> float:
        """What it costs more than the next call would anyway, once the cache has ended; below 0 it saves (5.5)."""
        return self._made(rates, 1.0) - rates.write * self.freed

    def cold_worth(self, rates: Rates, calls: float) -> float:
        """How likely somebody must be to return for a summary to pay that is made after the cache has ended, where so
        many calls follow then (5.5)."""
        made = self._made(rates, 1.0)
        saved = rates.write * self.freed + rates.read * self.freed * max(0.0, calls - 1)
        return made / saved if self.freed > 0 and saved else inf

    def return_worth(self, rates: Rates) -> float:
        """How likely somebody must be to return after the cache has ended for a summary just before to pay (5.5)."""
        return self.now(rates) / (rates.write * self.freed) if self.freed > 0 and rates.write else inf


def prune_calls(removed: int, surviving: int, rates: Rates, again: float = 0.0) -> float:
    """After how many calls a pruning has paid, where so many tokens behind it are written anew (5.6), and what goes is
    read again, so written once more, with this chance."""
    if removed <= 0 or not rates.read:
        return inf
    return ((rates.write - rates.read) * surviving + again * rates.write * removed) / (rates.read * removed)


def chance_of_reading(read: int, pruned: int) -> float:
    """How likely a pruned result is read again: `read` of `pruned` were so far; one in twenty before anything is known.

    What was never seen weighs as much as twenty results.
    """
    return min(1.0, (read + 1) / (pruned + 20))


def best_length(growth: float, compaction: Compaction, rates: Rates) -> float:
    """The length of window at which compacting costs least, where each call adds `growth` tokens (5.7).

    Of `compaction` what a window has right after one counts.
    """
    after = compaction.left
    if not rates.read or growth <= 0:
        return inf
    written = compaction.summary + compaction.kept
    once = replace(compaction, history=after - compaction.static).now(rates) + (rates.write - rates.read) * written
    return after + growth * sqrt(2 * once / (rates.read * growth))


@dataclass(frozen=True, slots=True)
class DynamicAhead:
    """The dynamic context that is expected in a session: `tokens` each time, in `turns` turns of `calls` calls each.

    `told` is the share of the turns that have any, `changed` the share of those in which it is not what stands already.
    """

    tokens: int
    turns: float
    calls: float
    told: float = 1.0
    changed: float = 1.0

    def kept(self, rates: Rates) -> float:
        """What it costs in place: written each time that it changed, and read by every later call."""
        calls = self.turns * self.calls
        sent = min(self.turns, max(1.0, self.turns * self.told * self.changed))
        # It is sent at even distances: what is sent first is read by all calls, what is sent last by those of its part.
        read = sent * (calls - 1) - calls * (sent - 1) / 2
        return self.tokens * (rates.write * sent + rates.read * max(0.0, read))

    def late(self) -> float:
        """What it costs last, behind every marker: the plain price in every call of a turn that has any."""
        return self.tokens * self.turns * self.told * self.calls

    def stays(self, rates: Rates) -> bool:
        """Whether it is kept where it was sent (5.10): what its later calls read of it costs less than sending it last.

        Nothing stands behind what is last, so no turn is written anew when it goes: in the place of the turn behind it
        stands what sending it at the plain price, in every call, costs more.
        """
        return self.kept(rates) <= self.late()
