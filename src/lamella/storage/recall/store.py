"""Passages that can be found again, on SQLite: postings from FTS5, vectors exactly, ranked by `search.ranking`.

An owner's terms stand in the full-text table behind the owner's tag, and are read by name from its vocabulary: no query
language is spoken, and nobody's postings are read but the owner's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    type_coerce,
    update,
)
from sqlalchemy.types import NullType

from lamella.core.recall import (
    Found,
    Hit,
    Passage,
    PassageText,
    RecallQuery,
    SessionHit,
    Source,
    Speaker,
)
from lamella.core.records import Caller
from lamella.search.ranking import Ints
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.database import Database, Transactions, insert_missing, reads, writes
from lamella.storage.recall.scope import MOST_BYTES, SpokenPart, SpokenScope, SpokenScopes, choose, grown, part_of
from lamella.storage.recall.sources import (
    add_passages,
    find_source,
    find_sources,
    readable_sessions,
    readable_summaries,
    recall_version,
    tagged,
    touch_recall,
    vector_row,
)
from lamella.storage.tables import messages, recall_entries, recall_turns, recall_vectors, sessions, turns

_POSTINGS = text("SELECT group_concat(doc) FROM recall_postings WHERE term = :term")
"""The entries that hold a term, as often as they do, in one text: read apart from the event loop."""

_SESSIONS_SHOWN = 20
_ROWS_AT_ONCE = 1_000


def _without_vector(model: str) -> ColumnElement[bool]:
    return or_(recall_vectors.c.model.is_(None), recall_vectors.c.model != model)


def _summary_without_vector(model: str) -> ColumnElement[bool]:
    made = and_(sessions.c.embedding.is_not(None), func.coalesce(sessions.c.embedding_model, "") == model)
    return and_(sessions.c.summary.is_not(None), ~made)


_ENDED = and_(turns.c.finished_at.is_not(None), recall_turns.c.turn_id.is_(None))
_TURNS = turns.outerjoin(recall_turns, recall_turns.c.turn_id == turns.c.id)
_VECTORS = recall_entries.outerjoin(recall_vectors, recall_vectors.c.entry_id == recall_entries.c.id)


class RecallIndex(Transactions):
    """The port `RecallIndex` on a database file."""

    def __init__(self, database: Database, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(database)
        self._scopes = SpokenScopes(most_bytes)

    @reads
    def waiting(self, connection: Connection, model: str) -> tuple[tuple[Caller, str], ...]:
        """The conversations of every owner of which something has no passages, or no vectors of `model`."""
        queries = (
            select(turns.c.owner, turns.c.conversation_id).select_from(_TURNS).where(_ENDED),
            select(recall_entries.c.owner, recall_entries.c.conversation_id)
            .select_from(_VECTORS)
            .where(_without_vector(model)),
            select(sessions.c.owner, sessions.c.conversation_id).where(_summary_without_vector(model)),
        )
        found: dict[tuple[str, str], None] = {}
        for query in queries:
            for owner, conversation_id in connection.execute(query.distinct()):
                found[(owner, conversation_id)] = None
        return tuple((Caller(owner), conversation_id) for owner, conversation_id in found)

    @reads
    def unindexed(
        self, connection: Connection, caller: Caller, conversation_id: str | None, limit: int
    ) -> tuple[tuple[str, str], ...]:
        """Turns that have ended and have no passages yet, oldest first, with their conversations."""
        query = (
            select(turns.c.id, turns.c.conversation_id)
            .select_from(_TURNS)
            .where(_ENDED, turns.c.owner == caller.user_id)
            .order_by(turns.c.started_at, turns.c.id)
            .limit(limit)
        )
        if conversation_id is not None:
            query = query.where(turns.c.conversation_id == conversation_id)
        return tuple((turn_id, of) for turn_id, of in connection.execute(query))

    @writes
    def index_turn(
        self, connection: Connection, caller: Caller, turn_id: str, passages: Sequence[Passage], model: str
    ) -> bool:
        """Store the passages of a turn; False when that was done before, or the turn is gone."""
        query = (
            select(turns.c.conversation_id)
            .select_from(_TURNS)
            .where(_ENDED, turns.c.id == turn_id, turns.c.owner == caller.user_id)
        )
        conversation_id = connection.execute(query).scalar_one_or_none()
        if conversation_id is None:
            return False
        insert_missing(connection, recall_turns, [{"turn_id": turn_id, "owner": caller.user_id}])
        add_passages(connection, caller, conversation_id, passages, model)
        return True

    @reads
    def unembedded(
        self, connection: Connection, caller: Caller, conversation_id: str, model: str, limit: int
    ) -> tuple[PassageText, ...]:
        """Passages that have no vector of this model, with their texts."""
        query = (
            select(recall_entries.c.id)
            .select_from(_VECTORS)
            .where(_mine(caller, conversation_id), _without_vector(model))
            .order_by(recall_entries.c.id)
            .limit(limit)
        )
        wanted = list(connection.execute(query).scalars())
        found = find_sources(connection, caller, wanted)
        return tuple(
            PassageText(entry, source.session_id, source.content[start:end])
            for entry, (source, start, end) in sorted(found.items())
        )

    @writes
    def embed(self, connection: Connection, caller: Caller, model: str, vectors: Mapping[int, bytes]) -> None:
        """Give passages their vectors, by entry; those that are gone are passed over."""
        mine = (recall_entries.c.owner == caller.user_id, recall_entries.c.id.in_(sorted(vectors)))
        there = list(connection.execute(select(recall_entries.c.id).where(*mine)).scalars())
        connection.execute(delete(recall_vectors).where(recall_vectors.c.entry_id.in_(there)))
        rows = [vector_row(caller.user_id, entry, model, vectors[entry]) for entry in there]
        if rows:
            connection.execute(insert(recall_vectors), rows)

    @reads
    def unembedded_summaries(
        self, connection: Connection, caller: Caller, conversation_id: str, model: str
    ) -> tuple[Source, ...]:
        """Summaries of sessions that have no vector of this model."""
        query = select(sessions).where(
            sessions.c.owner == caller.user_id,
            sessions.c.conversation_id == conversation_id,
            _summary_without_vector(model),
        )
        rows = connection.execute(query).mappings().all()
        # What may not be read any more is not sent to whoever makes vectors either.
        return readable_summaries(connection, caller, rows)

    @writes
    def index_summary(
        self,
        connection: Connection,
        caller: Caller,
        summary: Source,
        vector: bytes,
        passages: Sequence[Passage],
        model: str,
    ) -> bool:
        """Store the vector of a session's summary, and its passages in the place of earlier ones.

        False when the session has another summary by now, or is gone.
        """
        this = (sessions.c.id == summary.id, sessions.c.owner == caller.user_id, sessions.c.summary == summary.content)
        old = (recall_entries.c.source_id == summary.id, recall_entries.c.owner == caller.user_id)
        result = connection.execute(update(sessions).where(*this).values(embedding=vector, embedding_model=model))
        if result.rowcount == 0:
            return False
        replaced = connection.execute(delete(recall_entries).where(*old))
        add_passages(connection, caller, summary.conversation_id, passages, model)
        if replaced.rowcount > 0:
            touch_recall(connection, caller)
        return True

    async def search(self, caller: Caller, query: RecallQuery) -> Found:
        """What of the caller's fits the query best; raises `NotFound` for a foreign conversation."""
        dimension = len(query.vector) // 2 if query.vector is not None else 0
        scope = await self._scope(caller, query, dimension)
        found = await self._postings(caller, scope, query.terms)
        chosen = await asyncio.to_thread(choose, scope, found, query.vector, query.space, query.limit, _SESSIONS_SHOWN)
        made, first = chosen.made, chosen.best_of
        wanted = {*chosen.passages, *(first[session] for session in chosen.sessions if session in first)}
        sources, told = await self._readable(
            caller,
            [int(scope.entries[place]) for place in wanted],
            [scope.sessions[session] for session in chosen.sessions],
        )
        hits = {
            place: Hit(*sources[entry], float(made.scores[place]))
            for place in wanted
            if (entry := int(scope.entries[place])) in sources
        }
        return Found(
            tuple(hits[place] for place in chosen.passages if place in hits),
            tuple(
                SessionHit(
                    scope.sessions[s], float(made.sessions[s]), float(made.covers[s]), hits.get(first.get(s, -1))
                )
                for s in chosen.sessions
                if scope.sessions[s] in told
            ),
        )

    @reads
    def _postings(
        self, connection: Connection, caller: Caller, scope: SpokenScope, terms: Sequence[str]
    ) -> dict[str, str | Ints]:
        """For each term what is kept of it, or the entries that hold it as they are read."""
        found: dict[str, str | Ints] = {}
        for term in terms:
            kept = scope.kept.find(term)
            asked = {"term": tagged(caller.user_id, term)}
            found[term] = kept if kept is not None else connection.execute(_POSTINGS, asked).scalar_one() or ""
        return found

    @reads
    def _readable(
        self, connection: Connection, caller: Caller, entries: Sequence[int], session_ids: Sequence[str]
    ) -> tuple[Mapping[int, tuple[Source, int, int]], Collection[str]]:
        """What stands behind these entries, and which of the sessions have a summary that may be read."""
        return find_sources(connection, caller, entries), readable_sessions(connection, caller, session_ids)

    @reads
    def _version(self, connection: Connection, caller: Caller, conversation_id: str | None) -> int:
        if conversation_id is not None:
            find_conversation(connection, caller, conversation_id)
        return recall_version(connection, caller)

    async def _scope(self, caller: Caller, query: RecallQuery, dimension: int) -> SpokenScope:
        """What is kept, with what was added since; read anew when something else changed.

        What changes while it is read makes what is kept stale: the next search reads anew.
        """
        key = (caller.user_id, query.conversation_id, query.space.model, dimension)
        kept = self._scopes.find(key, await self._version(caller, query.conversation_id))
        parts = await self._read(caller, query, kept.last, dimension)
        if not parts:
            return kept
        scope, stays = await asyncio.to_thread(grown, kept, parts)
        self._scopes.keep(key, stays)
        return scope

    async def _read(self, caller: Caller, query: RecallQuery, after: int, dimension: int) -> list[SpokenPart]:
        """The passages after entry `after`, page by page; no connection is held between pages."""
        found: list[SpokenPart] = []
        more = True
        while more:
            parts, after, more = await self._page(caller, query, after, dimension)
            found += parts
        return found

    @reads
    def _page(
        self, connection: Connection, caller: Caller, query: RecallQuery, after: int, dimension: int
    ) -> tuple[list[SpokenPart], int, bool]:
        """The next page of passages, if there are any, its last entry, and whether there is another page."""
        rows = connection.execute(_rows(caller, query, after, with_vectors=dimension > 0)).all()
        if not rows:
            return [], after, False
        return [part_of(rows, dimension)], rows[-1][0], len(rows) == _ROWS_AT_ONCE

    @reads
    def source(self, connection: Connection, caller: Caller, conversation_id: str | None, reference: str) -> Source:
        """Something in full, by its message id, its call id (the newest such call) or `MESSAGE/CALL`."""
        return find_source(connection, caller, conversation_id, reference)


