"""The index of passages in the database: rows, words and vectors, for documents and for what was said alike.

The words stand in the table `postings`, the same bytes on every database: pages of runs, which `search.postings`
describes. No query language is spoken, and no statistics of a database rank anything. An addition is a row more. After
it `merge_runs` makes one run of several small ones; what is removed leaves its runs in the same transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Table,
    and_,
    delete,
    func,
    insert,
    inspect,
    null,
    or_,
    select,
    text,
    type_coerce,
)
from sqlalchemy.types import NullType

from lamella.search.postings import TermRun, due, entries_of, packed_entries
from lamella.search.ranking import Ints
from lamella.search.terms import common_beginning
from lamella.search.vectors import matrix_of, stored
from lamella.storage.columns import POSTGRESQL
from lamella.storage.database import Database
from lamella.storage.scopes import PassageScope, Reading, Words
from lamella.storage.tables import (
    deployment,
    knowledge_passages,
    knowledge_vectors,
    postings,
    recall_entries,
    recall_vectors,
)

_LAST = "\U0010ffff"

Indexed = tuple[str, int]
"""Whose passages: an owner and the number of a shelf, or 0 for what the owner said."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A passage to store: its row, its terms in order, and its vector where made already."""

    row: Mapping[str, Any]
    terms: Sequence[str]
    vector: bytes | None


@dataclass(frozen=True, slots=True)
class PassageTables:
    """The tables of one kind of passages."""

    name: str
    rows: Table
    vectors: Table
    places: bool
    """Whether a ranking asks at which place of a passage a word stands."""

    def add(self, connection: Connection, of: Indexed, new: Sequence[NewEntry], model: str) -> list[int]:
        """Store passages with their words and the vectors that they bring; gives their entries."""
        adding = insert(self.rows).returning(self.rows.c.id, sort_by_parameter_order=True)
        entries = list(connection.execute(adding, [dict(one.row) for one in new]).scalars())
        pairs = list(zip(entries, new, strict=True))
        terms = {entry: one.terms for entry, one in pairs}
        store_run(connection, of, TermRun.of(terms, places=self.places))
        made = {entry: (one.row["owner"], one.vector) for entry, one in pairs if one.vector is not None}
        self._add_vectors(connection, model, made)
        return entries

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

    def vectors_of(
        self, connection: Connection, entries: Ints, model: str, dimension: int
    ) -> tuple[Ints, NDArray[np.float32]]:
        """Of these entries, which rise, those that have a vector of a model, and their vectors."""
        of = self.vectors.c
        wanted = (of.entry_id.in_(entries.tolist()), of.model == model, of.dimension == dimension)
        query = select(of.entry_id, of.data).where(*wanted).order_by(of.entry_id)
        found = connection.execute(query).all()
        return np.array([row.entry_id for row in found], np.int64), matrix_of([row.data for row in found], dimension)

    def reading(
        self, connection: Connection, scope: PassageScope, of: Indexed, words: Sequence[str], *, forms: bool = False
    ) -> Reading:
        """A scope with the pages that have these words, and with `forms` their other forms."""
        kept = {word: scope.postings.find(word) for word in dict.fromkeys(words)}
        runs: dict[int, bytes] = {}
        if None in kept.values():
            runs = {row.first: row.entries for row in connection.execute(_runs(of, postings.c.entries))}
        read: dict[str, Words] = {}
        for word, found in kept.items():
            beginning = common_beginning(word) if forms else ""
            read[word] = found or [(row.first, row.data) for row in connection.execute(_pages(of, word, beginning))]
        return Reading(scope, read, runs, forms)


SAID = PassageTables("recall", recall_entries, recall_vectors, places=False)
"""Passages of messages, results and summaries; their texts are read from there."""

WRITTEN = PassageTables("knowledge", knowledge_passages, knowledge_vectors, places=True)
"""Passages of documents, with their texts."""


# Runs


def _of(of: Indexed, rows: FromClause = postings) -> tuple[ColumnElement[bool], ...]:
    return rows.c.owner == of[0], rows.c.shelf == of[1]


def _runs(of: Indexed, *columns: ColumnElement[Any]) -> Select[Any]:
    """The first pages of all runs."""
    return select(postings.c.first, *columns).where(*_of(of), postings.c.term == "")


def _pages(of: Indexed, word: str, beginning: str) -> Select[Any]:
    """The page of each run that may have a word, or those that may have terms which begin so."""
    run, page, before = postings.alias("run"), postings.alias("page"), postings.alias("before")
    same_run = [page.c[name] == run.c[name] for name in ("owner", "shelf", "first")]
    up_to = [before.c[name] == run.c[name] for name in ("owner", "shelf", "first")]
    first = select(func.max(before.c.term)).where(*up_to, before.c.term <= (beginning or word))
    last = beginning + _LAST if beginning else word
    return (
        select(page.c.first, page.c.data)
        .select_from(run.join(page, and_(*same_run)))
        .where(*_of(of, run), run.c.term == "", page.c.term >= first.scalar_subquery(), page.c.term <= last)
        .order_by(page.c.first, page.c.term)
    )


def store_run(connection: Connection, of: Indexed, run: TermRun) -> None:
    """Store a run of passages, unless it has none."""
    if not len(run.entries):
        return
    owner, shelf = of
    ends = {"first": int(run.entries[0]), "last": int(run.entries[-1])}
    whole = {"passages": len(run.entries), "entries": packed_entries(run.entries)}
    bare = {"passages": None, "entries": None}
    rows = [
        {"owner": owner, "shelf": shelf, **ends, "term": term, "data": data, **(bare if term else whole)}
        for term, data in run.pages()
    ]
    connection.execute(insert(postings), rows)


