"""Background work under leases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lamella.core.json import JsonObject
from lamella.core.records.callers import Caller


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
