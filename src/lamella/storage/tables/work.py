"""The tables of background work and of keys that make a request count once."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, String, Table, Text, text

from lamella.storage.tables.parts import metadata, owner, row_id

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("owner", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("route", String, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("result_id", String, nullable=False, index=True),
    Column("at", String, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    row_id(),
    owner(),
    Column("kind", String, nullable=False),
    Column("subject", String, nullable=False, index=True),
    Column("payload", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("status", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("token", Integer, nullable=False),
    Column("due_at", String, nullable=False),
    Column("asked_at", String, nullable=False, server_default=""),
    Column("created_at", String, nullable=False),
    Column("ended_at", String),
    Column("error", Text),
    Column("again", Boolean, nullable=False, server_default=text("0")),
    Index("uq_jobs_owner_kind_subject", "owner", "kind", "subject", unique=True),
    Index("ix_jobs_kind_status_due_at", "kind", "status", "due_at"),
)
"""One job of a kind for a subject: the newest. `due_at` is when it may be claimed: its time to begin, or the end of the
lease of the worker that runs it; `asked_at` is when that was said. `again`: it was asked for while it ran, and is due
once more when it has ended."""
