"""Recall: indexes messages after their turns, and searches them by words and by meaning.

The state of the index follows from stored data. A search in one conversation first indexes what is missing; a remote
embedder's vectors come later, by a job.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from lamella.background import Retry, Worker
from lamella.core.clock import Clock
from lamella.core.errors import InvalidRequest, LamellaError, NotFound, ProviderError
from lamella.core.ports import Embedder, Jobs
from lamella.core.recall import Embedded, Passage, PassageText, RecallQuery, RecallResult, Source
from lamella.core.records import Caller, Job, NewJob, TurnRecord
from lamella.core.tokens import Usage
from lamella.search.terms import query_terms
from lamella.sessions.recall.indexing import summary_passages, turn_passages
from lamella.storage import Store
from lamella.storage.recall.store import RecallIndex

log = structlog.get_logger()

INDEX = "recall_index"
"""The job that indexes the rest of a conversation."""

BATCH = 64
"""Turns that are indexed, and passages that get vectors, at a time."""

LONGEST_QUERY = 2_000
"""Characters."""

EMBEDDING_SECONDS = 10.0
"""How long a search waits for its query's vector; then it goes by words only."""


class Recall:
    """Recall for all conversations of one process."""

    def __init__(self, store: Store, index: RecallIndex, embedder: Embedder, jobs: Jobs, clock: Clock) -> None:
        self._store = store
        self._index = index
        self._embedder = embedder
        self._clock = clock
        self._jobs = jobs
        self._worker = Worker(jobs, clock, {INDEX: self._do})
        self._starting: asyncio.Task[None] | None = None

    @property
    def embedder(self) -> str:
        """The model of the vectors, as people read it."""
        return self._embedder.space.model

    @property
    def words_only(self) -> str:
        """Why searches go by words only, and which setting adds meaning; "" if they use both."""
        return self._embedder.space.words_only

    def start(self) -> None:
        """Index what an ended process, an earlier version or another embedder left."""
        self._worker.start()
        self._starting = asyncio.create_task(self._take_up())

    async def close(self) -> None:
        """Stop. The next start indexes the rest."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._worker.close()
        await self._embedder.close()

    async def _take_up(self) -> None:
        try:
            for caller, conversation_id in await self._index.waiting(self._embedder.space.model):
                await self.follow(caller, conversation_id)
            await self._index.set_mark(self._embedder.space.model)
        except LamellaError as error:
            log.error("messages to index can't be read", error=error.message)

    async def follow(self, caller: Caller, conversation_id: str) -> None:
        """Something of this conversation was stored: index it, in the background."""
        why = "something was said or summarised"
        try:
            job = NewJob(INDEX, conversation_id, why, self._clock.now(), follows=True)
            await self._worker.enqueue(caller, job)
        except LamellaError as error:
            log.error("a conversation can't be indexed yet", conversation_id=conversation_id, error=error.message)

    async def index_now(self, caller: Caller, conversation_id: str) -> None:
        """Index a conversation whole, vectors and summaries included. Raises a `ProviderError`."""
        await self._index_rest(caller, conversation_id, passages=True, summaries=True)

    async def search(
        self, caller: Caller, query: str, conversation_id: str | None = None, limit: int = 10
    ) -> RecallResult:
        """Search messages in one conversation or in all of the caller's.

        Raises `InvalidRequest` for an empty query, `NotFound` for a foreign conversation.
        """
        words = query.strip()[:LONGEST_QUERY]
        if not words:
            raise InvalidRequest("The query is empty.", hint="Say what to look for.", param="q")
        if conversation_id is not None:
            await self._store.conversations.conversation(caller, conversation_id)
        await self._catch_up(caller, conversation_id)
        vector, without = await self._vector(caller, words, conversation_id)
        recall_query = RecallQuery(query_terms(words), self._embedder.space, vector, conversation_id, limit)
        found = await self._index.search(caller, recall_query)
        return replace(found, without=without or ("" if found.hits else self.words_only))

    async def source(self, caller: Caller, conversation_id: str | None, reference: str) -> Source:
        """A message or result in full: see `RecallIndex.source`. Raises `NotFound`."""
        await self._catch_up(caller, conversation_id)
        return await self._index.source(caller, conversation_id, reference)

    async def _vector(self, caller: Caller, words: str, conversation_id: str | None) -> tuple[bytes | None, str]:
        """The query's vector, or why there is none."""
        try:
            async with asyncio.timeout(EMBEDDING_SECONDS):
                made = await self._embedder.embed([words])
        except ProviderError as error:
            return None, error.message
        except TimeoutError:
            return None, f"The embeddings gave no answer within {EMBEDDING_SECONDS:g} s."
        if conversation_id is not None:
            conversation = await self._store.conversations.conversation(caller, conversation_id)
            await self._spend(caller, conversation.session_id, made.usage)
        return made.vectors[0], ""

    async def _catch_up(self, caller: Caller, conversation_id: str | None) -> None:
        """Index the words of new messages in the conversation, or in all of this caller's."""
        # What is being indexed is looked at too: a search finds what the background has not stored yet.
        behind = [conversation_id] if conversation_id else await self._jobs.open_subjects(caller, INDEX)
        for one in behind:
            await self._index_rest(caller, one, passages=False, summaries=self._embedder.is_local)

    async def _do(self, job: Job) -> Retry | None:
        await self.index_now(job.caller, job.subject)
        return None

    async def _index_rest(self, caller: Caller, conversation_id: str, *, passages: bool, summaries: bool) -> None:
        """Index the words of turns, then give `passages` and `summaries` their vectors, until nothing is left."""
        model = self._embedder.space.model
        while True:
            left = await self._index.unindexed(caller, conversation_id, model, BATCH)
            added = [await self._index_turn(caller, turn) for turn in left.turns]
            await self._index.merge(caller, left.runs, added)
            if len(left.turns) == BATCH:
                continue  # words come first: an embedder may fail
            if passages and left.passages:
                await self._embed_passages(caller, left.passages)
            if summaries:
                await self._index_summaries(caller, left.summaries)
            # A turn that has just got its words has vectors too, if they are made here.
            waits = bool(left.turns) and not self._embedder.is_local
            if not passages or not (waits or len(left.passages) == BATCH):
                return

    async def _index_turn(self, caller: Caller, turn: TurnRecord) -> int:
        """How many passages were stored."""
        passages, _ = await self._with_vectors(turn_passages(turn), remote=False)
        is_new = await self._index.index_turn(caller, turn.id, passages, self._embedder.space.model)
        return len(passages) if is_new else 0

    async def _embed_passages(self, caller: Caller, waiting: Sequence[PassageText]) -> None:
        made = await self._embedder.embed([passage.text for passage in waiting])
        entries = [passage.entry for passage in waiting]
        await self._index.embed(caller, self._embedder.space.model, dict(zip(entries, made.vectors, strict=True)))
        sizes: defaultdict[str, int] = defaultdict(int)
        for passage in waiting:
            sizes[passage.session_id] += len(passage.text)
        for session_id, usage in _shared(made.usage, sizes).items():
            await self._spend(caller, session_id, usage)

    async def _index_summaries(self, caller: Caller, waiting: Sequence[Source]) -> None:
        for summary in waiting:
            whole = await self._embedder.embed([summary.content])
            passages, usage = await self._with_vectors(summary_passages(summary), remote=True)
            model = self._embedder.space.model
            await self._index.index_summary(caller, summary, whole.vectors[0], passages, model)
            await self._spend(caller, summary.id, whole.usage + usage)

    async def _with_vectors(self, made: Iterable[tuple[Passage, str]], *, remote: bool) -> tuple[list[Passage], Usage]:
        """Passages with the vectors of a local embedder, and of any if `remote`, and the cost."""
        found = list(made)
        if not found or not (remote or self._embedder.is_local):
            return [passage for passage, _ in found], Usage()
        embedded: Embedded = await self._embedder.embed([text for _, text in found])
        pairs = zip(found, embedded.vectors, strict=True)
        return [replace(passage, vector=vector) for (passage, _), vector in pairs], embedded.usage

    async def _spend(self, caller: Caller, session_id: str, usage: Usage) -> None:
        if usage != Usage():
            with suppress(NotFound):
                await self._store.sessions.spend(caller, session_id, "embedding", usage)


def _shared(usage: Usage, sizes: dict[str, int]) -> dict[str, Usage]:
    """The input of one embedding request, split by session according to text length; the last gets the rest."""
    whole, left = sum(sizes.values()) or 1, usage.input
    shares: dict[str, Usage] = {}
    for index, (session_id, size) in enumerate(sizes.items(), start=1):
        part = left if index == len(sizes) else usage.input * size // whole
        shares[session_id] = Usage(input=part)
        left -= part
    return shares
