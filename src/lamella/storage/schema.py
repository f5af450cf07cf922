"""The tables. Every row has an owner; what belongs to a conversation goes with it.

Portable to PostgreSQL: JSON is text, bytes are bytes. Moments are ISO 8601 text in UTC, of fixed width so that they
sort; only `sent_at` keeps the offset of the sender's zone.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
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
    event,
    text,
)

from lamella.storage.access_tables import (
    api_keys,
    grant_changes,
    grants,
    group_members,
    groups,
    knowledge_bases,
    restricted_uses,
    set_ups,
    users,
)
from lamella.storage.knowledge_tables import (
    knowledge_bindings,
    knowledge_calls,
    knowledge_documents,
    knowledge_passages,
    knowledge_shelves,
    knowledge_vectors,
)
from lamella.storage.table_parts import metadata as metadata
from lamella.storage.table_parts import owner as _owner
from lamella.storage.table_parts import part_of as _part_of
from lamella.storage.table_parts import row_id as _id

ACCESS = (users, set_ups, groups, group_members, api_keys, knowledge_bases, grants, grant_changes, restricted_uses)
"""The tables of callers, which are made with the others."""

KNOWLEDGE = (
    knowledge_shelves,
    knowledge_documents,
    knowledge_passages,
    knowledge_vectors,
    knowledge_bindings,
    knowledge_calls,
)
"""Those of what is searched."""


def _usage(*, nullable: bool) -> list[Column[Any]]:
    """The six figures of `core.tokens.Usage`, and whether they are estimated."""
    names = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
    default = None if nullable else "0"
    figures = [Column(f"{name}_tokens", Integer, nullable=nullable, server_default=default) for name in names]
    estimated = Column("usage_estimated", Boolean, nullable=nullable, server_default=None if nullable else text("0"))
    return [*figures, estimated]


agents = Table(
    "agents",
    metadata,
    _id(),
    _owner(),
    Column("name", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("reminder", Text, nullable=False),
    Column("replaces_system", Boolean, nullable=False),
    Column("tools", Text),
    Column("model", String),
    Column("layout", String),
    Column("thinking_effort", String),
    Column("fallback_model", String),
    Column("revision", Integer, nullable=False),
    Column("created_at", String, nullable=False),
    Column("updated_at", String, nullable=False),
    Index("ix_agents_owner_id", "owner", "id"),
)
"""`tools` is the JSON list of the names of the tools that it may use, null for all."""

projects = Table(
    "projects",
    metadata,
    _id(),
    _owner(),
    Column("name", Text, nullable=False),
    Column("instructions", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("created_at", String, nullable=False),
    Column("updated_at", String, nullable=False),
    Index("ix_projects_owner_id", "owner", "id"),
)

system_prompts = Table(
    "system_prompts",
    metadata,
    Column("owner", String, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("created_at", String, nullable=False),
)
"""The versions that an owner wrote, from 1. Version 0 is the one that ships and is not stored."""

conversations = Table(
    "conversations",
    metadata,
    _id(),
    _owner(),
    Column("title", Text, nullable=False),
    Column("model", String, nullable=False),
    Column("layout", String, nullable=False),
    Column("marker_policy", String, nullable=False),
    Column("system_prompt", Text, nullable=False),
    Column("tools", Text, nullable=False),
    Column("created_at", String, nullable=False),
    Column("updated_at", String, nullable=False),
    Column("head", String),
    Column("running_turn", String),
    Column("next_document", Integer, nullable=False, server_default="1"),
    Column("agent_id", String, ForeignKey("agents.id", ondelete="SET NULL"), index=True),
    Column("project_id", String, ForeignKey("projects.id", ondelete="SET NULL"), index=True),
    Column("system_prompt_version", Integer, nullable=False, server_default="0"),
    Column("session_id", String, nullable=False),
    Column("thinking_effort", String),
    Column("head_run_id", String),
    Column("forked", Boolean, nullable=False, server_default=text("0")),
    Column("titled_by", String, nullable=False, server_default="user"),
    Index("ix_conversations_owner_id", "owner", "id"),
)
"""`head` and `running_turn` are turns of this conversation, `head_run_id` is a run of the head, `session_id` is the
session that it is in; `next_document` is the next unused document number. `forked`: its turns are more than one line of
single answers. `titled_by` says whose the title is; one that is older than that column counts as the user's.

