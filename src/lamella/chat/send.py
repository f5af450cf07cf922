"""`send`: a message on its way to its turn. Read this file first.

    read ─▶ add dynamic context ─▶ admit ─┬─ the conversation is free: begin its turn
      │                                   └─ else: a row of the queue, begun when it is due and nobody is answered
      └─ a command: `command_runner.py`

There is one `send`. The routes of the server, an application that embeds Lamella and the terminal (which speaks HTTP)
all call it, so the same message sends the same bytes to the provider by every way:

    done = await chat.sender.send(identity, conversation_id, OutgoingMessage(Message("What is a tide?")))
    async for batch in await chat.packets(identity.caller, done):
        ...

1. **Read.** A text that begins with `/` is a command; `//x` is the text `/x`.
2. **Add dynamic context** (`dynamic_context.py`): the block about knowledge bases, then those of the deployment's
   providers. Nothing below this line looks up who is asking for what.
3. **Admit.** Under the lock of the conversation's mailbox: take the message's Idempotency-Key, and see whether the
   conversation is free. If it is not, the message waits as a row with everything chosen for it, or is refused.
4. **Begin** (`turns.py`, then `turns/turn.py`): load what the turn begins from, assemble its window, compact first if
   it does not fit, store the turn, and let it run. The first request sends the window that was assembled here.

A message is an `IncomingMessage` from the moment that its request begins until its turn runs or its row is stored, so
that an `/abort` sent after it always finds it (`mailbox.py`). A failure on the way stores nothing and leaves the key
free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lamella.chat.command_runner import CommandRunner
from lamella.chat.dynamic_context import DynamicContexts
from lamella.chat.mailbox import IncomingMessage, Mailbox, Mailboxes, in_progress
from lamella.chat.message import (
    AT_ONCE,
    PATIENT,
    Message,
    OutgoingMessage,
    WaitPolicy,
    checked,
    debounce_of,
    joining_of,
    local,
    read_message,
)
from lamella.chat.packets import Queued
from lamella.chat.queue import Queue
from lamella.chat.queued import QueuedContent, payload_of
from lamella.chat.turns import Turns
from lamella.commands.parse import TypedCommand
from lamella.commands.registry import Commands
from lamella.core.access import Identity
from lamella.core.agents import joined
from lamella.core.errors import InvalidRequest, LamellaError, NotFound
from lamella.core.json import digest, encode
from lamella.core.records import (
    UNCHANGED,
    Caller,
    Conversation,
    NewRun,
    NewTurn,
    Notice,
    Place,
    QueuedMessage,
    queued_id_of,
)
from lamella.core.settings import EngineSettings
from lamella.turns.admission import Preview
from lamella.turns.services import Services
from lamella.turns.turn import TurnEngine

SHORT = 4_000
"""Characters of a text that is counted at once; a longer one is counted in a thread."""

ELSEWHERE_SECONDS, ELSEWHERE_PAUSE = 2.0, 0.05
"""How long a message is looked for whose key another process has, and the pause between two looks."""

Done = str | Queued | Notice
"""The outcome of a message: the id of its turn, its place in the queue, or a command's answer."""


@dataclass(frozen=True, slots=True)
class _Submitted:
    """A message that is to be admitted."""

    caller: Caller
    message: Message
    patience: WaitPolicy
    arrival: IncomingMessage
    owns_key: bool = True
    """Whether this request was the first with its Idempotency-Key."""
    claimed_at: datetime | None = None
    """When it claimed the key."""


