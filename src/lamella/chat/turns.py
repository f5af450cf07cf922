"""Turns run in tasks of their own, independent of their callers. A running turn holds the floor of its conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from lamella.chat.mailbox import IncomingMessage, Mailbox, Mailboxes
from lamella.core.counting import count_tokens
from lamella.core.errors import LamellaError, LeaseLost, NeedsCompaction, ServerStopping
from lamella.core.records import Caller, NewTurn, QueuedMessage
from lamella.sessions.compaction import Compacted
from lamella.sessions.sessions import Sessions
from lamella.turns.journal import Journal
from lamella.turns.turn import StartedTurn, TurnEngine

log = structlog.get_logger()

DoneT = TypeVar("DoneT")


class Turns:
    """The tasks of one process, and the beginning of turns."""

    def __init__(self, engine: TurnEngine, sessions: Sessions, journal: Journal, mailboxes: Mailboxes) -> None:
        self.engine = engine
        self.closing = False
        self._journal = journal
        self._mailboxes = mailboxes
        self._sessions = sessions
        self._beginning: dict[tuple[str, str], IncomingMessage] = {}
        """By owner and turn."""
        self._work: set[asyncio.Task[object]] = set()
        engine.compact = self._compact

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._work

    def must_be_open(self, what: str) -> None:
        """Raises `ServerStopping`, for a message or a command, once the process ends."""
        if self.closing:
            raise ServerStopping("The server is stopping.", hint=f"Send the {what} again when it is back.")

    def track(self, work: Coroutine[None, None, DoneT]) -> asyncio.Task[DoneT]:
        """Run it; who closes the process waits for it."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def begin(
        self,
        box: Mailbox,
        caller: Caller,
        new: NewTurn,
        incoming: IncomingMessage,
        queued: Sequence[QueuedMessage] = (),
    ) -> None:
        """Store a turn and let it run; the caller holds the floor, and the turn's task lets go of it.

        Raises as `TurnEngine.begin` does; then nothing is stored, and the floor is still the caller's.
        """
        box.beginning = new.id
        self._beginning[caller.user_id, new.id] = incoming
        try:
            begun = await self._fitting(caller, new, queued)
        finally:
            box.beginning = box.begins = None
            del self._beginning[caller.user_id, new.id]
        box.running = new.id
        if incoming.stopped:
            self.engine.stops.stop(new.id)
        self.track(self._run(box, begun)).add_done_callback(_logged)

    def stop(self, caller: Caller, turn_id: str, run_id: str | None = None) -> bool:
        """Ask a turn of this process, or one of its runs, to stop, without reading the store; also one that is about to
        begin. Returns False if the caller has none with this id here.
        """
        arrival = self._beginning.get((caller.user_id, turn_id))
        if arrival is not None and run_id is None:
            arrival.stopped = True
            return True
        if self._journal.owner(turn_id) != caller.user_id:
            return False
        self.engine.stops.stop(turn_id, run_id)
        return True

    async def _fitting(self, caller: Caller, new: NewTurn, queued: Sequence[QueuedMessage]) -> StartedTurn:
        """Begin the turn. A conversation that no longer fits its window is compacted first.

        Once: if the compaction fails, or frees too little, content gives way until the message fits.
        """
        try:
            return await self.engine.begin(caller, new, queued, can_compact=True)
        except NeedsCompaction:
            why = "the next message would not fit the window"
            coming = new.tokens + count_tokens(new.dynamic.text)
            await self._sessions.make_room(caller, new.conversation_id, why=why, coming=coming)
        return await self.engine.begin(caller, new, queued)

    async def _compact(self, caller: Caller, conversation_id: str, why: str) -> bool:
        """Compact a conversation while a turn of it runs; whether it worked."""
        outcome = await self._sessions.make_room(caller, conversation_id, why=why)
        return isinstance(outcome, Compacted)

    async def _run(self, box: Mailbox, started: StartedTurn) -> None:
        """Steps 5 to 12 of a message's way; starts the follow-up of the turn. The reference to the box keeps it
        alive.
        """
        try:
            try:
                finished = await self.engine.run(started)
            finally:
                box.running = None
            try:
                await self._sessions.after(finished)
            except LamellaError as error:
                log.error("what follows a turn failed", turn_id=started.input.turn.id, error=error.message)
        except LeaseLost:
            log.warning("another process has taken a turn over", turn_id=started.input.id)
        finally:
            self._mailboxes.leave(box, started.input.caller, started.input.conversation_id)

    async def close(self, seconds: float) -> None:
        """End running turns as interrupted, saved as far as they came, within `seconds`."""
        self.closing = True
        self.engine.interrupt()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._work:
                    await asyncio.wait(self._work)
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)


def _logged(task: asyncio.Task[None]) -> None:
    """Nobody awaits a turn's task, so an unexpected error in it is logged at once."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a turn's task failed", exc_info=error)
