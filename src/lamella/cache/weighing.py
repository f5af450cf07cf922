"""What a window weighs between two turns, and what is due: a pruning, a compaction, or nothing.

`upkeep` is asked after every turn. It weighs the window by its last bill (`WindowSize`), says what calls cost and what
a summary would save (`WindowSize.economy`), prunes if that pays, and asks the trigger whether to compact what is left.
The gauge and `/status` ask the same functions, so a conversation is compacted at the size that was shown.

A compaction is due above a threshold (80 % of the budget by default). Prices can make it due earlier: `pays` at any
size, `balanced` only above a floor of 40 % of the budget and at most 100,000 tokens. Example: a budget of 200,000, a
window of 90,000 that grew by 1,000 per call. The threshold is 160,000 and the floor 80,000; a summary pays from 25,500
on, so the floor decides, and a compaction is due at once. Prices decide nothing if they are unknown, or if the layout
waits for its thresholds. What the user has taken back is not compacted again automatically.

While a conversation is silent, `before_it_ends` and `after_it_ended` decide what to do around the end of its cache:
just before, a summary still reads the window from the cache; after it, stubs cost nothing, because all of it is written
anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from lamella.cache.economics import (
    EXPECTED_SUMMARY,
    INSTRUCTION,
    LEAST_CARRIED,
    LEAST_GAIN,
    Compaction,
    CompactionCost,
    CompactionOffer,
    CompactWhen,
    ExpectedCalls,
    NextCompaction,
    OtherSummariser,
    Rates,
    expected_summary,
    floor_of,
    next_compaction,
    offer,
)
from lamella.cache.forecast import RequestForecast
from lamella.cache.pruning import UNDONE, PruneSettings, Pruning, ShownWindow, prune, summaries_tokens
from lamella.context.choices import KnownDecisions
from lamella.context.layout import Layout, OldResults
from lamella.context.results import can_be_read, kept_names
from lamella.core.agents import Summary
from lamella.core.caching import Ttl
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn
from lamella.core.models import Markers, ModelFacts
from lamella.core.records import Conversation, StoredMarker
from lamella.core.tokens import Threshold

SILENT = "silent"
"""The code of a result that is reported only if a user asked for it."""


FIXED = "fixed"
"""The code of a compaction that can't help: the fixed part of the window alone exceeds the threshold."""