def forget_words(
    connection: Connection, of: Indexed, entries: Iterable[int], others: Select[Any] | None = None
) -> None:
    """Take passages out of the runs that have them. `others` are further entries, which leave the same runs."""
    gone = np.array(sorted(entries), np.int64)
    if not len(gone):
        return
    near = (postings.c.first <= int(gone[-1]), postings.c.last >= int(gone[0]))
    rows = connection.execute(_runs(of, postings.c.last, postings.c.entries).where(*near)).all()
    for first, last, packed in rows:
        if not np.isin(entries_of(packed), gone).any():
            continue
        if others is not None:
            [id] = others.selected_columns
            gone = np.union1d(gone, list(connection.execute(others.where(id.between(first, last))).scalars()))
        left = _merged(_stored_runs(connection, of, [first]), gone)
        connection.execute(delete(postings).where(*_of(of), postings.c.first == first))
        store_run(connection, of, left)


_Stored = dict[int, tuple[bytes, list[bytes]]]
"""Runs as they are stored, by their first entry: entries and pages."""


def _stored_runs(connection: Connection, of: Indexed, firsts: Sequence[int]) -> _Stored:
    query = select(postings.c.first, postings.c.entries, postings.c.data)
    query = query.where(*_of(of), postings.c.first.in_(firsts)).order_by(postings.c.first, postings.c.term)
    found: _Stored = {}
    for first, entries, data in connection.execute(query):
        found.setdefault(first, (entries, []))[1].append(data)
    return found


_NONE = np.zeros(0, np.int64)


def _merged(found: _Stored, without: Ints = _NONE) -> TermRun:
    return TermRun.merged([TermRun.read(entries, pages) for entries, pages in found.values()], without)


async def merge_runs(database: Database, of: Indexed) -> None:
    """Make one run of several of about one size, as long as there are enough. Others read and write meanwhile."""
    while found := await database.read(partial(_due, of)):
        merged = await asyncio.to_thread(_merged, found)
        await database.write(partial(_replace, of, found, merged))


def ask_runs(connection: Connection, of: Indexed) -> Callable[[], dict[int, int]]:
    """Asks how many passages each run has."""
    asked = connection.execute(_runs(of, postings.c.passages))
    return lambda: {row.first: row.passages for row in asked}


def _due(of: Indexed, connection: Connection) -> _Stored:
    runs = due(ask_runs(connection, of)())
    return _stored_runs(connection, of, runs) if runs else {}


def _replace(of: Indexed, found: _Stored, merged: TermRun, connection: Connection) -> None:
    """Store a run in place of those that it was made of, unless one has changed meanwhile."""
    query = _runs(of, postings.c.entries).where(postings.c.first.in_(list(found)))
    there = {row.first: row.entries for row in connection.execute(query)}
    if there == {first: entries for first, (entries, _) in found.items()}:
        connection.execute(delete(postings).where(*_of(of), postings.c.first.in_(list(found))))
        store_run(connection, of, merged)


# Words of earlier versions

_TAKEN_AT_ONCE = 16_384

_EARLIER = {
    SAID: "SELECT e.owner, 0, w.{id}, w.terms FROM recall_words AS w JOIN recall_entries AS e ON e.id = w.{id}",
    WRITTEN: "SELECT p.owner, d.shelf, w.{id}, w.terms FROM knowledge_words AS w JOIN knowledge_passages AS p "
    "ON p.id = w.{id} JOIN knowledge_documents AS d ON d.id = p.document_id",
}


def take_over_words(connection: Connection) -> None:
    """Copy the words that earlier versions stored, after those that were copied before.

    On PostgreSQL they stay where they were, since processes of an earlier version may still read and write them.
    """
    id = "id" if connection.dialect.name == POSTGRESQL else "rowid"
    for tables, query in _EARLIER.items():
        name = f"{tables.name}_words"
        if not inspect(connection).has_table(name):
            continue
        mark = connection.execute(select(deployment.c.data).where(deployment.c.name == name)).scalar()
        after, last = int(mark or b"0"), connection.execute(text(f"SELECT max({id}) FROM {name}")).scalar() or 0
        some = text(f"{query.format(id=id)} WHERE w.{id} > :after AND w.{id} <= :upto ORDER BY 1, 2, 3")
        for first in range(after, last, _TAKEN_AT_ONCE):
            upto = min(first + _TAKEN_AT_ONCE, last)
            rows = connection.execute(some, {"after": first, "upto": upto}).all()
            for (owner, shelf), found in groupby(rows, key=lambda row: (row[0], row[1])):
                terms = {row[2]: _untagged(row[3]) for row in found}
                store_run(connection, (owner, shelf), TermRun.of(terms, places=tables.places))
        if last > after and id == "id":
            connection.execute(delete(deployment).where(deployment.c.name == name))
            connection.execute(insert(deployment).values(name=name, data=str(last).encode()))


def _untagged(stored: str | list[str]) -> list[str]:
    """Terms without the tag of their owner or shelf, which ends with a dot or has three characters."""
    terms = stored.split() if isinstance(stored, str) else stored
    tag = terms[0].find("\u00b7") + 1 if terms else 0
    return [term[tag or 3 :] for term in terms]
