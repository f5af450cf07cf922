"""The tables of conversations, their sessions and decisions, and of queued messages and notices."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, LargeBinary, String, Table, Text, false, text

from lamella.core.decisions import DecisionKind
from lamella.core.prompt import ToolSpec
from lamella.core.records import LoopAlarm, NoticeKind, QueueStatus, ReplacementKind
from lamella.core.sessions import CarriedSummary, SessionCause
from lamella.core.tokens import Usage
from lamella.storage.columns import Json, LocalMoment, OneOf, PackedJson, PackedText, UtcMoment
from lamella.storage.tables.parts import metadata, owner, part_of, row_id, usage

conversations = Table(
    "conversations",
    metadata,
    row_id(),
    owner(),
    Column("title", Text, nullable=False),
    Column("model", String, nullable=False),
    Column("layout", String, nullable=False),
    Column("marker_policy", String, nullable=False),
    Column("system_prompt", PackedText(), nullable=False),
    Column("tools", PackedJson(tuple[ToolSpec, ...]), nullable=False),
    Column("created_at", UtcMoment, nullable=False),
    Column("updated_at", UtcMoment, nullable=False),
    Column("head", String),
    Column("running_turn", String),
    Column("next_document", Integer, nullable=False, server_default="1"),
    Column("agent_id", String, ForeignKey("agents.id", ondelete="SET NULL"), index=True),
    Column("project_id", String, ForeignKey("projects.id", ondelete="SET NULL"), index=True),
    Column("system_prompt_version", Integer, nullable=False, server_default="0"),
    Column("session_id", String, nullable=False),
    Column("thinking_effort", String),
    Column("head_run_id", String),
    Column("forked", Boolean, nullable=False, server_default=false()),
    Column("titled_by", String, nullable=False, server_default="user"),
    Column("title_made_from", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Column("observed", Boolean, nullable=False, server_default=false()),
    Column("metadata", Json(dict[str, str]), nullable=False, server_default="{}"),
    Index("ix_conversations_owner_id", "owner", "id"),
)
"""`head` and `running_turn` are turns of this conversation, `head_run_id` is a run of the head, `session_id` is the
session that it is in; `next_document` is the next unused document number. `forked`: its turns are more than one line of
single answers. `titled_by` says whose the title is; one that is older than that column counts as the user's.
`title_made_from` are the knowledge bases that a model's title was made from. `observed`: it is a line of a client,
which nobody goes on with here. `metadata` are pairs of its owner that no model reads.

