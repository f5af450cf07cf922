"""The index of passages in the database: rows, words and vectors, for documents and for what was said alike.

SQLite's full-text table keeps the terms of passages. It is read term by term, by name, from its vocabulary: no query
language is spoken. Each term stands there with a tag of its shelf or owner before it, so nobody's occurrences are read
but those of what is searched. Example: `4·harbour` is the term `harbour` on shelf 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Table,
    and_,
    delete,
    insert,
    null,
    or_,
    select,
    text,
    type_coerce,
)
from sqlalchemy.types import NullType

from lamella.search.ranking import PLACE_BITS, Ints
from lamella.search.terms import common_beginning
from lamella.search.vectors import stored
from lamella.storage.columns import POSTGRESQL
from lamella.storage.scopes import PassageScope, Reading, Rows
from lamella.storage.tables import knowledge_passages, knowledge_vectors, recall_entries, recall_vectors

_LAST = "\U0010ffff"


def tagged(tag: str, terms: str) -> str:
    """Terms with blanks between as they stand in the full-text table: a tag and a term are one token, as everything
    that is not ASCII belongs to one.
    """
    return f"{tag}{terms.replace(' ', f' {tag}')}" if terms else ""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A passage to store: its row, its terms with blanks between, and its vector where made already."""

    row: Mapping[str, Any]
    terms: str
    vector: bytes | None


@dataclass(frozen=True, slots=True)
class PassageTables:
    """The tables of one kind of passages; `name` begins those of their words."""

    name: str
    rows: Table
    vectors: Table

    def add(self, connection: Connection, tag: str, new: Sequence[NewEntry], model: str) -> list[int]:
        """Store passages with their words and the vectors that they bring; gives their entries."""
        adding = insert(self.rows).returning(self.rows.c.id, sort_by_parameter_order=True)
        entries = list(connection.execute(adding, [dict(one.row) for one in new]).scalars())
        pairs = list(zip(entries, new, strict=True))
        self._add_words(connection, {entry: tagged(tag, one.terms) for entry, one in pairs})
        made = {entry: (one.row["owner"], one.vector) for entry, one in pairs if one.vector is not None}
        self._add_vectors(connection, model, made)
        return entries

    def _add_words(self, connection: Connection, terms: Mapping[int, str]) -> None:
        if connection.dialect.name != POSTGRESQL:
            words = text(f"INSERT INTO {self.name}_words (rowid, terms) VALUES (:id, :terms)")
            connection.execute(words, [{"id": entry, "terms": written} for entry, written in terms.items()])
            return
        split = {entry: written.split() for entry, written in terms.items()}
        rows = [{"id": entry, "terms": one} for entry, one in split.items()]
        connection.execute(text(f"INSERT INTO {self.name}_words (id, terms) VALUES (:id, :terms)"), rows)
        known = text(f"INSERT INTO {self.name}_terms SELECT unnest(CAST(:terms AS TEXT[])) ON CONFLICT DO NOTHING")
        connection.execute(known, {"terms": sorted(set(chain.from_iterable(split.values())))})

    def embed(
        self, connection: Connection, owner: str, model: str, vectors: Mapping[int, bytes], *which: ColumnElement[bool]
    ) -> int:
        """Give an owner's passages their vectors in place of earlier ones; gives how many of them are still there."""
        owned_by = (self.rows.c.owner == owner, self.rows.c.id.in_(sorted(vectors)), *which)
        there = list(connection.execute(select(self.rows.c.id).where(*owned_by)).scalars())
        connection.execute(delete(self.vectors).where(self.vectors.c.entry_id.in_(there)))
        self._add_vectors(connection, model, {entry: (owner, vectors[entry]) for entry in there})
        return len(there)

    def _add_vectors(self, connection: Connection, model: str, made: Mapping[int, tuple[str, bytes]]) -> None:
        rows = [
            {"entry_id": entry, "owner": owner, "model": model, "dimension": len(data) // 2, "data": stored(data)}
            for entry, (owner, data) in made.items()
        ]
        if rows:
            connection.execute(insert(self.vectors), rows)

    def without_vector(self, model: str) -> ColumnElement[bool]:
        """Whether a passage has no vector of this model, in what `with_vectors` joins."""
        return or_(self.vectors.c.model.is_(None), self.vectors.c.model != model)

    def with_vectors(self, joined: FromClause | None = None) -> FromClause:
        """Passages, or a join of them, with their vectors if they have any."""
        return (self.rows if joined is None else joined).outerjoin(
            self.vectors, self.vectors.c.entry_id == self.rows.c.id
        )

    def of_space(self, joined: FromClause, model: str, dimension: int) -> tuple[FromClause, ColumnElement[Any]]:
        """A join of passages with their vectors of a model, and the column of these; without any for dimension 0."""
        if not dimension:
            return joined, null()
        of_model = and_(self.vectors.c.entry_id == self.rows.c.id, self.vectors.c.model == model)
        of_model = and_(of_model, self.vectors.c.dimension == dimension)
        return joined.outerjoin(self.vectors, of_model), type_coerce(self.vectors.c.data, NullType())

    def reading(
        self,
        connection: Connection,
        scope: PassageScope,
        tags: Sequence[str],
        words: Sequence[str],
        *,
        forms: bool = False,
    ) -> Reading:
        """A scope with the occurrences of words under these tags, and with `forms` those of their other forms."""
        read: dict[str, Rows | tuple[Ints, Ints]] = {}
        for word in dict.fromkeys(words):
            beginning = common_beginning(word) if forms else ""
            read[word] = scope.postings.find(word) or [
                row for tag in tags for row in self._occurrences(connection, tag, word, beginning)
            ]
        return Reading(scope, read)

    def _occurrences(self, connection: Connection, tag: str, word: str, beginning: str) -> Rows:
        """The terms that begin so, or the word alone, with their occurrences in one text: read apart from the loop."""
        own, begins = tagged(tag, word), tagged(tag, beginning)
        which, asked = "term = :own", {"own": own}
        if beginning:
            which, asked = "term >= :begins AND term < :ends", {"begins": begins, "ends": begins + _LAST}
        query = _FOUND_ON.get(connection.dialect.name, _FOUND).format(self.name, which)
        return [(str(term)[len(tag) :], str(found)) for term, found in connection.execute(text(query), asked)]


_FOUND = f"SELECT term, group_concat(doc * {1 << PLACE_BITS} + offset) FROM {{0}}_postings WHERE {{1}} GROUP BY term"
_FOUND_ON = {
    POSTGRESQL: f"""
        SELECT term, string_agg(CAST(id * {1 << PLACE_BITS} + place - 1 AS TEXT), ',')
        FROM {{0}}_terms JOIN {{0}}_words ON terms @> ARRAY[term], unnest(array_positions(terms, term)) AS place
        WHERE {{1}} GROUP BY term
    """
}
"""The terms with their occurrences: the passage's id and the place of the term in it, as one number."""


SAID = PassageTables("recall", recall_entries, recall_vectors)
"""Passages of messages, results and summaries; their texts are read from there."""

WRITTEN = PassageTables("knowledge", knowledge_passages, knowledge_vectors)
"""Passages of documents, with their texts."""
