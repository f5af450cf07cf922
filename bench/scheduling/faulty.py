"""Objects of the store with a deliberate fault each: the laws have to catch every one, else they prove nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import text

from lamella.core.json import JsonObject
from lamella.core.records import Caller, Job, JournalEntry, NewJob, QueuedMessage, TurnEnd, UnfinishedTurn
from lamella.core.replicas import Inherited
from lamella.core.sessions import Session, SessionStep
from lamella.storage.conversations.conversations import ConversationRows
from lamella.storage.conversations.queue import QueueRows
from lamella.storage.conversations.sessions import SessionRows
from lamella.storage.conversations.turns import TurnRows
from lamella.storage.database import FENCE, Rows
from lamella.storage.jobs import JobRows
from lamella.storage.keys import KeyRows
from lamella.storage.replicas import ReplicaRows
from scheduling.model import Faults
from scheduling.plan import Plan


class NoComparison(SessionRows):
    """Opens the next session from whatever session is current."""

    async def next_session(self, caller: Caller, step: SessionStep, job: Job | None = None) -> Session:
        """See `next_session` of the store."""
        now = await ConversationRows(self._database, self._ids).conversation(caller, step.session.conversation_id)
        return await super().next_session(caller, replace(step, expected=now.session_id, changes=None), job)


class NoWayBack(SessionRows):
    """Takes a session that was left and resumed for one that was never left."""

    async def next_session(self, caller: Caller, step: SessionStep, job: Job | None = None) -> Session:
        """See `next_session` of the store."""
        return await super().next_session(caller, replace(step, changes=None), job)


class MovesTwice(SessionRows):
    """Stores the newest message of a conversation once more in its next session."""

    async def next_session(self, caller: Caller, step: SessionStep, job: Job | None = None) -> Session:
        """See `next_session` of the store."""
        opened = await super().next_session(caller, step, job)
        copied = text(
            "INSERT INTO messages (id, owner, turn_id, session_id, seq, role, model, parts, results, tokens, sent_at, "
            "timezone) SELECT id || '_again', owner, turn_id, session_id, seq + 100, role, model, parts, results, "
            "tokens, sent_at, timezone FROM messages WHERE role = 'user' ORDER BY rowid DESC LIMIT 1"
        )
        await self._database.write(lambda connection: connection.execute(copied))
        return opened


class OldLabel(TurnRows):
    """Files every answer under the first session."""

    async def finish_turn(self, caller: Caller, end: TurnEnd, closing: JournalEntry | None = None) -> None:
        """See `finish_turn` of the store."""
        await super().finish_turn(caller, end, closing)
        label = text(
            "UPDATE messages SET session_id = (SELECT id FROM sessions WHERE number = 1) "
            "WHERE turn_id = :turn AND role != 'user'"
        )
        await self._database.write(lambda connection: connection.execute(label, {"turn": end.turn_id}))


class LeasesForever(JobRows):
    """Never takes up what a dead worker left."""

    async def begin(
        self, caller: Caller, job: NewJob, at: datetime, lease_seconds: float, *, first: bool = False
    ) -> tuple[Job, bool]:
        """See `begin` of the store."""
        return await super().begin(caller, job, at, 1e9, first=first)

    async def claim(
        self,
        kinds: Sequence[str],
        now: datetime,
        lease_seconds: float,
        busy: Sequence[tuple[str, str]] = (),
    ) -> Job | None:
        """See `claim` of the store."""
        return await super().claim(kinds, now, 1e9, busy)


class NoKeys(KeyRows):
    """Forgets which message an Idempotency-Key stood for."""

    async def claim_key(
        self, caller: Caller, key: str, route: str, fingerprint: str, result_id: str, at: datetime
    ) -> str:
        """See `claim_key` of the store."""
        return result_id


class NoRecovery(TurnRows):
    """Does not say which turns a dead process left running."""

    async def unfinished_turns(self, conversation_id: str | None = None) -> tuple[UnfinishedTurn, ...]:
        """See `unfinished_turns` of the store."""
        return ()


class TwoOpen(SessionRows):
    """Leaves the session open that it comes from."""

    async def next_session(self, caller: Caller, step: SessionStep, job: Job | None = None) -> Session:
        """See `next_session` of the store."""
        opened = await super().next_session(caller, step, job)
        again = text("UPDATE sessions SET closed_at = NULL WHERE id = :id")
        await self._database.write(lambda connection: connection.execute(again, {"id": step.expected}))
        return opened


class ForgetsSummary(SessionRows):
    """Enqueues nothing for the session that ends."""

    async def next_session(self, caller: Caller, step: SessionStep, job: Job | None = None) -> Session:
        """See `next_session` of the store."""
        return await super().next_session(caller, replace(step, then=None), job)


class ForgetsWaiting(QueueRows):
    """Does not say what waited when the process ended."""

    async def all_queued(self) -> tuple[tuple[Caller, QueuedMessage], ...]:
        """See `all_queued` of the store."""
        return ()


class ForgetsEdits(QueueRows):
    """Changes nothing of what waits."""

    async def change_queued(
        self, caller: Caller, message_id: str, *, text: str | None = None, payload: JsonObject | None = None
    ) -> QueuedMessage:
        """See `change_queued` of the store."""
        return await self.queued_message(caller, message_id)


class AnswersCancelled(QueueRows):
    """Says that a message was taken out, and leaves it."""

    async def cancel_queued(self, caller: Caller, message_id: str) -> QueuedMessage:
        """See `cancel_queued` of the store."""
        return await self.queued_message(caller, message_id)


class NewestFirst(QueueRows):
    """Gives what waits in the wrong order."""

    async def queued(self, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        """See `queued` of the store."""
        return (await super().queued(caller, conversation_id))[::-1]


class NoHeirs(ReplicaRows):
    """Gives up a dead process, and takes nothing of what it left."""

    async def inherit(self, process_id: str, at: datetime, *, started: bool = False) -> tuple[Inherited, ...]:
        """See `inherit` of the store."""
        return ()


class UnfencedEnd(TurnRows):
    """Ends turns of which another process may have taken over."""

    async def finish_turn(self, caller: Caller, end: TurnEnd, closing: JournalEntry | None = None) -> None:
        """See `finish_turn` of the store."""
        token = FENCE.set(None)
        try:
            await super().finish_turn(caller, end, closing)
        finally:
            FENCE.reset(token)


class UnfencedJournal(TurnRows):
    """Stores packets of turns that another process may have taken over."""

    async def append_journal(self, entries: Sequence[JournalEntry]) -> None:
        """See `append_journal` of the store."""
        token = FENCE.set(None)
        try:
            await super().append_journal(entries)
        finally:
            FENCE.reset(token)


_SLOW = Faults(slow=0.98)


_FOUR = ("message",) * 4


def _queued(seed: int, *clients: tuple[str, ...], restart: bool = False) -> Plan:
    return Plan(seed, clients, restart=restart, queued=True)


def _overtaken(seed: int, at: str) -> Plan:
    """A process stands still before an operation until another one has taken over."""
    return Plan(seed, (("message", "message"),) * 2, queued=True, replicas=2, wakes=True, still_at=at)


FAULTY: Mapping[type[Rows], Sequence[Plan]] = {
    NoComparison: [Plan(seed, (("/compact", "/new", "message"),), faults=_SLOW) for seed in range(8)],
    NoWayBack: [Plan(seed, (("/compact", "/new", "/resume"),), faults=_SLOW) for seed in range(12)],
    MovesTwice: [Plan(0, (("/compact",),))],
    OldLabel: [Plan(0, (("/new", "message"),))],
    LeasesForever: [Plan(seed, (("/compact",),), crash_at=60 + 10 * seed) for seed in range(8)],
    NoKeys: [
        Plan(seed, (("message", "message"), ("message",)), crash_at=at, queued=True)
        for at in (28, *range(24, 34))
        for seed in (0, 2, 7)
    ],
    NoRecovery: [Plan(seed, (("message",),), crash_at=16 + 3 * seed) for seed in range(8)],
    TwoOpen: [Plan(0, (("/new",),))],
    ForgetsSummary: [Plan(0, (("/new",),))],
    ForgetsWaiting: [_queued(seed, _FOUR, restart=True) for seed in range(12)],
    ForgetsEdits: [_queued(seed, _FOUR, ("message", "edit", "edit")) for seed in range(6)],
    AnswersCancelled: [_queued(seed, _FOUR, ("message", "drop", "drop")) for seed in range(6)],
    NewestFirst: [_queued(seed, _FOUR) for seed in range(6)],
    NoHeirs: [Plan.of_replicas(3)],
    UnfencedEnd: [_overtaken(seed, "finish_turn") for seed in range(4)],
    UnfencedJournal: [_overtaken(seed, "append_journal") for seed in (0, 5, 6, 7)],
}
"""Each fault with the schedules that show it."""
