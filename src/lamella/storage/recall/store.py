"""Passages that can be found again, on SQLite: postings from FTS5, vectors exactly, ranked by `search.ranking`.

An owner's terms stand in the full-text table behind the owner's tag, and are read by name from its vocabulary: no query
language is spoken, and nobody's postings are read but the owner's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
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

from lamella.core.ports import RecallIndex
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
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.database import Database, insert_missing, uninterrupted
from lamella.storage.recall.passages import add_passages, tagged, vector_row
from lamella.storage.recall.scope import MOST_BYTES, Part, Scope, ScopeCache, choose, grown, part_of
from lamella.storage.recall.sources import find_source, find_sources, readable_sessions, readable_summaries
from lamella.storage.recall.versions import recall_version, touch_recall
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


class SqlRecallIndex:
    """The port `RecallIndex` on a database file."""

    def __init__(self, database: Database, most_bytes: int = MOST_BYTES) -> None:
        self._database = database
        self._scopes = ScopeCache(most_bytes)

    @uninterrupted
    async def waiting(self, model: str) -> tuple[tuple[Caller, str], ...]:
        """The conversations of which something is not indexed, or not for this model."""
        queries = (
            select(turns.c.owner, turns.c.conversation_id).select_from(_TURNS).where(_ENDED),
            select(recall_entries.c.owner, recall_entries.c.conversation_id)
            .select_from(_VECTORS)
            .where(_without_vector(model)),
            select(sessions.c.owner, sessions.c.conversation_id).where(_summary_without_vector(model)),
        )
        found: dict[tuple[str, str], None] = {}
        async with self._database.reading() as connection:
            for query in queries:
                for owner, conversation_id in await connection.execute(query.distinct()):
                    found[(owner, conversation_id)] = None
        return tuple((Caller(owner), conversation_id) for owner, conversation_id in found)

    @uninterrupted
    async def unindexed(self, caller: Caller, conversation_id: str | None, limit: int) -> tuple[tuple[str, str], ...]:
        """Turns that have ended and have no passages yet, oldest first."""
        query = (
            select(turns.c.id, turns.c.conversation_id)
            .select_from(_TURNS)
            .where(_ENDED, turns.c.owner == caller.user_id)
            .order_by(turns.c.started_at, turns.c.id)
            .limit(limit)
        )
        if conversation_id is not None:
            query = query.where(turns.c.conversation_id == conversation_id)
        async with self._database.reading() as connection:
            return tuple((turn_id, of) for turn_id, of in await connection.execute(query))

    @uninterrupted
    async def index_turn(self, caller: Caller, turn_id: str, passages: Sequence[Passage], model: str) -> bool:
        """Store the passages of a turn, once."""
        query = (
            select(turns.c.conversation_id)
            .select_from(_TURNS)
            .where(_ENDED, turns.c.id == turn_id, turns.c.owner == caller.user_id)
        )
        async with self._database.writing() as connection:
            conversation_id = (await connection.execute(query)).scalar_one_or_none()
            if conversation_id is None:
                return False
            await insert_missing(connection, recall_turns, [{"turn_id": turn_id, "owner": caller.user_id}])
            await add_passages(connection, caller, conversation_id, passages, model)
        return True

    @uninterrupted
    async def unembedded(self, caller: Caller, conversation_id: str, model: str, limit: int) -> tuple[PassageText, ...]:
        """Passages that have no vector of this model, with their texts."""
        query = (
            select(recall_entries.c.id)
            .select_from(_VECTORS)
            .where(_mine(caller, conversation_id), _without_vector(model))
            .order_by(recall_entries.c.id)
            .limit(limit)
        )
        async with self._database.reading() as connection:
            wanted = list((await connection.execute(query)).scalars())
            found = await find_sources(connection, caller, wanted)
        return tuple(
            PassageText(entry, source.session_id, source.content[start:end])
            for entry, (source, start, end) in sorted(found.items())
        )

    @uninterrupted
    async def embed(self, caller: Caller, model: str, vectors: Mapping[int, bytes]) -> None:
        """Give passages their vectors; those that are gone are passed over."""
        mine = (recall_entries.c.owner == caller.user_id, recall_entries.c.id.in_(sorted(vectors)))
        async with self._database.writing() as connection:
            there = list((await connection.execute(select(recall_entries.c.id).where(*mine))).scalars())
            await connection.execute(delete(recall_vectors).where(recall_vectors.c.entry_id.in_(there)))
            rows = [vector_row(caller.user_id, entry, model, vectors[entry]) for entry in there]
            if rows:
                await connection.execute(insert(recall_vectors), rows)

    @uninterrupted
    async def unembedded_summaries(self, caller: Caller, conversation_id: str, model: str) -> tuple[Source, ...]:
        """Summaries of sessions that have no vector of this model."""
        query = select(sessions).where(
            sessions.c.owner == caller.user_id,
            sessions.c.conversation_id == conversation_id,
            _summary_without_vector(model),
        )
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).mappings().all()
            # What may not be read any more is not sent to whoever makes vectors either.
            return await readable_summaries(connection, caller, rows)

    @uninterrupted
    async def index_summary(
        self, caller: Caller, summary: Source, vector: bytes, passages: Sequence[Passage], model: str
    ) -> bool:
        """Store the vector and the passages of a summary, if it is still the session's."""
        this = (sessions.c.id == summary.id, sessions.c.owner == caller.user_id, sessions.c.summary == summary.content)
        old = (recall_entries.c.source_id == summary.id, recall_entries.c.owner == caller.user_id)
        async with self._database.writing() as connection:
            result = await connection.execute(
                update(sessions).where(*this).values(embedding=vector, embedding_model=model)
            )
            if result.rowcount == 0:
                return False
            replaced = await connection.execute(delete(recall_entries).where(*old))
            await add_passages(connection, caller, summary.conversation_id, passages, model)
            if replaced.rowcount > 0:
                await touch_recall(connection, caller)
        return True

    @uninterrupted
    async def search(self, caller: Caller, query: RecallQuery) -> Found:
        """What of the caller's fits the query best."""
        dimension = len(query.vector) // 2 if query.vector is not None else 0
        scope = await self._scope(caller, query, dimension)
        async with self._database.reading() as connection:
            terms = [tagged(caller.user_id, term) for term in query.terms]
            found = [(await connection.execute(_POSTINGS, {"term": term})).scalar_one() or "" for term in terms]
        chosen = await asyncio.to_thread(choose, scope, found, query.vector, query.space, query.limit, _SESSIONS_SHOWN)
        made, first = chosen.made, chosen.best_of
        wanted = {*chosen.passages, *(first[session] for session in chosen.sessions if session in first)}
        async with self._database.reading() as connection:
            sources = await find_sources(connection, caller, [int(scope.entries[place]) for place in wanted])
            told = await readable_sessions(connection, caller, [scope.sessions[session] for session in chosen.sessions])
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

    async def _scope(self, caller: Caller, query: RecallQuery, dimension: int) -> Scope:
        """What is kept, with what was added since; read anew when something else changed.

        What changes while it is read makes what is kept stale: the next search reads anew.
        """
        key = (caller.user_id, query.conversation_id, query.space.model, dimension)
        async with self._database.reading() as connection:
            if query.conversation_id is not None:
                await find_conversation(connection, caller, query.conversation_id)
            kept = self._scopes.find(key, await recall_version(connection, caller))
        parts = await self._read(caller, query, kept.last, dimension)
        if not parts:
            return kept
        scope, stays = await asyncio.to_thread(grown, kept, parts)
        self._scopes.keep(key, stays)
        return scope

    async def _read(self, caller: Caller, query: RecallQuery, after: int, dimension: int) -> list[Part]:
        """The passages after entry `after`, page by page; no connection is held between pages.

        A page becomes arrays beside the event loop, while the next one is read.
        """
        found: list[asyncio.Task[Part]] = []
        while True:
            async with self._database.reading() as connection:
                rows = (await connection.execute(_rows(caller, query, after, with_vectors=dimension > 0))).all()
            if rows:
                found.append(asyncio.create_task(asyncio.to_thread(part_of, rows, dimension)))
                after = rows[-1][0]
            if len(rows) < _ROWS_AT_ONCE:
                return await asyncio.gather(*found)

    @uninterrupted
    async def source(self, caller: Caller, conversation_id: str | None, reference: str) -> Source:
        """Something in full, by its message id, its call id or both."""
        async with self._database.reading() as connection:
            return await find_source(connection, caller, conversation_id, reference)


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


_: type[RecallIndex] = SqlRecallIndex
