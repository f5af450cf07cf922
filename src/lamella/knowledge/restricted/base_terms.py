"""The names of a restricted base: found in each of its documents, stored, and added up.

A document is read when it has become ready, if its base has restricted readers, or when such a reader asks. What it
tells of names is stored with its version, so that a change of one document reads no other one. Evidence that was found
by other rules (another version of the guard or of the word lists) is found anew.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from lamella.background import Retry, Worker
from lamella.core.access import GrantLevel
from lamella.core.clock import Clock
from lamella.core.errors import NotFound, PermissionDenied
from lamella.core.knowledge import NameCounts, NamedDocument, Shelf, StoredPassage
from lamella.core.ports import Jobs
from lamella.core.records import Caller, Job, NewJob
from lamella.guard.lexicon import Lexicon, language_of
from lamella.guard.terms import NameEvidence, ProtectedTerms, evidence_of, terms_of
from lamella.storage.bases import AccessRows
from lamella.storage.knowledge.store import KnowledgeStore

FIND_NAMES = "knowledge_names"
"""The kind of the job that finds the names of a base; its subject is the base."""

KEPT = 64
"""Bases whose names are kept in memory."""

AT_ONCE = 100_000
"""Tokens of documents whose names are found while a reader waits; with more of them a job does it."""

READ_AT_ONCE = 200
"""Documents whose evidence is read in one transaction."""


@dataclass(frozen=True, slots=True)
class FoundTerm:
    """A name that the documents of a base give: a word, or a phrase of several words or characters."""

    term: str
    language: str
    kind: str
    count: int


@dataclass(slots=True)
class _Summed:
    """The evidence of a base, of these versions of its documents, and the names by the terms of its owner."""

    documents: Mapping[str, int]
    evidence: Mapping[str, NameEvidence]
    terms: dict[tuple[tuple[str, ...], tuple[str, ...]], Mapping[str, ProtectedTerms]] = field(default_factory=dict)


class BaseTerms:
    """Finds the names of bases; `lexicons` is None if the word lists are not installed."""

    def __init__(
        self,
        store: KnowledgeStore,
        access: AccessRows,
        jobs: Jobs,
        clock: Clock,
        lexicons: Callable[[], Mapping[str, Lexicon]] | None,
        at_once: int = AT_ONCE,
    ) -> None:
        self._store = store
        self._access = access
        self._clock = clock
        self._lexicons = lexicons
        self._at_once = at_once
        self._worker = Worker(jobs, clock, {FIND_NAMES: self._find_all})
        self._kept: OrderedDict[Shelf, _Summed] = OrderedDict()

    def start(self) -> None:
        """Begin to work, with what an ended process left."""
        self._worker.start()

    async def close(self) -> None:
        """Stop; what is not found is taken up by the next start."""
        await self._worker.close()

    async def changed(self, shelf: Shelf) -> None:
        """Something else is found in a base, or it has other readers: find its names if it has restricted ones."""
        if self._lexicons is None or not shelf.id:
            return
        try:
            grants = await self._access.grants(Caller(shelf.owner), shelf.id)
        except (NotFound, PermissionDenied):
            return
        if any(grant.level is GrantLevel.RESTRICTED for grant in grants):
            await self._enqueue(shelf)

    async def of(self, shelf: Shelf) -> Mapping[str, ProtectedTerms] | None:
        """The names by language, with the terms of the owner; None while they are not found yet."""
        if self._lexicons is None:
            return {}
        summed = await self._summed(shelf)
        if summed is None:
            return None
        content = (await self._access.base(Caller(shelf.owner), shelf.id)).content
        key = content.confirmed_terms, content.allowed_terms
        if key not in summed.terms:
            summed.terms.clear()
            summed.terms[key] = await asyncio.to_thread(_terms, summed.evidence, self._lexicons, *key)
        return summed.terms[key]

    async def found(self, shelf: Shelf) -> tuple[FoundTerm, ...] | None:
        """The names that the documents give, the commonest first; None while they are not found yet."""
        summed = await self._summed(shelf) if self._lexicons is not None else None
        if summed is None or self._lexicons is None:
            return None
        return await asyncio.to_thread(_listed, summed.evidence, self._lexicons)

    async def _summed(self, shelf: Shelf) -> _Summed | None:
        """The evidence of a base, None while documents are to be read."""
        documents = await self._store.named_documents(shelf)
        missing = [one for one in documents if one.rules != guard_rules()]
        if sum(one.tokens for one in missing) > self._at_once:
            await self._enqueue(shelf)
            return None
        for one in missing:
            if not await self._find(Caller(shelf.owner), one):
                return None
        versions = {one.id: one.version for one in documents}
        kept = self._kept.get(shelf)
        if kept is None or kept.documents != versions:
            kept = self._kept[shelf] = await self._added_up(shelf, versions, kept)
        self._kept.move_to_end(shelf)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return kept

    async def _added_up(self, shelf: Shelf, versions: Mapping[str, int], before: _Summed | None) -> _Summed:
        """The evidence of these documents; if documents were added and none went, only theirs is read."""
        goes_on = before is not None and before.documents.items() <= versions.items()
        known = before.documents if before is not None and goes_on else {}
        evidence: defaultdict[str, NameEvidence] = defaultdict(NameEvidence)
        for code, one in before.evidence.items() if before is not None and goes_on else ():
            evidence[code].add(one)
        new = [id for id in versions if id not in known]
        for at in range(0, len(new), READ_AT_ONCE):
            counts = await self._store.names_in(Caller(shelf.owner), new[at : at + READ_AT_ONCE])
            await asyncio.to_thread(_add, evidence, counts)
        return _Summed(versions, evidence)

    async def _enqueue(self, shelf: Shelf) -> None:
        job = NewJob(FIND_NAMES, shelf.id, "its documents changed", self._clock.now())
        await self._worker.enqueue(Caller(shelf.owner), job)

    async def _find_all(self, job: Job) -> Retry | None:
        """Finds the names in each document of a base that has none yet."""
        for one in await self._store.named_documents(Shelf(job.caller.user_id, job.subject)):
            if one.rules != guard_rules():
                await self._find(job.caller, one)
        return None

    async def _find(self, caller: Caller, document: NamedDocument) -> bool:
        """Finds the names in a document; False if it was replaced meanwhile."""
        assert self._lexicons is not None
        passages = await self._store.passages_of(caller, document.id)
        counts = await asyncio.to_thread(_counts, document.name, passages, self._lexicons)
        return await self._store.keep_names(caller, document, guard_rules(), counts)


@cache
def guard_rules() -> str:
    """A fingerprint of the rules by which names are found: the guard's code and languages, and the word lists."""
    digest = blake2b(digest_size=8)
    guard = files("lamella.guard")
    for name in ("language.py", "lexicon.py", "terms.py"):
        digest.update(guard.joinpath(name).read_bytes())
    for one in sorted(guard.joinpath("languages").iterdir(), key=lambda one: one.name):
        if one.is_file():
            digest.update(one.read_bytes())
    for package in ("wordfreq", "simplemma"):
        with suppress(PackageNotFoundError):
            digest.update(version(package).encode())
    return digest.hexdigest()