`system_prompt` is the text of its version when it was chosen, so that it never changes silently.
"""

lines = Table(
    "lines",
    metadata,
    Column("id", String, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    owner(),
    Column("client", String, nullable=False),
    Column("session", String),
    Column("dialect", String, nullable=False),
    Column("label", String, nullable=False),
    Column("model", String, nullable=False),
    Column("opening", Integer, nullable=False),
    Column("keys", Json(tuple[str, ...]), nullable=False),
    Column("tip", String, nullable=False),
    Column("system", String, nullable=False),
    Column("answer", String, nullable=False),
    Column("request_id", String, nullable=False),
    Column("turn_id", String, nullable=False),
    Column("run_id", String, nullable=False),
    Column("begun_at", UtcMoment, nullable=False),
    Column("at", UtcMoment, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("turns", Integer, nullable=False),
    Column("breaks", Integer, nullable=False),
    Column("lost", Integer, nullable=False),
    Column("lost_cost", Float, nullable=False),
    Column("saved", Float, nullable=False),
    Column("alarm", Json(LoopAlarm)),
    *usage(nullable=False),
    Column("cost", Float, nullable=False),
    Column("compactions", Integer, nullable=False, server_default="0"),
    Column("context_saved", Float, nullable=False, server_default="0"),
    Index("ix_lines_owner_tip", "owner", "tip"),
    Index("ix_lines_owner_session", "owner", "session"),
    Index("ix_lines_owner_at", "owner", "at"),
)
"""What a client's conversation is, beside its turns: `core.records.Line`. `request_id`, `turn_id` and `run_id` are its
newest; usage and cost are sums."""

client_answers = Table(
    "client_answers",
    metadata,
    Column("owner", String, primary_key=True),
    Column("agent_id", String, ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("key", String, primary_key=True),
    part_of("conversation_id", "conversations.id"),
    Column("turn_id", String),
    Column("run_id", String),
    Column("at", UtcMoment, nullable=False),
)
"""Where the answers are that clients got of agents: `key` names everything that a client had seen by then. Without a
turn it is the place before the first one."""

thread_messages = Table(
    "thread_messages",
    metadata,
    Column("owner", String, primary_key=True),
    Column("thread_id", String, primary_key=True),
    Column("message_id", String, primary_key=True),
    part_of("conversation_id", "conversations.id"),
    Column("turn_id", String, nullable=False),
)
"""What a frontend calls the messages of a conversation: `thread_id` and `message_id` are ids that it chose, and may be
the same for several owners. `turn_id` is the newest turn of the message."""
replacements = Table(
    "replacements",
    metadata,
    row_id(),
    owner(),
    Column("conversation_id", String, ForeignKey("conversations.id", ondelete="CASCADE"), index=True),
    Column("dialect", String, nullable=False),
    Column("key", String, nullable=False),
    Column("kind", OneOf(ReplacementKind), nullable=False),
    Column("made_at", UtcMoment, nullable=False),
    Column("why", Text, nullable=False),
    Column("numbers", Json(dict[str, float]), nullable=False),
    Column("answer", String, nullable=False),
    Column("texts", Json(tuple[str, ...]), nullable=False),
    Column("summary", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("check", Json(dict[str, Any]), nullable=False),
    Column("carries", Json(tuple[CarriedSummary, ...]), nullable=False),
    Column("skipped", Json(tuple[str, ...]), nullable=False),
    Column("request_id", String),
    Index("uq_replacements_owner_dialect_key_kind", "owner", "dialect", "key", "kind", unique=True),
)
"""What stands upstream in the place of clients' messages: `core.records.Replacement`. Without a `conversation_id` until
the request that it was made for is recorded."""

SUMMARY_WITHOUT_VECTOR = "summary IS NOT NULL AND embedding IS NULL"

sessions = Table(
    "sessions",
    metadata,
    row_id(),
    owner(),
    part_of("conversation_id", "conversations.id", index=False),
    Column("number", Integer, nullable=False),
    Column("parent_id", String, ForeignKey("sessions.id"), index=True),
    Column("begins_after", String),
    Column("inherits", Boolean, nullable=False),
    Column("carries", Json(tuple[CarriedSummary, ...])),
    Column("opened_at", UtcMoment, nullable=False),
    Column("opened_by", OneOf(SessionCause), nullable=False),
    Column("closed_at", UtcMoment),
    Column("closed_by", OneOf(SessionCause)),
    Column("ends_with", String),
    Column("why", Text, nullable=False, server_default=""),
    Column("summary", Text),
    Column("summary_tokens", Integer, nullable=False, server_default="0"),
    Column("summary_ends_with", String),
    Column("summary_check", Json(dict[str, Any]), nullable=False, server_default="{}"),
    Column("embedding", LargeBinary),
    Column("embedding_model", String),
    Column("usage", Json(dict[str, Usage]), nullable=False, server_default="{}"),
    Column("made_from", Json(tuple[str, ...]), nullable=False, server_default="[]"),
    Index("uq_sessions_conversation_id_number", "conversation_id", "number", unique=True),
    Index(
        "ix_sessions_unembedded",
        "conversation_id",
        sqlite_where=text(SUMMARY_WITHOUT_VECTOR),
        postgresql_where=text(SUMMARY_WITHOUT_VECTOR),
    ),
)
"""`begins_after`, `ends_with` and `summary_ends_with` are turns of the conversation; `carries` is the JSON array of the
earlier summaries in its window, each with its lines there or null for all of it, and null for sessions older than this
column; `usage` is the JSON object of what was spent, by purpose; `embedding`, made by `embedding_model`, and
`summary_check`, a JSON object, are those of the summary, and so is `made_from`, the ids of knowledge bases as those of
a message."""

decisions = Table(
    "decisions",
    metadata,
    row_id(),
    owner(),
    part_of("conversation_id", "conversations.id"),
    Column("at", UtcMoment, nullable=False),
    Column("kind", OneOf(DecisionKind), nullable=False),
    Column("subject", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("who", String, nullable=False),
    Column("why", Text, nullable=False),
    Column("numbers", Json(dict[str, float]), nullable=False),
    Column("first_changed", String),
    Column("turn_id", String),
    Column("run_id", String),
)
"""`turn_id` is where the conversation stood when it was decided, `run_id` the run whose request it is about."""

queued_messages = Table(
    "queued_messages",
    metadata,
    row_id(),
    owner(),
    part_of("conversation_id", "conversations.id", index=False),
    Column("seq", Integer, nullable=False),
    Column("sender", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("sent_at", LocalMoment, nullable=False),
    Column("timezone", String, nullable=False),
    Column("payload", Json(dict[str, Any]), nullable=False),
    Column("status", OneOf(QueueStatus), nullable=False),
    Column("turn_id", String),
    Index("uq_queued_messages_conversation_id_seq", "conversation_id", "seq", unique=True),
    Index("ix_queued_messages_status", "status"),
)
"""Messages that wait for their turn, in the order of `seq`; `turn_id` is the turn that a begun one went into."""

notices = Table(
    "notices",
    metadata,
    row_id(),
    owner(),
    part_of("conversation_id", "conversations.id"),
    Column("turn_id", String),
    Column("kind", OneOf(NoticeKind), nullable=False),
    Column("name", String, nullable=False),
    Column("argument", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("data", Json(dict[str, Any]), nullable=False),
    Column("at", UtcMoment, nullable=False),
    Column("made_from", Json(tuple[str, ...]), nullable=False, server_default="[]"),
)
"""Commands with their answers, and notifications: shown after `turn_id`, and read by no model.

`made_from` are the knowledge bases that its text may quote."""
