"""The state of a conversation's window without asking a model: its parts in tokens, what it weighs, efforts to choose.

`/status`, the gauge and notifications read this. The size is that of the last bill if the window is still the one that
was billed; else it is assembled and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lamella.agent.request import cache_root
from lamella.cache.ledger import CacheLoss, read_cache_loss
from lamella.cache.pruning import PruneSettings
from lamella.cache.weighing import Trigger, WindowSize
from lamella.cache.window import chain
from lamella.context.assemble import Assembled, assemble
from lamella.context.choices import admit, usable
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.core.counting import aside
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn, TurnStatus, UserMessage
from lamella.core.models import EFFORT_LEVELS, OFF, RequestedThinking, asked_thinking, tokens_of
from lamella.core.prompt import Kind, Prompt, Segment, WireBlock
from lamella.core.records import Caller, ConversationSnapshot, LastBill, StoredDecision
from lamella.core.sessions import Session
from lamella.core.settings import EngineSettings
from lamella.core.tokens import Usage
from lamella.turns.loader import TurnContext, TurnLoader
from lamella.turns.services import Services


def trigger_of(settings: EngineSettings) -> Trigger:
    """The deployment's compaction trigger."""
    return Trigger(
        settings.compaction_threshold, settings.keep_recent_tokens, settings.compaction_when, settings.compaction_floor
    )


def prune_settings_of(settings: EngineSettings) -> PruneSettings:
    """What the deployment says of pruning."""
    return PruneSettings(
        settings.tool_prune_threshold,
        settings.tool_keep_threshold,
        settings.tool_summarization_policy,
        settings.tool_prune_when,
    )


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The parts of a window, in tokens."""

    system: int
    summary: int
    kept: int
    definitions: int
    calls: int

    @property
    def tools(self) -> int:
        """Definitions of tools, calls and results."""
        return self.definitions + self.calls

    @property
    def total(self) -> int:
        """Everything."""
        return self.system + self.summary + self.kept + self.tools


def breakdown(segments: Sequence[Segment], turns: Sequence[Turn], calibration: float) -> Breakdown:
    """The parts of a window. `turns` are those in it."""
    sums = dict.fromkeys(("system", "summary", "kept", "definitions", "calls"), 0)
    calling = {step.id for turn in turns for step in turn.steps if step.calls}
    for segment in segments:
        if segment.kind is Kind.TOOLS:
            sums["definitions"] += segment.tokens
        elif segment.kind is Kind.SUMMARY:
            sums["summary"] += segment.tokens
        elif segment.kind in (Kind.FILES, Kind.USER, Kind.DYNAMIC):
            sums["kept"] += segment.tokens
        elif segment.kind is Kind.STEP:
            sums["calls" if segment.id in calling else "kept"] += segment.tokens
        else:
            sums["system"] += segment.tokens
    return Breakdown(**{name: int(tokens * calibration) for name, tokens in sums.items()})


_NOTHING = "nothing"
"""The id of the message that is only there because a window has a newest one; it is not counted."""


@dataclass(frozen=True, slots=True)
class WindowState:
    """The state of a conversation. `tokens` is the size of its window: `measured` by the last bill, or counted.

    `messages` counts those in the window, answers included. `last` is the last bill. `asked` are the thinking
    parameters.
    """

    model: str
    effort: str
    asked: RequestedThinking
    session: Session
    messages: int
    tokens: int
    measured: bool
    budget: int
    last: Usage | None
    parts: Breakdown
    caution: str | None = None
    """Facts that are unknown for the model."""


async def window_state(loader: TurnLoader, services: Services, caller: Caller, conversation_id: str) -> WindowState:
    """The current state of a conversation. Raises `NotFound`, and `InvalidRequest` for an unknown model."""
    loaded = await loader.current(caller, conversation_id)
    bill = loaded.found.last_bill
    measured = bill is not None and is_of_window(bill, loaded.found.decisions)
    parts = await aside(len(loaded.found.path), parts_of, loaded, services.clock.now())
    billed = bill.usage.input if bill is not None else 0
    facts, sampling = loaded.run.model.facts, loaded.run.sampling
    return WindowState(
        model=facts.name,
        effort=sampling.thinking_effort,
        asked=asked_thinking(facts, sampling.thinking_effort, sampling.max_output),
        session=loaded.found.session,
        messages=sum(1 + len(turn.steps) for turn in loaded.found.path),
        tokens=billed if measured else parts.total,
        measured=measured,
        budget=loaded.run.most,
        last=bill.usage if bill is not None else None,
        parts=parts,
        caution=facts.caution,
    )


def is_of_window(bill: LastBill, decisions: Iterable[StoredDecision]) -> bool:
    """Whether this bill is of the answer that continues, and the window has not changed since."""
    if not bill.followed:
        return False
    moved = [s.at for s in decisions if s.decision.kind in (DecisionKind.SESSION, DecisionKind.PRUNE)]
    return not moved or bill.at > max(moved)


def parts_of(loaded: TurnContext, now: datetime) -> Breakdown:
    """The parts of the window before a next message, even if it exceeds its budget."""
    turns = [turn for turn in loaded.found.path if turn.status is not TurnStatus.RUNNING]
    whole = _before_the_next(loaded, now)
    nothing = {segment.id for segment in whole.rendered[-1].segments}
    segments = [segment for segment in whole.prompt.segments if segment.id not in nothing]
    return breakdown(segments, turns, loaded.run.calibration)


def _before_the_next(loaded: TurnContext, now: datetime) -> Assembled:
    """The window before a next message, which is empty here."""
    turns = tuple(turn for turn in loaded.found.path if turn.status is not TurnStatus.RUNNING)
    newest = Turn(_NOTHING, UserMessage(_NOTHING, "", now, "UTC", 0))
    return as_it_stands(replace(loaded.context(newest), history=turns), loaded.setting.layout)


_BOUNDLESS = 1 << 48
"""A budget that holds any window."""


def as_it_stands(context: ContextInput, layout: Layout, previous: Assembled | None = None) -> Assembled:
    """The window by the decisions so far, whatever its size: nothing gives way.

    Undecided documents are included while the budget has room.
    """
    fixed = layout.for_model(context.model).is_fixed(Kind.PROJECT)
    none = admit(context, -1, project_is_fixed=fixed)
    whole = _whole(context, none, layout, previous)
    if not none:
        return whole
    room = usable(context) - whole.report.local
    return _whole(context, admit(context, room, project_is_fixed=fixed), layout, previous)


def _whole(
    context: ContextInput, admitted: tuple[Decision, ...], layout: Layout, previous: Assembled | None
) -> Assembled:
    decisions = (*context.decisions, *admitted)
    made = assemble(replace(context, budget=_BOUNDLESS, limit=None, decisions=decisions), layout, previous)
    return replace(made, decisions=admitted, report=replace(made.report, budget=context.budget))


def window_size(loaded: TurnContext) -> WindowSize:
    """The size of the conversation's window."""
    setting, run, found = loaded.setting, loaded.run, loaded.found
    return WindowSize.of(
        setting.conversation,
        [turn for turn in found.path if turn.status is not TurnStatus.RUNNING],
        found.summaries,
        loaded.decisions,
        setting.layout,
        run.model.facts,
        calibration=run.calibration,
        input=_input(found),
        budget=run.most,
    )