def _counts(name: str, passages: Sequence[StoredPassage], lexicons: Callable[[], Mapping[str, Lexicon]]) -> NameCounts:
    known = lexicons()
    evidence: defaultdict[str, NameEvidence] = defaultdict(NameEvidence)
    for passage in passages:
        if code := language_of(passage.text, known):
            evidence[code].add(evidence_of(passage.text, known[code], (name,)))
    return {code: (dict(one.capital), dict(one.small), dict(one.phrases)) for code, one in evidence.items()}


def _add(evidence: defaultdict[str, NameEvidence], counts: Iterable[NameCounts]) -> None:
    for one in counts:
        for code, kinds in one.items():
            evidence[code].add(NameEvidence(*map(Counter, kinds)))


def _terms(
    evidence: Mapping[str, NameEvidence],
    lexicons: Callable[[], Mapping[str, Lexicon]],
    confirmed: Sequence[str],
    allowed: Sequence[str],
) -> Mapping[str, ProtectedTerms]:
    """The names by language; what an owner confirmed or allowed holds in every language."""
    known = lexicons()
    codes = known if confirmed or allowed else evidence
    empty = NameEvidence()
    return {
        code: terms_of(evidence.get(code, empty), known[code], confirmed=confirmed, allowed=allowed) for code in codes
    }


def _listed(
    evidence: Mapping[str, NameEvidence], lexicons: Callable[[], Mapping[str, Lexicon]]
) -> tuple[FoundTerm, ...]:
    known = lexicons()

    def terms() -> Iterator[FoundTerm]:
        for code, one in evidence.items():
            plain = known[code].language.function_words
            yield from (FoundTerm(word, code, "word", count) for word, count in one.names() if word not in plain)
            yield from (FoundTerm(phrase, code, "phrase", count) for phrase, count in one.phrases.items())

    return tuple(sorted(terms(), key=lambda one: (-one.count, one.term)))
