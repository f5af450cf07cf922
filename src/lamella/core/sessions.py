"""Sessions: self-contained segments of a conversation, each with its own summary (SPEC L1, L2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lamella.core.agents import Summary
from lamella.core.decisions import Decision
from lamella.core.json import JsonObject
from lamella.core.tokens import Usage


class SessionCause(StrEnum):
    """Why a session began, and the one before it ended."""

    CREATED = "created"
    """With the conversation."""

    COMPACTION = "compaction"
    NEW = "new"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Session:
    """A session. `number` counts those of its conversation from 1; `parent_id` is the one that it continues.

    The window holds the turns behind `begins_after`, and the parent's summary if it `inherits` it. An open session has
    no `closed_at`; `ends_with` is the last turn of the path when a session was closed. `summary` is None until there is
    one; it is never merged. A session that was reopened gets another one when it ends again. `check` says how the
    summary compares with what it stands for.
    """

    id: str
    conversation_id: str
    number: int
    opened_at: datetime
    opened_by: SessionCause
    parent_id: str | None = None
    begins_after: str | None = None
    inherits: bool = False
    closed_at: datetime | None = None
    closed_by: SessionCause | None = None
    ends_with: str | None = None
    why: str = ""
    summary: str | None = None
    summary_tokens: int = 0
    check: JsonObject = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """What was spent, by purpose: `chat`, `summary`, `embedding`."""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A summary that was made: its local tokens, what making it cost, how it compares with its source, its vector."""

    text: str
    tokens: int
    usage: Usage = field(default_factory=Usage)
    check: JsonObject = field(default_factory=dict)
    embedding: bytes | None = None


@dataclass(frozen=True, slots=True)
class SessionStep:
    """From one session to the next, in one transaction.

    `expected` has to be the conversation's session still, else nothing changes. `summary` closes it; None leaves it
    without one. Messages behind `session.begins_after` on the path are the new session's from then on. `changes` is how
    often the conversation had changed its session when this was planned: one that left `expected` and came back since
    has moved too; None where that does not matter.
    """

    expected: str
    session: Session
    why: str
    at: datetime
    summary: SessionSummary | None = None
    decisions: Sequence[Decision] = ()
    changes: int | None = None


@dataclass(frozen=True, slots=True)
class SessionReturn:
    """Back to an earlier session, in one transaction: it is open again and the conversation goes on from `head`.

    `expected` as in `SessionStep`. Nothing is removed: what came after is another branch.
    """

    expected: str
    session_id: str
    head: str | None
    cause: SessionCause
    why: str
    at: datetime
    decisions: Sequence[Decision] = ()


def summaries_in_window(sessions: Sequence[Session], current: str, most: int) -> tuple[Summary, ...]:
    """The summaries that stand before the session `current`, the oldest first: its ancestors', as far as each inherits.

    `most` bounds their tokens; the nearest are taken first, and the parent's always (SPEC L4, X-CHAIN).
    """
    by_id = {session.id: session for session in sessions}
    found: list[Summary] = []
    session, room = by_id.get(current), most
    while session is not None and session.inherits and session.parent_id is not None:
        parent = by_id.get(session.parent_id)
        if parent is None:
            break
        if parent.summary is not None:
            if found and parent.summary_tokens > room:
                break
            found.append(Summary(parent.id, parent.summary, parent.summary_tokens))
            room -= parent.summary_tokens
        session = parent
    return tuple(reversed(found))
