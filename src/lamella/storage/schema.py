"""The tables. Every row has an owner; what belongs to a conversation goes with it.

Portable to PostgreSQL: JSON is text, bytes are bytes. Moments are ISO 8601 text in UTC, of fixed width so that they
sort; only `messages.sent_at` keeps the offset of the sender's zone.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)


def _id() -> Column[str]:
    return Column("id", String, primary_key=True)


def _owner(*, index: bool = False) -> Column[str]:
    return Column("owner", String, nullable=False, index=index)


def _part_of(name: str, target: str, *, index: bool = True) -> Column[str]:
    """A reference to the row that this one belongs to and goes with."""
    return Column(name, String, ForeignKey(target, ondelete="CASCADE"), nullable=False, index=index)


def _usage(*, nullable: bool) -> list[Column[int]]:
    """The six figures of `core.tokens.Usage`."""
    names = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
    default = None if nullable else "0"
    return [Column(f"{name}_tokens", Integer, nullable=nullable, server_default=default) for name in names]


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
    Index("ix_conversations_owner_id", "owner", "id"),
)
"""`head` and `running_turn` are turns of this conversation; `next_document` is the next unused document number."""

turns = Table(
    "turns",
    metadata,
    _id(),
    _owner(),
    _part_of("conversation_id", "conversations.id", index=False),
    Column("parent_id", String, ForeignKey("turns.id"), index=True),
    Column("run_id", String, nullable=False),
    Column("model", String, nullable=False),
    Column("status", String, nullable=False),
    Column("started_at", String, nullable=False),
    Column("finished_at", String),
    Column("error", Text),
    *_usage(nullable=False),
    Column("cost", Float, nullable=False, server_default="0"),
    Index("ix_turns_conversation_id_id", "conversation_id", "id"),
    Index(
        "uq_turns_running",
        "conversation_id",
        unique=True,
        sqlite_where=text("status = 'running'"),
        postgresql_where=text("status = 'running'"),
    ),
)

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
    *_usage(nullable=True),
    Column("cost", Float),
    Index("uq_messages_turn_id_seq", "turn_id", "seq", unique=True),
)
"""`seq` 0 is the user message of the turn, the others are its steps. Usage is that of the request behind the step."""

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
    Index("ix_files_owner_id", "owner", "id"),
)

file_texts = Table(
    "file_texts",
    metadata,
    Column("file_id", String, ForeignKey("files.id", ondelete="CASCADE"), primary_key=True),
    _owner(),
    Column("data", LargeBinary, nullable=False),
)
"""UTF-8, as bytes: extracted text may hold characters that a text column of PostgreSQL refuses."""

attachments = Table(
    "attachments",
    metadata,
    Column("message_id", String, ForeignKey("messages.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    _owner(),
    Column("file_id", String, ForeignKey("files.id"), nullable=False, index=True),
    Column("document", Integer, nullable=False),
)

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
    *_usage(nullable=True),
    Column("cost", Float),
    Column("error", Text),
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
)

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
