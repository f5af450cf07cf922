"""What waits: queued messages and commands, background jobs, and the notices that tell how they went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lamella.core.json import JsonObject
from lamella.core.records.library import Caller


class QueueStatus(StrEnum):
    """Whether a message still waits for its turn."""

    QUEUED = "queued"
    BEGUN = "begun"
    """It is in a turn, or as a command it ran."""

    CANCELLED = "cancelled"
    FAILED = "failed"
    """It could not be answered, or as a command it was refused: a notice says why."""


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message or a command that waits for its turn, with the sender whose rights it has.

    `sent_at` carries the offset of `timezone`; `seq` is its place in its conversation, counted by the store from 1.
    `payload` is what else was sent with it. `turn_id` is the turn that it went into; of a command, and of a message
    that could not be answered, `notice_id` is the notice that tells of it.
    """

    id: str
    conversation_id: str
    sender: str
    text: str
    sent_at: datetime
    timezone: str
    payload: JsonObject = field(default_factory=dict)
    seq: int = 0
    status: QueueStatus = QueueStatus.QUEUED
    turn_id: str | None = None

    @property
    def notice_id(self) -> str:
        """The id of the notice that tells what became of it, if one does."""
        return f"note_{self.id.partition('_')[2]}"


class NoticeKind(StrEnum):
    """What a notice tells."""

    COMMAND = "command"
    """A command of the user, with its answer."""

    NOT_ANSWERED = "not_answered"
    """A message of the queue whose turn could not begin."""

    PRUNED = "pruned"
    COMPACTED = "compacted"
    NOT_COMPACTED = "not_compacted"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a conversation shows and no model reads: a command with its answer, or what was done to its past.

    It stands behind the turn `turn_id`, None for before the first. `name` and `argument` are those of a command.
    `text` is what people read, `data` the same for programs.
    """

    id: str
    conversation_id: str
    turn_id: str | None
    kind: NoticeKind
    at: datetime
    text: str
    name: str = ""
    argument: str = ""
    data: JsonObject = field(default_factory=dict)


class JobStatus(StrEnum):
    """How far a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class NewJob:
    """Work to do in the background: what (`kind`), for whom (`subject`, an id), why, and from when on.

    `follows`: a job for the same that runs already may have looked too early, so it is due once more when it has ended.
    `takes_over`: one that waits is done as this one says instead, from `not_before` on and as if it were new.
    """

    kind: str
    subject: str
    cause: str
    not_before: datetime
    payload: JsonObject = field(default_factory=dict)
    follows: bool = False
    takes_over: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """Background work. Whoever runs it does so as `caller`, and holds it as long as its `token` is the newest.

    `due_at` is when it may be claimed: its time to begin, or the end of the lease while it runs. `attempts` counts how
    often it was claimed; `error` is the error object of its last failure.
    """

    id: str
    caller: Caller
    kind: str
    subject: str
    cause: str
    payload: JsonObject
    status: JobStatus
    due_at: datetime
    created_at: datetime
    attempts: int = 0
    token: int = 0
    error: Mapping[str, str | None] | None = None
    ended_at: datetime | None = None
