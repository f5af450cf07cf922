"""A turn from its first row to its last: begin, run, finish. It is saved exactly once, however it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Literal

import structlog

from lamella.agent.container import StateContainer
from lamella.agent.hooks import Fallback
from lamella.agent.inputs import CompactedHistory, TurnInput
from lamella.agent.run import Run, run_models
from lamella.cache.weighing import ends_at
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.core.agents import Summary
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import LeaseLost, StoreFailed
from lamella.core.messages import Attachment, StopReason, Turn, TurnStatus
from lamella.core.packets import ErrorPacket, Packet, StartedDocument, TurnFinished, TurnStarted, TurnStopped, UsageBody
from lamella.core.ports import ModelSource, StreamBus
from lamella.core.records import (
    BeginCondition,
    Caller,
    Conversation,
    NewTurn,
    Place,
    QueuedMessage,
    RunEnd,
    TurnEnd,
    can_go_on,
    first_choice,
)
from lamella.core.sessions import SessionReturn, SessionStep
from lamella.core.settings import EngineSettings
from lamella.core.tokens import Usage
from lamella.storage.database import FENCE
from lamella.turns.admission import Admission, Preview, preview
from lamella.turns.effective_settings import EffectiveSettings, pinned_of, session_change
from lamella.turns.hooks import CompactHistory, FindFallback, Stops, TurnHooks
from lamella.turns.journal import Journal
from lamella.turns.loader import TurnContext, TurnLoader, TurnQuery
from lamella.turns.services import Services

log = structlog.get_logger()


SAVE_ATTEMPTS = 2
"""Number of retries of saving a turn before its followers are notified."""

SAVE_PAUSES = (0.1, 0.3, 0.9, 2.0)
"""Seconds after each attempt; the last value repeats."""

StopCause = Literal["user_cancelled", "interrupted"]


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A turn whose user message is stored and whose runs have not started."""

    input: TurnInput
    conversation: Conversation
    runs: tuple[Run, ...]
    hooks: TurnHooks


@dataclass(frozen=True, slots=True)
class Finished:
    """A saved turn. `turns` are those of its window, the last one complete; `decisions` are all that hold.

    If several models answered, it describes the run that is followed. `input` is the billed input of its last answered
    request, in the provider's tokens; 0 if none was. `cached_until` is when the cache of its last request expires; None
    if nothing was cached. `summaries` are the earlier ones in its window.
    """

    caller: Caller
    conversation: Conversation
    model: str
    turns: tuple[Turn, ...]
    decisions: tuple[Decision, ...]
    input: int
    budget: int
    calibration: float
    layout: Layout
    cached_until: datetime | None = None
    summaries: tuple[Summary, ...] = ()


CompactConversation = Callable[[Caller, str, str], Awaitable[bool]]
"""Compacts a conversation, for a reason; whether that was possible."""


