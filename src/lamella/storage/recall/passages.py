"""Passages as rows: entries, their words in the full-text table, and their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, insert, text

from lamella.core.recall import Passage
from lamella.core.records import Caller
from lamella.storage.columns import local_moment_text
from lamella.storage.tables import recall_entries, recall_vectors

_ADD_WORDS = text("INSERT INTO recall_words (rowid, terms) VALUES (:id, :terms)")


def tagged(owner: str, term: str) -> str:
    """A term as it stands in the full-text table: one token, as everything that is not ASCII belongs to one."""
    return f"{blake2b(owner.encode(), digest_size=6).hexdigest()}\u00b7{term}"


def _entry_row(owner: str, conversation_id: str, passage: Passage) -> dict[str, Any]:
    return {
        "owner": owner,
        "conversation_id": conversation_id,
        "source_id": passage.id,
        "call_id": passage.call_id,
        "speaker": passage.speaker.value,
        "name": passage.name,
        "at": local_moment_text(passage.at),
        "start": passage.start,
        "end": passage.end,
        "length": len(passage.terms),
    }


def vector_row(owner: str, entry: int, model: str, data: bytes) -> dict[str, Any]:
    """The row of a vector: float16, little-endian."""
    return {"entry_id": entry, "owner": owner, "model": model, "dimension": len(data) // 2, "data": data}


def add_passages(
    connection: Connection, caller: Caller, conversation_id: str, passages: Sequence[Passage], model: str
) -> None:
    """Store passages with their words, and the vectors that they bring."""
    if not passages:
        return
    rows = [_entry_row(caller.user_id, conversation_id, passage) for passage in passages]
    adding = insert(recall_entries).returning(recall_entries.c.id, sort_by_parameter_order=True)
    entries = list(connection.execute(adding, rows).scalars())
    words = [
        {"id": entry, "terms": " ".join(tagged(caller.user_id, term) for term in passage.terms)}
        for entry, passage in zip(entries, passages, strict=True)
    ]
    connection.execute(_ADD_WORDS, words)
    vectors = [
        vector_row(caller.user_id, entry, model, passage.vector)
        for entry, passage in zip(entries, passages, strict=True)
        if passage.vector is not None
    ]
    if vectors:
        connection.execute(insert(recall_vectors), vectors)
