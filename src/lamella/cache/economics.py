"""When pruning, compaction and a form of dynamic context pay, from a model's prices.

The unit is the price of one input token: `read` (0.1), `write` (1.25) and `output` (5) are multiples of it in the
examples; sizes are in tokens of the provider.

*Compaction.* A window of 65,000 tokens, 5,000 of them fixed, keeps 4,000 and gets a summary of 1,000. Making the
summary reads the window, and costs 0.1 · 65,000 + 300 + 5 · 1,000 = 11,800. What is kept is written anew: 1.15 · 5,000
= 5,750. Each later call reads 55,000 tokens less and saves 5,500, so it has paid after 3.2 calls (`Compaction.calls`).

*When.* Compacting early is paid often, compacting late makes every call dear. Where each call adds g tokens, a window
has r after a compaction, and a compaction costs c, the cheapest length is r + g · √(2c / (read · g)). Here, with g =
1,000 and r = 10,000, it is 25,500 (`best_length`). A conversation is expected to go on as long as it has, so a
compaction also waits until as many calls were made as it takes to pay (`Economy.pays_at`).

*Pruning.* Removing 20,000 tokens of results with 10,000 after them writes those anew, 1.15 · 10,000, and saves 0.1 ·
20,000 per call: 5.8 calls (`prune_calls`), 6.4 if one result in twenty is read again.

*Silence.* Once the cache has expired, the whole window is written anyway, so removing costs nothing more
(`Compaction.when_cold`). A summary just before that is worth it if a return afterwards is likelier than what it costs,
divided by what it saves: 0.17 in the example (`return_worth`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, sqrt
from typing import Literal

from lamella.core.caching import Ttl
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.models import ModelFacts
from lamella.core.tokens import Threshold


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


CompactWhen = Literal["full", "balanced", "pays"]
"""When a compaction is made that nobody asked for: at the threshold alone; by price too, but only above a floor; by
price at any size."""

FLOOR_SHARE, FLOOR_TOKENS = 0.4, 100_000
"""The floor, unless one is set: this share of the budget, and no more than so many tokens."""

EXPECTED_SUMMARY = 1_000
"""Tokens of a summary, before there is one."""

INSTRUCTION = 300
"""Tokens of the instruction to summarise."""

LEAST_GAIN = 0.25
"""The share of the size at which it is due that a compaction frees at least: else the next one is due soon again."""

LEAST_CALLS = 6
"""Calls after which a session shows how it grows; before that nobody knows whether it goes on."""


OFFER_MESSAGES = 10
"""How many messages an offered compaction is weighed for."""

OFFER_DOLLARS, OFFER_SHARE = 0.02, 0.25
"""What it saves of them at least, in US dollars and of their cost: for less nobody is asked."""


LEAST_CARRIED = 0.25
"""The share of earlier summaries that stays in any case when a compaction would free too little."""


def turns_kept(sizes: Sequence[int], keep: int, huge: int) -> int:
    """How many of the newest turns stay as they are, from the tokens of each turn, oldest first.

    As many as fit into `keep` tokens; the newest stays in any case unless it has more than `huge`.
    """
    kept, room = 0, keep
    for size in reversed(sizes):
        if size > room and not (kept == 0 and size <= huge):
            break
        kept += 1
        room -= size
    return kept


def floor_of(when: CompactWhen, budget: int, floor: Threshold | None = None) -> int | None:
    """The size of window below which no price asks for a compaction; None if no price ever does."""
    match when:
        case "full":
            return None
        case "pays":
            return 0
        case "balanced" if floor is not None:
            return floor.in_tokens(budget)
        case "balanced":
            return min(int(budget * FLOOR_SHARE), FLOOR_TOKENS)


def expected_summary(decisions: Iterable[Decision]) -> int:
    """What the last summary of a conversation came to, else what one is expected to."""
    made = [d.numbers.get("summary") for d in decisions if d.kind is DecisionKind.SESSION]
    return int(next((size for size in reversed(made) if size), EXPECTED_SUMMARY))


@dataclass(frozen=True, slots=True)
class Economy:
    """What a summary would cost and save: the model's rates, what stands in every window, what a call adds, how many
    calls have been made in this session, and how long a summary is expected to be. `question` is what is asked of a
    summariser: with pruned results, which it reads whole. Another model may make it `elsewhere`. `earlier` are the
    tokens of earlier summaries, `turns` those of each turn, the oldest first, and `answer` those that a call makes.
    """

    rates: Rates
    static: int
    growth: float
    calls: int
    summary: int = EXPECTED_SUMMARY
    question: int = INSTRUCTION
    elsewhere: Elsewhere | None = None
    earlier: int = 0
    turns: tuple[int, ...] = ()
    answer: float = 0.0

    def kept(self, keep: int) -> int:
        """Tokens of the turns that a compaction now leaves as they are, of which `keep` are to be kept."""
        if not self.turns:
            return keep
        count = turns_kept(self.turns, keep, self.turns[-1])
        return sum(self.turns[len(self.turns) - count :])

    def compaction(self, window: int, keep: int) -> Compaction:
        """What compacting a window of so many tokens would come to."""
        history, kept = max(0, window - self.static), self.kept(keep)
        return Compaction(
            self.static, history, kept, self.summary, self.question, self.elsewhere, min(self.earlier, history)
        )

    def best(self, window: int, keep: int) -> float:
        """The length of window at which compacting costs least."""
        return best_length(self.growth, self.compaction(window, keep), self.rates)

    def prospect(self, room: float, *, since_pruning: int, read_again: float, cold: bool = False) -> Prospect:
        """What is ahead of a window that grows by `room` tokens before it is compacted, `since_pruning` calls after its
        last pruning."""
        calls = min(expected_calls(self.calls, self.growth, room), until_next_pruning(since_pruning))
        return Prospect(self.rates, calls, cold, read_again)

    def pays_at(self, window: int, keep: int, most: int) -> float:
        """The size at which a summary pays, for a window that goes on growing as it did; infinite if not before `most`.

        It has the length that costs least, `LEAST_GAIN` of it goes, and as many calls were made as it takes to pay: a
        conversation is expected to go on as long as it has.
        """
        if self.growth <= 0:
            return inf
        least = max(self.best(window, keep), self.compaction(window, keep).left / (1 - LEAST_GAIN))
        if least >= most:
            return inf
        if self._is_known(window, window, keep):
            return least
        low, high = max(window, int(least)), most
        if self._is_known(low, window, keep):
            return max(least, window + 1)
        if not self._is_known(high, window, keep):
            return inf
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_known(middle, window, keep) else (middle, high)
        return high

    def _is_known(self, size: int, window: int, keep: int) -> bool:
        """Whether enough calls will have been made, once a window that has `window` tokens now has `size`."""
        calls = self.calls + max(0, size - window) / self.growth
        return calls >= max(LEAST_CALLS, self.compaction(size, keep).calls(self.rates))


@dataclass(frozen=True, slots=True)
class NextCompaction:
    """A window of more than `at` tokens is compacted by itself, at the threshold or `by_price`; `numbers` are what that
    was reckoned from."""

    at: int
    by_price: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)


def next_compaction(
    window: int, most: int, floor: int | None = None, economy: Economy | None = None, keep: int = 0
) -> NextCompaction:
    """When a window of so many tokens is compacted by itself: past the threshold of `most`, or by price above `floor`.

    Prices decide nothing if `floor` or `economy` is None.
    """
    if floor is None or economy is None or floor >= most:
        return NextCompaction(most)
    pays = economy.pays_at(window, keep, most)
    if pays >= most:
        return NextCompaction(most)
    at = max(floor, ceil(pays))
    size = max(window, at)
    calls = economy.compaction(size, keep).calls(economy.rates)
    numbers = {"best": economy.best(window, keep), "growth": economy.growth, "pays_after": calls}
    return NextCompaction(at, True, {**numbers, "expected": economy.calls, "floor": floor})


@dataclass(frozen=True, slots=True)
class Offer:
    """What a compaction now would save of the next `messages`: US dollars, and the share of what they cost without."""

    saves: float
    share: float
    messages: int = OFFER_MESSAGES


def offer(window: int, economy: Economy, keep: int, price: float, *, cold: bool = False) -> Offer | None:
    """What compacting a window of so many tokens would save, for a model of this price of a million tokens of input;
    None if it is not worth asking somebody.

    The summary itself is paid of it. `cold`: the cache has ended, so the window is written anew in any case. Example:
    at $5 a million, 60,000 tokens are read ten times for $0.30; compacted to 6,000, for $0.03; the summary costs $0.08.
    """
    compaction, rates = economy.compaction(window, keep), economy.rates
    calls = OFFER_MESSAGES * max(1.0, economy.calls / max(1, len(economy.turns)))
    grown = economy.growth * (calls - 1) / 2
    each = rates.read * (window + grown) + rates.write * economy.growth + rates.output * economy.answer
    if cold:
        cost = each * calls + (rates.write - rates.read) * window
        saved = rates.read * compaction.freed * (calls - 1) - compaction.when_cold(rates)
    else:
        written = (rates.write - rates.read) * (compaction.summary + compaction.kept)
        cost = each * calls
        saved = rates.read * compaction.freed * calls - compaction.now(rates) - written
    found = Offer(saved * price / 1_000_000, saved / cost if cost else 0.0)
    return found if found.saves >= OFFER_DOLLARS and found.share >= OFFER_SHARE else None
