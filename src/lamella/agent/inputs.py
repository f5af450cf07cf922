"""The inputs of a turn and its runs: frozen data, and the services that all runs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from lamella.agent.calibration import MOST_OFF, Counted
from lamella.agent.request import Draft
from lamella.cache.ledger import Ledger
from lamella.cache.planner import MarkerPolicy
from lamella.context.input import MARGIN, ContextInput
from lamella.context.layout import Layout
from lamella.core.agents import Agent, Project, Summary
from lamella.core.clock import Clock
from lamella.core.decisions import Decision
from lamella.core.ids import Ids
from lamella.core.knowledge import bases_of_window
from lamella.core.messages import Attachment, Turn
from lamella.core.ports import ChatModel
from lamella.core.prompt import Sampling, ToolSpec, Ttl
from lamella.core.records import Caller
from lamella.core.tokens import TokenCounter
from lamella.guard.kept_back import KeptBack
from lamella.tooling.tool import Registry


@dataclass(frozen=True, slots=True)
class TurnInput:
    """One turn, frozen: everything that its runs share."""

    caller: Caller
    conversation_id: str
    system: str
    """The system prompt."""
    tools: tuple[ToolSpec, ...]
    """Those that may be called."""
    history: tuple[Turn, ...]
    turn: Turn
    layout: Layout
    policy: MarkerPolicy
    reminders: tuple[str, ...] = ()
    agent: Agent | None = None
    project: Project | None = None
    summaries: tuple[Summary, ...] = ()
    documents: tuple[Attachment, ...] = ()
    knowledge_bases: tuple[str, ...] = ()
    """Those that the message names."""
    hints: tuple[str, ...] = ()
    """Texts about knowledge bases that the model sees and its answer must not repeat."""
    sent_before: tuple[datetime, ...] = ()
    """When the newest messages before the history were sent."""
    stored_id: str = ""
    """The id under which this part of the turn is stored, if the turn continues an earlier one."""
    callers: frozenset[str] = frozenset()
    """The names of the caller's own tools: a call of one is handed to the caller."""

    @property
    def id(self) -> str:
        """The id under which it is stored."""
        return self.stored_id or self.turn.id

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """All files of the path and the project, and documents from tools."""
        project = self.project.files if self.project is not None else ()
        return (*(a for turn in (*self.history, self.turn) for a in turn.user.attachments), *project, *self.documents)

    @property
    def made_from(self) -> frozenset[str]:
        """The knowledge bases with content in the window before the turn."""
        return bases_of_window(self.history, self.summaries)

    @property
    def kept_back(self) -> KeptBack | None:
        """The filter for texts that the answer must not repeat, if there are any. The user's own words may be
        repeated.
        """
        if not self.hints:
            return None
        return KeptBack(self.hints, [turn.user.text for turn in (*self.history, self.turn)])

    @property
    def call_ids(self) -> frozenset[str]:
        """The tool-call ids on the path."""
        turns = (*self.history, self.turn)
        return frozenset(call.id for turn in turns for step in turn.steps for call in step.calls)


@dataclass(frozen=True, slots=True)
class CompactedHistory:
    """The history before a running turn, after a compaction. `decisions` are all that hold."""

    history: tuple[Turn, ...]
    summaries: tuple[Summary, ...]
    decisions: tuple[Decision, ...]
    sent_before: tuple[datetime, ...] = ()


CALIBRATED_DOUBT = 0.25
"""How far too high an estimate may be after its line was billed."""


@dataclass(frozen=True, slots=True)
class RunInput:
    """The input of one model's run. `decisions` are all that hold for its window when it begins."""

    id: str
    model: ChatModel
    account: str
    budget: int
    sampling: Sampling
    calibration: float
    decisions: tuple[Decision, ...]
    step_limit: int
    ttl: Ttl | None
    """The lifetime of marked prefixes; None lets the planner choose."""
    headers: Callable[[str, int], Mapping[str, str]]
    """Extra headers for a request, by purpose and number. A replay uses them to control the simulator."""
    diagnoses: bool = False
    """Whether the provider is asked to explain cache misses."""
    keeps_results: bool = False
    """Old tool results give way last."""
    effort_before: str | None = None
    """The thinking effort before this turn, if it changed."""
    counted: Counted | None = None
    """The provider's count of the first window, if it was asked."""
    counts: bool = True
    """Whether the provider offers a count."""
    limit: int | None = None
    """The largest prompt in tokens that the provider accepts, learned from refusals."""
    billed_local: int = 0
    """The local tokens of the window that the calibration was made from; 0: the line is not calibrated."""
    margin: float = MARGIN
    """The share that the estimate may be too low."""
    can_compact: bool = False
    """Whether the history is compacted while this turn runs, if the provider refuses the request as too large."""
    learnt: tuple[Decision, ...] = ()
    """The part of `decisions` that is not stored yet; it is stored with the first request."""
    draft: Draft | None = None
    """The first window, from the check whether the message fits."""
    most_calls: int | None = None
    """The most calls of the server's tools."""

    @property
    def most(self) -> int:
        """The most tokens of a window: the budget, or the provider's limit if that is less."""
        return min(self.budget, self.limit) if self.limit is not None else self.budget

    @property
    def doubt(self) -> float:
        """The share that an estimate may be too high: nothing is refused here that may fit. A count is exact."""
        if self.counted is not None:
            return 0.0
        return CALIBRATED_DOUBT if self.billed_local else MOST_OFF - 1

    def with_count(self, counted: Counted, estimate: int) -> RunInput:
        """The run after its provider counted a window that was estimated at `estimate` tokens."""
        if not counted.corrects(estimate):
            return replace(self, counted=counted, billed_local=counted.local, margin=MARGIN)
        learnt = counted.decision(self.model.facts.name, self.calibration, self.budget)
        return replace(
            self,
            counted=counted,
            billed_local=counted.local,
            margin=MARGIN,
            calibration=counted.factor(self.budget),
            decisions=(*self.decisions, learnt),
            learnt=(*self.learnt, learnt),
        )


@dataclass(frozen=True, slots=True)
class AgentServices:
    """Services shared by all runs of a process."""

    registry: Registry
    ledger: Ledger
    clock: Clock
    ids: Ids
    counter: TokenCounter


def first_context(turn: TurnInput, run: RunInput, reminder: str, *, last_step: bool = False) -> ContextInput:
    """The input of a run's first window."""
    return ContextInput(
        model=run.model.facts,
        budget=run.budget,
        sampling=run.sampling,
        system=turn.system,
        tools=turn.tools,
        history=turn.history,
        turn=turn.turn,
        reminder=reminder,
        decisions=run.decisions,
        calibration=run.calibration,
        agent=turn.agent,
        project=turn.project,
        summaries=turn.summaries,
        last_step=last_step,
        keeps_results=run.keeps_results,
        limit=run.limit,
        margin=run.margin,
        doubt=run.doubt,
        sent_before=turn.sent_before,
    )
