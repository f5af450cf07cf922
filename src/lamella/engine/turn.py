"""A turn from its first row to its last: begin, run, finish (hops 4 and 11). Saved once, whatever happened."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from lamella.core.records import Caller, Conversation, NewTurn, TurnEnd
from lamella.core.tokens import Usage
from lamella.engine.container import StateContainer
from lamella.engine.journal import Journal
from lamella.engine.loop import RunInput, Services, TurnInput
from lamella.engine.request import Line
from lamella.engine.runs import Run, run_models

log = structlog.get_logger()

LINES_KEPT = 64
"""How many conversations' last windows stay in memory, to make the next one quicker."""

SAVE_ATTEMPTS = 3


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


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a deployment sets. Sizes in tokens; None: what the model allows."""

    context_budget: int | None = None
    max_output: int = 16_000
    thinking_effort: str | None = None
    step_limit: int = 12
    reminders: tuple[str, ...] = ()
    headers: Callable[[str, int], Mapping[str, str]] = field(default=lambda turn_id, step: {})

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
        self._lines: OrderedDict[tuple[str, str], Line] = OrderedDict()

    async def begin(self, caller: Caller, new: NewTurn) -> Begun:
        """Hop 4: check that the message can be answered, store it, and freeze the turn.

        Raises a `CallerError` when it can't; then nothing is stored.
        """
        conversation = await self._services.store.conversation(caller, new.conversation_id)
        layout, policy = layout_named(conversation.layout), policy_named(conversation.marker_policy)
        opened = await self._models.open(new.model)
        history = await self._services.store.path(caller, conversation.id)
        stored = await self._services.store.decisions(caller, conversation.id)
        run_input = await self._run_input(caller, conversation, opened, new.id)
        self._check_fit(conversation, run_input, layout, history, new)
        self._journal.open(caller.user_id, new.id)
        try:
            turn = await self._services.store.begin_turn(caller, new, self._services.clock.now())
        except BaseException:
            self._journal.abandon(new.id)
            raise
        turn_input = TurnInput(
            caller=caller,
            conversation=conversation,
            history=history,
            turn=turn,
            decisions=tuple(s.decision for s in stored),
            layout=layout,
            policy=policy,
            reminders=self._settings.reminders,
        )
        line = self._lines.get((conversation.id, new.model))
        run = Run(new.run_id, run_input, StateContainer(self._services.counter), line)
        return Begun(turn_input, (run,))

    async def _run_input(self, caller: Caller, conversation: Conversation, opened: OpenModel, turn_id: str) -> RunInput:
        facts = opened.model.facts
        last = await self._services.store.last_bill(caller, conversation.id, facts.name)
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

    def _check_fit(
        self,
        conversation: Conversation,
        run: RunInput,
        layout: Layout,
        history: tuple[Turn, ...],
        new: NewTurn,
    ) -> None:
        """Refuse a message that can't be sent before it is stored; files are listed where they do not fit."""
        user = UserMessage(new.user_message_id, new.text, new.sent_at, new.timezone, new.tokens)
        context = ContextInput(
            model=run.model.facts,
            budget=run.budget,
            sampling=run.sampling,
            system=conversation.system_prompt,
            tools=conversation.tools,
            history=history,
            turn=Turn(new.id, user),
            calibration=run.calibration,
        )
        line = self._lines.get((conversation.id, new.model))
        assemble(context, layout, line.assembled if line else None)

    async def run(self, begun: Begun) -> None:
        """Hops 5 to 11. Ends when the turn is saved; cancelling it saves what there is as interrupted."""
        turn = begun.input
        self._emit(turn, _started(turn))
        ended: Literal["user_cancelled", "interrupted"] | None = "interrupted"
        try:
            ended = await self._until_stopped(begun)
        finally:
            await asyncio.shield(self._finish(begun, ended))

    async def _until_stopped(self, begun: Begun) -> Literal["user_cancelled"] | None:
        """Run the models until they are done or somebody stops the turn (SPEC O15)."""
        turn = begun.input
        work = asyncio.create_task(
            run_models(turn, begun.runs, self._services, lambda packet: self._emit(turn, packet))
        )
        stop = asyncio.create_task(self._bus.stop_requested(turn.turn.id))
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return "user_cancelled"
            work.result()
            return None
        finally:
            stop.cancel()
            work.cancel()
            await asyncio.gather(work, stop, return_exceptions=True)

    async def _finish(self, begun: Begun, ended: Literal["user_cancelled", "interrupted"] | None) -> None:
        """Hop 11: what the containers hold, in one transaction; then the last packets."""
        turn = begun.input
        run = begun.runs[0]
        cost = run.input.model.facts.cost
        cut = StopReason.USER_CANCELLED if ended == "user_cancelled" else StopReason.INTERRUPTED
        run.container.cut_off(cut, cost)
        self._keep_line(turn, run)
        end = TurnEnd(
            turn_id=turn.turn.id,
            status=_status(run, ended),
            steps=run.container.steps,
            requests=run.container.ends,
            finished_at=self._services.clock.now(),
            error=run.error.as_dict() if run.error else None,
        )
        try:
            await self._save(turn, end)
        except StoreFailed as error:
            log.error("a turn could not be saved; its journal recovers it at the next start", turn_id=end.turn_id)
            self._emit(turn, ErrorPacket(error=error.as_dict()))
        if ended is not None:
            self._emit(turn, TurnStopped(reason=ended))
        usage = sum((e.usage for e in end.requests), Usage())
        total = sum(e.cost for e in end.requests)
        self._emit(turn, TurnFinished(status=end.status.value, usage=UsageBody.of(usage), cost=total))
        await self._journal.close_turn(turn.turn.id)

    async def _save(self, turn: TurnInput, end: TurnEnd) -> None:
        for attempt in range(SAVE_ATTEMPTS):
            try:
                await self._services.store.finish_turn(turn.caller, end)
                return
            except StoreFailed:
                if attempt == SAVE_ATTEMPTS - 1:
                    raise
                await self._services.clock.sleep(0.1 * 4**attempt)

    def _keep_line(self, turn: TurnInput, run: Run) -> None:
        if run.line is not None:
            key = (turn.conversation.id, run.input.model.facts.name)
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


def _status(run: Run, ended: str | None) -> TurnStatus:
    if ended == "user_cancelled":
        return TurnStatus.STOPPED
    if ended == "interrupted":
        return TurnStatus.INTERRUPTED
    return TurnStatus.FAILED if run.error else TurnStatus.FINISHED


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
