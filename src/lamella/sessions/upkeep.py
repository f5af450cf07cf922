"""What a window is weighed by when results are to be pruned and when it is to be compacted. Pure (SPEC X-ECON).

The same after a turn and when a conversation has been silent until its cache ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lamella.cache.economics import Rates
from lamella.context.choices import Known
from lamella.context.layout import Layout, OldResults
from lamella.context.results import can_be_read, kept_names
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn, TurnStatus
from lamella.core.models import ModelFacts
from lamella.core.prompt import ToolSpec
from lamella.engine.opening import Opening
from lamella.engine.turn import Finished
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
        billed = found.last_bill.usage.input if found.last_bill is not None else 0
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

    def economy(self) -> Economy | None:
        """What calls cost and what a summary would come to; None before the first bill."""
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
            cold=min(1.0, self._late_returns() / steps),
            question=INSTRUCTION + self.shown.hidden(),
        )

    def _summary(self) -> int:
        """What the last summary of this conversation came to, else what one is expected to."""
        made = (d.numbers.get("summary") for d in reversed(self.decisions) if d.kind is DecisionKind.SESSION)
        return int(next((size for size in made if size), EXPECTED_SUMMARY))

    def _late_returns(self) -> int:
        """How many turns began after the shortest life had ended."""
        sent = [turn.user.sent_at for turn in self.shown.turns]
        life = self.model.lives[0].seconds
        return sum((after - before).total_seconds() >= life for before, after in pairwise(sent))


def _shown(
    id: str, turns: Sequence[Turn], known: Known, calibration: float, tools: Sequence[ToolSpec], layout: Layout
) -> ShownWindow:
    readable = layout.names_ids and can_be_read(tools)
    return ShownWindow(id, turns, known, calibration, kept_names(tools), readable)