`system_prompt` is the text of its version when it was chosen, so that it never changes silently.
"""

sessions = Table(
    "sessions",
    metadata,
    _id(),
    _owner(),
    _part_of("conversation_id", "conversations.id", index=False),
    Column("number", Integer, nullable=False),
    Column("parent_id", String, ForeignKey("sessions.id"), index=True),
    Column("begins_after", String),
    Column("inherits", Boolean, nullable=False),
    Column("opened_at", String, nullable=False),
    Column("opened_by", String, nullable=False),
    Column("closed_at", String),
    Column("closed_by", String),
    Column("ends_with", String),
    Column("why", Text, nullable=False, server_default=""),
    Column("summary", Text),
    Column("summary_tokens", Integer, nullable=False, server_default="0"),
    Column("summary_ends_with", String),
    Column("summary_check", Text, nullable=False, server_default="{}"),
    Column("embedding", LargeBinary),
    Column("embedding_model", String),
    Column("usage", Text, nullable=False, server_default="{}"),
    Column("made_from", Text, nullable=False, server_default="[]"),
    Index("uq_sessions_conversation_id_number", "conversation_id", "number", unique=True),
)
"""`begins_after`, `ends_with` and `summary_ends_with` are turns of the conversation; `usage` is the JSON object of what
was spent, by purpose; `embedding`, made by `embedding_model`, and `summary_check`, a JSON object, are those of the
summary, and so is `made_from`, the ids of knowledge bases as those of a message."""

turns = Table(
    "turns",
    metadata,
    _id(),
    _owner(),
    _part_of("conversation_id", "conversations.id", index=False),
    Column("parent_id", String, ForeignKey("turns.id"), index=True),
    Column("status", String, nullable=False),
    Column("started_at", String, nullable=False),
    Column("finished_at", String),
    Column("error", Text),
    *_usage(nullable=False),
    Column("cost", Float, nullable=False, server_default="0"),
    Column("parent_run_id", String),
    Index("ix_turns_conversation_id_id", "conversation_id", "id"),
    Index(
        "uq_turns_running",
        "conversation_id",
        unique=True,
        sqlite_where=text("status = 'running'"),
        postgresql_where=text("status = 'running'"),
    ),
)
"""A turn follows the answer of the run `parent_run_id` of the turn `parent_id`. Its usage is that of all its runs."""

runs = Table(
    "runs",
    metadata,
    _id(),
    _owner(),
    _part_of("turn_id", "turns.id", index=False),
    Column("number", Integer, nullable=False),
    Column("model", String, nullable=False),
    Column("status", String, nullable=False),
    Column("finished_at", String),
    Column("error", Text),
    *_usage(nullable=False),
    Column("cost", Float, nullable=False, server_default="0"),
    Index("uq_runs_turn_id_number", "turn_id", "number", unique=True),
)
"""The models that answer a turn, in the order of `number` from 0."""

messages = Table(
    "messages",
    metadata,
    _id(),
    _owner(),
    _part_of("turn_id", "turns.id", index=False),
    Column("seq", Integer, nullable=False),
    Column("role", String, nullable=False),
    Column("model", String),
    Column("parts", Text, nullable=False),
    Column("results", Text, nullable=False, server_default="[]"),
    Column("stop_reason", String),
    Column("made_after", String, nullable=False, server_default=""),
    Column("reminder", Text, nullable=False, server_default=""),
    Column("tokens", Integer, nullable=False),
    Column("sent_at", String),
    Column("timezone", String),
    Column("dynamic", Text),
    Column("dynamic_whys", Text, nullable=False, server_default="[]"),
    *_usage(nullable=True),
    Column("cost", Float),
    _part_of("session_id", "sessions.id"),
    Column("run_id", String),
    Column("made_from", Text, nullable=False, server_default="[]"),
    Index("uq_messages_turn_id_seq", "turn_id", "seq", unique=True),
)
"""`seq` 0 is the user message of the turn, the others are the steps of its runs, one run after the other. Usage is that
of the request behind the step.

`made_from` are the ids of the knowledge bases of which something stood in the window that a step was made from, a JSON
list. `session_id` is the message's label (SPEC L2); the window is read from the path and the decisions, never from it.
"""

files = Table(
    "files",
    metadata,
    _id(),
    _owner(),
    Column("name", Text, nullable=False),
    Column("media_type", String, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("status", String, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("created_at", String, nullable=False),
    Column("pages", Integer),
    Column("code", String),
    Column("reason", Text),
    Column("width", Integer),
    Column("height", Integer),
    Index("ix_files_owner_id", "owner", "id"),
)
"""`width` and `height` are the size of a picture in pixels."""

file_texts = Table(
    "file_texts",
    metadata,
    Column("file_id", String, ForeignKey("files.id", ondelete="CASCADE"), primary_key=True),
    _owner(),
    Column("data", LargeBinary, nullable=False),
)
"""UTF-8, as bytes: extracted text may hold characters that a text column of PostgreSQL refuses."""

file_images = Table(
    "file_images",
    metadata,
    Column("file_id", String, ForeignKey("files.id", ondelete="CASCADE"), primary_key=True),
    _owner(),
    Column("media_type", String, nullable=False),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("digest", String, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""Pictures as models get them; `digest` is the fingerprint of `data`."""

