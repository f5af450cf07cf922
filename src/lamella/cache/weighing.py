"""What a window weighs and costs, and at which size its next compaction is due by itself. Pure.

The trigger after a turn and the gauge ask the same function (`next_compaction`), so a conversation is compacted at the
size that people were shown. Sizes are in tokens of the provider, costs in the price of one input token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Literal

from lamella.cache.economics import Compaction, Elsewhere, Prospect, Rates, best_length, expected_calls
from lamella.cache.economics import until_next_pruning as calls_until_next_pruning
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.tokens import Threshold

CompactWhen = Literal["full", "balanced", "pays"]
"""When a compaction is made that nobody asked for: at the threshold alone; by price too, but only above a floor; by
price at any size (SPEC X-ECON)."""

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


CHAIN_SHARE, CHAIN_TOKENS = 0.15, 8_000
"""What earlier summaries may hold of a window: this share of the size at which it is compacted, and so many tokens."""

LEAST_CARRIED = 0.25
"""The share of earlier summaries that stays in any case when a compaction would free too little."""

CHAIN_FACTS = 3_000
"""Tokens that lines of earlier summaries with facts may have in any case where price decides: detail before cents."""


@dataclass(frozen=True, slots=True)
class ChainRoom:
    """What the earlier summaries of a window may hold: up to `whole` tokens they stay whole, above `most` lines are
    left out."""

    whole: int
    most: int

    @property
    def newest(self) -> int:
        """What the newest of them may have: half, so that the others have room beside it."""
        return self.most // 2

    def at_most(self, tokens: int) -> ChainRoom:
        """No more than this."""
        return ChainRoom(min(self.whole, tokens), min(self.most, tokens))

    def in_local(self, calibration: float) -> ChainRoom:
        """The same in local tokens."""
        return ChainRoom(int(self.whole / calibration), int(self.most / calibration))


def chain_room(threshold: int, window: int | None = None) -> ChainRoom:
    """The room of earlier summaries if windows are compacted at `threshold` tokens, or by price at a `window` of so
    many."""
    most = min(CHAIN_TOKENS, int(threshold * CHAIN_SHARE))
    whole = most
    if window is not None:
        whole = min(most, int(window * CHAIN_SHARE))
        most = min(most, max(CHAIN_FACTS, whole))
    return ChainRoom(whole, most)


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
        calls = min(expected_calls(self.calls, self.growth, room), calls_until_next_pruning(since_pruning))
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
