"""What a window is weighed by when results are to be pruned and when it is to be compacted. Pure (SPEC X-ECON).

The same after a turn and when a conversation has been silent until its cache ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.agent.calibration import billed_factor
from lamella.cache.economics import Elsewhere, Prospect, Rates
from lamella.cache.weighing import INSTRUCTION, CompactWhen, Economy, NextCompaction, Offer, expected_summary, offer
from lamella.context.choices import Known
from lamella.context.layout import Layout, OldResults
from lamella.context.results import can_be_read, kept_names
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn, TurnStatus
from lamella.core.models import ModelFacts
from lamella.core.prompt import ToolSpec
from lamella.core.records import Beginning, LastBill
from lamella.engine.opening import Opening
from lamella.engine.turn import Finished
from lamella.sessions.moves import UNDONE
from lamella.sessions.pruning import PruneSettings, Pruning, prune
from lamella.sessions.settings import SessionSettings
from lamella.sessions.sizes import ShownWindow, summaries_tokens
from lamella.sessions.triggers import Fill, trigger_of


@dataclass(frozen=True, slots=True)
class Weighed:
    """A window between two turns, for a model of `budget`. `input` is what its last answered request was billed as
    input, less what was pruned since; 0 when none was. `earlier` are the tokens of the earlier summaries in it."""

    shown: ShownWindow
    layout: Layout
    model: ModelFacts
    decisions: Sequence[Decision]
    input: int
    budget: int
    earlier: int = 0

    @classmethod
    def after(cls, finished: Finished, layout: Layout, model: ModelFacts, bill: LastBill | None) -> Weighed:
        """The window after a finished turn; `bill` is the newest one, which the gauge goes by too."""
        known, conversation = Known(finished.model, finished.decisions), finished.conversation
        calibration, input = finished.calibration, finished.input
        if bill is not None and bill.local_tokens and input:
            calibration, input = billed_factor(bill.usage.input, bill.local_tokens, model), bill.usage.input
        turns, summaries = known.in_window(finished.turns, finished.summaries)
        shown = _shown(conversation.id, turns, known, calibration, conversation.tools, layout)
        earlier = summaries_tokens(summaries, calibration)
        return cls(shown, layout, model, finished.decisions, input, finished.budget, earlier)

    @classmethod
    def standing(cls, opening: Opening) -> Weighed:
        """The window in which a conversation stands."""
        setting, run, found = opening.setting, opening.run, opening.found
        known = Known(run.model.facts.name, opening.decisions)
        ended = [turn for turn in found.path if turn.status is not TurnStatus.RUNNING]
        turns, summaries = known.in_window(ended, found.summaries)
        conversation = setting.conversation
        shown = _shown(conversation.id, turns, known, run.calibration, conversation.tools, setting.layout)
        billed = _standing_input(found) if found.last_bill is not None and found.last_bill.followed else 0
        earlier = summaries_tokens(summaries, run.calibration)
        return cls(shown, setting.layout, run.model.facts, opening.decisions, billed, run.most, earlier)

    def without(self, pruning: Pruning) -> Weighed:
        """The window once this was pruned."""
        decisions = (*self.decisions, pruning.decision)
        shown = replace(self.shown, known=Known(self.model.name, decisions))
        return replace(self, shown=shown, decisions=decisions, input=max(0, self.input - pruning.freed))

    def fill(self, when: CompactWhen, economy: Economy | None) -> Fill:
        """How full it is, for the trigger; no price decides if `when` or the layout says so."""
        return Fill(self.input, self.budget, self.undone, economy if self.by_price(when) else None)

    @property
    def undone(self) -> bool:
        """Whether the user has taken back the last compaction."""
        moves = [one for one in self.decisions if one.kind is DecisionKind.SESSION]
        return bool(moves and moves[-1].numbers.get(UNDONE))

    @property
    def prunes(self) -> bool:
        """Whether the layout shows stubs in the place of old results."""
        return self.layout.old_results is OldResults.STUB

    def by_price(self, when: str) -> bool:
        """Whether prices decide, by a setting that is `full`, or what lets them decide.

        Layout `lis` knows its thresholds alone, and so does a model whose prices nobody knows.
        """
        return when != "full" and not self.layout.waits_for_thresholds and self.model.price.read > 0

    def pruning(
        self, settings: SessionSettings, economy: Economy | None, *, who: str, cold: bool = False
    ) -> Pruning | None:
        """What is pruned now without being asked for; None where nothing is due."""
        if not self.prunes:
            return None
        pays = economy is not None and self.by_price(settings.pruning.when)
        prospect = self.prospect(economy, settings, cold=cold) if economy and pays else None
        return prune(self.shown, settings.pruning, who=who, prospect=prospect)

    def next(self, settings: SessionSettings, economy: Economy | None) -> NextCompaction | None:
        """At which size this window is compacted by itself; None if never."""
        return trigger_of(settings).next(self.fill(settings.compact_when, economy))

    def offer(self, settings: SessionSettings, economy: Economy | None, *, cold: bool) -> Offer | None:
        """What is saved if somebody asks for a compaction now; None if one is due by itself or saves too little.

        What was taken back is not offered again.
        """
        due = self.next(settings, economy)
        if economy is None or due is None or self.input > due.at or not self.by_price("pays"):
            return None
        return offer(self.input, economy, settings.keep_recent, self.model.price.input, cold=cold)

    def prospect(self, economy: Economy, settings: SessionSettings, *, cold: bool = False) -> Prospect:
        """What is ahead of this window."""
        due, shown = self.next(settings, economy), self.shown
        room = (due.at if due is not None else self.budget) - self.input
        since, again = shown.since_pruning, shown.read_again
        return economy.prospect(room, since_pruning=since, read_again=again, cold=cold)

    def economy(self, elsewhere: Elsewhere | None = None) -> Economy | None:
        """What calls cost and what a summary would come to, made by another model where there is one; None before the
        first bill."""
        steps = sum(len(turn.steps) for turn in self.shown.turns)
        if not steps or not self.input:
            return None
        turns = self.shown.sizes()
        said = min(sum(turns), self.input)
        earlier = min(self.earlier, self.input - said)
        return Economy(
            rates=Rates.of(self.model),
            static=self.input - said - earlier,
            growth=said / steps,
            calls=steps,
            summary=expected_summary(self.decisions),
            question=INSTRUCTION + self.shown.hidden(),
            elsewhere=elsewhere,
            earlier=earlier,
            turns=turns,
            answer=self.shown.answers() / steps,
        )


def prunable(weighed: Weighed, settings: PruneSettings) -> bool:
    """Whether results would go once nothing is cached any more."""
    if not weighed.prunes or not weighed.by_price(settings.when):
        return False
    free = Prospect(Rates.of(weighed.model), 0.0, cold=True)
    return prune(weighed.shown, settings, who="", prospect=free) is not None


def _standing_input(found: Beginning) -> int:
    """What the last bill would be for the window as it is now: 0 where another session began since."""
    bill = found.last_bill
    assert bill is not None
    since = [stored.decision for stored in found.decisions if stored.at > bill.at]
    if any(decision.kind is DecisionKind.SESSION for decision in since):
        return 0
    freed = sum(d.numbers.get("before", 0) - d.numbers.get("after", 0) for d in since if d.kind is DecisionKind.PRUNE)
    return max(0, bill.usage.input - int(freed))


def _shown(
    id: str, turns: Sequence[Turn], known: Known, calibration: float, tools: Sequence[ToolSpec], layout: Layout
) -> ShownWindow:
    readable = layout.names_ids and can_be_read(tools)
    return ShownWindow(id, turns, known, calibration, kept_names(tools), readable, layout.keeps_extracts)
