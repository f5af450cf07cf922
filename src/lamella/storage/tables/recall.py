"""The tables of passages that can be found again."""

from __future__ import annotations

from sqlalchemy import DDL, BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, String, Table, event

from lamella.storage.tables.parts import metadata, owner, part_of

recall_entries = Table(
    "recall_entries",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    owner(),
    part_of("conversation_id", "conversations.id", index=False),
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
    Index("ix_recall_entries_owner_id", "owner", "id"),
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