class TurnEngine:
    """Runs turns; knows nothing of mailboxes, queues and clients."""

    def __init__(
        self,
        services: Services,
        models: ModelSource,
        journal: Journal,
        bus: StreamBus,
        settings: EngineSettings,
        layouts: Mapping[str, Layout] = LAYOUTS,
    ) -> None:
        self.loader = TurnLoader(services, models, settings, layouts)
        self.stops = Stops()
        self._services = services
        self._journal = journal
        self._bus = bus
        self._settings = settings
        self._interrupted = asyncio.Event()
        self._hooks: dict[str, TurnHooks] = {}
        self._turn_of: dict[str, str] = {}
        self.compact: CompactConversation | None = None
        """Compacts a conversation while a turn of it runs; set by the owner of sessions."""

    async def check(self, caller: Caller, new: NewTurn) -> EffectiveSettings:
        """The setting of a message that is to wait, if its model, agent, layout and files are there. Stores nothing.

        Raises `NotFound` or `InvalidRequest`. Whether it fits the window is seen when it begins.
        """
        query = replace(TurnQuery.of(new), dynamic=None)
        contexts = await self.loader.load_all(caller, query, keep=False)
        await self._services.store.files.attachments(caller, new.conversation_id, new.file_ids)
        return contexts[0].setting

    async def begin(
        self, caller: Caller, new: NewTurn, queued: Sequence[QueuedMessage] = (), *, can_compact: bool = False
    ) -> StartedTurn:
        """Check that the message can be answered, store it, and freeze the turn's input.

        `queued` are the rows that it consists of, as they were read. Raises a `CallerError` if it can't be answered;
        with `can_compact`, `NeedsCompaction` if a compaction would help. Then nothing is stored.
        """
        contexts = await self.loader.load_all(caller, TurnQuery.of(new))
        loaded, setting = contexts[0], contexts[0].setting
        new = loaded.completed(new)
        # A message that can't be sent is refused before it is stored; its files are listed if they do not fit,
        # its pictures can't be.
        pictures = await self._pictures(caller, new)
        first = loaded.turn_of(new.id, new.message(pictures))
        reminders = loaded.reminders(self._settings.reminders, new.dynamic)
        admitted = await Admission(self._services, reminders).of(contexts, first, can_compact=can_compact)
        now, found = self._services.clock.now(), loaded.found
        change = session_change(found, caller, self._services.ids, now)
        decided = (*change.decisions, *loaded.begun) if change is not None else loaded.begun
        condition = BeginCondition(
            found.conversation.place, found.place, change, decided, pinned_of(found.conversation, setting.around)
        )
        turn = await self._stored(caller, new, now, queued, condition)
        turn_input = _turn_input(caller, new, turn, loaded, reminders)
        call_ids = set(turn_input.call_ids)
        # One of several models compacts nothing: the others go on meanwhile. A message is compacted for once.
        alone = can_compact and len(admitted) == 1
        runs = tuple(
            Run(
                replace(one.loaded.run, can_compact=alone and self.compact is not None, draft=one.draft),
                StateContainer(self._services.counter, call_ids),
                one.loaded.line,
                error=one.refusal,
            )
            for one in admitted
        )
        fallbacks = {one.loaded.run.id: self._fallback(turn_input, one.loaded, contexts) for one in admitted}
        hooks = TurnHooks(
            turn_input, self._services, self._journal, self.stops, fallbacks, self._compacting(turn_input)
        )
        self._hooks[new.id] = hooks
        self._turn_of |= {run.id: new.id for run in runs}
        conversation = replace(setting.conversation, session_id=_session_of(condition, found.conversation))
        return StartedTurn(turn_input, conversation, runs, hooks)

    async def _stored(
        self, caller: Caller, new: NewTurn, now: datetime, queued: Sequence[QueuedMessage], condition: BeginCondition
    ) -> Turn:
        """The turn, stored. It can be followed and stopped from now on."""
        self._journal.open(caller.user_id, new.id)
        self.stops.open(new.id)
        try:
            return await self._services.store.turns.begin_turn(caller, new, now, queued, condition)
        except BaseException:
            self._journal.abandon(new.id)
            self.stops.close(new.id)
            raise

    def _compacting(self, turn: TurnInput) -> CompactHistory:
        """How the conversation of a running turn is compacted for a model that refused its request as too large."""

        async def compacted(model: str) -> CompactedHistory | None:
            why = f"{model} refused the request as too large"
            if self.compact is None or not await self.compact(turn.caller, turn.conversation_id, why):
                return None
            return await self.loader.reopened(turn, model)

        return compacted

    def _fallback(self, turn: TurnInput, loaded: TurnContext, contexts: Sequence[TurnContext]) -> FindFallback:
        """Finds the fallback model, unless it already answers this turn."""
        taken = {one.run.model.facts.name for one in contexts}

        async def find() -> Fallback | None:
            other = await self.loader.fallback(turn.caller, loaded)
            if other is None or other.run.model.facts.name in taken:
                return None
            found = other.found
            same = replace(
                turn,
                history=found.path,
                summaries=found.summaries,
                documents=found.documents,
                sent_before=found.sent_before,
            )
            return Fallback(same, other.run, other.line)

        return find

    async def _pictures(self, caller: Caller, new: NewTurn) -> tuple[Attachment, ...]:
        if not new.file_ids:
            return ()
        files = await self._services.store.files.attachments(caller, new.conversation_id, new.file_ids)
        return tuple(file for file in files if file.image is not None)

    async def preview(self, caller: Caller, new: NewTurn) -> Preview:
        """The first request that this message would make; nothing is stored and nothing is sent."""
        return await preview(caller, new, self.loader, self._services, self._settings.reminders)

    async def run(self, started: StartedTurn) -> Finished:
        """Ends when the turn is saved; a turn whose task is cancelled is left to the next recovery.

        Raises `LeaseLost` when another process has taken the turn over: then nothing of it is written or said any more.
        """
        self._emit(started.input, _started(started.input))
        turn_id = started.input.id
        try:
            await self._finish(started, await self._until_ended(started))
            return _finished(started)
        except LeaseLost:
            self._journal.abandon(turn_id)
            raise
        finally:
            self._bus.close(turn_id)
            self.stops.close(turn_id)
            self._hooks.pop(turn_id, None)
            for run in started.runs:
                self._turn_of.pop(run.id, None)

    async def go_to(self, caller: Caller, conversation_id: str, place: Place) -> Conversation:
        """Let a conversation continue from another answer, in the session of its path; stored as a decision.

        In the running turn, the chosen run may have side effects from now on. Raises as `Store.go_to` does.
        """
        store, now = self._services.store, self._services.clock.now()
        found = await store.snapshots.snapshot(caller, conversation_id, "", place=place)
        before = found.conversation
        if before.place == place:
            return before
        where = "the newest turn" if before.head == place.turn_id else "an earlier turn or another branch"
        why = f"the conversation continues from an answer of {where}"
        decision = Decision(DecisionKind.PREFERRED, place.turn_id or "", place.run_id or "", caller.user_id, why)
        change = session_change(found, caller, self._services.ids, now)
        decided = (decision, *(change.decisions if change is not None else ()))
        gone = await store.branches.go_to(caller, conversation_id, before.place, place, now, decided, change)
        if place.turn_id is not None and place.run_id is not None:
            self.prefer(place.turn_id, place.run_id)
        return gone

    def prefer(self, turn_id: str, run_id: str) -> None:
        """In a turn that runs here, the chosen run may have side effects from now on."""
        if turn_id in self._hooks:
            self._hooks[turn_id].prefer(run_id)

    def turn_of(self, run_id: str) -> str | None:
        """The turn of a run that runs here."""
        return self._turn_of.get(run_id)

    def interrupt(self) -> None:
        """The process is ending: save every turn as interrupted, as far as it came."""
        self._interrupted.set()

    async def _until_ended(self, started: StartedTurn) -> StopCause | None:
        """Run the models until they are done or the turn is stopped; if it was stopped before, none begins."""
        turn = started.input
        if self.stops.is_stopping(turn.id):
            return "user_cancelled"
        work = asyncio.create_task(run_models(turn, started.runs, self._services, started.hooks))
        stop = asyncio.create_task(self.stops.requested(turn.id))
        interrupt = asyncio.create_task(self._interrupted.wait())
        lost = asyncio.create_task(_lost())
        try:
            await asyncio.wait({work, stop, interrupt, lost}, return_when=asyncio.FIRST_COMPLETED)
            if lost.done():
                lost.result()
            if not work.done():
                return "user_cancelled" if stop.done() else "interrupted"
            work.result()
            return None
        finally:
            for task in (work, stop, interrupt, lost):
                task.cancel()
            await asyncio.gather(work, stop, interrupt, lost, return_exceptions=True)

    async def _finish(self, started: StartedTurn, cause: StopCause | None) -> TurnStatus:
        """Save the output of the containers and the last packets in one transaction, then send these."""
        turn = started.input
        for run in started.runs:
            if run.status is TurnStatus.RUNNING:
                run.end(*_CUT_OFF[cause or "interrupted"])
            self.loader.keep_line(turn.conversation_id, run.input, run.line)
        now = self._services.clock.now()
        status = _status(started.runs, cause)
        error = started.runs[0].error if status is TurnStatus.FAILED else None
        end = TurnEnd(
            turn_id=turn.id,
            status=status,
            runs=[_run_end(run, now) for run in started.runs],
            finished_at=now,
            error=error.as_dict() if error else None,
        )
        last: list[Packet] = []
        if cause is not None or status is TurnStatus.STOPPED:
            last.append(TurnStopped(reason=cause or "user_cancelled"))
        usage = sum((run.usage for run in started.runs), Usage())
        total = sum(run.cost for run in started.runs)
        last.append(TurnFinished(status=status.value, usage=UsageBody.of(usage), cost=total))
        await self._save(turn, end, last)
        return status

    async def _save(self, turn: TurnInput, end: TurnEnd, last: Sequence[Packet]) -> None:
        """Store the end with the `last` packets. Until that succeeds the turn counts as running, and followers get the
        reason.
        """
        for attempt in count():
            try:
                await self._services.ledger.settled()
                async with self._journal.ending(turn.id, last) as packets:
                    await self._services.store.turns.finish_turn(turn.caller, end, packets)
                return
            except StoreFailed as error:
                if attempt == SAVE_ATTEMPTS:
                    log.error("a turn can't be saved yet", turn_id=end.turn_id, error=error.message)
                    self._emit(turn, ErrorPacket(error=_unsaved(error).as_dict()))
            await self._services.clock.sleep(SAVE_PAUSES[min(attempt, len(SAVE_PAUSES) - 1)])

    def _emit(self, turn: TurnInput, packet: Packet) -> None:
        self._journal.append(turn.id, packet)


