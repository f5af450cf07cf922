"""A search in restricted bases, for one caller: passages are found, and a safe summary of each base comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from lamella.core.access import GrantLevel, ReaderHistory, RestrictedLevel, RestrictedUse, ToldPassage
from lamella.core.clock import Clock
from lamella.core.knowledge import Document, Shelf, ShelfTotals, StoredPassage
from lamella.core.records import Caller, PageQuery
from lamella.guard.terms import ProtectedTerms
from lamella.knowledge.restricted.base_terms import BaseTerms
from lamella.knowledge.restricted.material import Chunk, chunks_of
from lamella.knowledge.restricted.safe_answers import EXISTENCE, AnswerDeadline, Answered, Question, SafeAnswers
from lamella.knowledge.restricted.summary import Reason, SafeSummary
from lamella.knowledge.searching import KnowledgeSearch, Searched
from lamella.storage.bases import AccessRows
from lamella.storage.knowledge.store import KnowledgeStore

log = structlog.get_logger()

ALL_MOST = 4_000
"""Tokens of a base that is shown whole to the second model; of a larger one what fits the question is."""

DAY = timedelta(hours=24)
"""The time in which answers are counted."""

MOST_TRIES = 8
"""How often an answer is released anew because its reader got another one meanwhile."""

READ = frozenset({GrantLevel.RESTRICTED, GrantLevel.FULL})


@dataclass(frozen=True, slots=True)
class RestrictedBase:
    """A base that the caller may use and not read."""

    id: str
    owner: str
    name: str
    level: RestrictedLevel = RestrictedLevel.SUMMARY

    @property
    def shelf(self) -> Shelf:
        """Where its documents stand."""
        return Shelf(self.owner, self.id)


@dataclass(frozen=True, slots=True)
class RestrictedQuestion:
    """A question to restricted bases; `limit` is how many passages are looked for."""

    caller: Caller
    text: str
    limit: int


@dataclass(frozen=True, slots=True)
class DailyLimits:
    """How many answers, and how many short ones, a reader gets of a base in 24 hours; 0 is without a bound."""

    answers: int = 0
    short: int = 0

    def reached(self, history: ReaderHistory, *, short: bool = False) -> bool:
        """Whether a reader with this history gets no answer more, or none that is short."""
        if short and 0 < self.short <= history.short:
            return True
        return 0 < self.answers <= history.answers


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the second model may be shown of a base, and the names of that base by language."""

    chunks: Sequence[Chunk]
    terms: Mapping[str, ProtectedTerms]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(chunk.id for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class _Before:
    """When a question was asked, of which passages, and what its reader had got of them by then."""

    at: datetime
    passage_ids: tuple[str, ...] = ()
    history: ReaderHistory | None = None


@dataclass(frozen=True, slots=True)
class RestrictedSearch:
    """Searches for callers whose level is `restricted`; for others it is an owner's look at what those would get."""

    access: AccessRows
    store: KnowledgeStore
    searching: KnowledgeSearch
    answers: SafeAnswers
    terms: BaseTerms
    uses: AccessRows
    clock: Clock
    limits: DailyLimits = field(default_factory=DailyLimits)

    async def answers_of(self, request: RestrictedQuestion, bases: Sequence[RestrictedBase]) -> tuple[Answered, ...]:
        """What may be said to the caller about a question, of the documents of each base by itself.

        They share one time limit, and a few are asked at a time. What is found does not decide whether the second model
        is asked: it is, also when nothing fits. What can't be recorded for the owner is not told. Never raises.
        """
        await self.answers.ready()
        patience = self.answers.patience()
        return tuple(await asyncio.gather(*(self._answer_of(request, base, patience) for base in bases)))

    async def _answer_of(self, request: RestrictedQuestion, base: RestrictedBase, deadline: AnswerDeadline) -> Answered:
        try:
            terms = await self.terms.of(base.shelf)
            chunks: tuple[Chunk, ...] | Reason = Reason.STILL_INDEXING
            if terms is not None:
                chunks = await self.chunks(base, await self.answers.searched(request.text, terms), request.limit)
            if isinstance(chunks, Reason) or terms is None:
                refused = Answered(SafeSummary(chunks if isinstance(chunks, Reason) else Reason.STILL_INDEXING))
                await self._record(request, base, refused, _Before(self.clock.now()))
                return refused
            return await self._counted(request, base, _Shown(chunks, terms), deadline)
        except Exception as error:  # noqa: BLE001  # the border of a model run: its text may be protected
            log.error("a safe summary failed", knowledge_base_id=base.id, error=type(error).__name__)
            return Answered(SafeSummary(Reason.FAILED))

    async def _counted(
        self, request: RestrictedQuestion, base: RestrictedBase, output: _Shown, deadline: AnswerDeadline
    ) -> Answered:
        """An answer that is recorded with what it tells.

        If another answer told its reader something meanwhile, the second model's reply, which is kept, is released
        again with that.
        """
        first: Answered | None = None
        for _ in range(MOST_TRIES):
            now = self.clock.now()
            history = await self.uses.reader_history(base.id, request.caller.user_id, output.ids, now - DAY)
            answered = await self._allowed(request, base, output, history, deadline)
            if first is not None:
                answered = replace(answered, cached=first.cached, usage=first.usage)
            if await self._record(request, base, answered, _Before(now, output.ids, history)):
                return answered
            first = first or answered
        return Answered(SafeSummary(Reason.FAILED))

    async def _allowed(
        self,
        request: RestrictedQuestion,
        base: RestrictedBase,
        output: _Shown,
        history: ReaderHistory,
        deadline: AnswerDeadline,
    ) -> Answered:
        """An answer within the bounds of the day, for a reader who still has access."""
        if self.limits.reached(history):
            return Answered(SafeSummary(Reason.DAILY_LIMIT), len(output.chunks))
        question = await self._question(request.caller.user_id, base, request.text, history.told)
        answered = await self.answers.answer(question, output.chunks, output.terms, deadline)
        # The second model takes its time: who lost access meanwhile gets nothing.
        if await self.access.level(request.caller, base.id) not in READ:
            return Answered(SafeSummary(Reason.ACCESS_CHANGED), len(output.chunks), usage=answered.usage)
        if answered.short and self.limits.reached(history, short=True):
            return replace(answered, safe=SafeSummary(Reason.DAILY_LIMIT), told={}, short=False)
        return answered

    async def _record(
        self, request: RestrictedQuestion, base: RestrictedBase, answered: Answered, before: _Before
    ) -> bool:
        """Keeps a use for the owner; False, and nothing kept, if its reader got another answer meanwhile."""
        safe, usage = answered.safe, answered.usage
        lines = log.bind(knowledge_base_id=base.id, decision=safe.decision, reason=safe.reason.value)
        lines.info("Persist HTTP request", kind="restricted use")
        use = RestrictedUse(
            id="",
            base_id=base.id,
            user_id=request.caller.user_id,
            user_name="",
            at=before.at,
            question=request.text,
            decision=safe.decision,
            reason=safe.reason.value,
            chunks=answered.chunks,
            removed=answered.removed,
            cached=answered.cached,
            model=answered.model,
            input_tokens=usage.input,
            output_tokens=usage.output,
            released=safe.text,
            passage_ids=before.passage_ids,
            counted=answered.counted,
            short=answered.short,
        )
        if before.history is None or not answered.counted:
            kept: RestrictedUse | None = await self.uses.record_restricted_use(use)
        else:
            told = _new_words(answered, before.history)
            kept = await self.uses.record_answer(use, told, before.history, before.at - DAY)
        lines.info("Persist HTTP response", kind="restricted use", id=kept.id if kept is not None else "")
        return kept is not None

    async def preview(self, base: RestrictedBase, text: str, limit: int) -> tuple[Answered, tuple[Chunk, ...]]:
        """What a restricted reader would get, and the passages it is made of: for the owner alone, recorded nowhere.

        Raises what a search raises.
        """
        terms = await self.terms.of(base.shelf)
        if terms is None:
            return Answered(SafeSummary(Reason.STILL_INDEXING)), ()
        chunks = await self.chunks(base, await self.answers.searched(text, terms), limit)
        if isinstance(chunks, Reason):
            return Answered(SafeSummary(chunks)), ()
        return await self.answers.answer(await self._question(base.owner, base, text, {}), chunks, terms), chunks

    async def _question(
        self, user_id: str, base: RestrictedBase, text: str, told: Mapping[str, frozenset[str]]
    ) -> Question:
        """A question at the level that the owner of the base has set."""
        content = (await self.access.base(Caller(base.owner), base.id)).content
        level = content.restricted_level
        if level is RestrictedLevel.SUMMARY:
            return Question(user_id, base.id, text, told)
        form = content.form if level is RestrictedLevel.FORM else EXISTENCE
        contact = content.contact or await self.access.owner_name(base.id)
        return Question(user_id, base.id, text, told, level, form, contact)

    async def chunks(self, base: RestrictedBase, text: str, limit: int) -> tuple[Chunk, ...] | Reason:
        """The passages that the second model is shown, or why there are none."""
        where = Searched((base.shelf,))
        totals = await self.store.shelf_totals(base.shelf)
        if not totals.found:
            return _nothing(totals)
        if totals.tokens <= ALL_MOST:
            return await asyncio.to_thread(chunks_of, await self._everything(base.shelf))
        if not text.strip():
            return ()  # every word of the question is hidden: a name alone finds what a word finds that stands nowhere
        found = await self.searching.search(where, text, limit)
        return await asyncio.to_thread(chunks_of, [(hit.document, hit.passage) for hit in found.hits])

    async def _everything(self, shelf: Shelf) -> list[tuple[Document, StoredPassage]]:
        found: list[tuple[Document, StoredPassage]] = []
        after: str | None = None
        while True:
            page = await self.store.documents_on_shelf(shelf, PageQuery(100, after, "asc"))
            for document in page.data:
                if document.found is not None:
                    passages = await self.store.passages_of(Caller(shelf.owner), document.id)
                    found += [(document, passage) for passage in passages]
            if not page.has_more:
                return found
            after = page.data[-1].id


def _new_words(answered: Answered, history: ReaderHistory) -> list[ToldPassage]:
    """What an answer tells of each passage that its reader did not have."""
    return [
        ToldPassage(id, tuple(sorted(new)), told.sentences)
        for id, told in answered.told.items()
        if (new := told.words - history.told.get(id, frozenset()))
    ]


def _nothing(totals: ShelfTotals) -> Reason:
    return Reason.STILL_INDEXING if totals.unfinished else Reason.NO_DOCUMENTS
