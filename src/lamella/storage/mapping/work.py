"""Jobs and messages that wait."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import RowMapping

from lamella.core.records import (
    Caller,
    Job,
    JobStatus,
    NewJob,
    QueuedMessage,
    QueueStatus,
)
from lamella.storage.columns import (
    HEAD,
    json_of,
    json_text,
    local_moment_text,
    moment_text,
    word_of,
)
from lamella.storage.mapping.values import Row, error_of


def job_row(owner: str, job_id: str, job: NewJob, at: datetime) -> Row:
    """The row of a job that waits."""
    return {
        "id": job_id,
        "owner": owner,
        "kind": job.kind,
        "subject": job.subject,
        "payload": json_text(job.payload),
        "cause": job.cause,
        "status": JobStatus.WAITING.value,
        "attempts": 0,
        "token": 0,
        "due_at": moment_text(job.not_before),
        "asked_at": moment_text(at),
        "created_at": moment_text(at),
    }


def job_of(row: RowMapping) -> Job:
    """The job of a row."""
    what = f"job {row['id']}"
    return Job(
        id=row["id"],
        caller=Caller(row["owner"]),
        kind=row["kind"],
        subject=row["subject"],
        cause=row["cause"],
        payload=json_of(HEAD, row["payload"], what),
        status=word_of(JobStatus, row["status"], what),
        due_at=datetime.fromisoformat(row["due_at"]),
        created_at=datetime.fromisoformat(row["created_at"]),
        attempts=row["attempts"],
        token=row["token"],
        error=error_of(row["error"], what),
        ended_at=None if row["ended_at"] is None else datetime.fromisoformat(row["ended_at"]),
    )


def queued_row(owner: str, message: QueuedMessage) -> Row:
    """The row of a message that waits."""
    return {
        "id": message.id,
        "owner": owner,
        "conversation_id": message.conversation_id,
        "seq": message.seq,
        "sender": message.sender,
        "text": message.text,
        "sent_at": local_moment_text(message.sent_at),
        "timezone": message.timezone,
        "payload": json_text(message.payload),
        "status": message.status.value,
        "turn_id": message.turn_id,
    }


def queued_of(row: RowMapping) -> QueuedMessage:
    """The queued message of a row."""
    what = f"queued message {row['id']}"
    return QueuedMessage(
        id=row["id"],
        conversation_id=row["conversation_id"],
        sender=row["sender"],
        text=row["text"],
        sent_at=datetime.fromisoformat(row["sent_at"]),
        timezone=row["timezone"],
        payload=json_of(HEAD, row["payload"], what),
        seq=row["seq"],
        status=word_of(QueueStatus, row["status"], what),
        turn_id=row["turn_id"],
    )
