"""What was said and can be found again: turns and summaries become passages, which `search.ranking` ranks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    func,
    insert,
    select,
    text,
    type_coerce,
    update,
)
from sqlalchemy.types import NullType

from lamella.core.recall import (
    Hit,
    Passage,
    PassageText,
    RecallQuery,
    RecallResult,
    SessionHit,
    Source,
    Speaker,
)
from lamella.core.records import Caller, TurnRecord
from lamella.search.postings import due
from lamella.search.ranking import Ints, Ranking, first_of, rank_conversations
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.conversations.paths import ask_stored
from lamella.storage.conversations.turns import IS_RUNNING
from lamella.storage.database import Database, Transactions, insert_missing, reads, rows_changed, writes
from lamella.storage.grants import records_held_back
from lamella.storage.passages import SAID, ask_runs, merge_runs
from lamella.storage.recall.sources import (
    add_passages,
    find_source,
    find_sources,
    forget_source,
    readable_sessions,
    readable_summaries,
    recall_version,
)
from lamella.storage.scopes import Part, PassageScope, Reading, Scopes, Vectors, nearest, ranked
from lamella.storage.tables import messages, recall_entries, recall_marks, recall_turns, sessions, turns
from lamella.storage.tables.conversations import SUMMARY_WITHOUT_VECTOR

_SESSIONS_SHOWN = 20
_ROWS_AT_ONCE = 1_000


def _summary_without_vector(model: str) -> ColumnElement[bool]:
    made = and_(sessions.c.embedding.is_not(None), func.coalesce(sessions.c.embedding_model, "") == model)
    return and_(sessions.c.summary.is_not(None), ~made)


_ENDED = and_(turns.c.finished_at.is_not(None), recall_turns.c.turn_id.is_(None))
_TURNS = turns.outerjoin(recall_turns, recall_turns.c.turn_id == turns.c.id)
_VECTORS = SAID.with_vectors()


AGAIN = 1_000
"""The newest turns and passages, which each start looks at."""

_Mark = tuple[str, int]


def _mark(connection: Connection, model: str) -> _Mark | None:
    """Before which turn and passage nothing waits."""
    query = select(recall_marks.c.turn_id, recall_marks.c.entry_id).where(recall_marks.c.model == model)
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.turn_id, row.entry_id)


def _waiting_turns(mark: _Mark | None) -> ColumnElement[bool]:
    return _ENDED if mark is None else and_(_ENDED, turns.c.id >= mark[0])


def _waiting_passages(mark: _Mark | None, model: str) -> ColumnElement[bool]:
    missing = SAID.without_vector(model)
    return missing if mark is None else and_(missing, recall_entries.c.id >= mark[1])


@dataclass(frozen=True, slots=True)
class Unindexed:
    """What of a conversation is still to be indexed, oldest first, and the sizes of its owner's runs of words.

    `turns` have ended and have no passages; `passages` and `summaries` have no vectors.
    """

    turns: tuple[TurnRecord, ...]
    passages: tuple[PassageText, ...]
    summaries: tuple[Source, ...]
    runs: Mapping[int, int]


class RecallIndex(Transactions):
    """The port `RecallIndex` on a database file."""

    def __init__(self, database: Database, scopes: Scopes | None = None) -> None:
        super().__init__(database)
        self._scopes = scopes or Scopes()

    @reads
    def waiting(self, connection: Connection, model: str) -> tuple[tuple[Caller, str], ...]:
        """The conversations of every owner of which something has no passages, or no vectors of `model`.

        What lies before the mark of this model is not looked at.
        """
        mark = _mark(connection, model)
        summaries = _summary_without_vector(model) if mark is None else text(SUMMARY_WITHOUT_VECTOR)
        queries = (
            select(turns.c.owner, turns.c.conversation_id).select_from(_TURNS).where(_waiting_turns(mark)),
            select(recall_entries.c.owner, recall_entries.c.conversation_id)
            .select_from(_VECTORS)
            .where(_waiting_passages(mark, model)),
            select(sessions.c.owner, sessions.c.conversation_id).where(summaries),
        )
        found: dict[tuple[str, str], None] = {}
        for query in queries:
            # After a mark there is little, and to tell what is distinct by an index would read all of it.
            for owner, conversation_id in connection.execute(query.distinct() if mark is None else query):
                found[(owner, conversation_id)] = None
        return tuple((Caller(owner), conversation_id) for owner, conversation_id in found)

    @writes
    def set_mark(self, connection: Connection, model: str) -> None:
        """Move the mark of a model to the oldest turn and passage that wait, or that may still come.

        The newest ones are always looked at again: other processes may store some with older ids.
        """
        mark = _mark(connection, model)
        turn_ids = [
            connection.execute(select(turns.c.id).order_by(turns.c.id.desc()).offset(AGAIN).limit(1)).scalar(),
            connection.execute(select(func.min(turns.c.id)).select_from(_TURNS).where(_waiting_turns(mark))).scalar(),
            connection.execute(select(func.min(turns.c.id)).where(IS_RUNNING)).scalar(),
        ]
        entries = recall_entries.c.id
        waiting = select(func.min(entries)).select_from(_VECTORS).where(_waiting_passages(mark, model))
        passages = [
            connection.execute(select(entries).order_by(entries.desc()).offset(AGAIN).limit(1)).scalar(),
            connection.execute(waiting).scalar(),
        ]
        if turn_ids[0] is None:
            return
        oldest, first = min(filter(None, turn_ids)), 0 if passages[0] is None else min(filter(None, passages))
        connection.execute(delete(recall_marks).where(recall_marks.c.model == model))
        connection.execute(insert(recall_marks), {"model": model, "turn_id": oldest, "entry_id": first})

    @reads
    def unindexed(
        self, connection: Connection, caller: Caller, conversation_id: str, model: str, limit: int
    ) -> Unindexed:
        """What of a conversation can't be found yet, or not by vectors of this model: so many turns and passages."""
        ended = turns.c.owner == caller.user_id, turns.c.conversation_id == conversation_id, _ENDED
        order = turns.c.started_at, turns.c.id
        rows = connection.execute(select(turns).select_from(_TURNS).where(*ended).order_by(*order).limit(limit))
        ids = select(turns.c.id).select_from(_TURNS).where(*ended).order_by(*order).limit(limit)
        records_of = ask_stored(connection, caller, ids)
        its = sessions.c.owner == caller.user_id, sessions.c.conversation_id == conversation_id
        summaries = connection.execute(select(sessions).where(*its, _summary_without_vector(model)))
        runs_of = ask_runs(connection, (caller.user_id, 0))
        passages = (
            select(recall_entries.c.id)
            .select_from(_VECTORS)
            .where(_mine(caller, conversation_id), SAID.without_vector(model))
            .order_by(recall_entries.c.id)
            .limit(limit)
        )
        found = find_sources(connection, caller, passages)
        return Unindexed(
            records_held_back(connection, caller, records_of(rows.mappings().all())),
            tuple(
                PassageText(entry, source.session_id, source.content[start:end])
                for entry, (source, start, end) in sorted(found.items())
            ),
            # A text that may not be read any more is not sent to an embedder either.
            readable_summaries(connection, caller, summaries.mappings().all()),
            runs_of(),
        )

    async def merge(self, caller: Caller, runs: Mapping[int, int], added: Sequence[int]) -> None:
        """Merge what small `runs` there are after more with so many passages were `added`, if there are enough."""
        if due({**runs, **{-number: size for number, size in enumerate(added, 1) if size}}):
            await merge_runs(self._database, (caller.user_id, 0))

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

    @writes
    def embed(self, connection: Connection, caller: Caller, model: str, vectors: Mapping[int, bytes]) -> None:
        """Give passages their vectors, by entry; those that are gone are passed over."""
        SAID.embed(connection, caller.user_id, model, vectors)

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
        embedded = update(sessions).where(*this).values(embedding=vector, embedding_model=model)
        if not rows_changed(connection, embedded):
            return False
        forget_source(connection, caller, summary.id)
        add_passages(connection, caller, summary.conversation_id, passages, model)
        return True

    async def search(self, caller: Caller, query: RecallQuery) -> RecallResult:
        """What of the caller's fits the query best; raises `NotFound` for a foreign conversation."""
        dimension = len(query.vector) // 2 if query.vector is not None else 0
        scope = await self._scope(caller, query, dimension)
        reading = await self._reading(caller, scope, query.terms)
        if query.vector is not None and scope.whole.is_sketched:
            wanted = await asyncio.to_thread(nearest, reading, query.vector)
            reading = replace(reading, exact=await self._exact(wanted, query.space.model, dimension))
        chosen = await asyncio.to_thread(_choose, reading, query)
        sources, told = await self._readable(
            caller,
            sorted({*chosen.hits, *chosen.best.values()}),
            [scope.whole.groups[session] for session in chosen.sessions],
        )
        hits = {entry: Hit(*source, chosen.scores[entry]) for entry, source in sources.items()}
        made = chosen.made
        return RecallResult(
            tuple(hits[entry] for entry in chosen.hits if entry in hits),
            tuple(
                SessionHit(id, float(made.groups[s]), float(made.covers[s]), hits.get(chosen.best.get(s, -1)))
                for s in chosen.sessions
                if (id := scope.whole.groups[s]) in told
            ),
        )

    @reads
    def _reading(self, connection: Connection, caller: Caller, scope: PassageScope, terms: Sequence[str]) -> Reading:
        return SAID.reading(connection, scope, (caller.user_id, 0), terms)

    @reads
    def _exact(self, connection: Connection, entries: Ints, model: str, dimension: int) -> tuple[Ints, Vectors]:
        return SAID.vectors_of(connection, entries, model, dimension)

    @reads
    def _readable(
        self, connection: Connection, caller: Caller, entries: Sequence[int], session_ids: Sequence[str]
    ) -> tuple[Mapping[int, tuple[Source, int, int]], Collection[str]]:
        """The sources of these entries, and which of the sessions have a summary that may be read."""
        return find_sources(connection, caller, entries), readable_sessions(connection, caller, session_ids)

    @reads
    def _version(self, connection: Connection, caller: Caller, conversation_id: str | None) -> int:
        if conversation_id is not None:
            find_conversation(connection, caller, conversation_id)
        return recall_version(connection, caller)

    async def _scope(self, caller: Caller, query: RecallQuery, dimension: int) -> PassageScope:
        """What is kept, with what was added since; read anew when something else changed.

        What changes while it is read makes what is kept stale: the next search reads anew.
        """
        of = query.conversation_id or ""
        key = (SAID.name, caller.user_id, of, query.space.model, str(dimension))
        mark = ("", await self._version(caller, query.conversation_id))
        kept = self._scopes.find(key)
        if kept is None or kept.marks != (mark,):
            kept = PassageScope.of({mark: Part.of((), dimension)})
        parts = await self._read(caller, query, kept.last, dimension)
        if not parts:
            return kept
        exact = self._scopes.exact
        whole = await asyncio.to_thread(Part.joined, [kept.whole, *parts], exact)
        scope = await asyncio.to_thread(PassageScope.of, {mark: whole}, exact)
        stays = whole.complete()
        self._scopes.keep(key, scope if stays is whole else PassageScope.of({mark: stays}, exact))
        return scope

    async def _read(self, caller: Caller, query: RecallQuery, after: int, dimension: int) -> list[Part]:
        """The passages after entry `after`, page by page; no connection is held between pages."""
        found: list[Part] = []
        while page := await self._page(caller, query, after, dimension):
            found.append(page)
            if len(found) * _ROWS_AT_ONCE > self._scopes.exact:  # so many vectors would fill the memory
                found = [await asyncio.to_thread(Part.joined, found, self._scopes.exact)]
            after = int(page.entries[-1])
            if len(page.entries) < _ROWS_AT_ONCE:
                break
        return found

    @reads
    def _page(
        self, connection: Connection, caller: Caller, query: RecallQuery, after: int, dimension: int
    ) -> Part | None:
        """The next page of passages, if there are any."""
        rows = connection.execute(_rows(caller, query, after, dimension)).all()
        return Part.of(rows, dimension) if rows else None

    @reads
    def source(self, connection: Connection, caller: Caller, conversation_id: str | None, reference: str) -> Source:
        """Something in full, by its message id, its call id (the newest such call) or `MESSAGE/CALL`."""
        return find_source(connection, caller, conversation_id, reference)


