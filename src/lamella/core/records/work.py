"""Waiting work: queued messages and commands, background jobs, and notices about their outcome."""

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
    """A message or a command in the queue, with the sender whose rights apply.

    `sent_at` carries the offset of `timezone`. `seq` is its number in the conversation, counted by the store from 1.
    `payload` holds the other fields of the request. `turn_id` is the turn that it became part of. `notice_id` is the
    notice of a command, or of a message that could not be answered.
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
        """The id of the notice about its outcome, if there is one."""
        return f"note_{self.id.partition('_')[2]}"


def turn_id_of(row: QueuedMessage) -> str:
    """The id of the turn that a row begins, alone or with later ones."""
    return f"turn_{row.id.partition('_')[2]}"


def queued_id_of(turn_id: str) -> str:
    """The id that the message of a turn has while it waits."""
    return f"queued_{turn_id.partition('_')[2]}"


class NoticeKind(StrEnum):
    """The subject of a notice."""

    COMMAND = "command"
    """A command of the user, with its answer."""

    NOT_ANSWERED = "not_answered"
    """A message of the queue whose turn could not begin."""

    PRUNED = "pruned"
    COMPACTED = "compacted"
    NOT_COMPACTED = "not_compacted"


@dataclass(frozen=True, slots=True)
class Notice:
    """An entry of a conversation that models do not see: a command with its answer, or a report of a compaction or
    pruning.

    It follows the turn `turn_id`, None for before the first. `name` and `argument` are those of a command. `text` is
    for people, `data` has the same facts for programs. `made_from` are the knowledge bases that it may quote; the store
    sets them.
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
    made_from: tuple[str, ...] = ()


class JobStatus(StrEnum):
    """How far a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to run in the background: its `kind`, its `subject` (an id), the reason, and the earliest start.

    `follows`: if a job for the same subject is running, run it once more afterwards. `takes_over`: replace a waiting
    job for the same subject.
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
    """A background job. A worker runs it as `caller`, and holds it while its `token` is the newest.

    `due_at` is the earliest start, or the end of the lease while it runs. `attempts` counts how often it was claimed;
    `error` is the error object of the last failure.
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
