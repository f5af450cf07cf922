"""`Chat`: the conversations of one process. Messages go in by `sender` (`send.py`), packets come out here.

follow ─▶ live packets from the bus, else the journal        stop ─▶ the turn's stops, here or by the bus
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import assert_never

import structlog

from lamella.chat.command_runner import CommandRunner
from lamella.chat.dynamic_context import DynamicContexts
from lamella.chat.following import Followers
from lamella.chat.mailbox import Mailboxes
from lamella.chat.packets import Queued, command_answer, one_batch
from lamella.chat.queue import Queue
from lamella.chat.queue_worker import QueueWorker
from lamella.chat.replica import LOOK_SECONDS, Replica
from lamella.chat.send import Done, Sender
from lamella.chat.turns import Turns
from lamella.commands.command import CommandContext, Stopped
from lamella.commands.registry import Commands
from lamella.core.errors import InvalidRequest, LeaseLost, NotFound, NotWaiting, StoreFailed
from lamella.core.json import Json, JsonObject
from lamella.core.messages import TurnStatus
from lamella.core.ports import Batch, StreamBus
from lamella.core.records import (
    Caller,
    Conversation,
    Notice,
    QueuedMessage,
    can_go_on,
)
from lamella.core.replicas import Inherited, Signal, SignalKind
from lamella.core.settings import EngineSettings
from lamella.sessions.sessions import Sessions
from lamella.tooling.tool import Verdict
from lamella.turns.heard import HeardTurns
from lamella.turns.journal import Journal
from lamella.turns.recovery import recover
from lamella.turns.services import Services
from lamella.turns.turn import TurnEngine

log = structlog.get_logger()

READ_SECONDS = 1.0
"""The longest wait of an `/abort` for whether an incoming request is a message: it is stopped in any case."""

RECOVER_PAUSE = 1.0
"""Seconds before a turn of a dead process is recovered again after the store failed."""

CLOSE_SECONDS = 2.0
"""The most that a closing process waits for its turns to be saved."""


class Chat:
    """The conversations of one process."""

    def __init__(
        self,
        engine: TurnEngine,
        services: Services,
        journal: Journal,
        bus: StreamBus,
        sessions: Sessions,
        settings: EngineSettings,
        contexts: DynamicContexts | None = None,
        replica: Replica | None = None,
        heard: HeardTurns | None = None,
    ) -> None:
        self._engine = engine
        self._replica = replica
        self._bus = bus
        self._sessions = sessions
        self._services = services
        self._journal = journal
        if replica is not None and heard is None:
            heard = HeardTurns()  # nothing is heard: followers read the journal
        self._followers = Followers(bus, services.store, services.clock, heard)
        self._mailboxes = Mailboxes(services.store, replica)
        self._turns = Turns(engine, sessions, journal, self._mailboxes)
        reach = CommandContext(
            services.store, sessions, services.clock, self.abort, self.waiting, self.drop, self.flush
        )
        self.commands = Commands(reach)
        self._keeper = QueueWorker(self._turns, services, self.commands, self._mailboxes)
        self.queue = Queue(self._keeper, services, self._mailboxes, self.commands, settings.queue_limit)
        self.orders = CommandRunner(self.commands, self._turns, services, self._mailboxes, self.queue)
        self.sender = Sender(
            engine,
            services,
            contexts or DynamicContexts(services.store),
            self._mailboxes,
            self._turns,
            self.queue,
            self.orders,
            self.commands,
            settings,
        )

    async def start(self) -> None:
        """Recover turns of a dead process, then accept messages, including those left in the queue.

        One of several processes takes only what nobody else has, and recovers it in the background.
        """
        services = self._services
        if self._replica is None:
            await recover(services.store, services.clock, services.counter, self._engine.loader.facts)
        self._journal.start()
        if self._replica is not None:
            self._replica.on_inherited, self._replica.on_signal = self._take_up, self._signalled
            await self._replica.start()
            self._sessions.start()  # its jobs name the process that does them
            return
        self._sessions.start()
        for owner, conversation_id in {
            (o, m.conversation_id): None for o, m in await self._services.store.queue.all_queued()
        }:
            self.queue.woken(owner, conversation_id)

    def drain(self) -> None:
        """Accept no more messages; running turns go on. The queue is kept.

        Of several processes, this one keeps the followers of its own turns; those of other turns and of what waits go
        on elsewhere.
        """
        self._turns.closing = True
        self._followers.leave()
        self._keeper.tell_all()
        for box in self._mailboxes:
            box.news.set()

    @property
    def is_draining(self) -> bool:
        """Whether no more messages are accepted."""
        return self._turns.closing

    @property
    def hears_others(self) -> bool | None:
        """Whether Redis carries packets and signals to other processes now; None for a process that serves alone."""
        return None if self._replica is None else self._bus.problem is None

    @property
    def is_working(self) -> bool:
        """Whether packets are stored, and jobs of conversations done."""
        return self._journal.is_working and self._sessions.is_working

    async def close(self) -> None:
        """Accept no more messages, and end every running turn as interrupted, saved as far as it came.

        A turn that can't be saved in time is recovered by the next start. The queue is kept. A database that is away is
        not waited for any longer than turns are.
        """
        self.drain()
        self._services.store.database.hurry(CLOSE_SECONDS)
        await self._turns.close(CLOSE_SECONDS)
        await self._sessions.close()
        await self._journal.close()
        await self._mailboxes.close()
        if self._replica is not None:
            await self._replica.close()

    def _take_up(self, inherited: Sequence[Inherited]) -> None:
        """Go on with the conversations and jobs of processes that are gone."""
        self._sessions.wake()
        for one in inherited:
            self._turns.track(self._go_on(Caller(one.owner), one.conversation_id))

    async def _go_on(self, owner: Caller, conversation_id: str) -> None:
        """End the turn that a gone process left running, as far as it came, then work through the queue."""
        box = self._mailboxes.of(conversation_id)
        await box.floor.acquire()
        try:
            while not self._turns.closing:
                try:
                    if await self._mailboxes.holds(box, conversation_id):
                        services, facts = self._services, self._engine.loader.facts
                        await recover(services.store, services.clock, services.counter, facts, conversation_id)
                    return
                except StoreFailed as error:
                    log.error("a turn can't be recovered yet", conversation_id=conversation_id, error=error.message)
                    await self._services.clock.sleep(RECOVER_PAUSE)
        except (LeaseLost, NotFound) as error:
            log.warning("what a dead process left is not taken up", conversation_id=conversation_id, why=error.message)
        finally:
            self._mailboxes.leave(box, owner, conversation_id)

    def _signalled(self, signal: Signal) -> None:
        """Do what another process asks."""
        data, box = signal.data, self._mailboxes.of(signal.conversation_id)
        owner, turn_id, run_id = Caller(str(data.get("owner"))), str(data.get("turn")), data.get("run")
        match signal.kind:
            case SignalKind.QUEUE:
                self.queue.woken(owner, signal.conversation_id)
            case SignalKind.STOP:
                self._turns.stop(owner, turn_id, None if run_id is None else str(run_id))
            case SignalKind.ABORT:
                if box.stop_beginning() is None:
                    box.stop_arrivals()
            case SignalKind.APPROVE:
                verdict = Verdict(bool(data.get("approved")), str(data.get("reason")))
                with suppress(InvalidRequest):
                    self._services.approvals.decide(turn_id, str(data.get("call")), verdict)
            case SignalKind.PREFER:
                self._engine.prefer(turn_id, str(run_id))
            case _:
                assert_never(signal.kind)

    async def _ask(self, kind: SignalKind, caller: Caller, conversation_id: str, **data: Json) -> bool:
        """Ask the process that holds a conversation; whether it is another one."""
        if self._replica is None:
            return False
        return await self._replica.signal(Signal(kind, conversation_id, {"owner": caller.user_id, **data}))

    async def is_settling(self, conversation_id: str) -> bool:
        """Whether a turn runs in a conversation, or its follow-up does, in any process."""
        if self._mailboxes.is_settling(conversation_id):
            return True
        return self._replica is not None and await self._replica.is_busy_elsewhere(conversation_id)

    def is_stopping(self, turn_id: str) -> bool:
        """Whether a turn of this process was asked to stop and has not ended."""
        return self._engine.stops.is_stopping(turn_id)

    @property
    def is_idle(self) -> bool:
        """Whether no turn runs in this process."""
        return self._turns.is_idle

    async def packets(self, caller: Caller, done: Done) -> AsyncIterator[Batch]:
        """The packets for the sender: those of a turn, of a queued message, or a command's answer."""
        match done:
            case str():
                return await self.follow(caller, done)
            case Queued():
                return self.queue.packets(caller, done, self.stream)
            case Notice():
                return one_batch(command_answer(done))

    async def stop(self, caller: Caller, turn_id: str) -> TurnStatus:
        """Ask a turn to stop; returns its status. An ended turn is not changed. Raises `NotFound`.

        A turn that runs here, or is about to begin, is asked before anything is read, so a slow database does not delay
        it.
        """
        if self._turns.stop(caller, turn_id):
            return TurnStatus.RUNNING
        turn = await self._services.store.turns.turn(caller, turn_id)
        if turn.status is TurnStatus.RUNNING:
            await self._ask(SignalKind.STOP, caller, turn.conversation_id, turn=turn_id)
        return turn.status

    async def stop_run(self, caller: Caller, run_id: str) -> str:
        """Ask one model's answer to stop while the others continue; an ended one is not changed. Returns its turn."""
        turn_id = self._engine.turn_of(run_id)
        if turn_id is None or not self._turns.stop(caller, turn_id, run_id):
            turn_id = await self._services.store.branches.turn_of_run(caller, run_id)
            turn = await self._services.store.turns.turn(caller, turn_id)
            if turn.status is TurnStatus.RUNNING:
                await self._ask(SignalKind.STOP, caller, turn.conversation_id, turn=turn_id, run=run_id)
        return turn_id

    async def prefer(self, caller: Caller, turn_id: str, run_id: str | None, *, latest: bool = False) -> Conversation:
        """Continue from an answer of a turn, None for the one followed there. Later turns are kept.

        With `latest`, continue from the newest turn after it. Raises `NotFound`, `TurnInProgress`, and `InvalidRequest`
        for a failed answer if others did not fail.
        """
        turn = await self._services.store.turns.turn(caller, turn_id)
        statuses = [run.status for run in turn.runs]
        for index, run in enumerate(turn.runs):
            if run.id == run_id and not can_go_on(statuses, index):
                raise InvalidRequest(
                    f"The answer of {run.model} failed: a conversation can't go on from it.",
                    hint="Choose another answer of this turn, or ask it again with `regenerate`.",
                    param="run_id",
                )
        place = await self._services.store.branches.place_of(
            caller, turn.conversation_id, run_id or turn.user_message_id
        )
        if place.turn_id != turn_id:
            raise NotFound(f"There is no run {run_id} in turn {turn_id}.", param="run_id")
        if latest:
            place = await self._services.store.branches.latest(caller, turn.conversation_id, place)
        async with self._mailboxes.of(turn.conversation_id).rows:
            conversation = await self._engine.go_to(caller, turn.conversation_id, place)
        if place.turn_id is not None and place.turn_id == conversation.running_turn and place.run_id is not None:
            names = {"turn": place.turn_id, "run": place.run_id}
            await self._ask(SignalKind.PREFER, caller, turn.conversation_id, **names)
        return conversation

    async def abort(self, caller: Caller, conversation: Conversation) -> Stopped | None:
        """Stop the running turn; the queue is kept. If none runs, stop the messages that are about to be answered:
        incoming ones, else the first in the queue. Their texts are stored, and no model is asked.
        """
        box = self._mailboxes.of(conversation.id)
        running = box.running or conversation.running_turn
        if running is not None and await self.stop(caller, running) is TurnStatus.RUNNING:
            return Stopped(running, began=True)
        if (beginning := box.stop_beginning()) is not None:
            return Stopped(beginning, began=False)
        arrived = box.stop_arrivals()
        if self._replica is not None:  # a message may be on its way in any of the others
            owner: JsonObject = {"owner": caller.user_id}
            await self._replica.signal_all(Signal(SignalKind.ABORT, conversation.id, owner))
        keeps = self._replica is not None or box.keeper is not None
        try:
            if keeps and await self.queue.stop_first(caller, conversation.id):
                return Stopped(None, began=False)
        except NotWaiting:  # another process took them meanwhile
            begun = await self._services.store.conversations.conversation(caller, conversation.id)
            if begun.running_turn is not None:
                return await self.abort(caller, begun)
        if await self._begins_elsewhere(caller, conversation):
            return Stopped(None, began=False)
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                for arrival in arrived:
                    await arrival.read.wait()
        is_message = any(arrival.is_message or not arrival.ended for arrival in arrived)
        return Stopped(None, began=False) if is_message else None

    async def _begins_elsewhere(self, caller: Caller, conversation: Conversation) -> bool:
        """Whether another process was about to begin a turn, which is stored and stopped then.

        One that only follows up its last turn lets the conversation go in a moment. Anything that takes longer than
        `READ_SECONDS` counts as a beginning.
        """
        if self._replica is None:
            return False
        clock, head = self._services.clock, conversation.head
        until = clock.monotonic() + READ_SECONDS
        while await self._replica.is_elsewhere(conversation.id):
            if clock.monotonic() > until:
                return True
            await clock.sleep(LOOK_SECONDS)
        return (await self._services.store.conversations.conversation(caller, conversation.id)).head != head

    async def rest(self, conversation_id: str) -> None:
        """Returns when no turn runs in a conversation, and the follow-up of its last one is done."""
        await self._mailboxes.settled(conversation_id)

    async def waiting(self, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        """See `Queue.waiting`."""
        return await self.queue.waiting(caller, conversation_id)

    async def drop(self, caller: Caller, conversation_id: str, message_ids: Sequence[str]) -> tuple[QueuedMessage, ...]:
        """See `Queue.drop`."""
        return await self.queue.drop(caller, conversation_id, message_ids)

    async def flush(self, caller: Caller, conversation_id: str) -> None:
        """See `Queue.flush`."""
        await self.queue.flush(caller, conversation_id)

    async def approve(self, caller: Caller, turn_id: str, call_id: str, verdict: Verdict) -> None:
        """Let a waiting call run, or not. Raises `NotFound`, and `InvalidRequest` if none waits here and no other
        process runs the turn.
        """
        turn = await self._services.store.turns.turn(caller, turn_id)
        if turn.status is TurnStatus.RUNNING and self._journal.owner(turn_id) is None:
            said: dict[str, Json] = {"approved": verdict.approved, "reason": verdict.reason, "call": call_id}
            if await self._ask(SignalKind.APPROVE, caller, turn.conversation_id, turn=turn_id, **said):
                return
        self._services.approvals.decide(turn_id, call_id, verdict)

    async def delete(self, caller: Caller, conversation_id: str) -> None:
        """Delete a conversation and its queue. Raises `TurnInProgress` while it answers."""
        waiting = await self._services.store.queue.queued(caller, conversation_id)
        await self._services.store.conversations.delete_conversation(caller, conversation_id)
        self._engine.loader.forget(conversation_id)
        self._keeper.tell(*(row.id for row in waiting))
        self._mailboxes.of(conversation_id).news.set()

    async def stream(self, caller: Caller, turn_id: str, after: int = 0) -> AsyncIterator[Batch]:
        """The packets of a turn after number `after`, then live ones, to its end. Raises `NotFound`."""
        async for batch in await self.follow(caller, turn_id, after):
            yield batch

    async def follow(self, caller: Caller, turn_id: str, after: int = 0) -> AsyncIterator[Batch]:
        """As `stream`, but raises at once if the turn can't be read."""
        return await self._followers.follow(caller, turn_id, after)