project_files = Table(
    "project_files",
    metadata,
    Column("project_id", String, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    Column("file_id", String, ForeignKey("files.id"), primary_key=True, index=True),
    _owner(),
    Column("position", Integer, nullable=False),
)

document_numbers = Table(
    "document_numbers",
    metadata,
    Column("conversation_id", String, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("file_id", String, ForeignKey("files.id", ondelete="CASCADE"), primary_key=True, index=True),
    _owner(),
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
    _owner(),
    Column("file_id", String, ForeignKey("files.id"), nullable=False, index=True),
    Column("document", Integer, nullable=False),
    Column("use", Integer, nullable=False, server_default="0"),
)

found_documents = Table(
    "found_documents",
    metadata,
    _id(),
    _owner(),
    _part_of("conversation_id", "conversations.id", index=False),
    Column("document", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("media_type", String, nullable=False),
    Column("url", Text),
    Column("size", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("digest", String, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", String, nullable=False),
    Index("ix_found_documents_conversation_id_digest", "conversation_id", "digest", unique=True),
)
"""What tools brought into a conversation to read; `digest` is the fingerprint of where it came from and of its text."""

requests = Table(
    "requests",
    metadata,
    _id(),
    _owner(),
    _part_of("conversation_id", "conversations.id", index=False),
    _part_of("turn_id", "turns.id"),
    Column("step", Integer, nullable=False),
    Column("purpose", String, nullable=False),
    Column("model", String, nullable=False),
    Column("layout", String, nullable=False),
    Column("marker_policy", String, nullable=False),
    Column("thinking_effort", String, nullable=False, server_default="off"),
    Column("at", String, nullable=False),
    Column("head", Text, nullable=False),
    Column("letters", Text, nullable=False),
    Column("base", String, ForeignKey("requests.id"), index=True),
    Column("shared", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Column("segments", Text, nullable=False),
    Column("zones", Text, nullable=False),
    Column("markers", Text, nullable=False),
    Column("notes", Text, nullable=False),
    Column("protocol", String, nullable=False),
    Column("local_tokens", Integer, nullable=False),
    Column("estimate", Integer, nullable=False),
    Column("budget", Integer, nullable=False),
    Column("predicted_read", Integer, nullable=False),
    Column("predicted_written", Integer, nullable=False),
    Column("predicted_hit", Integer),
    Column("provider_request_id", String),
    Column("dropped_thinking", Integer, nullable=False, server_default="0"),
    *_usage(nullable=True),
    Column("cost", Float),
    Column("error", Text),
    Column("absent", Text, nullable=False, server_default="[]"),
    Column("run_id", String),
    Index("ix_requests_conversation_id_model_at", "conversation_id", "model", "at"),
)
"""`segments` holds what follows the first `shared` ones of `base`; `length` counts all of them, `depth` the bases."""

blocks = Table(
    "blocks",
    metadata,
    Column("conversation_id", String, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("digest", String, primary_key=True),
    _owner(),
    Column("level", String, nullable=False),
    Column("role", String, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

decisions = Table(
    "decisions",
    metadata,
    _id(),
    _owner(),
    _part_of("conversation_id", "conversations.id"),
    Column("at", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("who", String, nullable=False),
    Column("why", Text, nullable=False),
    Column("numbers", Text, nullable=False),
    Column("first_changed", String),
    Column("turn_id", String),
    Column("run_id", String),
)
"""`turn_id` is where the conversation stood when it was decided, `run_id` the run whose request it is about."""

journal = Table(
    "journal",
    metadata,
    Column("turn_id", String, ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
    Column("first", Integer, primary_key=True),
    Column("last", Integer, nullable=False),
    _owner(),
    Column("data", LargeBinary, nullable=False),
)

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

cache_entries = Table(
    "cache_entries",
    metadata,
    Column("key", String, primary_key=True),
    Column("tokens", Integer, nullable=False),
    Column("ttl", String, nullable=False),
    Column("used_at", String, nullable=False),
    Column("ends_at", String, nullable=False, index=True),
    Column("exact", Boolean, nullable=False),
)
"""What providers have cached: `key` is the hash of account, model, salts and blocks. It has no owner: conversations of
one account share it, and nothing of theirs can be read from it."""

jobs = Table(
    "jobs",
    metadata,
    _id(),
    _owner(),
    Column("kind", String, nullable=False),
    Column("subject", String, nullable=False, index=True),
    Column("payload", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("status", String, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("token", Integer, nullable=False),
    Column("due_at", String, nullable=False),
    Column("created_at", String, nullable=False),
    Column("ended_at", String),
    Column("error", Text),
    Column("again", Boolean, nullable=False, server_default=text("0")),
    Index("uq_jobs_owner_kind_subject", "owner", "kind", "subject", unique=True),
    Index("ix_jobs_kind_status_due_at", "kind", "status", "due_at"),
)
"""One job of a kind for a subject: the newest. `due_at` is when it may be claimed: its time to begin, or the end of the
lease of the worker that runs it. `again`: it was asked for while it ran, and is due once more when it has ended."""

queued_messages = Table(
    "queued_messages",
    metadata,
    _id(),
    _owner(),
    _part_of("conversation_id", "conversations.id", index=False),
    Column("seq", Integer, nullable=False),
    Column("sender", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("sent_at", String, nullable=False),
    Column("timezone", String, nullable=False),
    Column("payload", Text, nullable=False),
    Column("status", String, nullable=False),
    Column("turn_id", String),
    Index("uq_queued_messages_conversation_id_seq", "conversation_id", "seq", unique=True),
    Index("ix_queued_messages_status", "status"),
)
"""Messages that wait for their turn, in the order of `seq`; `turn_id` is the turn that a begun one went into."""

notices = Table(
    "notices",
    metadata,
    _id(),
    _owner(),
    _part_of("conversation_id", "conversations.id"),
    Column("turn_id", String),
    Column("kind", String, nullable=False),
    Column("name", String, nullable=False),
    Column("argument", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("at", String, nullable=False),
)
"""Commands with their answers, and notifications: what a conversation shows behind `turn_id` and no model reads."""

recall_entries = Table(
    "recall_entries",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    _owner(),
    _part_of("conversation_id", "conversations.id", index=False),
    Column("source_id", String, nullable=False),
    Column("call_id", String, nullable=False),
    Column("speaker", String, nullable=False),
    Column("name", String, nullable=False),
    Column("at", String, nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Index("uq_recall_entries_source_id_call_id_start", "source_id", "call_id", "start", unique=True),
    Index("ix_recall_entries_owner_conversation_id_id", "owner", "conversation_id", "id"),
    Index("ix_recall_entries_conversation_id_call_id", "conversation_id", "call_id"),
    sqlite_autoincrement=True,
)
"""Passages that can be found: characters `start` to `end` of a message, of a call's result, or of a session's summary.

`source_id` is the message, or the session of a summary; the text is read from there. `length` is in terms. An id is
never used twice: `recall_words` goes by it.
"""

recall_vectors = Table(
    "recall_vectors",
    metadata,
    Column("entry_id", BigInteger, ForeignKey("recall_entries.id", ondelete="CASCADE"), primary_key=True),
    _owner(),
    Column("model", String, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""The vector of a passage, float16; `model` made it."""

recall_turns = Table(
    "recall_turns",
    metadata,
    Column("turn_id", String, ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
    _owner(),
)
"""The turns whose passages are stored; a turn that has ended and is not here waits for that."""

recall_versions = Table(
    "recall_versions",
    metadata,
    Column("owner", String, primary_key=True),
    Column("changed", BigInteger, nullable=False),
)
"""Counts what was changed or removed of an owner's passages: what is kept of them in memory goes by it. What is only
added is known by its id."""

RECALL_WORDS = (
    "CREATE VIRTUAL TABLE recall_words USING fts5(terms, tokenize = 'ascii')",
    "CREATE VIRTUAL TABLE recall_postings USING fts5vocab('recall_words', 'instance')",
    "CREATE TRIGGER recall_words_forget AFTER DELETE ON recall_entries "
    "BEGIN DELETE FROM recall_words WHERE rowid = old.id; END",
)
"""The words of passages on SQLite. Terms are made by `search.terms`, each behind its owner's tag, so the postings that
a query reads are its owner's own. A revision that makes `recall_entries` anew has to make the trigger again."""

for _statement in RECALL_WORDS:
    _made: DDL = DDL(_statement)  # type: ignore[no-untyped-call]
    event.listen(recall_entries, "after_create", _made.execute_if(dialect="sqlite"))
