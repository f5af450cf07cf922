"""One conversation's mailbox: its running turn, and the messages that wait.

                    rows: held for moments                  floor: held while a turn or command runs
                    ──────────────────────                  ────────────────────────────────────────
    submit ──▶ free, and nothing waits? ── yes ───────────▶ begin ──▶ the turn's task lets go, when all is saved
                    │ no                                      ▲
                    ▼                                         │ takes the rows: what is begun is changed no more
               a row of the queue ──▶ keeper: due? free? ─────┘ (a command of the queue runs here too)
                    ▲
    change, drop, flush

`rows` is held by the code that decides where a message goes, changes what waits, or takes it; nothing slow is awaited
under it. `floor` is held from before a turn begins to after it is saved and followed up, and while a command runs that
touches the context. The keeper is a task that lives while rows wait. It takes the floor first, then the rows. Code that
holds the rows takes the floor only if there is no keeper, so the two locks can't deadlock. Commands that run at once
take neither. `/abort` takes the rows if only a debounced message is left to stop.

A message is an `IncomingMessage` until its turn has begun or it is stored as a row. So at each moment a message is an
arrival, a row or the running turn, and an `/abort` finds it.

With several processes, one of them *holds* a conversation while a turn runs or a row waits in it (`replica.py`). The
floor is then taken in two steps: the lock here, then the hold in the database. If another process holds the
conversation, the message becomes a row of the queue, and the holder answers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from lamella.chat.packets import Queued
from lamella.chat.replica import Replica
from lamella.core.errors import LamellaError, TurnInProgress
from lamella.core.records import Caller
from lamella.storage import Store


@dataclass(eq=False, slots=True)
class IncomingMessage:
    """A request with a message, before its turn. `turn_id` is set when the turn begins; only one begins at a time.

    `read` is set when it is known whether it `is_message`, and not a command or refused. `stopped`: its turn is stored
    and stops at once, and no model is asked. `ended`: it has become a turn or a row, or failed.
    """

    is_message: bool = False
    turn_id: str | None = None
    stopped: bool = False
    ended: bool = False
    read: asyncio.Event = field(default_factory=asyncio.Event)

    def becomes_message(self) -> None:
        """It was read and is a message, not a command."""
        self.is_message = True
        self.read.set()

    def end(self) -> None:
        """Its turn runs, it waits as a row, it was refused, or it was a command."""
        self.ended = True
        self.read.set()


@dataclass(eq=False, slots=True, weakref_slot=True)
class Mailbox:
    """The state of a conversation in memory, while it is in use. The queue is in the store.

    `beginning` is the id of the turn that is about to begin, `begins` its task if it is of a new message. `taking` are
    the queued rows that go into it. `running` is the turn that runs in this process. `news` wakes the queue's worker.
    `holding` is held while the conversation is taken from other processes or let go.
    """

    rows: asyncio.Lock = field(default_factory=asyncio.Lock)
    floor: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    keyed: asyncio.Lock = field(default_factory=asyncio.Lock)
    holding: asyncio.Lock = field(default_factory=asyncio.Lock)
    keeper: asyncio.Task[None] | None = None
    beginning: str | None = None
    begins: asyncio.Task[str | Queued] | None = None
    taking: frozenset[str] = frozenset()
    running: str | None = None
    arrivals: list[IncomingMessage] = field(default_factory=list)

    @contextmanager
    def expecting(self, incoming: IncomingMessage) -> Iterator[IncomingMessage]:
        """A message is on its way until the block ends; of blocks in each other the first that ends ends it."""
        self.arrivals.append(incoming)
        try:
            yield incoming
        finally:
            incoming.end()
            self.arrivals.remove(incoming)

    def stop_beginning(self) -> str | None:
        """Stop the turn that is about to begin; returns its id, None if there is none."""
        for arrival in self.arrivals:
            if arrival.turn_id is not None and not arrival.ended:
                arrival.stopped = True
                return arrival.turn_id
        return None

    def stop_arrivals(self) -> tuple[IncomingMessage, ...]:
        """Stop every incoming message: each was sent before the stop. Returns those that may be messages."""
        found = tuple(arrival for arrival in self.arrivals if not arrival.ended)
        for arrival in found:
            arrival.stopped = True
        return found


class Mailboxes:
    """The mailboxes of one process."""

    def __init__(self, store: Store, replica: Replica | None = None) -> None:
        self.replica = replica
        self.wake: Callable[[Mailbox, Caller, str], None] = lambda *_: None
        """Begins to work through a queue; set by the queue's worker."""
        self._store = store
        self._boxes: WeakValueDictionary[str, Mailbox] = WeakValueDictionary()
        self._leaving: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Mailbox]:
        return iter(list(self._boxes.values()))

    def of(self, conversation_id: str) -> Mailbox:
        """The mailbox of a conversation."""
        return self._boxes.setdefault(conversation_id, Mailbox())

    def is_settling(self, conversation_id: str) -> bool:
        """Whether a turn runs in this process, or its follow-up does."""
        box = self._boxes.get(conversation_id)
        return box is not None and box.floor.locked()

    async def takes_floor(self, box: Mailbox, caller: Caller, conversation_id: str) -> bool:
        """Take the floor if no turn runs and the queue is empty. A saved answer releases it in a moment.

        The one that takes it calls `leave`, or lets the turn's task do so. Raises `LeaseLost`.
        """
        if box.keeper is not None:
            return False
        if box.floor.locked() and (box.beginning is not None or await self.running(caller, conversation_id)):
            return False
        if (
            box.keeper is not None
        ):  # it came meanwhile, takes the floor first, and waits for the rows that are held here
            return False
        await box.floor.acquire()
        taken = self.replica is None
        try:
            taken = taken or await self.holds(box, conversation_id, to_speak=True)
        finally:
            if not taken:
                box.floor.release()
        return taken

    async def holds(self, box: Mailbox, conversation_id: str, *, to_speak: bool = False) -> bool:
        """Take a conversation from other processes, unless one of them holds it: see `Replica.take`."""
        if self.replica is None:
            return True
        async with box.holding:
            return await self.replica.take(conversation_id, to_speak=to_speak)

    def leave(self, box: Mailbox, caller: Caller, conversation_id: str) -> None:
        """Release the floor, and let the conversation go in the background if nothing is left to do in it."""
        box.floor.release()
        if self.replica is not None:
            leaving = asyncio.create_task(self.let_go(box, caller, conversation_id))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def let_go(self, box: Mailbox, caller: Caller, conversation_id: str) -> None:
        """Let other processes have a conversation, unless this one uses it or something waits in it."""
        if self.replica is None:
            return
        left = False
        async with box.holding:
            if not box.floor.locked() and box.keeper is None:
                left = await self.replica.let_go(conversation_id)
        if left:
            with suppress(LamellaError):
                if await self._store.queue.queued(caller, conversation_id):
                    self.wake(box, caller, conversation_id)

    async def settled(self, conversation_id: str) -> None:
        """Returns when no process runs a turn of a conversation or follows one up."""
        async with self.of(conversation_id).floor:
            pass  # held for longer, it would keep `let_go` from letting the conversation go
        if self.replica is not None:
            await self.replica.settled(conversation_id)

    async def close(self) -> None:
        """Wait until what was left is let go."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=1.0)
        for leaving in self._leaving:
            leaving.cancel()

    async def running(self, caller: Caller, conversation_id: str) -> str | None:
        """The turn that runs."""
        return (await self._store.conversations.conversation(caller, conversation_id)).running_turn


def in_progress(turn_id: str | None) -> TurnInProgress:
    """The error for a message that may not wait; None: the queue is not empty."""
    if turn_id is None:
        return TurnInProgress(
            "Something waits to be answered in this conversation.",
            hint="Wait for it to end, or queue this message: leave out “queue”: false.",
        )
    return TurnInProgress(
        "This conversation is still answering.",
        hint=f"Wait for the turn to end or stop it: POST /api/v1/turns/{turn_id}/stop.",
    )