def _mine(caller: Caller, conversation_id: str | None) -> ColumnElement[bool]:
    owned = recall_entries.c.owner == caller.user_id
    return owned if conversation_id is None else and_(owned, recall_entries.c.conversation_id == conversation_id)


def _rows(caller: Caller, query: RecallQuery, after: int, *, with_vectors: bool) -> Select[Any]:
    """The first passages after entry `after`, as `part_of` takes them: unconverted, since there are many."""
    of_space = and_(recall_vectors.c.entry_id == recall_entries.c.id, recall_vectors.c.model == query.space.model)
    summary = recall_entries.c.speaker == Speaker.SUMMARY.value
    made = (
        select(
            recall_entries.c.id,
            func.coalesce(messages.c.session_id, recall_entries.c.source_id),
            recall_entries.c.length,
            type_coerce(~summary, NullType()),
            type_coerce(recall_vectors.c.data, NullType()) if with_vectors else text("NULL"),
        )
        .select_from(recall_entries)
        .outerjoin(messages, messages.c.id == recall_entries.c.source_id)
    )
    if with_vectors:
        made = made.outerjoin(recall_vectors, of_space)
    made = made.where(_mine(caller, query.conversation_id), recall_entries.c.id > after)
    return made.order_by(recall_entries.c.id).limit(_ROWS_AT_ONCE)