async def _lost() -> None:
    """Raises `LeaseLost` when another process has taken over what this one does; never returns."""
    fence = FENCE.get()
    await (fence.lost if fence is not None else asyncio.Event()).wait()
    raise LeaseLost("Another process has taken this turn over.")


def _turn_input(caller: Caller, new: NewTurn, turn: Turn, loaded: TurnContext, reminders: tuple[str, ...]) -> TurnInput:
    found, setting = loaded.found, loaded.setting
    return TurnInput(
        caller=caller,
        conversation_id=setting.conversation.id,
        system=setting.conversation.system_prompt,
        tools=setting.conversation.tools,
        history=found.path,
        turn=loaded.turn_of(turn.id, turn.user),
        stored_id=turn.id,
        layout=setting.layout,
        policy=setting.policy,
        reminders=reminders,
        agent=setting.around.agent,
        project=setting.around.project,
        summaries=found.summaries,
        documents=found.documents,
        knowledge_bases=new.choices.knowledge_base_ids,
        hints=new.dynamic.hints,
        sent_before=found.sent_before,
        callers=frozenset(tool.name for tool in loaded.own_tools),
    )


def _session_of(condition: BeginCondition, conversation: Conversation) -> str:
    """The session in which a turn is stored."""
    match condition.session:
        case None:
            return conversation.session_id
        case SessionStep(session=opened):
            return opened.id
        case SessionReturn(session_id=id):
            return id


