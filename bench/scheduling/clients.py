"""Who writes in a schedule, one thing after another: with patience of their own, or by the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from lamella.app.core import Core
from lamella.chat import Message, Queued, WaitPolicy
from lamella.chat.queued import QueuedCommand, sent_of
from lamella.commands.parse import TypedCommand
from lamella.core.errors import LamellaError, NotWaiting, ServerStopping, TurnInProgress
from scheduling.loop import Lanes
from scheduling.model import QUESTION
from scheduling.plan import ANN, CONVERSATION, FILLER, PATIENCE, Commanded, Edit, Sent, Told

DEBOUNCES = (0.0, 0.0, 2.0, 8.0)
"""Seconds that a message may wait for more."""

FOLLOWED = 0.4
"""How often somebody who has sent something hears it to the end before going on."""

GO_ON = 0.5
"""How often somebody writes on after a crash: what waited is done in either case."""


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

    def __init__(self, story: Writes, core: Core, lanes: Lanes, number: int) -> None:
        self._story = story
        self._core = core
        self._lanes = lanes
        self._number = number
        self._last_turn: str | None = None

    async def act(self, actions: Sequence[str]) -> None:
        """Do all this."""
        for action in actions:
            await self._lanes.step(self, f"client {self._number}: {action}")
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
        message = Message(f"{sent.name}: {FILLER}", key=sent.key)
        for _ in range(PATIENCE):
            try:
                sent.turn_id = self._last_turn = await self._core.chat.sender.begin(ANN, CONVERSATION, message)
            except TurnInProgress:
                sent.heard = "refused"
                await asyncio.sleep(1.0)
                continue
            except ServerStopping:
                sent.heard = "refused"
                return
            except LamellaError as error:
                sent.heard = "refused"
                self._story.told.broken.append(f"{sent.name} can't be sent: {error.message}")
                return
            sent.heard = "stored"
            if self._story.draw() < 0.7 or self._number == 0:
                async for _batch in self._core.chat.stream(ANN, sent.turn_id):
                    pass
            return

    async def _stop(self) -> None:
        if self._last_turn is not None:
            await self._core.chat.stop(ANN, self._last_turn)

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
        await self._core.chat.orders.run(ANN, CONVERSATION, commanded.typed)


class QueueClient(Client):
    """Somebody who does not wait for answers: what can't be done at once waits in the queue, and may be changed."""

    async def _send(self, sent: Sent) -> None:
        message, chat = Message(f"{sent.name}: {FILLER}", key=sent.key), self._core.chat
        patience = WaitPolicy(debounce=DEBOUNCES[int(self._story.draw() * len(DEBOUNCES))])
        try:
            done = await chat.sender.submit(ANN, CONVERSATION, message, patience)
        except LamellaError as error:
            sent.heard = "refused"
            self._story.told.broken.append(f"{sent.name} can't be sent: {error.message}")
            return
        sent.heard = "stored"
        if not isinstance(done, Queued):
            sent.turn_id = self._last_turn = done
        if self._story.draw() < FOLLOWED:
            async for _batch in await chat.packets(ANN, done):
                pass

    def _goes_on(self) -> bool:
        return self._story.draw() < GO_ON

    async def _do(self, commanded: Commanded) -> None:
        done = await self._core.chat.orders.submit(ANN, CONVERSATION, commanded.typed)
        commanded.waits = isinstance(done, Queued)
        if isinstance(done, Queued) and self._story.draw() < FOLLOWED:
            async for _batch in await self._core.chat.packets(ANN, done):
                pass

    async def _change(self, what: str) -> None:
        """Flush the queue, or change or take out one of the rows that wait, whoever sent it."""
        chat, told = self._core.chat, self._story.told
        if what == "flush":
            await chat.flush(ANN, CONVERSATION)
            return
        rows = await chat.waiting(ANN, CONVERSATION)
        if not rows:
            return
        row = rows[int(self._story.draw() * len(rows))]
        if isinstance(sent_of(row), QueuedCommand):
            with suppress(NotWaiting):
                await chat.queue.cancel(ANN, CONVERSATION, row.id)
            return
        name = QUESTION.findall(row.text)[0]
        sent = next(sent for sent in told.sent if sent.name == name)
        if what == "drop":
            await self._drop(sent, row.id)
        else:
            await self._edit(sent, row.id)

    async def _drop(self, sent: Sent, row_id: str) -> None:
        before, sent.dropped = sent.dropped, sent.dropped or "asked"
        try:
            await self._core.chat.queue.cancel(ANN, CONVERSATION, row_id)
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
            await self._core.chat.queue.change(ANN, CONVERSATION, row_id, text)
            edit.heard = "stored"
        except NotWaiting:
            edit.heard = "refused"
        edit.heard_at = told.tick()
