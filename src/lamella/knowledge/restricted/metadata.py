"""What restricted readers and their models are told of a base: name, description, hint and keywords, through the guard.

Owners write them, and may repeat what stands in the documents without meaning to. Each is released as an answer is:
composed from ordinary words, without sentences that hold figures, names of the base, or a run of a passage.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from lamella.core.access import KnowledgeBase
from lamella.core.knowledge import Shelf
from lamella.core.records import PageQuery
from lamella.guard.lexicon import Lexicon, language_of
from lamella.guard.release import release
from lamella.guard.terms import ProtectedTerms
from lamella.knowledge.restricted.base_terms import BaseTerms
from lamella.knowledge.restricted.material import Chunk, Material, chunks_of, masked
from lamella.knowledge.searching import KnowledgeSearch, Searched
from lamella.storage.knowledge.store import KnowledgeStore

log = structlog.get_logger()

HIDDEN = "Knowledge base with restricted access"
"""Stands for a name that tells something of the documents; its id is told anyway."""

MOST_PASSAGES = 20
"""Passages that they are compared with: those that a search for their words finds first."""

MOST_TITLES = 1_000
KEPT = 256


@dataclass(frozen=True, slots=True)
class SafeMetadata:
    """What may be told of a base; an empty hint or description is not told."""

    name: str = HIDDEN
    description: str = ""
    hint: str = ""
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedText:
    """A text that an owner wrote (`name`, `description`, `hint`, a `keyword`), what is told of it, and why not all."""

    field: str
    text: str
    told: str
    cuts: tuple[str, ...]


_Key = tuple[SafeMetadata, tuple[Chunk, ...]]
"""What its owner wrote, and the documents as they are now."""


class SafeMetadataSource:
    """Finds what may be told of bases, and keeps it in memory while base and documents are the same."""

    def __init__(
        self,
        store: KnowledgeStore,
        searching: KnowledgeSearch,
        terms: BaseTerms,
        lexicons: Callable[[], Mapping[str, Lexicon]] | None,
    ) -> None:
        self._store = store
        self._searching = searching
        self._terms = terms
        self._lexicons = lexicons
        self._kept: OrderedDict[_Key, SafeMetadata] = OrderedDict()

    async def of(self, base: KnowledgeBase) -> SafeMetadata:
        """What may be told of a base. Never raises: what can't be compared is not told."""
        content = base.content
        written = SafeMetadata(content.name, content.description, content.hint, content.keywords)
        shelf = Shelf(base.owner, base.id)
        try:
            terms = await self._terms.of(shelf)
            if self._lexicons is None or terms is None:
                return SafeMetadata()
            chunks = await self._compared(shelf, "\n".join((written.name, written.hint, *written.keywords)))
            key = written, chunks
            if key not in self._kept:
                self._kept[key] = await asyncio.to_thread(_safe, written, chunks, terms, self._lexicons)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]
        except Exception as error:  # noqa: BLE001  # protected text may stand in it: only its kind is told
            log.error("a restricted base can't be named", knowledge_base_id=base.id, error=type(error).__name__)
            return SafeMetadata()

    async def checked(self, base: KnowledgeBase) -> tuple[CheckedText, ...]:
        """Each text that the owner wrote, with what is told of it; none without the word lists. For the owner alone."""
        content, shelf = base.content, Shelf(base.owner, base.id)
        written = SafeMetadata(content.name, content.description, content.hint, content.keywords)
        terms = await self._terms.of(shelf)
        if self._lexicons is None or terms is None:
            return ()
        chunks = await self._compared(shelf, "\n".join((written.name, written.hint, *written.keywords)))
        return await asyncio.to_thread(_checked, written, chunks, terms, self._lexicons)

    async def _compared(self, shelf: Shelf, words: str) -> tuple[Chunk, ...]:
        """Passages with these words, and the titles of all documents."""
        found = await self._searching.search(Searched((shelf,)), words, MOST_PASSAGES)
        titles: list[str] = []
        after: str | None = None
        while len(titles) < MOST_TITLES:
            page = await self._store.documents_on_shelf(shelf, PageQuery(100, after, "asc"))
            titles += [document.name for document in page.data]
            if not page.has_more:
                break
            after = page.data[-1].id
        passages = chunks_of([(hit.document, hit.passage) for hit in found.hits])
        return (*passages, *(Chunk("", title, (), "") for title in titles))


def _safe(
    metadata: SafeMetadata,
    chunks: Sequence[Chunk],
    terms: Mapping[str, ProtectedTerms],
    lexicons: Callable[[], Mapping[str, Lexicon]],
) -> SafeMetadata:
    known = lexicons()
    material = masked(chunks, terms, known)
    usual = (
        language_of(" ".join((metadata.name, metadata.description, metadata.hint, *metadata.keywords)), known) or "en"
    )

    def told(text: str) -> str:
        lexicon = known[language_of(text, known) or usual]
        return release(text, lexicon, material.terms, material.shown).released.text if text else ""

    def whole(text: str) -> str:
        """A name or keyword, or nothing of it: part of one would be another."""
        return told(text).rstrip(".。") if _is_whole(text, known[language_of(text, known) or usual], material) else ""

    words = tuple(word for keyword in metadata.keywords if (word := whole(keyword).lower()))
    return SafeMetadata(
        whole(metadata.name) or HIDDEN,
        told(metadata.description),
        told(metadata.hint),
        words if told(" ".join(words)) else (),  # one after the other they may make a sentence of a document
    )


def _checked(
    metadata: SafeMetadata,
    chunks: Sequence[Chunk],
    terms: Mapping[str, ProtectedTerms],
    lexicons: Callable[[], Mapping[str, Lexicon]],
) -> tuple[CheckedText, ...]:
    known = lexicons()
    material = masked(chunks, terms, known)
    texts = [("name", metadata.name), ("description", metadata.description), ("hint", metadata.hint)]
    texts += [("keyword", keyword) for keyword in metadata.keywords]
    usual = language_of(" ".join(text for _, text in texts), known) or "en"
    made = []
    for field, text in texts:
        if text:
            released = release(text, known[language_of(text, known) or usual], material.terms, material.shown)
            made.append(CheckedText(field, text, released.released.text, released.cuts))
    return tuple(made)


def _is_whole(text: str, lexicon: Lexicon, material: Material) -> bool:
    made = release(text, lexicon, material.terms, material.shown)
    return bool(made.sentences) and not made.cuts