def _finished(started: StartedTurn) -> Finished:
    """What runs after a turn uses the answer that the conversation continues from."""
    turn = started.input
    statuses = [run.status for run in started.runs]
    chosen = (run for n, run in enumerate(started.runs) if run.id == started.hooks.preferred and can_go_on(statuses, n))
    run = next(chosen, started.runs[first_choice(statuses)])
    whole = replace(turn.turn, steps=(*turn.turn.steps, *run.container.steps), status=run.status)
    # An estimate starts nothing: what follows a turn goes by what was measured.
    billed = [end.usage.input for end in run.container.ends if end.error is None and not end.usage.input_estimated]
    return Finished(
        caller=turn.caller,
        conversation=started.conversation,
        model=run.input.model.facts.name,
        turns=(*turn.history, whole),
        decisions=run.decisions or run.input.decisions,
        input=max(billed, default=0),
        budget=run.input.most,
        calibration=run.calibration or run.input.calibration,
        layout=turn.layout,
        cached_until=_cached_until(run) if billed else None,
        summaries=turn.summaries,
    )


def _cached_until(run: Run) -> datetime | None:
    if run.line is None:
        return None
    record = run.line.record
    return ends_at(record.at, record.markers, run.input.model.facts)


_CUT_OFF: Mapping[StopCause, tuple[TurnStatus, StopReason]] = {
    "user_cancelled": (TurnStatus.STOPPED, StopReason.USER_CANCELLED),
    "interrupted": (TurnStatus.INTERRUPTED, StopReason.INTERRUPTED),
}


def _run_end(run: Run, at: datetime) -> RunEnd:
    error = run.error.as_dict() if run.error is not None else None
    return RunEnd(run.id, run.status, run.container.steps, run.container.ends, at, error)


def _status(runs: Sequence[Run], cause: StopCause | None) -> TurnStatus:
    """How a turn of these runs ended: it failed when all of them did."""
    if cause is not None:
        return _CUT_OFF[cause][0]
    found = {run.status for run in runs}
    return next((s for s in (TurnStatus.FINISHED, TurnStatus.STOPPED) if s in found), TurnStatus.FAILED)


def _unsaved(error: StoreFailed) -> StoreFailed:
    return StoreFailed(
        f"The answer could not be saved yet: {error.message}",
        hint="It is kept and saved as soon as the store works again. " + (error.hint or ""),
    )


def _started(turn: TurnInput) -> TurnStarted:
    user = turn.turn.user
    return TurnStarted(
        conversation_id=turn.conversation_id,
        user_message_id=user.id,
        sent_at=user.sent_at.isoformat(),
        documents=[
            StartedDocument(document=a.document, file_id=a.file_id, title=a.title, reason=a.reason)
            for a in user.attachments
        ],
    )
