"""The names of a restricted base, found in all of its documents, and kept in memory while these stay the same."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lamella.core.knowledge import Document, Shelf, StoredPassage
from lamella.core.records import Caller, PageQuery
from lamella.guard.lexicon import Lexicon, language_of
from lamella.guard.terms import NameEvidence, ProtectedTerms, evidence_of, terms_of
from lamella.storage.knowledge.store import KnowledgeStore

KEPT = 64
"""Bases whose names are kept in memory."""


@dataclass(slots=True)
class BaseTerms:
    """Finds the names of bases; `lexicons` is None if the word lists are not installed."""

    store: KnowledgeStore
    lexicons: Callable[[], Mapping[str, Lexicon]] | None
    _kept: OrderedDict[tuple[Shelf, tuple[str, ...]], Mapping[str, ProtectedTerms]] = field(default_factory=OrderedDict)

    async def of(self, shelf: Shelf) -> Mapping[str, ProtectedTerms] | None:
        """The names by language; None while they are not found yet."""
        if self.lexicons is None:
            return {}
        documents = await documents_on(self.store, shelf)
        key = shelf, tuple(document.id for document in documents)
        if key not in self._kept:
            read = [(one, await self.store.passages_of(Caller(shelf.owner), one.id)) for one in documents]
            self._kept[key] = await asyncio.to_thread(_found, read, self.lexicons)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


async def documents_on(store: KnowledgeStore, shelf: Shelf) -> list[Document]:
    """All documents of a base that are indexed."""
    found: list[Document] = []
    after: str | None = None
    while True:
        page = await store.documents_on_shelf(shelf, PageQuery(100, after, "asc"))
        found += [document for document in page.data if document.found is not None]
        if not page.has_more:
            return found
        after = page.data[-1].id


def _found(
    read: Sequence[tuple[Document, Sequence[StoredPassage]]], lexicons: Callable[[], Mapping[str, Lexicon]]
) -> Mapping[str, ProtectedTerms]:
    known = lexicons()
    evidence: defaultdict[str, NameEvidence] = defaultdict(NameEvidence)
    for document, passages in read:
        for passage in passages:
            if code := language_of(passage.text, known):
                evidence[code].add(evidence_of(passage.text, known[code], (document.name,)))
    return {code: terms_of(one, known[code]) for code, one in evidence.items()}
