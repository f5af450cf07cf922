"""What a window is weighed by when results are to be pruned and when it is to be compacted. Pure (SPEC X-ECON).

The same after a turn and when a conversation has been silent until its cache ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.cache.economics import Elsewhere, Prospect, Rates
from lamella.context.choices import Known
from lamella.context.layout import Layout, OldResults
from lamella.context.results import can_be_read, kept_names
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn, TurnStatus
from lamella.core.models import ModelFacts
from lamella.core.prompt import ToolSpec
from lamella.core.records import Beginning
from lamella.engine.opening import Opening
from lamella.engine.turn import Finished
from lamella.sessions.pruning import PruneSettings, Pruning, prune
from lamella.sessions.settings import SessionSettings
from lamella.sessions.sizes import ShownWindow
from lamella.sessions.triggers import EXPECTED_SUMMARY, INSTRUCTION, Economy


@dataclass(frozen=True, slots=True)
class Weighed:
    """A window between two turns. `input` is what its last answered request was billed as input; 0 when none was."""

    shown: ShownWindow
    layout: Layout
    model: ModelFacts
    decisions: Sequence[Decision]
    input: int

    @classmethod
    def after(cls, finished: Finished, layout: Layout, model: ModelFacts) -> Weighed:
        """The window behind a finished turn."""
        known, conversation = Known(finished.model, finished.decisions), finished.conversation
        shown = _shown(conversation.id, finished.turns, known, finished.calibration, conversation.tools, layout)
        return cls(shown, layout, model, finished.decisions, finished.input)

    @classmethod
    def standing(cls, opening: Opening) -> Weighed:
        """The window in which a conversation stands."""
        setting, run, found = opening.setting, opening.run, opening.found
        turns = [turn for turn in found.path if turn.status is not TurnStatus.RUNNING]
        known = Known(run.model.facts.name, opening.decisions)
        conversation = setting.conversation
        shown = _shown(conversation.id, turns, known, run.calibration, conversation.tools, setting.layout)
        billed = _standing_input(found) if found.last_bill is not None and found.last_bill.followed else 0
        return cls(shown, setting.layout, run.model.facts, opening.decisions, billed)

    @property
    def prunes(self) -> bool:
        """Whether the layout shows stubs in the place of old results."""
        return self.layout.old_results is OldResults.STUB

    def by_price(self, when: str) -> bool:
        """Whether prices decide, by a setting that is `full` or `pays`.

        Layout `lis` knows its thresholds alone, and so does a model whose prices nobody knows.
        """
        return when == "pays" and not self.layout.waits_for_thresholds and self.model.price.read > 0

    def pruning(
        self, settings: SessionSettings, economy: Economy | None, *, who: str, cold: bool = False
    ) -> Pruning | None:
        """What is pruned now without being asked for; None where nothing is due."""
        if not self.prunes:
            return None
        pays = economy is not None and self.by_price(settings.pruning.when)
        prospect = (
            economy.prospect(self.input, settings.keep_recent, self.shown, cold=cold) if economy and pays else None
        )
        return prune(self.shown, settings.pruning, who=who, prospect=prospect)

    def economy(self, elsewhere: Elsewhere | None = None) -> Economy | None:
        """What calls cost and what a summary would come to, made by another model where there is one; None before the
        first bill."""
        steps = sum(len(turn.steps) for turn in self.shown.turns)
        if not steps or not self.input:
            return None
        history = min(self.shown.history(), self.input)
        return Economy(
            rates=Rates.of(self.model),
            static=self.input - history,
            growth=history / steps,
            calls=steps,
            summary=self._summary(),
            question=INSTRUCTION + self.shown.hidden(),
            elsewhere=elsewhere,
        )

    def _summary(self) -> int:
        """What the last summary of this conversation came to, else what one is expected to."""
        made = (d.numbers.get("summary") for d in reversed(self.decisions) if d.kind is DecisionKind.SESSION)
        return int(next((size for size in made if size), EXPECTED_SUMMARY))


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
    return ShownWindow(id, turns, known, calibration, kept_names(tools), readable)