def _mine(caller: Caller, conversation_id: str | None) -> ColumnElement[bool]:
    owned = recall_entries.c.owner == caller.user_id
    return owned if conversation_id is None else and_(owned, recall_entries.c.conversation_id == conversation_id)


def _rows(caller: Caller, query: RecallQuery, after: int, dimension: int) -> Select[Any]:
    """The first passages after entry `after`, as `Part.of` takes them: unconverted, since there are many."""
    summary = recall_entries.c.speaker == Speaker.SUMMARY
    joined, vector = SAID.of_space(recall_entries, query.space.model, dimension)
    made = select(
        recall_entries.c.id,
        func.coalesce(messages.c.session_id, recall_entries.c.source_id),
        recall_entries.c.length,
        type_coerce(~summary, NullType()),
        vector,
    ).select_from(joined.outerjoin(messages, messages.c.id == recall_entries.c.source_id))
    made = made.where(_mine(caller, query.conversation_id), recall_entries.c.id > after)
    return made.order_by(recall_entries.c.id).limit(_ROWS_AT_ONCE)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What is shown, best first: entries, sessions by number, and the best entry of each session that has one."""

    made: Ranking
    hits: tuple[int, ...]
    sessions: tuple[int, ...]
    best: Mapping[int, int]
    scores: Mapping[int, float]


def _choose(reading: Reading, query: RecallQuery) -> _Chosen:
    """The best of a scope. A summary lifts its session, and is no hit itself."""
    found = ranked(rank_conversations, [reading], query.terms, query.space, query.vector)
    scope, made = reading.scope, found.made
    scores = made.scores * scope.whole.shown[scope.order]
    hits = [int(at) for at in first_of(scores, query.limit) if scores[at] > 0]
    sessions = [int(s) for s in first_of(made.groups, _SESSIONS_SHOWN) if made.groups[s] > 0]
    best = {}
    for session in sessions:
        first, end = np.searchsorted(found.of_group, (session, session + 1))
        at = int(first) + int(np.argmax(scores[first:end]))
        if scores[at] > 0:
            best[session] = at
    entries = {at: int(found.entries[at]) for at in (*hits, *best.values())}
    return _Chosen(
        made,
        tuple(entries[at] for at in hits),
        tuple(sessions),
        {session: entries[at] for session, at in best.items()},
        {entry: float(scores[at]) for at, entry in entries.items()},
    )
