"""A turn from its first row to its last: begin, run, finish (hops 4 and 11). Saved once, whatever happened."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Literal, Protocol

import structlog

from lamella.cache.plan import policy_named
from lamella.context.assemble import assemble
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.core.errors import InvalidRequest, StoreFailed
from lamella.core.messages import StopReason, Turn, TurnStatus, UserMessage
from lamella.core.models import ModelFacts
from lamella.core.packets import ErrorPacket, Packet, TurnFinished, TurnStarted, TurnStopped, UsageBody
from lamella.core.ports import ChatModel, StreamBus
from lamella.core.prompt import Sampling
from lamella.core.records import Caller, LastBill, NewTurn, TurnEnd
from lamella.core.tokens import Usage
from lamella.engine.container import StateContainer
from lamella.engine.journal import Journal
from lamella.engine.loop import RunInput, Services, TurnInput
from lamella.engine.request import Line
from lamella.engine.runs import Run, run_models

log = structlog.get_logger()

LINES_KEPT = 64
"""How many conversations' last windows stay in memory, to make the next one quicker."""

SAVE_ATTEMPTS = 2
"""How often saving a turn is tried again before its followers are told."""

SAVE_PAUSE = 2.0
"""The most seconds between two attempts."""

StopCause = Literal["user_cancelled", "interrupted"]


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model that can be asked, and the account whose cache it shares."""

    model: ChatModel
    account: str


class ModelSource(Protocol):
    """Where models come from (`app`)."""

    async def open(self, name: str) -> OpenModel:
        """The model of this name; raises `InvalidRequest` when none is configured that serves it."""
        ...


RequestHeaders = Callable[[str, int], Mapping[str, str]]
"""Headers for the request of a turn's step, by the turn's id and the step's number."""


def no_headers(turn_id: str, step: int) -> Mapping[str, str]:
    """No header of our own."""
    return {}


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a deployment sets. Sizes in tokens; None: what the model allows."""

    context_budget: int | None = None
    max_output: int = 16_000
    thinking_effort: str | None = None
    step_limit: int = 12
    reminders: tuple[str, ...] = ()
    headers: RequestHeaders = no_headers

    def output(self, facts: ModelFacts) -> int:
        """The most tokens that one answer may have."""
        return min(self.max_output, facts.max_output)

    def budget(self, facts: ModelFacts) -> int:
        """The most tokens that a prompt may have: the window less the reserved output, or the setting if lower."""
        free = facts.window - self.output(facts)
        return min(self.context_budget, free) if self.context_budget else free


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn whose user message is stored and whose run has not started."""

    input: TurnInput
    runs: tuple[Run, ...]


def layout_named(name: str) -> Layout:
    """The layout of this name; raises `InvalidRequest` with the names there are."""
    layout = LAYOUTS.get(name)
    if layout is None:
        raise InvalidRequest(
            f"There is no layout “{name}”.", hint="Choose one of " + ", ".join(LAYOUTS) + ".", param="layout"
        )
    return layout


class TurnEngine:
    """Runs turns; knows nothing of mailboxes, queues and clients."""

    def __init__(
        self, services: Services, models: ModelSource, journal: Journal, bus: StreamBus, settings: EngineSettings
    ) -> None:
        self._services = services
        self._models = models
        self._journal = journal
        self._bus = bus
        self._settings = settings
        self._lines: OrderedDict[tuple[str, str, str], Line] = OrderedDict()
        self._interrupted = asyncio.Event()

    async def begin(self, caller: Caller, new: NewTurn) -> Begun:
        """Hop 4: check that the message can be answered, store it, and freeze the turn.

        Raises a `CallerError` when it can't; then nothing is stored.
        """
        opened = await self._models.open(new.model)
        found = await self._services.store.beginning(caller, new.conversation_id, opened.model.facts.name)
        conversation = found.conversation
        layout, policy = layout_named(conversation.layout), policy_named(conversation.marker_policy)
        decisions = tuple(s.decision for s in found.decisions)
        around = await self._services.surroundings.of(caller, conversation)
        run_input = self._run_input(opened, found.last_bill, new.id)
        line = self._lines.get((conversation.id, opened.account, opened.model.facts.name))
        user = UserMessage(new.user_message_id, new.text, new.sent_at, new.timezone, new.tokens, dynamic=new.dynamic)
        context = ContextInput(
            model=opened.model.facts,
            budget=run_input.budget,
            sampling=run_input.sampling,
            system=conversation.system_prompt,
            tools=conversation.tools,
            history=found.path,
            turn=Turn(new.id, user),
            decisions=decisions,
            calibration=run_input.calibration,
            agent=around.agent,
            project=around.project,
        )
        # A message that can't be sent is refused before it is stored; its files are listed where they do not fit.
        assemble(context, layout, line.assembled if line else None)
        self._journal.open(caller.user_id, new.id)
        try:
            turn = await self._services.store.begin_turn(caller, new, self._services.clock.now())
        except BaseException:
            self._journal.abandon(new.id)
            raise
        turn_input = TurnInput(
            caller=caller,
            conversation=conversation,
            history=found.path,
            turn=turn,
            decisions=decisions,
            layout=layout,
            policy=policy,
            reminders=self._settings.reminders,
            agent=around.agent,
            project=around.project,
        )
        run = Run(new.run_id, run_input, StateContainer(self._services.counter), line)
        return Begun(turn_input, (run,))

    def _run_input(self, opened: OpenModel, last: LastBill | None, turn_id: str) -> RunInput:
        facts = opened.model.facts
        calibration = facts.token_factor
        if last is not None and last.local_tokens:
            calibration = min(max(last.usage.input / last.local_tokens, 0.5), 4.0)
        return RunInput(
            model=opened.model,
            account=opened.account,
            budget=self._settings.budget(facts),
            sampling=Sampling(self._settings.output(facts), self._settings.thinking_effort),
            calibration=calibration,
            step_limit=self._settings.step_limit,
            headers=lambda step: self._settings.headers(turn_id, step),
        )

    async def run(self, begun: Begun) -> None:
        """Hops 5 to 11. Ends when the turn is saved; a turn whose task is cancelled is left to the next recovery."""
        self._emit(begun.input, _started(begun.input))
        try:
            await self._finish(begun, await self._until_ended(begun))
        finally:
            self._bus.close(begun.input.turn.id)

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

    async def _finish(self, begun: Begun, cause: StopCause | None) -> None:
        """Hop 11: what the containers hold, in one transaction; then the last packets."""
        turn = begun.input
        run = begun.runs[0]
        cut = StopReason.USER_CANCELLED if cause == "user_cancelled" else StopReason.INTERRUPTED
        run.container.cut_off(cut, run.input.model.facts.cost)
        self._keep_line(turn, run)
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

    def _keep_line(self, turn: TurnInput, run: Run) -> None:
        if run.line is not None:
            key = (turn.conversation.id, run.input.account, run.input.model.facts.name)
            self._lines[key] = run.line
            self._lines.move_to_end(key)
            while len(self._lines) > LINES_KEPT:
                self._lines.popitem(last=False)

    def forget(self, conversation_id: str) -> None:
        """Drop what is kept of a deleted conversation."""
        for key in [key for key in self._lines if key[0] == conversation_id]:
            del self._lines[key]

    def _emit(self, turn: TurnInput, packet: Packet) -> None:
        self._journal.append(turn.turn.id, packet)


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
