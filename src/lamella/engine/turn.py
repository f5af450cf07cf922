"""A turn from its first row to its last: begin, run, finish (hops 4 and 11). Saved once, whatever happened."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

import structlog

from lamella.context.assemble import assemble
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.core.decisions import Decision
from lamella.core.errors import StoreFailed
from lamella.core.messages import Attachment, StopReason, Turn, TurnStatus
from lamella.core.packets import ErrorPacket, Packet, TurnFinished, TurnStarted, TurnStopped, UsageBody
from lamella.core.ports import StreamBus
from lamella.core.records import Caller, Conversation, NewTurn, TurnEnd
from lamella.core.tokens import Usage
from lamella.engine.container import StateContainer
from lamella.engine.journal import Journal
from lamella.engine.loop import Services, TurnInput
from lamella.engine.opening import EngineSettings, ModelSource, Openings, first_context
from lamella.engine.preview import Preview, preview
from lamella.engine.runs import Run, run_models
from lamella.engine.setting import TurnSetting

log = structlog.get_logger()

SAVE_ATTEMPTS = 2
"""How often saving a turn is tried again before its followers are told."""

SAVE_PAUSE = 2.0
"""The most seconds between two attempts."""

StopCause = Literal["user_cancelled", "interrupted"]


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn whose user message is stored and whose run has not started."""

    input: TurnInput
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn that was saved. `turns` are those of its window, the last one whole; `decisions` all that is known.

    `input` is what its last answered request was billed as input, in tokens of the provider; 0 when none was.
    """

    caller: Caller
    conversation: Conversation
    model: str
    turns: tuple[Turn, ...]
    decisions: tuple[Decision, ...]
    input: int
    budget: int
    calibration: float


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
        self.openings = Openings(services, models, settings, layouts)
        self._services = services
        self._journal = journal
        self._bus = bus
        self._settings = settings
        self._interrupted = asyncio.Event()

    async def check(self, caller: Caller, new: NewTurn) -> TurnSetting:
        """The setting of a message that is to wait, if its model, agent, layout and files are there. Stores nothing.

        Raises `NotFound` or `InvalidRequest`. Whether it fits the window is seen when it begins.
        """
        opening = await self.openings.open(caller, new.conversation_id, new.model, new.choices, new.id, keep=False)
        await self._services.store.attachments(caller, new.file_ids, 1)
        return opening.setting

    async def begin(
        self, caller: Caller, new: NewTurn, queued_ids: Sequence[str] = (), *, can_compact: bool = False
    ) -> Begun:
        """Hop 4: check that the message can be answered, store it, and freeze the turn.

        `queued_ids` are the waiting messages that it is made of. Raises a `CallerError` when it can't, with
        `can_compact` `NeedsCompaction` where a compaction would help; then nothing is stored.
        """
        opening = await self.openings.open(caller, new.conversation_id, new.model, new.choices, new.id)
        setting, line = opening.setting, opening.line
        # A message that can't be sent is refused before it is stored; its files are listed where they do not fit,
        # its pictures can't be.
        pictures = await self._pictures(caller, new, setting.around.next_document)
        turn, registry = Turn(new.id, new.message(pictures)), self._services.registry
        context = first_context(opening, turn, registry, self._settings.reminders)
        assemble(replace(context, can_compact=can_compact), setting.layout, line.assembled if line else None)
        self._journal.open(caller.user_id, new.id)
        try:
            turn = await self._services.store.begin_turn(caller, new, self._services.clock.now(), queued_ids)
        except BaseException:
            self._journal.abandon(new.id)
            raise
        turn_input = TurnInput(
            caller=caller,
            conversation=setting.conversation,
            history=opening.found.path,
            turn=turn,
            decisions=opening.decisions,
            layout=setting.layout,
            policy=setting.policy,
            reminders=self._settings.reminders,
            agent=setting.around.agent,
            project=setting.around.project,
            summaries=opening.found.summaries,
            begun=opening.begun,
            documents=opening.found.documents,
        )
        run = Run(new.run_id, opening.run, StateContainer(self._services.counter), line)
        return Begun(turn_input, (run,))

    async def _pictures(self, caller: Caller, new: NewTurn, first: int) -> tuple[Attachment, ...]:
        if not new.file_ids:
            return ()
        files = await self._services.store.attachments(caller, new.file_ids, first)
        return tuple(file for file in files if file.image is not None)

    async def preview(self, caller: Caller, new: NewTurn) -> Preview:
        """The first request that this message would make; nothing is stored and nothing is sent."""
        return await preview(caller, new, self.openings, self._services, self._settings.reminders)

    async def run(self, begun: Begun) -> Finished:
        """Hops 5 to 11. Ends when the turn is saved; a turn whose task is cancelled is left to the next recovery."""
        self._emit(begun.input, _started(begun.input))
        try:
            status = await self._finish(begun, await self._until_ended(begun))
        finally:
            self._bus.close(begun.input.turn.id)
        return _finished(begun, status)

    def interrupt(self) -> None:
        """The process is ending: every turn ends as interrupted, saved as far as it came."""
        self._interrupted.set()

    async def _until_ended(self, begun: Begun) -> StopCause | None:
        """Run the models until they are done or somebody stops the turn (SPEC O15)."""
        turn = begun.input
        work = asyncio.create_task(
            run_models(turn, begun.runs, self._services, lambda packet: self._emit(turn, packet))
        )
        stop = asyncio.create_task(self._bus.stop_requested(turn.turn.id))
        interrupt = asyncio.create_task(self._interrupted.wait())
        try:
            await asyncio.wait({work, stop, interrupt}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return "user_cancelled" if stop.done() else "interrupted"
            work.result()
            return None
        finally:
            for task in (work, stop, interrupt):
                task.cancel()
            await asyncio.gather(work, stop, interrupt, return_exceptions=True)

    async def _finish(self, begun: Begun, cause: StopCause | None) -> TurnStatus:
        """Hop 11: what the containers hold, in one transaction; then the last packets."""
        turn = begun.input
        run = begun.runs[0]
        cut = StopReason.USER_CANCELLED if cause == "user_cancelled" else StopReason.INTERRUPTED
        run.container.cut_off(cut, run.input.model.facts.cost)
        self.openings.keep_line(turn.conversation.id, run.input, run.line)
        end = TurnEnd(
            turn_id=turn.turn.id,
            status=_status(run, cause),
            steps=run.container.steps,
            requests=run.container.ends,
            finished_at=self._services.clock.now(),
            error=run.error.as_dict() if run.error else None,
        )
        await self._save(turn, end)
        if cause is not None:
            self._emit(turn, TurnStopped(reason=cause))
        usage = sum((e.usage for e in end.requests), Usage())
        total = sum(e.cost for e in end.requests)
        self._emit(turn, TurnFinished(status=end.status.value, usage=UsageBody.of(usage), cost=total))
        await self._journal.close_turn(turn.turn.id)
        return end.status

    async def _save(self, turn: TurnInput, end: TurnEnd) -> None:
        """Store the end. Until the store takes it the turn goes on running, and whoever follows it is told why."""
        for attempt in count():
            try:
                await self._journal.flush()
                await self._services.store.finish_turn(turn.caller, end)
                return
            except StoreFailed as error:
                if attempt == SAVE_ATTEMPTS:
                    log.error("a turn can't be saved yet", turn_id=end.turn_id, error=error.message)
                    self._emit(turn, ErrorPacket(error=_unsaved(error).as_dict()))
            await self._services.clock.sleep(min(0.1 * 3**attempt, SAVE_PAUSE))

    def _emit(self, turn: TurnInput, packet: Packet) -> None:
        self._journal.append(turn.turn.id, packet)


def _finished(begun: Begun, status: TurnStatus) -> Finished:
    turn, run = begun.input, begun.runs[0]
    whole = replace(turn.turn, steps=run.container.steps, status=status)
    billed = [end.usage.input for end in run.container.ends if end.error is None and end.usage.input]
    return Finished(
        caller=turn.caller,
        conversation=turn.conversation,
        model=run.input.model.facts.name,
        turns=(*turn.history, whole),
        decisions=run.decisions or turn.decisions,
        input=max(billed, default=0),
        budget=run.input.budget,
        calibration=run.calibration or run.input.calibration,
    )


def _status(run: Run, cause: StopCause | None) -> TurnStatus:
    if cause == "user_cancelled":
        return TurnStatus.STOPPED
    if cause == "interrupted":
        return TurnStatus.INTERRUPTED
    return TurnStatus.FAILED if run.error else TurnStatus.FINISHED


def _unsaved(error: StoreFailed) -> StoreFailed:
    return StoreFailed(
        f"The answer could not be saved yet: {error.message}",
        hint="It is kept and saved as soon as the store works again. " + (error.hint or ""),
    )


def _started(turn: TurnInput) -> TurnStarted:
    user = turn.turn.user
    return TurnStarted(
        conversation_id=turn.conversation.id,
        user_message_id=user.id,
        sent_at=user.sent_at.isoformat(),
        documents=[
            {"document": a.document, "file_id": a.file_id, "title": a.title, "reason": a.reason}
            for a in user.attachments
        ],
    )
