"""Who writes in a schedule, one thing after another: with patience of their own, or by the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from lamella.app.core import Core
from lamella.chat import Message, Queued, WaitPolicy
from lamella.chat.queued import QueuedCommand, sent_of
from lamella.chat.send import Done
from lamella.commands.parse import TypedCommand
from lamella.core.errors import LamellaError, LeaseLost, NotWaiting, ServerStopping, TurnInProgress
from lamella.core.json import decode_object
from lamella.core.ports import Batch
from lamella.core.records import QueuedMessage
from scheduling.loop import Lanes
from scheduling.model import QUESTION
from scheduling.plan import ANN, CONVERSATION, FILLER, PATIENCE, Commanded, Edit, Heard, Sent, Told

DEBOUNCES = (0.0, 0.0, 2.0, 8.0)
"""Seconds that a message may wait for more."""

FOLLOWED = 0.4
"""How often somebody who has sent something hears it to the end before going on."""

GO_ON = 0.5
"""How often somebody writes on after a crash: what waited is done in either case."""

PAUSE = 0.2
"""Seconds before a client connects again."""

T = TypeVar("T")


class Cut(Exception):
    """The connection broke, or the client gave up waiting: it is not known what came of the request."""


class Reach(Protocol):
    """The way from clients to a process."""

    many: bool
    """Whether another process may take what one refuses because it ends."""

    async def ask(self, call: Callable[[Core], Awaitable[T]], patience: float | None = None) -> T:
        """What a process gives, one that is up. Raises `Cut`, also after `patience` seconds."""
        ...


class Alone:
    """The only process."""

    many = False

    def __init__(self, core: Core) -> None:
        self._core = core

    async def ask(self, call: Callable[[Core], Awaitable[T]], patience: float | None = None) -> T:
        """See `Reach.ask`."""
        return await call(self._core)


class Writes(Protocol):
    """What a client needs of its story."""

    told: Told

    def question(self, client: int) -> Sent:
        """The next question."""
        ...

    def draw(self) -> float:
        """A number from 0 to 1."""
        ...


class Client:
    """Somebody who writes, one thing after another."""

    def __init__(self, story: Writes, reach: Reach, lanes: Lanes, number: int) -> None:
        self._story = story
        self._reach = reach
        self._lanes = lanes
        self._number = number
        self._last_turn: str | None = None

    async def act(self, actions: Sequence[str]) -> None:
        """Do all this."""
        for action in actions:
            await self._lanes.step(self, f"client {self._number}: {action}")
            with suppress(Cut):
                await self._act(action)

    async def _act(self, action: str) -> None:
        match action:
            case "message":
                await self.message()
            case "stop":
                await self._stop()
            case "pause":
                await asyncio.sleep(5 + 60 * self._story.draw())
            case "breath":
                await asyncio.sleep(4 * self._story.draw())
            case "edit" | "drop" | "flush":
                await self._change(action)
            case _:
                await self._command(action[1:])

    async def again(self) -> None:
        """Send once more what has a key and was not answered; then maybe one message more."""
        for sent in self._story.told.sent:
            if sent.client == self._number and sent.heard == "asked" and sent.key is not None:
                await self._lanes.step(self, f"client {self._number}: {sent.name} again")
                await self._send(sent)
        if self._goes_on():
            await self._lanes.step(self, f"client {self._number}: message")
            await self.message()

    def _goes_on(self) -> bool:
        """Whether to write more than what was not answered."""
        return True

    async def message(self) -> None:
        """Ask the next question; while an answer runs, try again a little later."""
        await self._send(self._story.question(self._number))

    async def _send(self, sent: Sent) -> None:
        """Send it until it is stored or refused, or it is not known and may not be sent twice."""
        message, refused = Message(f"{sent.name}: {FILLER}", key=sent.key), "refused"
        for _ in range(PATIENCE):
            # Who has a key may lose patience, and send again.
            patience = None if sent.key is None or self._story.draw() < 0.7 else 20 * self._story.draw() ** 2
            sent.heard = "asked"  # also of one that was refused before: nobody hears of it if the process ends now
            try:
                done = await self._reach.ask(self._sending(message), patience)
            except Cut:
                sent.heard = refused = "asked"  # that request may still be on its way
                if sent.key is None:
                    return
            except (TurnInProgress, LeaseLost):
                sent.heard = refused
                await asyncio.sleep(1.0)
            except ServerStopping:
                sent.heard = refused
                if not self._reach.many:
                    return
                await asyncio.sleep(PAUSE)
            except LamellaError as error:
                sent.heard = "refused"
                self._story.told.broken.append(f"{sent.name} can't be sent: {error.message}")
                return
            else:
                sent.heard = "stored"
                if isinstance(done, str):
                    sent.turn_id = self._last_turn = done
                if self._story.draw() < self._followed():
                    await self._hear(done)
                return

    def _sending(self, message: Message) -> Callable[[Core], Awaitable[Done]]:
        return lambda core: core.chat.sender.begin(ANN, CONVERSATION, message)

    def _followed(self) -> float:
        return 1.0 if self._number == 0 else 0.7

    async def _hear(self, done: Done) -> None:
        """Follow to the end; where the connection breaks, go on from the last packet."""
        heard = Heard(done if isinstance(done, str) else None)
        self._story.told.heard.append(heard)
        row = done.row if isinstance(done, Queued) else None
        while heard.ended is None:
            with suppress(Cut):
                await self._reach.ask(lambda core: _listen(core, heard, row))
            if not self._reach.many:
                return
            await asyncio.sleep(PAUSE)

    async def _stop(self) -> None:
        if (turn := self._last_turn) is not None:
            await self._reach.ask(lambda core: core.chat.stop(ANN, turn))

    async def _change(self, what: str) -> None:
        raise ValueError(f"a client without a queue can't {what}")

    async def _command(self, name: str) -> None:
        argument = str(1 + int(4 * self._story.draw() ** 2)) if name == "resume" else ""
        commanded = Commanded(TypedCommand(name, argument))
        self._story.told.commanded.append(commanded)
        try:
            await self._do(commanded)
            commanded.failed = ""
        except LamellaError as error:
            commanded.failed = f"{type(error).__name__}: {error.message}"

    async def _do(self, commanded: Commanded) -> None:
        await self._reach.ask(lambda core: core.chat.orders.run(ANN, CONVERSATION, commanded.typed))


class QueueClient(Client):
    """Somebody who does not wait for answers: what can't be done at once waits in the queue, and may be changed."""

    def _sending(self, message: Message) -> Callable[[Core], Awaitable[Done]]:
        patience = WaitPolicy(debounce=DEBOUNCES[int(self._story.draw() * len(DEBOUNCES))])
        return lambda core: core.chat.sender.submit(ANN, CONVERSATION, message, patience)

    def _followed(self) -> float:
        return FOLLOWED

    def _goes_on(self) -> bool:
        return self._story.draw() < GO_ON

    async def _do(self, commanded: Commanded) -> None:
        done = await self._reach.ask(lambda core: core.chat.orders.submit(ANN, CONVERSATION, commanded.typed))
        commanded.waits = isinstance(done, Queued)
        if isinstance(done, Queued) and self._story.draw() < FOLLOWED:
            await self._hear(done)

    async def _change(self, what: str) -> None:
        """Flush the queue, or change or take out one of the rows that wait, whoever sent it."""
        if what == "flush":
            await self._reach.ask(lambda core: core.chat.flush(ANN, CONVERSATION))
            return
        rows = await self._reach.ask(lambda core: core.chat.waiting(ANN, CONVERSATION))
        if not rows:
            return
        row = rows[int(self._story.draw() * len(rows))]
        if isinstance(sent_of(row), QueuedCommand):
            with suppress(NotWaiting):
                await self._reach.ask(lambda core: core.chat.queue.cancel(ANN, CONVERSATION, row.id))
            return
        name = QUESTION.findall(row.text)[0]
        sent = next(sent for sent in self._story.told.sent if sent.name == name)
        if what == "drop":
            await self._drop(sent, row.id)
        else:
            await self._edit(sent, row.id)

    async def _drop(self, sent: Sent, row_id: str) -> None:
        before, sent.dropped = sent.dropped, sent.dropped or "asked"
        try:
            await self._reach.ask(lambda core: core.chat.queue.cancel(ANN, CONVERSATION, row_id))
            sent.dropped = "done"
        except NotWaiting:
            if sent.dropped == "asked":
                sent.dropped = before

    async def _edit(self, sent: Sent, row_id: str) -> None:
        told = self._story.told
        edit = Edit(told.tick(), told.ticks)
        sent.edits.append(edit)
        try:
            text = f"{sent.name}: edit {edit.number}. {FILLER}"
            await self._reach.ask(lambda core: core.chat.queue.change(ANN, CONVERSATION, row_id, text))
            edit.heard = "stored"
        except NotWaiting:
            edit.heard = "refused"
        edit.heard_at = told.tick()


async def _listen(core: Core, heard: Heard, row: QueuedMessage | None) -> None:
    """The packets that come on one connection."""
    async for batch in await _packets(core, heard, row):
        for n, data in batch:
            packet = decode_object(data)
            if turn_id := packet.get("turn_id"):
                heard.turn_id = str(turn_id)
                heard.numbers.append(n)
            match packet["type"]:
                case "turn.finished":
                    heard.ended = str(packet["status"])
                case "command":
                    heard.ended = "command"
                case "turn.stopped" if not turn_id:
                    heard.ended = "taken out"
                case "error" if not turn_id and not _is_stopping(packet):
                    heard.ended = "refused"


def _is_stopping(packet: dict[str, Any]) -> bool:
    return bool(packet["error"]["type"] == ServerStopping.__name__)


async def _packets(core: Core, heard: Heard, row: QueuedMessage | None) -> AsyncIterator[Batch]:
    if heard.turn_id is not None:
        return await core.chat.follow(ANN, heard.turn_id, heard.numbers[-1] if heard.numbers else 0)
    assert row is not None
    return await core.chat.packets(ANN, await core.chat.queue.find(ANN, CONVERSATION, row.id))
