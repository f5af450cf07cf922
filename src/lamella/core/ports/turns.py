"""Turns: what they begin from, begun, followed, ended, and their packets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from lamella.core.decisions import Decision
from lamella.core.messages import Turn
from lamella.core.records import (
    BeginCondition,
    Branch,
    Caller,
    Conversation,
    ConversationSnapshot,
    JournalEntry,
    NewTurn,
    Page,
    PageQuery,
    Pinned,
    Place,
    TurnEnd,
    TurnOnPath,
    TurnRecord,
    UnfinishedTurn,
)
from lamella.core.sessions import SessionReturn, SessionStep


class TurnStore(Protocol):
    """Turns: what they begin from, begun, followed, ended, and their packets."""

    async def beginning(
        self,
        caller: Caller,
        conversation_id: str,
        model: str,
        session_id: str | None = None,
        place: Place | None = None,
    ) -> ConversationSnapshot:
        """What a turn of `model` begins from at `place`: conversation, window, decisions, last bill, of one moment.

        With the id of a closed session, the window is the one that it had when it was closed.
        """
        ...

    async def beginnings(
        self, caller: Caller, conversation_id: str, models: Sequence[str], place: Place | None = None
    ) -> tuple[ConversationSnapshot, ...]:
        """As `beginning`, for each of the models and at `place`, None for where the conversation stands."""
        ...

    async def begin_turn(
        self,
        caller: Caller,
        turn: NewTurn,
        at: datetime,
        queued_ids: Sequence[str] = (),
        footing: BeginCondition | None = None,
    ) -> Turn:
        """Store the user message and mark the turn as running; without a `footing` it follows where the conversation
        stands.

        Gives each file a document number that the conversation has never used. The waiting messages `queued_ids` went
        into this turn. Raises `TurnInProgress` when a turn is running, `HeadMoved` when the conversation does not stand
        where the footing says, `SessionMoved` when it is in another session, `NotFound` for a foreign conversation,
        file or waiting message, `NotWaiting` for one that waits no more; then nothing is stored.
        """
        ...

    async def pinned(self, caller: Caller, conversation_id: str) -> tuple[tuple[datetime, Pinned], ...]:
        """What stood around the turns of a conversation and the requests for its summaries from which moment on, the
        oldest first. What was before this was kept is not in it.
        """
        ...

    async def path(self, caller: Caller, conversation_id: str) -> tuple[Turn, ...]:
        """The turns from the first to the head, canonical, the running one included, each with the answer that is
        followed.
        """
        ...

    async def place_of(self, caller: Caller, conversation_id: str, message_id: str) -> Place:
        """The place behind a message or a run; behind a user message that of the run that is followed."""
        ...

    async def turn_of_run(self, caller: Caller, run_id: str) -> str:
        """The id of the turn that a run belongs to."""
        ...

    async def latest(self, caller: Caller, conversation_id: str, place: Place) -> Place:
        """The newest end of what follows a place; itself where nothing does."""
        ...

    async def go_to(
        self,
        caller: Caller,
        conversation_id: str,
        expected: Place,
        place: Place,
        at: datetime,
        decided: Sequence[Decision],
        session: SessionStep | SessionReturn | None = None,
    ) -> Conversation:
        """Let a conversation go on from another place, in `session` if it is not in that one; what followed stays.

        Raises `HeadMoved` when it does not stand at `expected`, `SessionMoved`, `TurnInProgress` while another turn
        than that of `place` runs, `NotFound` for a run that is not the turn's; then nothing is stored.
        """
        ...

    async def turns_on_path(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[TurnOnPath]:
        """The turns of the current path, newest first unless asked otherwise."""
        ...

    async def tree(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[Branch]:
        """Every turn of a conversation, in whatever branch."""
        ...

    async def turn(self, caller: Caller, turn_id: str) -> TurnRecord:
        """One turn."""
        ...

    async def turns(self, caller: Caller, conversation_id: str, query: PageQuery) -> Page[TurnRecord]:
        """The turns of a conversation, of every branch, by id."""
        ...

    async def finish_turn(self, caller: Caller, end: TurnEnd) -> None:
        """Store what its runs made, usage and status. A turn that has ended already stays as it is.

        Where nobody chose meanwhile, the conversation goes on from the first choice: see `first_choice`.
        """
        ...

    async def append_journal(self, entries: Sequence[JournalEntry]) -> None:
        """Store packets of any number of turns in one transaction."""
        ...

    async def journal(self, caller: Caller, turn_id: str, after: int) -> tuple[tuple[int, bytes], ...]:
        """The stored packets of a turn behind number `after`, each with its number."""
        ...

    async def claim_key(
        self, caller: Caller, key: str, route: str, fingerprint: str, result_id: str, at: datetime
    ) -> str:
        """Bind an Idempotency-Key to `result_id`, or give the id it was bound to before; what is expired is not bound.

        Raises `IdempotencyMismatch` when the key came with another route or fingerprint.
        """
        ...

    async def release_key(self, caller: Caller, key: str) -> None:
        """Forget a key whose request stored nothing."""
        ...

    async def forget_expired_keys(self, now: datetime) -> int:
        """Forget everybody's keys whose time is over; gives how many."""
        ...

    async def unfinished_turns(self) -> tuple[UnfinishedTurn, ...]:
        """The turns of every owner that are marked as running: for recovery at start."""
        ...