class Sender:
    """Sends the messages of one process."""

    def __init__(
        self,
        engine: TurnEngine,
        services: Services,
        contexts: DynamicContexts,
        mailboxes: Mailboxes,
        turns: Turns,
        queue: Queue,
        orders: CommandRunner,
        commands: Commands,
        settings: EngineSettings,
    ) -> None:
        self._engine = engine
        self._services = services
        self._contexts = contexts
        self._mailboxes = mailboxes
        self._turns = turns
        self._queue = queue
        self._orders = orders
        self._commands = commands
        self._settings = settings

    async def send(
        self,
        identity: Identity,
        conversation_id: str,
        outgoing: OutgoingMessage,
        incoming: IncomingMessage | None = None,
    ) -> Done:
        """Send a message or run a command. The turn runs whether or not anybody follows it.

        `incoming` is set if the request was noted before. Raises as `submit` does, for a command as
        `CommandRunner.submit` does, `NotFound` for a knowledge base that the sender can't see, and what a provider
        raises.
        """
        if incoming is None:
            with self.arriving(conversation_id) as incoming:
                return await self.send(identity, conversation_id, outgoing, incoming)
        caller, key = identity.caller, outgoing.message.key
        read: Message | TypedCommand = outgoing.message
        if not outgoing.is_literal and outgoing.regenerate is None and not outgoing.message.continues:
            read = self.read(outgoing.message)
        if isinstance(read, TypedCommand):
            incoming.end()
            return await self._orders.submit(caller, conversation_id, read, key=key, queue=outgoing.patience.queue)
        incoming.becomes_message()
        if self._contexts.bases is not None:
            await self._contexts.bases.must_see(caller, read.choices.knowledge_base_ids)
        if outgoing.regenerate is not None:
            read = await self.again(caller, conversation_id, outgoing.regenerate, read)
        message = await self._contexts.added(identity, conversation_id, read, outgoing.kb_meta_prompt)
        # Its caller waits for an answer, or for a call: nothing of it is a row of the queue.
        patience = AT_ONCE if message.tools or message.results else outgoing.patience
        return await self.submit(caller, conversation_id, message, patience, incoming)

    async def preview(self, identity: Identity, conversation_id: str, message: Message) -> Preview:
        """The request that this message would make; nothing is stored and nothing is sent. Raises as `send` does."""
        message = await self._contexts.added(identity, conversation_id, message)
        read = self.read(message)
        if isinstance(read, TypedCommand):
            raise InvalidRequest(f"/{read.name} is a command: no request would be made.", param="text")
        conversation = await self._services.store.conversations.conversation(identity.caller, conversation_id)
        return await self._engine.preview(identity.caller, await self._new_turn(identity.caller, conversation, read))

    def read(self, message: Message) -> Message | TypedCommand:
        """A command or a text. Raises `InvalidRequest`, see `read_message`."""
        return read_message(message, self._commands.usages)

    @contextmanager
    def arriving(self, conversation_id: str) -> Iterator[IncomingMessage]:
        """Marks a message as incoming while it is read and prepared; an `/abort` meanwhile stops it."""
        with self._mailboxes.of(conversation_id).expecting(IncomingMessage()) as arrival:
            yield arrival

    async def begin(
        self, caller: Caller, conversation_id: str, message: Message, incoming: IncomingMessage | None = None
    ) -> str:
        """Begin the turn of a message that has its dynamic context, now, and return the turn's id.

        Raises as `submit` does, and `TurnInProgress` instead of queueing the message.
        """
        taken = await self.submit(caller, conversation_id, message, AT_ONCE, incoming)
        if isinstance(taken, Queued):
            raise in_progress(None)
        return taken

    async def submit(
        self,
        caller: Caller,
        conversation_id: str,
        message: Message,
        wait: WaitPolicy = PATIENT,
        incoming: IncomingMessage | None = None,
    ) -> str | Queued:
        """Begin a turn and return its id, or queue the message.

        If the key was used before for the same message, returns that outcome and begins nothing. Raises
        `InvalidRequest`, `NotFound`, `ContextLengthExceeded`, `IdempotencyMismatch`, `ServerStopping`, `QueueFull`, and
        `TurnInProgress` if the message may not wait; then nothing is stored.
        """
        self._turns.must_be_open("message")
        sent = _Submitted(caller, message, wait, incoming or IncomingMessage())
        sent.arrival.becomes_message()
        # Whoever asked may leave: what has begun to be stored is stored whole, and runs.
        return await asyncio.shield(self._turns.track(self._submit(conversation_id, sent)))

    async def _submit(self, conversation_id: str, sent: _Submitted) -> str | Queued:
        box, caller, message = self._mailboxes.of(conversation_id), sent.caller, sent.message
        with box.expecting(sent.arrival):
            async with box.rows:
                conversation = await self._services.store.conversations.conversation(caller, conversation_id)
                new = await self._new_turn(caller, conversation, message)
                if message.key is None:
                    admitted = await self._take(box, new, sent)
                else:
                    admitted = await self._keyed(box, new, sent, message.key)
            if not isinstance(admitted, asyncio.Task):
                return admitted
            # Not under the rows: a beginning may wait for a compaction.
            return await asyncio.shield(admitted)

    async def _keyed(
        self, box: Mailbox, new: NewTurn, sent: _Submitted, key: str
    ) -> asyncio.Task[str | Queued] | str | Queued:
        """Take a message unless its key came with the same message before, here or at another process."""
        now = self._services.clock.now()
        claimed = await self._claim(sent.caller, key, new, sent.message, now)
        if box.begins is not None and box.beginning == claimed:
            return box.begins
        known = await self._known(sent.caller, claimed)
        if known is None and claimed != new.id:
            known = await self._made_elsewhere(sent.caller, claimed)
        if known is not None:
            return known
        return await self._take(
            box, replace(new, id=claimed), replace(sent, owns_key=claimed == new.id, claimed_at=now)
        )

    async def _made_elsewhere(self, caller: Caller, turn_id: str) -> str | Queued | None:
        """The outcome of a message whose key another process has. That one may have ended before it stored anything, so
        this waits for `ELSEWHERE_SECONDS` at most.
        """
        clock = self._services.clock
        until = clock.monotonic() + ELSEWHERE_SECONDS
        while (known := await self._known(caller, turn_id)) is None and clock.monotonic() < until:
            await clock.sleep(ELSEWHERE_PAUSE)
        return known

    async def _known(self, caller: Caller, turn_id: str) -> str | Queued | None:
        """The outcome of the message with this turn's id; None if it was never stored."""
        with suppress(NotFound):
            return (await self._services.store.turns.turn(caller, turn_id)).id
        with suppress(NotFound):
            row = await self._services.store.queue.queued_message(caller, queued_id_of(turn_id))
            return row.turn_id or await self._queue.placed(caller, row)
        return None

    async def _take(self, box: Mailbox, new: NewTurn, sent: _Submitted) -> asyncio.Task[str | Queued] | str | Queued:
        """Begin the turn if the conversation is free, else queue the message. If nothing is stored, the key stays
        free.
        """
        at_once = debounce_of(self._settings, sent.patience) == 0
        try:
            if at_once and await self._mailboxes.takes_floor(box, sent.caller, new.conversation_id):
                box.beginning = sent.arrival.turn_id = new.id
                box.begins = self._turns.track(self._begin(box, new, sent))
                return box.begins
            if not sent.patience.queue:
                raise in_progress(await self._mailboxes.running(sent.caller, new.conversation_id))
            return await self._enqueue(new, sent)
        except LamellaError:
            if (known := await self._known_after_failure(new, sent)) is not None:
                return known
            raise

    async def _begin(self, box: Mailbox, new: NewTurn, sent: _Submitted) -> str | Queued:
        try:
            await self._turns.begin(box, sent.caller, new, sent.arrival)
        except LamellaError:
            self._mailboxes.leave(box, sent.caller, new.conversation_id)
            if (known := await self._known_after_failure(new, sent)) is not None:
                return known
            raise
        except BaseException:
            self._mailboxes.leave(box, sent.caller, new.conversation_id)
            await self._release(sent)
            raise
        return new.id

    async def _known_after_failure(self, new: NewTurn, sent: _Submitted) -> str | Queued | None:
        """The outcome of a message that failed here because another process was faster with the same key. None for any
        other, whose key can be used again: it stored nothing.
        """
        if sent.message.key is None:
            return None
        known = await self._known(sent.caller, new.id)
        if known is None:
            await self._release(sent)
        return known

    async def _enqueue(self, new: NewTurn, sent: _Submitted) -> Queued:
        """Queue a message with its current settings, which later changes do not affect."""
        caller, message = sent.caller, sent.message
        setting = await self._engine.check(caller, new)
        stopped = sent.arrival.stopped
        joining = 0.0 if stopped else joining_of(self._settings, sent.patience)
        words = QueuedContent(
            due=self._services.clock.now() + timedelta(seconds=joining),
            stopped=stopped,
            models=tuple(run.model for run in new.runs),
            parent=new.parent,
            layout=setting.layout.name,
            marker_policy=setting.policy.value,
            thinking_effort=setting.effort,
            agent_id=setting.conversation.agent_id,
            agent_chosen=message.choices.agent_id is not UNCHANGED,
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
        queued = await self._queue.add(caller, row)
        if sent.arrival.stopped and not stopped:
            await self._queue.stop((row,))
        return queued

    async def _release(self, sent: _Submitted) -> None:
        if sent.message.key is not None and sent.owns_key:
            await self._services.store.keys.release_key(sent.caller, sent.message.key, claimed_at=sent.claimed_at)

    async def again(self, caller: Caller, conversation_id: str, turn_id: str, message: Message) -> Message:
        """The message that asks a turn's question again in another branch: its text and files, and the rest of
        `message`.

        Raises `NotFound`, and `InvalidRequest` if `message` has a text, files or a parent of its own.
        """
        turn = await self._services.store.turns.turn(caller, turn_id)
        if turn.conversation_id != conversation_id:
            raise NotFound(f"There is no turn {turn_id} in this conversation.", param="regenerate")
        if message.text or message.file_ids or message.results or message.parent_message_id is not UNCHANGED:
            raise InvalidRequest(
                "A turn is asked again as it was.",
                hint="Leave out text, file_ids, results and parent_message_id; or send others with parent_message_id.",
                param="regenerate",
            )
        files = tuple(attachment.file_id for attachment in turn.attachments)
        again = replace(message, text=turn.text, file_ids=files, parent_message_id=turn.parent.run_id)
        tools = turn.tools if message.tools is None else message.tools
        return replace(again, tools=tools, results=turn.results)

    async def _claim(self, caller: Caller, key: str, new: NewTurn, message: Message, now: datetime) -> str:
        """Bind the message's key to the new turn's id, or return the id that the same message had before."""
        same = [new.conversation_id, replace(message, key=None, blocks=())]
        return await self._services.store.keys.claim_key(caller, key, "turns", digest(encode(same)), new.id, now)

    async def _new_turn(self, caller: Caller, conversation: Conversation, message: Message) -> NewTurn:
        text = checked(message)
        if conversation.head is not None:
            self._services.ids.follow(conversation.head)
        now = message.sent_at or self._services.clock.now()
        parent, named = None, message.parent_message_id
        if named is None:
            parent = Place()
        elif named is not UNCHANGED:
            parent = await self._services.store.branches.place_of(caller, conversation.id, named)
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
            tokens=await self._count(text or "\n".join(result.content for result in message.results)),
            file_ids=message.file_ids,
            dynamic=joined(message.context),
            choices=message.choices,
            tools=message.tools,
            results=message.results,
        )

    async def _count(self, text: str) -> int:
        count = self._services.counter.count
        return count(text) if len(text) < SHORT else await asyncio.to_thread(count, text)
