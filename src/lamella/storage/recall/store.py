"""Passages that can be found again, on SQLite: postings from FTS5, vectors exactly, ranked by `search.ranking`.

An owner's terms stand in the full-text table behind the owner's tag, and are read by name from its vocabulary: no query
language is spoken, and nobody's postings are read but the owner's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Select,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from lamella.core.errors import NotFound
from lamella.core.messages import Text, ToolResult
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
from lamella.core.withheld import WITHHELD, WITHHELD_ANSWER, WITHHELD_SUMMARY, bases_of, held_back
from lamella.storage.access.closed_bases import closed_bases
from lamella.storage.columns import NAMES, json_of, local_moment_text, parts_of, word_of
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.database import Database, insert_missing, uninterrupted
from lamella.storage.recall.scope import MOST_BYTES, Part, Scope, ScopeCache, choose, grown, part_of
from lamella.storage.recall.versions import recall_version, touch_recall
from lamella.storage.tables import messages, recall_entries, recall_turns, recall_vectors, sessions, turns

_POSTINGS = text("SELECT group_concat(doc) FROM recall_postings WHERE term = :term")
"""The entries that hold a term, as often as they do, in one text: read apart from the event loop."""

_ADD_WORDS = text("INSERT INTO recall_words (rowid, terms) VALUES (:id, :terms)")
_SESSIONS_SHOWN = 20
_ROWS_AT_ONCE = 1_000


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


def _vector_row(owner: str, entry: int, model: str, data: bytes) -> dict[str, Any]:
    return {"entry_id": entry, "owner": owner, "model": model, "dimension": len(data) // 2, "data": data}


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
            found = await _sources(connection, caller, wanted)
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
            rows = [_vector_row(caller.user_id, entry, model, vectors[entry]) for entry in there]
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
            closed = await _closed(connection, caller, summaries=rows)
        # What may not be read any more is not sent to whoever makes vectors either.
        return tuple(summary for row in rows if not closed.intersection((summary := _summary_of(row)).made_from))

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
        async with self._database.reading() as connection:
            if query.conversation_id is not None:
                await find_conversation(connection, caller, query.conversation_id)
            scope = await self._scope(connection, caller, query, dimension)
            terms = [tagged(caller.user_id, term) for term in query.terms]
            found = [(await connection.execute(_POSTINGS, {"term": term})).scalar_one() or "" for term in terms]
        chosen = await asyncio.to_thread(choose, scope, found, query.vector, query.space, query.limit, _SESSIONS_SHOWN)
        made, first = chosen.made, chosen.best_of
        wanted = {*chosen.passages, *(first[session] for session in chosen.sessions if session in first)}
        async with self._database.reading() as connection:
            sources = await _sources(connection, caller, [int(scope.entries[place]) for place in wanted])
            told = await _told(connection, caller, [scope.sessions[session] for session in chosen.sessions])
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

    async def _scope(self, connection: AsyncConnection, caller: Caller, query: RecallQuery, dimension: int) -> Scope:
        """What is kept, with what was added since; read anew when something else changed."""
        key = (caller.user_id, query.conversation_id, query.space.model, dimension)
        kept = self._scopes.find(key, await recall_version(connection, caller))
        parts = await _read(connection, caller, query, kept.last, dimension)
        if not parts:
            return kept
        scope, stays = await asyncio.to_thread(grown, kept, parts)
        self._scopes.keep(key, stays)
        return scope

    @uninterrupted
    async def source(self, caller: Caller, conversation_id: str | None, reference: str) -> Source:
        """Something in full, by its message id, its call id or both."""
        message_id, _, call_id = reference.partition("/")
        async with self._database.reading() as connection:
            if message_id and not call_id:
                call = recall_entries.c.call_id == message_id
                mine = (recall_entries.c.owner == caller.user_id, call)
                newest = select(recall_entries.c.source_id).where(*mine).order_by(recall_entries.c.id.desc()).limit(1)
                if conversation_id is not None:
                    newest = newest.where(recall_entries.c.conversation_id == conversation_id)
                of = (await connection.execute(newest)).scalar_one_or_none()
                if of is not None:
                    message_id, call_id = of, message_id
            query = _MESSAGES.where(messages.c.id == message_id, messages.c.owner == caller.user_id)
            if conversation_id is not None:
                query = query.where(turns.c.conversation_id == conversation_id)
            row = (await connection.execute(query)).mappings().first()
            closed = await _closed(connection, caller, [row] if row is not None else [])
        found = _message_of(row, call_id, closed) if row is not None else None
        if found is None:
            raise NotFound(f"There is no message {reference[:80]}.", param="id")
        return found


_MESSAGES = (
    select(
        messages.c.id,
        messages.c.turn_id,
        messages.c.seq,
        messages.c.parts,
        messages.c.results,
        messages.c.made_from,
        messages.c.session_id,
        messages.c.sent_at,
        turns.c.conversation_id,
        turns.c.started_at,
        sessions.c.number,
    )
    .join(turns, turns.c.id == messages.c.turn_id)
    .join(sessions, sessions.c.id == messages.c.session_id)
)


async def _read(
    connection: AsyncConnection, caller: Caller, query: RecallQuery, after: int, dimension: int
) -> list[Part]:
    """The passages behind entry `after`, some at a time: whatever else waits goes on in between."""
    found: list[Part] = []
    while True:
        rows = (await connection.execute(_rows(caller, query, after, with_vectors=dimension > 0))).all()
        if rows:
            found.append(await asyncio.to_thread(part_of, rows, dimension))
            after = rows[-1][0]
        if len(rows) < _ROWS_AT_ONCE:
            return found


def _mine(caller: Caller, conversation_id: str | None) -> ColumnElement[bool]:
    owned = recall_entries.c.owner == caller.user_id
    return owned if conversation_id is None else and_(owned, recall_entries.c.conversation_id == conversation_id)


def _rows(caller: Caller, query: RecallQuery, after: int, *, with_vectors: bool) -> Select[Any]:
    """The first passages behind entry `after`, as `Row` has them."""
    of_space = and_(recall_vectors.c.entry_id == recall_entries.c.id, recall_vectors.c.model == query.space.model)
    summary = recall_entries.c.speaker == Speaker.SUMMARY.value
    made = (
        select(
            recall_entries.c.id,
            func.coalesce(messages.c.session_id, recall_entries.c.source_id),
            recall_entries.c.length,
            ~summary,
            recall_vectors.c.data if with_vectors else text("NULL"),
        )
        .select_from(recall_entries)
        .outerjoin(messages, messages.c.id == recall_entries.c.source_id)
    )
    if with_vectors:
        made = made.outerjoin(recall_vectors, of_space)
    made = made.where(_mine(caller, query.conversation_id), recall_entries.c.id > after)
    return made.order_by(recall_entries.c.id).limit(_ROWS_AT_ONCE)


async def add_passages(
    connection: AsyncConnection, caller: Caller, conversation_id: str, passages: Sequence[Passage], model: str
) -> None:
    """Store passages with their words, and the vectors that they bring."""
    if not passages:
        return
    rows = [_entry_row(caller.user_id, conversation_id, passage) for passage in passages]
    adding = insert(recall_entries).returning(recall_entries.c.id, sort_by_parameter_order=True)
    entries = list((await connection.execute(adding, rows)).scalars())
    words = [
        {"id": entry, "terms": " ".join(tagged(caller.user_id, term) for term in passage.terms)}
        for entry, passage in zip(entries, passages, strict=True)
    ]
    await connection.execute(_ADD_WORDS, words)
    vectors = [
        _vector_row(caller.user_id, entry, model, passage.vector)
        for entry, passage in zip(entries, passages, strict=True)
        if passage.vector is not None
    ]
    if vectors:
        await connection.execute(insert(recall_vectors), vectors)


async def _sources(
    connection: AsyncConnection, caller: Caller, entries: Sequence[int]
) -> dict[int, tuple[Source, int, int]]:
    """What passages are of, by entry, each with from where to where it goes; without those that are gone."""
    query = select(recall_entries).where(recall_entries.c.id.in_(entries), recall_entries.c.owner == caller.user_id)
    rows = (await connection.execute(query)).mappings().all()
    ids = sorted({row["source_id"] for row in rows})
    of_messages = _MESSAGES.where(messages.c.id.in_(ids), messages.c.owner == caller.user_id)
    said = {row["id"]: row for row in (await connection.execute(of_messages)).mappings()}
    of_sessions = select(sessions).where(sessions.c.id.in_(ids), sessions.c.owner == caller.user_id)
    of = {row["id"]: row for row in (await connection.execute(of_sessions)).mappings()}
    closed = await _closed(connection, caller, list(said.values()), list(of.values()))
    summaries = {id: _summary_of(row, closed) for id, row in of.items()}
    found = {}
    for row in rows:
        message = said.get(row["source_id"])
        source = (
            _message_of(message, row["call_id"], closed) if message is not None else summaries.get(row["source_id"])
        )
        # What is held back is not found either: that words stand in it would tell something.
        if source is not None and source.content not in (WITHHELD, WITHHELD_ANSWER, WITHHELD_SUMMARY):
            source = replace(source, speaker=word_of(Speaker, row["speaker"], f"recall entry {row['id']}"))
            found[row["id"]] = (source, row["start"], row["end"])
    return found


async def _told(connection: AsyncConnection, caller: Caller, session_ids: Sequence[str]) -> frozenset[str]:
    """Of these sessions, those whose summary may be read: by what is held back nothing is found."""
    query = select(sessions.c.id, sessions.c.made_from)
    query = query.where(sessions.c.id.in_(session_ids), sessions.c.owner == caller.user_id)
    rows = (await connection.execute(query)).mappings().all()
    closed = await _closed(connection, caller, summaries=rows)
    return frozenset(row["id"] for row in rows if closed.isdisjoint(_made_from(row)))


def _results_of(row: RowMapping) -> list[ToolResult]:
    return [part for part in parts_of(row["results"], f"message {row['id']}") if isinstance(part, ToolResult)]


def _made_from(row: RowMapping) -> frozenset[str]:
    bases: tuple[str, ...] = json_of(NAMES, row["made_from"], f"row {row['id']}")
    return frozenset(bases)


async def _closed(
    connection: AsyncConnection, caller: Caller, rows: Sequence[RowMapping] = (), summaries: Sequence[RowMapping] = ()
) -> frozenset[str]:
    """The bases that are closed to the caller, of those that these messages and sessions have something of."""
    named = frozenset().union(*(bases_of(result) for row in rows for result in _results_of(row)))
    return await closed_bases(connection, caller, named.union(*map(_made_from, (*rows, *summaries))))


def _message_of(row: RowMapping, call_id: str, closed: frozenset[str]) -> Source | None:
    """A message, or the result of a call of it; None when it has no such call. What came from `closed` is held back."""
    what = f"message {row['id']}"
    name, speaker = "", Speaker.ASSISTANT if row["seq"] else Speaker.USER
    # What a user's message carries is told beside it: the words are the user's own.
    made_from = _made_from(row) if row["seq"] else frozenset[str]()
    is_closed = not made_from.isdisjoint(closed)
    if call_id:
        result = next((held_back(one, closed) for one in _results_of(row) if one.call_id == call_id), None)
        if result is None:
            return None
        made_from |= bases_of(result)
        content, name, speaker = WITHHELD if is_closed else result.content, result.name, Speaker.TOOL
    elif is_closed:
        content = WITHHELD_ANSWER
    else:
        content = "".join(part.text for part in parts_of(row["parts"], what) if isinstance(part, Text))
    at = datetime.fromisoformat(row["sent_at"] or row["started_at"])
    return Source(
        conversation_id=row["conversation_id"],
        session_id=row["session_id"],
        session=row["number"],
        turn_id=row["turn_id"],
        id=row["id"],
        call_id=call_id,
        speaker=speaker,
        name=name,
        at=at,
        content=content,
        made_from=tuple(sorted(made_from - closed)),
    )


def _summary_of(row: RowMapping, closed: frozenset[str] = frozenset()) -> Source:
    made_from = _made_from(row)
    return Source(
        conversation_id=row["conversation_id"],
        session_id=row["id"],
        session=row["number"],
        turn_id=None,
        id=row["id"],
        call_id="",
        speaker=Speaker.SUMMARY,
        name="",
        at=datetime.fromisoformat(row["closed_at"] or row["opened_at"]),
        content=(row["summary"] or "") if made_from.isdisjoint(closed) else WITHHELD_SUMMARY,
        made_from=tuple(sorted(made_from)),
    )


_: type[RecallIndex] = SqlRecallIndex
