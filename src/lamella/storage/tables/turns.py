"""The tables of turns: their answers, messages, documents and packets."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    false,
    text,
)

from lamella.core.messages import StopReason, ToolSpec, TurnStatus
from lamella.core.records import Expired, Pinned
from lamella.storage.columns import Json, LocalMoment, OneOf, PackedJson, Parts, Results, UtcMoment
from lamella.storage.tables.parts import metadata, owner, part_of, row_id, usage

turns = Table(
    "turns",
    metadata,
    row_id(),
    owner(),
    part_of("conversation_id", "conversations.id", index=False),
    Column("parent_id", String, ForeignKey("turns.id"), index=True),
    Column("status", OneOf(TurnStatus), nullable=False),
    Column("started_at", UtcMoment, nullable=False),
    Column("finished_at", UtcMoment),
    Column("error", Json(dict[str, str | None])),
    *usage(nullable=False),
    Column("cost", Float, nullable=False, server_default="0"),
    Column("parent_run_id", String),
    Column("expired", Json(Expired)),
    Column("packets", LargeBinary),
    Index("ix_turns_conversation_id_id", "conversation_id", "id"),
    Index(
        "uq_turns_running",
        "conversation_id",
        unique=True,
        sqlite_where=text("status = 'running'"),
        postgresql_where=text("status = 'running'"),
    ),
)
"""A turn follows the answer of the run `parent_run_id` of the turn `parent_id`. Its usage is that of all its runs.
`packets` are its packets (`core.packed_packets`), null while they lie in the journal. `expired`: when they were
removed, null while they are kept."""

runs = Table(
    "runs",
    metadata,
    row_id(),
    owner(),
    part_of("turn_id", "turns.id", index=False),
    Column("number", Integer, nullable=False),
    Column("model", String, nullable=False),
    Column("status", OneOf(TurnStatus), nullable=False),
    Column("finished_at", UtcMoment),
    Column("error", Json(dict[str, str | None])),
    *usage(nullable=False),
    Column("cost", Float, nullable=False, server_default="0"),
    Index("uq_runs_turn_id_number", "turn_id", "number", unique=True),
)
"""The models that answer a turn, in the order of `number` from 0."""

messages = Table(
    "messages",
    metadata,
    row_id(),
    owner(),
    part_of("turn_id", "turns.id", index=False),
    Column("seq", Integer, nullable=False),
    Column("role", String, nullable=False),
    Column("model", String),
    Column("parts", Parts, nullable=False),
    Column("results", Results, nullable=False, server_default="[]"),
    Column("stop_reason", OneOf(StopReason)),
    Column("made_after", String, nullable=False, server_default=""),
    Column("reminder", Text, nullable=False, server_default=""),
    Column("tokens", Integer, nullable=False),
    Column("sent_at", LocalMoment),
    Column("timezone", String),
    Column("dynamic", Text),
    Column("dynamic_whys", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    *usage(nullable=True),
    Column("cost", Float),
    part_of("session_id", "sessions.id"),
    Column("run_id", String),
    Column("made_from", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Column("tools", Json(tuple[ToolSpec, ...])),
    Index("uq_messages_turn_id_seq", "turn_id", "seq", unique=True),
)
"""`seq` 0 is the user message of the turn, the others are the steps of its runs, one run after the other. Usage is that
of the step's request.

`made_from` are the ids of the knowledge bases of which something stood in the window that a step was made from, a JSON
list. `session_id` is the message's label; the window is read from the path and the decisions, never from it.

`tools` are the caller's own that a user message came with, null if it named none. `results` of a user message are those
of the calls that the answer before handed to the caller. Without `parts` it continues the turn of that answer.
"""

pinned = Table(
    "pinned",
    metadata,
    row_id(),
    owner(),
    part_of("conversation_id", "conversations.id", index=False),
    Column("at", UtcMoment, nullable=False),
    Column("digest", String, nullable=False),
    Column("data", PackedJson(Pinned), nullable=False),
    Index("ix_pinned_conversation_id_at", "conversation_id", "at"),
)
"""What stood around a conversation from a moment on, to the next row: `id` is the turn that began then, or the request
beside the turns that was made. `data` is a JSON object, `digest` its fingerprint."""

document_numbers = Table(
    "document_numbers",
    metadata,
    Column("conversation_id", String, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("file_id", String, ForeignKey("files.id", ondelete="CASCADE"), primary_key=True, index=True),
    owner(),
    Column("document", Integer, nullable=False),
    Column("uses", Integer, nullable=False),
    Column("project_use", Integer),
)
"""The document number of a file in a conversation: given once, whether it is attached or comes with the project (SPEC
O7). `uses` counts how often it came; `project_use` is the one that the project made.
"""

attachments = Table(
    "attachments",
    metadata,
    Column("message_id", String, ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    owner(),
    Column("file_id", String, ForeignKey("files.id"), nullable=False, index=True),
    Column("document", Integer, nullable=False),
    Column("use", Integer, nullable=False, server_default="0"),
)

found_documents = Table(
    "found_documents",
    metadata,
    row_id(),
    owner(),
    part_of("conversation_id", "conversations.id", index=False),
    Column("document", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("media_type", String, nullable=False),
    Column("url", Text),
    Column("size", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("digest", String, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", UtcMoment, nullable=False),
    Column("made_from", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Index("ix_found_documents_conversation_id_digest", "conversation_id", "digest", unique=True),
)
"""What tools brought into a conversation to read; `digest` is the fingerprint of where it came from and of its text.

`made_from`: as in `messages`."""

journal = Table(
    "journal",
    metadata,
    Column("turn_id", String, ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
    Column("first", Integer, primary_key=True),
    Column("last", Integer, nullable=False),
    owner(),
    Column("data", LargeBinary, nullable=False),
)
"""The packets of running turns, and of those that have ended lately: `first` to `last`, a line each."""

responses = Table(
    "responses",
    metadata,
    Column("id", String, primary_key=True),
    Column("owner", String, primary_key=True),
    Column("turn_id", String, ForeignKey("turns.id", ondelete="CASCADE"), index=True),
    Column("account", String),
    Column("fields", Json(dict[str, Any]), nullable=False, server_default="{}"),
    Column("begins", Boolean, nullable=False, server_default=false()),
    Column("deleted", Boolean, nullable=False, server_default=false()),
    Column("at", UtcMoment, nullable=False),
    Index("ix_responses_at", "at"),
)
"""Responses of the Responses API: `core.records.StoredResponse`. One of an upstream has an `account` and no turn."""