def _input(snapshot: ConversationSnapshot) -> int:
    """The last bill, adjusted to the current window; 0 if there is none, or another session began since."""
    bill = snapshot.last_bill
    if bill is None or not bill.followed:
        return 0
    since = [stored.decision for stored in snapshot.decisions if stored.at > bill.at]
    if any(decision.kind is DecisionKind.SESSION for decision in since):
        return 0
    freed = sum(d.numbers.get("before", 0) - d.numbers.get("after", 0) for d in since if d.kind is DecisionKind.PRUNE)
    return max(0, bill.usage.input - int(freed))


_Window = tuple[Prompt, tuple[WireBlock, ...]]


@dataclass(frozen=True, slots=True)
class EffortChoice:
    """A thinking effort to choose. `lost` is what changing to it loses of the cache."""

    effort: str
    current: bool
    asked: RequestedThinking
    lost: CacheLoss | None


async def effort_choices(loaded: TurnContext, services: Services) -> tuple[EffortChoice, ...]:
    """Off, the levels and the current effort, from least to most. Nothing is stored or sent."""
    sampling, facts = loaded.run.sampling, loaded.run.model.facts
    now = sampling.thinking_effort
    window = await _windowed(loaded, services)
    return tuple(
        [
            EffortChoice(
                effort=name,
                current=name == now,
                asked=asked_thinking(facts, name, sampling.max_output),
                lost=await _lost(loaded, services, window, before=now, after=name),
            )
            for name in sorted({OFF, *EFFORT_LEVELS, now}, key=tokens_of)
        ]
    )


async def lost_since(loaded: TurnContext, services: Services, before: str) -> CacheLoss | None:
    """What the next request can't read that it could with the effort `before`."""
    now = loaded.run.sampling.thinking_effort
    return await _lost(loaded, services, await _windowed(loaded, services), before=before, after=now)


async def _lost(
    loaded: TurnContext, services: Services, window: _Window, *, before: str, after: str
) -> CacheLoss | None:
    if before == after:
        return None
    prompt, blocks = window
    model, run = loaded.run.model, loaded.run
    salts = [model.salts(replace(prompt.sampling, thinking_effort=effort)) for effort in (before, after)]
    changed = chain(blocks, cache_root(run.account, model.facts), salts[1])
    lost = await read_cache_loss(changed, salts[0], services.ledger, services.clock.now(), model.facts)
    return lost if lost is not None and lost.tokens else None


async def _windowed(loaded: TurnContext, services: Services) -> _Window:
    return await aside(len(loaded.found.path), _window, loaded, services)


def _window(loaded: TurnContext, services: Services) -> _Window:
    prompt = _before_the_next(loaded, services.clock.now()).prompt
    return prompt, loaded.run.model.wire(prompt).blocks
