"""Everything that is stored of a conversation and may be read by its reader, found once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from lamella.core.messages import Attachment, TurnStatus
from lamella.core.records import (
    Caller,
    Conversation,
    Notice,
    NoticeKind,
    PageQuery,
    Pinned,
    RequestRecord,
    StoredDecision,
    TurnRecord,
)
from lamella.core.sessions import Session, SessionCause
from lamella.storage import Store

PAGE = 100

ENDING = ("new", "clear", "resume")
"""Commands that end a session without a summary, which is made afterwards."""

OVERFLOW = "context_length_exceeded"
"""The code of a refusal that a compaction may answer, in the middle of a turn."""


@dataclass(frozen=True, slots=True)
class ConversationData:
    """A conversation: its turns that have ended, in the order in which they began; what was asked, decided and told.

    `pinned` is what stood around it from which moment on; in old ones that is not known. `found` are the documents that
    tools brought into it, with their moments. `waiting` counts what waits.
    """

    conversation: Conversation
    turns: tuple[TurnRecord, ...]
    requests: Mapping[str, tuple[RequestRecord, ...]]
    decisions: tuple[StoredDecision, ...]
    sessions: tuple[Session, ...]
    commands: tuple[Notice, ...]
    found: tuple[tuple[datetime, Attachment], ...]
    pinned: tuple[tuple[datetime, Pinned], ...]
    waiting: int

    def of_purpose(self, purpose: str) -> list[RequestRecord]:
        """The requests for this purpose, in order."""
        found = [one for of_turn in self.requests.values() for one in of_turn if one.purpose == purpose]
        return sorted(found, key=lambda one: (one.at, one.id))

    def kept_around(self, moment: datetime) -> Pinned | None:
        """The conversation's agent and project at a moment. None if they were not stored."""
        return next((pinned for at, pinned in reversed(self.pinned) if at <= moment), None)

    def around(self, moment: datetime) -> Pinned:
        """The conversation's agent and project at a moment. The current ones if those were not stored."""
        return self.kept_around(moment) or Pinned(self.conversation.system_prompt, self.conversation.tools)

    def asked_at(self, record: RequestRecord) -> datetime:
        """The moment that a request for a summary belongs to: one that was made during a running turn knew nothing of
        it, and belongs before it. One that the turn itself waited for is its own. One for a session that a command
        ended belongs after the command, whose answer may have been stored later.
        """
        return max([self._asked_at(record), *self._ended_by_command(record)])

    def _ended_by_command(self, record: RequestRecord) -> Iterator[datetime]:
        for session in self.sessions:
            at = session.closed_at
            if at is None or session.closed_by is SessionCause.COMPACTION or session.ends_with != record.turn_id:
                continue
            told = (one.at for one in self.commands if one.name in ENDING and at <= one.at)
            if at <= record.at and (ended := min(told, default=None)) is not None:
                yield ended

    def _asked_at(self, record: RequestRecord) -> datetime:
        for turn in self.turns:
            if turn.finished_at is not None and turn.started_at <= record.at < turn.finished_at:
                refused = (one for one in self.requests[turn.id] if one.purpose == "chat" and one.at < record.at)
                waited = any((one.error or {}).get("code") == OVERFLOW for one in refused)
                return turn.finished_at if waited else turn.started_at
        return record.at

    def chat(self, turn: TurnRecord, run: int) -> list[RequestRecord]:
        """The requests that a run of a turn made for its answer, in order."""
        mine = turn.runs[run].id
        return [one for one in self.requests[turn.id] if one.purpose == "chat" and one.run_id == mine]

    def is_told(self, turn: TurnRecord) -> bool:
        """Whether a turn was answered elsewhere: a client sent it, or it was copied from another conversation."""
        return turn.status is TurnStatus.FINISHED and not any(self.chat(turn, run.index) for run in turn.runs)


async def gathered(store: Store, caller: Caller, conversation_id: str) -> ConversationData:
    """What is stored of the caller's conversation. Raises `NotFound`."""
    conversation = await store.conversations.conversation(caller, conversation_id)
    turns = await _turns(store, caller, conversation)
    return ConversationData(
        conversation=conversation,
        turns=turns,
        requests={turn.id: await store.requests.requests(caller, turn.id) for turn in turns},
        decisions=await store.conversations.decisions(caller, conversation_id),
        sessions=await store.sessions.sessions(caller, conversation_id),
        commands=await _commands(store, caller, conversation_id),
        found=await store.documents.found_documents(caller, conversation_id),
        pinned=await store.turns.pinned(caller, conversation_id),
        waiting=len(await store.queue.queued(caller, conversation_id)),
    )


async def _turns(store: Store, caller: Caller, conversation: Conversation) -> tuple[TurnRecord, ...]:
    found: list[TurnRecord] = []
    after: str | None = None
    while True:
        page = await store.turns.turns(caller, conversation.id, PageQuery(PAGE, after, "asc"))
        found += page.data
        if not page.has_more:
            break
        after = page.data[-1].id
    ended = [turn for turn in found if turn.finished_at is not None]
    return tuple(sorted(ended, key=lambda turn: (turn.started_at, turn.id)))


async def _commands(store: Store, caller: Caller, conversation_id: str) -> tuple[Notice, ...]:
    found: list[Notice] = []
    after: str | None = None
    while True:
        page = await store.notices.notices(caller, conversation_id, PageQuery(PAGE, after, "asc"))
        found += page.data
        if not page.has_more:
            break
        after = page.data[-1].id
    return tuple(notice for notice in found if notice.kind is NoticeKind.COMMAND and "error" not in notice.data)