@dataclass(frozen=True, slots=True)
class Due:
    """Why an action is due, with the figures of the decision."""

    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompactionInput:
    """The fill of a window between two turns, in the provider's tokens.

    `window` is the last billed input, minus what was pruned since. `undone`: the user took the last compaction back.
    `compaction_cost` is None if prices are ignored.
    """

    window: int
    budget: int
    undone: bool = False
    compaction_cost: CompactionCost | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """The result of a compaction: `fixed` is in every window, `old` is summarised, `kept` is not. `earlier` are the
    earlier summaries, which can be shortened; `summary` is the expected size of the new one.
    """

    fixed: int
    old: int
    kept: int = 0
    earlier: int = 0
    summary: int = EXPECTED_SUMMARY

    @property
    def window(self) -> int:
        """The window now."""
        return self.fixed + self.earlier + self.old + self.kept

    @property
    def freed(self) -> int:
        """About how much shorter the window gets."""
        return self.old - min(self.summary, self.old // 4)

    @property
    def foldable(self) -> int:
        """How much shorter the earlier summaries can be made for it."""
        return int(self.earlier * (1 - LEAST_CARRIED))


@dataclass(frozen=True, slots=True)
class Trigger:
    """When compaction is due: above a threshold, and by price according to `when` (`balanced` only above the floor).

    A compaction that the user took back is not repeated automatically.
    """

    threshold: Threshold
    keep_recent: int = 4_000
    when: CompactWhen = "full"
    floor: Threshold | None = None

    def next(self, sizes: CompactionInput) -> NextCompaction | None:
        """The size at which the next automatic compaction is due; None if there is none."""
        if sizes.undone:
            return None
        most, floor = self.threshold.in_tokens(sizes.budget), floor_of(self.when, sizes.budget, self.floor)
        return next_compaction(sizes.window, most, floor, sizes.compaction_cost, self.keep_recent)

    def due(self, sizes: CompactionInput) -> Due | None:
        """Why a compaction is due after a turn; None if none is."""
        due = self.next(sizes)
        if due is None or sizes.window <= due.at:
            return None
        if not due.by_price or sizes.compaction_cost is None:
            why = f"the window has {sizes.window} tokens, more than {due.at} of {sizes.budget}"
            return Due(why, {"window": sizes.window, "most": due.at})
        economy, numbers = sizes.compaction_cost, due.numbers
        why = (
            f"the window has {sizes.window} tokens, and at reads of {economy.rates.read:g} of the price of input a "
            f"summary pays from {due.at} on, where a call adds {economy.growth:.0f}: it is repaid after "
            f"{numbers['pays_after']:.1f} calls, and {economy.calls} were made"
        )
        return Due(why, numbers)

    def vain(self, gain: Gain, budget: int) -> tuple[str, str] | None:
        """Why a compaction after a turn would be useless, as a code and a sentence; None if it helps.

        A compaction by price that is not needed is skipped silently, and earlier summaries are not shortened for it.
        """
        most = self.threshold.in_tokens(budget)
        needed = gain.window > most
        if needed and gain.fixed > most:
            return FIXED, (
                f"what stands in every window (system prompt, tools, agent, project) has {gain.fixed} tokens, more "
                f"than the threshold of {most}: take some of it out, or raise the threshold"
            )
        freed = gain.freed + gain.foldable if needed else gain.freed
        if freed >= LEAST_GAIN * (most if needed else gain.window):
            return None
        frees = f"a compaction frees about {max(0, freed)} of {gain.window} tokens"
        if self.when != "full" and not needed:
            return SILENT, f"{frees}, less than a quarter"
        return "little", (
            f"{frees}, less than a quarter of the threshold of {most}: {gain.fixed} stand in every window, and "
            f"{gain.kept} are kept as the newest"
        )


@dataclass(frozen=True, slots=True)
class WindowSize:
    """The size of a window between two turns, for a model with a budget of `budget` tokens.

    `input` is the billed input of its last answered request, minus what was pruned since; 0 without a bill. `earlier`
    are the tokens of the earlier summaries in it.
    """

    shown: ShownWindow
    layout: Layout
    model: ModelFacts
    decisions: Sequence[Decision]
    input: int
    budget: int
    earlier: int = 0

    @classmethod
    def of(
        cls,
        conversation: Conversation,
        turns: Sequence[Turn],
        summaries: Sequence[Summary],
        decisions: Sequence[Decision],
        layout: Layout,
        model: ModelFacts,
        *,
        calibration: float,
        input: int,
        budget: int,
    ) -> WindowSize:
        """The window with these turns and earlier summaries. `calibration` is the provider's tokens per local token."""
        known = KnownDecisions(model.name, decisions)
        turns, summaries = known.in_window(turns, summaries)
        readable = layout.names_ids and can_be_read(conversation.tools)
        kept = kept_names(conversation.tools)
        shown = ShownWindow(conversation.id, turns, known, calibration, kept, readable, layout.keeps_extracts)
        return cls(shown, layout, model, decisions, input, budget, summaries_tokens(summaries, calibration))

    def without(self, pruning: Pruning) -> WindowSize:
        """The window after this pruning."""
        decisions = (*self.decisions, pruning.decision)
        shown = replace(self.shown, known=KnownDecisions(self.model.name, decisions))
        return replace(self, shown=shown, decisions=decisions, input=max(0, self.input - pruning.freed))

    @property
    def undone(self) -> bool:
        """Whether the user has taken back the last compaction."""
        moves = [one for one in self.decisions if one.kind is DecisionKind.SESSION]
        return bool(moves and moves[-1].numbers.get(UNDONE))

    @property
    def prunes(self) -> bool:
        """Whether the layout shows stubs instead of old results."""
        return self.layout.old_results is OldResults.STUB

    def by_price(self, when: str) -> bool:
        """Whether prices decide. They do unless the setting `when` is `full`, the layout waits for its thresholds
        (`lis`), or the model's prices are unknown.
        """
        return when != "full" and not self.layout.waits_for_thresholds and self.model.price.read > 0

    def compaction_cost(self, summariser: OtherSummariser | None = None) -> CompactionCost | None:
        """The cost of calls and of a summary, at the prices of `summariser` if another summariser is configured.

        Returns None before the first bill.
        """
        steps = sum(len(turn.steps) for turn in self.shown.turns)
        if not steps or not self.input:
            return None
        turns = self.shown.sizes()
        said = min(sum(turns), self.input)
        earlier = min(self.earlier, self.input - said)
        return CompactionCost(
            rates=Rates.of(self.model),
            static=self.input - said - earlier,
            growth=said / steps,
            calls=steps,
            summary=expected_summary(self.decisions),
            question=INSTRUCTION + self.shown.hidden(),
            elsewhere=summariser,
            earlier=earlier,
            turns=turns,
            answer=self.shown.answers() / steps,
        )

    def compaction_input(self, trigger: Trigger, cost: CompactionCost | None) -> CompactionInput:
        """The input of the trigger; without an economy if prices are ignored."""
        return CompactionInput(self.input, self.budget, self.undone, cost if self.by_price(trigger.when) else None)

    def next_compaction(self, trigger: Trigger, cost: CompactionCost | None) -> NextCompaction | None:
        """The size at which this window is compacted automatically; None if it never is."""
        return trigger.next(self.compaction_input(trigger, cost))

    def calls_ahead(self, trigger: Trigger, cost: CompactionCost, *, cold: bool = False) -> ExpectedCalls:
        """The expected calls of this window, and the chance that a pruned result is read again."""
        due, shown = self.next_compaction(trigger, cost), self.shown
        room = (due.at if due is not None else self.budget) - self.input
        since, again = shown.since_pruning, shown.read_again
        return cost.calls_ahead(room, since_pruning=since, read_again=again, cold=cold)

    def pruning(
        self, settings: PruneSettings, trigger: Trigger, cost: CompactionCost | None, *, who: str, cold: bool = False
    ) -> Pruning | None:
        """The automatic pruning that is due now; None if none is."""
        if not self.prunes:
            return None
        pays = cost is not None and self.by_price(settings.when)
        prospect = self.calls_ahead(trigger, cost, cold=cold) if cost and pays else None
        return prune(self.shown, settings, who=who, calls=prospect)

    def prunable_when_cold(self, settings: PruneSettings) -> bool:
        """Whether a pruning is due as soon as nothing is cached any more."""
        if not self.prunes or not self.by_price(settings.when):
            return False
        free = ExpectedCalls(Rates.of(self.model), 0.0, cold=True)
        return prune(self.shown, settings, who="", calls=free) is not None

    def offer(self, trigger: Trigger, cost: CompactionCost | None, *, cold: bool) -> CompactionOffer | None:
        """The saving of a compaction that the user may ask for now; None if one is due anyway or saves too little.

        A compaction that was taken back is not offered again.
        """
        due = self.next_compaction(trigger, cost)
        if cost is None or due is None or self.input > due.at or not self.by_price("pays"):
            return None
        return offer(self.input, cost, trigger.keep_recent, self.model.price.input, cold=cold)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What is due after a turn: a pruning, and a compaction of the window (`size`) that remains."""

    size: WindowSize
    compaction_cost: CompactionCost | None
    pruning: Pruning | None
    compaction: Due | None


def upkeep(
    size: WindowSize,
    settings: PruneSettings,
    trigger: Trigger,
    summariser: OtherSummariser | None,
    *,
    read: int,
    who: str,
) -> Upkeep:
    """What is due after a turn whose last request read `read` tokens: first a pruning, then a compaction."""
    economy = size.compaction_cost(summariser)
    pruning = size.pruning(settings, trigger, economy, who=who)
    most = trigger.threshold.in_tokens(size.budget)
    if pruning is None and settings.policy == "keep_all" and read > most:
        why = f"results of tools are kept, but the last answer read {read} tokens, more than {most}"
        pruning = prune(size.shown, settings, who=who, full=why)
    if pruning is not None:
        size = size.without(pruning)
        economy = size.compaction_cost(summariser)
    return Upkeep(size, economy, pruning, trigger.due(size.compaction_input(trigger, economy)))


def ends_at(at: datetime, markers: Iterable[StoredMarker], model: ModelFacts) -> datetime | None:
    """When the last prefix expires that a request sent at `at` wrote or read. Returns None if nothing was marked.

    A provider without markers keeps a prefix at least as long as the model table says.
    """
    lives = [Ttl(marker.ttl).seconds for marker in markers]
    if model.markers is Markers.NONE:
        lives = [model.lives[0].seconds]
    return at + timedelta(seconds=max(lives)) if lives else None


class Act(StrEnum):
    """What to do with an idle conversation."""

    NOTHING = "nothing"
    COMPACT = "compact"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True)
class Move:
    """An action, its reason and its figures."""

    act: Act
    why: str
    numbers: dict[str, float] = field(default_factory=dict)


def before_it_ends(compaction: Compaction, calls: ExpectedCalls, forecast: RequestForecast, silent: float) -> Move:
    """Whether to compact just before the cache expires, `silent` seconds after its last use: if a return after that is
    likely enough.
    """
    late, needed = forecast.later(silent), compaction.return_worth(calls.rates)
    numbers = {"returns": late, "needed": needed, "removed": float(max(0, compaction.freed))}
    if late <= needed:
        return Move(Act.NOTHING, f"{_returns(late, 'a return after the cache has ended')}, {_needs(needed)}")
    return Move(
        Act.COMPACT,
        f"the cache is about to end, a return after that is {_percent(late)} likely, and a summary on what is still "
        f"cached pays from {_percent(needed)} on",
        numbers,
    )


def after_it_ended(compaction: Compaction, calls: ExpectedCalls, forecast: RequestForecast, silent: float) -> Move:
    """Whether to compact after the cache expired, `silent` seconds after its last use."""
    returns, needed = forecast.later(silent), compaction.cold_worth(calls.rates, calls.calls)
    numbers = {"returns": returns, "needed": needed, "removed": float(max(0, compaction.freed))}
    if returns <= needed:
        return Move(Act.NOTHING, f"{_returns(returns, 'a return')}, {_needs(needed)}")
    return Move(
        Act.COMPACT,
        f"the cache has ended, a return is {_percent(returns)} likely, and a summary pays from {_percent(needed)} on",
        numbers,
    )


def _percent(chance: float) -> str:
    return f"{chance:.0%}"


def _returns(chance: float, what: str) -> str:
    return f"{what} is {_percent(chance)} likely" if chance else "there was no return after such a long gap"


def _needs(needed: float) -> str:
    if needed > 1:
        return "and a summary would cost more than it saves"
    return f"and a summary would pay where a return is {_percent(needed)} likely"
