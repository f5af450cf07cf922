"""A conversation's front door: send, stop, stream. One mailbox per conversation (DESIGN 5). Read this file first.

submit ─▶ mailbox ─┬─ free: engine.begin (rows → frozen turn) ─▶ engine.run (a task of its own)
                   └─ else: a row of the queue, done by the keeper when it is due and nobody speaks
stream ─▶ live packets from the bus, else the journal        stop ─▶ the turn's stops, here or by the bus
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from lamella.chat.keeper import Keeper, queued_id_of
from lamella.chat.mailbox import Arrival, Mailbox, Mailboxes, in_progress
from lamella.chat.message import AT_ONCE, PATIENT, Message, Patience, QueueSettings, checked, local
from lamella.chat.orders import Orders
from lamella.chat.packets import Queued, command_answer, ends, missing_end, one_batch
from lamella.chat.queue import Queue
from lamella.chat.turns import Turns
from lamella.chat.waiting import Words, payload_of
from lamella.commands.command import Reach, Stopped
from lamella.commands.parse import Typed, parse
from lamella.commands.registry import Commands
from lamella.core.agents import joined
from lamella.core.errors import InvalidRequest, LamellaError, NotFound
from lamella.core.json import digest, encode
from lamella.core.messages import TurnStatus
from lamella.core.ports import Batch, StreamBus
from lamella.core.records import (
    LEAVE,
    Caller,
    Conversation,
    NewRun,
    NewTurn,
    Notice,
    Place,
    QueuedMessage,
    can_go_on,
)
from lamella.engine.journal import Journal
from lamella.engine.preview import Preview
from lamella.engine.recovery import recover
from lamella.engine.services import Services
from lamella.engine.turn import TurnEngine
from lamella.sessions.sessions import Sessions
from lamella.tooling.tool import Verdict

READ_SECONDS = 1.0
"""The most that an `/abort` waits to hear whether what is on its way is a message: it is stopped in any case."""

CLOSE_SECONDS = 2.0
"""The most that a closing process waits for its turns to be saved."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message that somebody sent."""

    caller: Caller
    message: Message
    patience: Patience
    arrival: Arrival


