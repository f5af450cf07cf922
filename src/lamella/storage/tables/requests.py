"""The tables of requests to models, of what providers have cached, of background work and of idempotency keys."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text, false, text

from lamella.core.caching import Diagnosis, Ttl
from lamella.core.models import Price
from lamella.core.records import Expired, JobStatus, SideResponse, StoredMarker, StoredSegment
from lamella.storage.columns import Json, OneOf, PackedBytes, PackedJson, UtcMoment
from lamella.storage.tables.parts import metadata, owner, part_of, row_id, usage

requests = Table(
    "requests",
    metadata,
    row_id(),
    owner(),
    part_of("conversation_id", "conversations.id", index=False),
    part_of("turn_id", "turns.id"),
    Column("step", Integer, nullable=False),
    Column("purpose", String, nullable=False),
    Column("model", String, nullable=False),
    Column("layout", String, nullable=False),
    Column("marker_policy", String, nullable=False),
    Column("thinking_effort", String, nullable=False, server_default="off"),
    Column("at", UtcMoment, nullable=False),
    Column("head", PackedJson(dict[str, Any]), nullable=False),
    Column("letters", Text, nullable=False),
    Column("base", String, ForeignKey("requests.id"), index=True),
    Column("shared", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Column("segments", PackedJson(tuple[StoredSegment, ...]), nullable=False),
    Column("zones", PackedJson(tuple[tuple[str, int], ...]), nullable=False),
    Column("markers", PackedJson(tuple[StoredMarker, ...]), nullable=False),
    Column("notes", PackedJson(tuple[tuple[str, str], ...]), nullable=False),
    Column("protocol", String, nullable=False),
    Column("local_tokens", Integer, nullable=False),
    Column("estimate", Integer, nullable=False),
    Column("budget", Integer, nullable=False),
    Column("predicted_read", Integer, nullable=False),
    Column("predicted_written", Integer, nullable=False),
    Column("predicted_hit", Integer),
    Column("provider_request_id", String),
    Column("dropped_thinking", Integer, nullable=False, server_default="0"),
    Column("answer_id", String),
    Column("diagnosis", Json(Diagnosis)),
    Column("said", Json(SideResponse)),
    *usage(nullable=True),
    Column("cost", Float),
    Column("error", Json(dict[str, str | None])),
    Column("absent", PackedJson(tuple[tuple[str, str], ...]), nullable=False),
    Column("run_id", String),
    Column("made_from", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Column("expired", Json(Expired)),
    Column("price", Json(Price)),
    Index("ix_requests_conversation_id_model_at", "conversation_id", "model", "at"),
)
"""`segments` holds what follows the first `shared` ones of `base`; `length` counts all of them, `depth` the bases.

`said` is the answer to a side request, a JSON object: what was made of it is kept elsewhere, if anything was.
`made_from` are the ids of the knowledge bases of which something stood in the window, a JSON list. `expired`: when its
body was removed, null while it is kept. `price` is that of the model at an upstream of the file, null at a provider.
"""

blocks = Table(
    "blocks",
    metadata,
    Column("conversation_id", String, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", String, primary_key=True),
    owner(),
    Column("level", String, nullable=False),
    Column("role", String, nullable=False),
    Column("data", PackedBytes(), nullable=False),
    sqlite_with_rowid=False,
)

cache_entries = Table(
    "cache_entries",
    metadata,
    Column("key", String, primary_key=True),
    Column("tokens", Integer, nullable=False),
    Column("ttl", OneOf(Ttl), nullable=False),
    Column("used_at", UtcMoment, nullable=False),
    Column("ends_at", UtcMoment, nullable=False, index=True),
    Column("exact", Boolean, nullable=False),
)
"""What providers have cached: `key` is the hash of account, model, salts and blocks. It has no owner: conversations of
one account share it, and nothing of theirs can be read from it."""

provider_limits = Table(
    "provider_limits",
    metadata,
    Column("account", String, primary_key=True),
    Column("model", String, primary_key=True),
    Column("tokens", Integer, nullable=False),
    Column("until", UtcMoment, nullable=False),
)
"""The most tokens of a prompt that a model takes, as its refusals taught. It has no owner: see `cache_entries`."""


idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("owner", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("route", String, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("result_id", String, nullable=False, index=True),
    Column("at", UtcMoment, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    row_id(),
    owner(),
    Column("kind", String, nullable=False),
    Column("subject", String, nullable=False, index=True),
    Column("payload", Json(dict[str, Any]), nullable=False),
    Column("cause", Text, nullable=False),
    Column("status", OneOf(JobStatus), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("token", Integer, nullable=False),
    Column("due_at", UtcMoment, nullable=False),
    Column("asked_at", UtcMoment, nullable=False, server_default=""),
    Column("created_at", UtcMoment, nullable=False),
    Column("ended_at", UtcMoment),
    Column("error", Json(dict[str, str | None])),
    Column("again", Boolean, nullable=False, server_default=false()),
    Column("process_id", String),
    Index("uq_jobs_owner_kind_subject", "owner", "kind", "subject", unique=True),
    Index("ix_jobs_kind_status_due_at", "kind", "status", "due_at"),
    Index(
        "ix_jobs_running", "id", sqlite_where=text("status = 'running'"), postgresql_where=text("status = 'running'")
    ),
)
"""One job of a kind for a subject: the newest. `due_at` is when it may be claimed: its time to begin, or the end of the
lease of the worker that runs it; `asked_at` is when that was said. `again`: it was asked for while it ran, and is due
once more when it has ended. `process_id` is the process that claimed it, if several serve the database."""
