"""The tables of passages that are searched: those of conversations, and those of documents on shelves."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    text,
)

from lamella.core.knowledge import DocumentState, NameCounts
from lamella.core.recall import Speaker
from lamella.storage.columns import Json, LocalMoment, OneOf, UtcMoment
from lamella.storage.tables.parts import metadata, owner, part_of, row_id

_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""The number of a passage or a shelf; SQLite makes it the number of the row."""

_CALLS = text("call_id <> ''")

recall_entries = Table(
    "recall_entries",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    owner(),
    part_of("conversation_id", "conversations.id", index=False),
    Column("source_id", String, nullable=False),
    Column("call_id", String, nullable=False),
    Column("speaker", OneOf(Speaker), nullable=False),
    Column("name", String, nullable=False),
    Column("at", LocalMoment, nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Index("uq_recall_entries_source_id_call_id_start", "source_id", "call_id", "start", unique=True),
    Index("ix_recall_entries_conversation_id_id", "conversation_id", "id"),
    Index("ix_recall_entries_owner_id", "owner", "id"),
    Index("ix_recall_entries_call_id", "call_id", sqlite_where=_CALLS, postgresql_where=_CALLS),
    sqlite_autoincrement=True,
)
"""Passages that can be found: characters `start` to `end` of a message, of a call's result, or of a session's summary.

`source_id` is the message, or the session of a summary; the text is read from there. `length` is in terms. An id is
never used twice: `postings` go by it.
"""

recall_vectors = Table(
    "recall_vectors",
    metadata,
    Column(
        "entry_id",
        _NUMBER,
        ForeignKey("recall_entries.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    owner(),
    Column("model", String, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""The vector of a passage, float16; `model` made it."""

recall_turns = Table(
    "recall_turns",
    metadata,
    Column("turn_id", String, ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
    owner(),
    sqlite_with_rowid=False,
)
"""The turns whose passages are stored; a turn that has ended and is not here waits for that."""

recall_marks = Table(
    "recall_marks",
    metadata,
    Column("model", String, primary_key=True),
    Column("turn_id", String, nullable=False),
    Column("entry_id", BigInteger, nullable=False),
)
"""Before which turn and passage everything is stored and has a vector of a model, so that a start need not look there.
It has no owner: ids tell nothing."""

recall_versions = Table(
    "recall_versions",
    metadata,
    Column("owner", String, primary_key=True),
    Column("changed", BigInteger, nullable=False),
)
"""Counts what was changed or removed of an owner's passages: what is kept of them in memory goes by it. What is only
added is known by its id."""

_RUNS = text("term = ''")

postings = Table(
    "postings",
    metadata,
    Column("owner", String, primary_key=True),
    Column("shelf", BigInteger, primary_key=True, autoincrement=False),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("term", String, primary_key=True),
    Column("last", BigInteger),
    Column("passages", Integer),
    Column("entries", LargeBinary),
    Column("data", LargeBinary, nullable=False),
    Index("ix_postings_runs", "owner", "shelf", "first", sqlite_where=_RUNS, postgresql_where=_RUNS),
)
"""Where the terms of passages stand: pages of runs, `search.postings`, each known by its first `term`.

A run has passages of one shelf, or with shelf 0 of what an owner said, from entry `first` to `last`. How many they are
and which is in its first page, whose term is empty.
"""

knowledge_shelves = Table(
    "knowledge_shelves",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    owner(),
    Column("name", String, nullable=False),
    Index("uq_knowledge_shelves_owner_name", "owner", "name", unique=True),
    sqlite_autoincrement=True,
)
"""What documents stand on: a knowledge base, whose id is the `name`, or with an empty one the files of an owner's
projects. `postings` have its `number`, which is never used twice."""

knowledge_documents = Table(
    "knowledge_documents",
    metadata,
    row_id(),
    owner(),
    Column("shelf", BigInteger, ForeignKey("knowledge_shelves.number", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("media_type", String, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String, nullable=False),
    Column("upload", String, nullable=False),
    Column("state", OneOf(DocumentState), nullable=False),
    Column("code", String),
    Column("reason", Text),
    Column("pages", Integer),
    Column("tokens", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("found", Integer),
    Column("revision", Integer, nullable=False),
    Column("passages", Integer, nullable=False),
    Column("embedded", Integer, nullable=False),
    Column("model", String),
    Column("created_at", UtcMoment, nullable=False),
    Column("updated_at", UtcMoment, nullable=False),
    Column("removed", Boolean, nullable=False),
    Index("ix_knowledge_documents_shelf_id", "shelf", "id"),
    Index("ix_knowledge_documents_state", "state"),
)
"""Documents to be searched. `found` is the version whose passages are found; `revision` counts what changed of them, so
that what is kept in memory is known to be stale. `removed`: it is gone, and its passages go in the background."""

knowledge_names = Table(
    "knowledge_names",
    metadata,
    Column("document_id", String, ForeignKey("knowledge_documents.id", ondelete="CASCADE"), primary_key=True),
    owner(),
    Column("version", Integer, nullable=False),
    Column("rules", String, nullable=False),
    Column("counts", Json(NameCounts), nullable=False),
)
"""What a version of a document tells of names, for bases with restricted readers; `rules` are those of the guard."""

knowledge_passages = Table(
    "knowledge_passages",
    metadata,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    owner(),
    part_of("document_id", "knowledge_documents.id", index=False),
    Column("version", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("page", Integer),
    Column("headings", Json(tuple[str, ...]), nullable=False),
    Column("length", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("digest", String, nullable=False),
    Column("text", Text, nullable=False),
    Index("uq_knowledge_passages_document_id_version_position", "document_id", "version", "position", unique=True),
    sqlite_autoincrement=True,
)
"""Passages of documents: one after the other they are the text. `length` is in terms. An id is never used twice:
`postings` go by it."""

knowledge_vectors = Table(
    "knowledge_vectors",
    metadata,
    Column(
        "entry_id",
        _NUMBER,
        ForeignKey("knowledge_passages.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    owner(),
    Column("model", String, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("ix_knowledge_vectors_owner_model_dimension", "owner", "model", "dimension"),
)
"""The vector of a passage, float16; `model` made it."""

knowledge_bindings = Table(
    "knowledge_bindings",
    metadata,
    Column("subject_id", String, primary_key=True),
    Column("knowledge_base_id", String, ForeignKey("knowledge_bases.id", ondelete="CASCADE"), primary_key=True),
    owner(),
    Column("position", Integer, nullable=False),
)
"""Which bases a conversation or an agent (`subject_id`) searches. Whether it may is decided each time."""

knowledge_calls = Table(
    "knowledge_calls",
    metadata,
    Column("conversation_id", String, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    owner(),
    Column("calls", Integer, nullable=False),
    Column("turn_id", String, nullable=False),
    Column("turn_calls", Integer, nullable=False),
)
"""How often a conversation searched, and how often of that its turn `turn_id` did."""