class Chat:
    """The conversations of one process."""

    def __init__(
        self,
        engine: TurnEngine,
        services: Services,
        journal: Journal,
        bus: StreamBus,
        sessions: Sessions,
        settings: QueueSettings,
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._services = services
        self._journal = journal
        self._bus = bus
        self._settings = settings
        self._mailboxes = Mailboxes(services.store)
        self._turns = Turns(engine, sessions, journal)
        self.commands = Commands(Reach(services.store, sessions, self, services.clock))
        self._keeper = Keeper(self._turns, services, self.commands)
        self.queue = Queue(self._keeper, services, self._mailboxes, self.read, settings.limit)
        self.orders = Orders(self.commands, self._turns, services, self._mailboxes, self.queue)

    async def start(self) -> None:
        """Recover what a dead process left, then take messages, and those that it left in the queue."""
        services = self._services
        await recover(services.store, services.clock, services.counter, self._engine.openings.facts)
        self._journal.start()
        self._sessions.start()
        for owner, conversation_id in {
            (o, m.conversation_id): None for o, m in await self._services.store.all_queued()
        }:
            self.queue.woken(owner, conversation_id)

    async def close(self) -> None:
        """Take no more messages, and end every running turn as interrupted, saved as far as it came.

        A turn that can't be saved in time is left to the recovery of the next start. What waits stays in the queue.
        """
        self._turns.closing = True
        self._keeper.tell_all()
        for box in self._mailboxes:
            box.news.set()
        await self._turns.close(CLOSE_SECONDS)
        await self._sessions.close()
        await self._journal.close()

    def is_settling(self, conversation_id: str) -> bool:
        """Whether somebody speaks, or a turn that has ended is still followed up, in this process."""
        return self._mailboxes.is_settling(conversation_id)

    @property
    def is_idle(self) -> bool:
        """Whether nobody is being answered in this process."""
        return self._turns.is_idle

    def read(self, message: Message) -> Message | Typed:
        """What a message is: a command, or words; of `//x` the words `/x`. Raises `InvalidRequest`, see `parse`."""
        parsed = parse(checked(message), self.commands.usages)
        if isinstance(parsed, str):
            return replace(message, text=parsed)
        if message.file_ids:
            raise InvalidRequest(f"/{parsed.name} takes no files.", hint="Send them with a message.", param="file_ids")
        return parsed

    async def send(self, caller: Caller, conversation_id: str, message: Message, arrival: Arrival | None = None) -> str:
        """Begin a turn now and give its id; it goes on whether or not anybody listens.

        With a key that was used before for the same message, gives that turn's id and begins nothing. Raises
        `InvalidRequest`, `NotFound`, `TurnInProgress`, `ContextLengthExceeded`, `IdempotencyMismatch` or
        `ServerStopping`; then nothing is stored.
        """
        taken = await self.submit(caller, conversation_id, message, AT_ONCE, arrival)
        if isinstance(taken, Queued):
            raise in_progress(None)
        return taken

    @contextmanager
    def arriving(self, conversation_id: str) -> Iterator[Arrival]:
        """For as long as a door reads and makes ready what it will `submit`: an `/abort` that comes meanwhile holds."""
        with self._mailboxes.of(conversation_id).expecting(Arrival()) as arrival:
            yield arrival

    async def submit(
        self,
        caller: Caller,
        conversation_id: str,
        message: Message,
        patience: Patience = PATIENT,
        arrival: Arrival | None = None,
    ) -> str | Queued:
        """Begin a turn and give its id, or put the message into the queue.

        With a key that was used before for the same message, gives what became of that. Raises as `send` does, but
        `TurnInProgress` only where the message is not to wait; and `QueueFull`.
        """
        self._turns.must_be_open("message")
        sent = _Sent(caller, message, patience, arrival or Arrival())
        sent.arrival.becomes_message()
        # Whoever asked may leave: what has begun to be stored is stored whole, and runs.
        return await asyncio.shield(self._turns.track(self._submit(conversation_id, sent)))

    async def _submit(self, conversation_id: str, sent: _Sent) -> str | Queued:
        box, begins = self._mailboxes.of(conversation_id), None
        caller, message = sent.caller, sent.message
        with box.expecting(sent.arrival):
            async with box.rows:
                conversation = await self._services.store.conversation(caller, conversation_id)
                new = await self._new_turn(caller, conversation, message)
                if message.key is not None:
                    new = replace(new, id=await self._claim(caller, new, message))
                    begins = box.begins if box.beginning == new.id else None
                    if begins is None and (known := await self._known(caller, new.id)) is not None:
                        return known
                if begins is None:
                    taken = await self._take(box, new, sent)
                    if isinstance(taken, Queued):
                        return taken
                    begins = taken
            # Not under the rows: a beginning may wait for a compaction.
            await asyncio.shield(begins)
        return new.id

    async def _known(self, caller: Caller, turn_id: str) -> str | Queued | None:
        """What became of the message that this turn's id was given to; None: it was never stored."""
        with suppress(NotFound):
            return (await self._services.store.turn(caller, turn_id)).id
        with suppress(NotFound):
            row = await self._services.store.queued_message(caller, queued_id_of(turn_id))
            return row.turn_id or await self.queue.placed(caller, row)
        return None

    async def _take(self, box: Mailbox, new: NewTurn, sent: _Sent) -> asyncio.Task[None] | Queued:
        """Begin the turn where it is free to, else let its message wait; what stores nothing leaves its key free."""
        at_once = self._settings.debounce_of(sent.patience) == 0
        try:
            if at_once and await self._mailboxes.takes_floor(box, sent.caller, new.conversation_id):
                box.beginning = sent.arrival.turn_id = new.id
                box.begins = self._turns.track(self._begin(box, new, sent))
                return box.begins
            if not sent.patience.queue:
                raise in_progress(await self._mailboxes.running(sent.caller, new.conversation_id))
            return await self._enqueue(new, sent)
        except LamellaError:
            await self._release(sent.caller, sent.message.key)
            raise

    async def _begin(self, box: Mailbox, new: NewTurn, sent: _Sent) -> None:
        try:
            await self._turns.begin(box, sent.caller, new, sent.arrival)
        except BaseException:
            box.floor.release()
            await self._release(sent.caller, sent.message.key)
            raise

    async def _enqueue(self, new: NewTurn, sent: _Sent) -> Queued:
        """Store a message with what it is to be answered with, whatever is changed in the meantime."""
        caller, message = sent.caller, sent.message
        setting = await self._engine.check(caller, new)
        stopped = sent.arrival.stopped
        joining = 0.0 if stopped else self._settings.joining_of(sent.patience)
        words = Words(
            due=self._services.clock.now() + timedelta(seconds=joining),
            stopped=stopped,
            models=tuple(run.model for run in new.runs),
            parent=new.parent,
            layout=setting.layout.name,
            marker_policy=setting.policy.value,
            thinking_effort=setting.effort,
            agent_id=setting.conversation.agent_id,
            agent_chosen=message.choices.agent_id is not LEAVE,
            file_ids=message.file_ids,
            blocks=tuple(block.text for block in message.blocks),
            whys=tuple(block.why for block in message.blocks),
            prompt=new.dynamic.prompt,
            hints=new.dynamic.hints,
            made_from=new.dynamic.made_from,
            dynamic=message.dynamic,
            knowledge_base_ids=message.choices.knowledge_base_ids,
        )
        row = QueuedMessage(
            id=queued_id_of(new.id),
            conversation_id=new.conversation_id,
            sender=caller.user_id,
            text=new.text,
            sent_at=new.sent_at,
            timezone=new.timezone,
            payload=payload_of(words),
        )
        queued = await self.queue.add(caller, row)
        if sent.arrival.stopped and not stopped:
            await self.queue.stop((row,))
        return queued

    async def _release(self, caller: Caller, key: str | None) -> None:
        """The request stored nothing: its key can be used again."""
        if key is not None:
            await self._services.store.release_key(caller, key)

    async def packets(self, caller: Caller, done: str | Queued | Notice) -> AsyncIterator[Batch]:
        """What whoever sent something hears: of a turn, of a place in the queue, or a command's answer."""
        match done:
            case str():
                return await self.follow(caller, done)
            case Queued():
                return self.queue.packets(caller, done, self.stream)
            case Notice():
                return one_batch(command_answer(done))

    async def _claim(self, caller: Caller, new: NewTurn, message: Message) -> str:
        """Bind the message's key to the new turn's id, or give the id that the same message had before."""
        same = [new.conversation_id, replace(message, key=None, blocks=())]
        store, now = self._services.store, self._services.clock.now()
        return await store.claim_key(caller, str(message.key), "turns", digest(encode(same)), new.id, now)

    async def preview(self, caller: Caller, conversation_id: str, message: Message) -> Preview:
        """The request that this message would make; nothing is stored and nothing is sent. Raises as `send` does."""
        read = self.read(message)
        if isinstance(read, Typed):
            raise InvalidRequest(f"/{read.name} is a command: no request would be made.", param="text")
        conversation = await self._services.store.conversation(caller, conversation_id)
        return await self._engine.preview(caller, await self._new_turn(caller, conversation, read))

    async def _new_turn(self, caller: Caller, conversation: Conversation, message: Message) -> NewTurn:
        text = checked(message)
        now = message.sent_at or self._services.clock.now()
        parent, named = None, message.parent_message_id
        if named is None:
            parent = Place()
        elif named is not LEAVE:
            parent = await self._services.store.place_of(caller, conversation.id, named)
        return NewTurn(
            id=self._services.ids.new("turn"),
            conversation_id=conversation.id,
            user_message_id=self._services.ids.new("msg"),
            runs=tuple(
                NewRun(self._services.ids.new("run"), model) for model in message.models or (conversation.model,)
            ),
            parent=parent,
            text=text,
            sent_at=local(now, message.timezone),
            timezone=message.timezone,
            tokens=await asyncio.to_thread(self._services.counter.count, text),
            file_ids=message.file_ids,
            dynamic=joined(message.context),
            choices=message.choices,
        )

    async def stop(self, caller: Caller, turn_id: str) -> TurnStatus:
        """Ask a turn to stop; gives its status. One that has ended stays as it is. Raises `NotFound`.

        A turn that runs here, or is about to begin, is asked before anything is read: the answer waits for no database.
        """
        if self._turns.stop(caller, turn_id):
            return TurnStatus.RUNNING
        status = (await self._services.store.turn(caller, turn_id)).status
        if status is TurnStatus.RUNNING:
            self._turns.stop_elsewhere(turn_id)
        return status

    async def stop_run(self, caller: Caller, run_id: str) -> str:
        """Ask one model's answer to stop while the others go on; one that has ended stays as it is. Gives its turn."""
        turn_id = self._engine.turn_of(run_id)
        if turn_id is None or not self._turns.stop(caller, turn_id, run_id):
            turn_id = await self._services.store.turn_of_run(caller, run_id)
            self._turns.stop_elsewhere(turn_id, run_id)
        return turn_id

    async def again(self, caller: Caller, conversation_id: str, turn_id: str, message: Message) -> Message:
        """The message that asks what a turn asked once more, beside it: its text and files, and all else of `message`.

        Raises `NotFound`, and `InvalidRequest` where `message` brings words, files or a place of its own.
        """
        turn = await self._services.store.turn(caller, turn_id)
        if turn.conversation_id != conversation_id:
            raise NotFound(f"There is no turn {turn_id} in this conversation.", param="regenerate")
        if message.text or message.file_ids or message.parent_message_id is not LEAVE:
            raise InvalidRequest(
                "A turn is asked again as it was.",
                hint="Leave out text, file_ids and parent_message_id; or send another text with parent_message_id.",
                param="regenerate",
            )
        files = tuple(attachment.file_id for attachment in turn.attachments)
        return replace(message, text=turn.text, file_ids=files, parent_message_id=turn.parent.run_id)

    async def prefer(self, caller: Caller, turn_id: str, run_id: str | None, *, latest: bool = False) -> Conversation:
        """Go on from an answer of a turn, None for the one that is followed there; what came after it stays.

        With `latest`, from the newest turn that came after it. Raises `NotFound`, `TurnInProgress`, and
        `InvalidRequest` for an answer that failed beside others.
        """
        turn = await self._services.store.turn(caller, turn_id)
        statuses = [run.status for run in turn.runs]
        for index, run in enumerate(turn.runs):
            if run.id == run_id and not can_go_on(statuses, index):
                raise InvalidRequest(
                    f"The answer of {run.model} failed: a conversation can't go on from it.",
                    hint="Choose another answer of this turn, or ask it again with `regenerate`.",
                    param="run_id",
                )
        place = await self._services.store.place_of(caller, turn.conversation_id, run_id or turn.user_message_id)
        if place.turn_id != turn_id:
            raise NotFound(f"There is no run {run_id} in turn {turn_id}.", param="run_id")
        if latest:
            place = await self._services.store.latest(caller, turn.conversation_id, place)
        async with self._mailboxes.of(turn.conversation_id).rows:
            conversation = await self._engine.go_to(caller, turn.conversation_id, place)
        return conversation

    async def abort(self, caller: Caller, conversation: Conversation) -> Stopped | None:
        """Stop the turn that runs; what waits for its end stays. If none runs, stop what is about to be answered:
        messages on their way, else the first in the queue. Their words are kept, no model is asked.
        """
        box = self._mailboxes.of(conversation.id)
        running = box.running or conversation.running_turn
        if running is not None and await self.stop(caller, running) is TurnStatus.RUNNING:
            return Stopped(running, began=True)
        if (beginning := box.stop_beginning()) is not None:
            return Stopped(beginning, began=False)
        arrived = box.stop_arrivals()
        if box.keeper is not None and await self.queue.stop_first(caller, conversation.id):
            return Stopped(None, began=False)
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                for arrival in arrived:
                    await arrival.read.wait()
        is_message = any(arrival.is_message or not arrival.ended for arrival in arrived)
        return Stopped(None, began=False) if is_message else None

    async def rest(self, conversation_id: str) -> None:
        """Come back when nobody speaks in a conversation, and what follows its answer is done."""
        async with self._mailboxes.of(conversation_id).floor:
            return

    async def waiting(self, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        """See `Queue.behind`."""
        return await self.queue.behind(caller, conversation_id)

    async def drop(self, caller: Caller, conversation_id: str, message_ids: Sequence[str]) -> tuple[QueuedMessage, ...]:
        """See `Queue.drop`."""
        return await self.queue.drop(caller, conversation_id, message_ids)

    async def flush(self, caller: Caller, conversation_id: str) -> None:
        """See `Queue.flush`."""
        await self.queue.flush(caller, conversation_id)

    async def approve(self, caller: Caller, turn_id: str, call_id: str, verdict: Verdict) -> None:
        """Let a call that waits for the user run, or not. Raises `NotFound`, and `InvalidRequest` when none waits."""
        await self._services.store.turn(caller, turn_id)
        self._services.approvals.decide(turn_id, call_id, verdict)

    async def delete(self, caller: Caller, conversation_id: str) -> None:
        """Remove a conversation, with what waits in it. Raises `TurnInProgress` while it answers."""
        waiting = await self._services.store.queued(caller, conversation_id)
        await self._services.store.delete_conversation(caller, conversation_id)
        self._engine.openings.forget(conversation_id)
        self._keeper.tell(*(row.id for row in waiting))
        self._mailboxes.of(conversation_id).news.set()

    async def stream(self, caller: Caller, turn_id: str, after: int = 0) -> AsyncIterator[Batch]:
        """The packets of a turn behind number `after`, as they come, to its end. Raises `NotFound`."""
        async for batch in await self.follow(caller, turn_id, after):
            yield batch

    async def follow(self, caller: Caller, turn_id: str, after: int = 0) -> AsyncIterator[Batch]:
        """As `stream`, but raises at once what keeps the turn from being read."""
        if self._journal.owner(turn_id) == caller.user_id and self._bus.is_live(turn_id):
            return self._bus.follow(turn_id, after)
        turn = await self._services.store.turn(caller, turn_id)
        if self._bus.is_live(turn_id):
            return self._bus.follow(turn_id, after)
        stored = await self._services.store.journal(caller, turn_id, 0)
        waiting = [packet for packet in stored if packet[0] > after]
        if turn.finished_at is not None and not (stored and ends(stored[-1][1])):
            waiting.append(missing_end(turn, max(after, stored[-1][0] if stored else 0) + 1))
        return one_batch(waiting)
