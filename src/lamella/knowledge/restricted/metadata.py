"""What a model is told of a base whose documents its user may not read: name, hint and keywords, through the guard.

Owners write them, and may repeat what stands in the documents without meaning to.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from lamella.core.access import KnowledgeBase
from lamella.core.knowledge import Shelf
from lamella.core.records import PageQuery
from lamella.guard.guard import Guard, ProtectedText
from lamella.guard.identifiers import dates, identifiers
from lamella.guard.letters import fold, sentences
from lamella.guard.numerals import figures
from lamella.knowledge.restricted.material import Chunk, chunks_of, version_of
from lamella.knowledge.searching import KnowledgeSearch, Searched
from lamella.storage.knowledge.store import KnowledgeStore

log = structlog.get_logger()

HIDDEN = "Knowledge base with restricted access"
"""Stands for a name that tells something of the documents; its id is told anyhow."""

MOST_PASSAGES = 20
"""Passages that they are compared with: those that a search for their words finds first."""

MOST_TITLES = 1_000
KEPT = 256


@dataclass(frozen=True, slots=True)
class SafeMetadata:
    """What may be told of a base; an empty hint is none."""

    name: str = HIDDEN
    hint: str = ""
    keywords: tuple[str, ...] = ()


_Key = tuple[SafeMetadata, str]
"""What its owner wrote, and the documents as they are now."""


class SafeMetadataSource:
    """Finds what may be told of bases, and keeps it in memory while base and documents are the same."""

    def __init__(self, store: KnowledgeStore, searching: KnowledgeSearch) -> None:
        self._store = store
        self._searching = searching
        self._kept: OrderedDict[_Key, SafeMetadata] = OrderedDict()

    async def of(self, base: KnowledgeBase) -> SafeMetadata:
        """Name, hint and keywords of a base. Never raises: what can't be compared is not told."""
        written = SafeMetadata(base.content.name, base.content.hint, base.content.keywords)
        try:
            words = "\n".join((written.name, written.hint, *written.keywords))
            chunks = await self._compared(Shelf(base.owner, base.id), words)
            key = (written, version_of(chunks))
            if key not in self._kept:
                self._kept[key] = await asyncio.to_thread(_checked, written, chunks)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]
        except Exception as error:  # noqa: BLE001  # protected text may stand in it: only its kind is told
            log.error("a restricted base can't be named", knowledge_base_id=base.id, error=type(error).__name__)
            return SafeMetadata()

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


def _checked(written: SafeMetadata, chunks: Sequence[Chunk]) -> SafeMetadata:
    guard = Guard([ProtectedText(chunk.text, (chunk.title, *chunk.headings)) for chunk in chunks])

    def passes(text: str) -> bool:
        return guard.check(text).text == text

    words = tuple(word for word in written.keywords if not _holds_facts(word) and passes(word))
    return SafeMetadata(
        written.name if passes(written.name) else HIDDEN,
        guard.check(without_facts(written.hint)).text if written.hint else "",
        words if passes(" ".join(words)) else (),  # one behind the other they may make a sentence of a document
    )


def without_facts(hint: str) -> str:
    """A hint without the sentences that hold figures, dates or identifiers, whatever the documents say."""
    return "".join(sentence for sentence in sentences(hint) if not _holds_facts(sentence)).strip()


def _holds_facts(text: str) -> bool:
    folded = fold(text)
    return (
        any(figure.is_telling for figure in figures(folded))
        or any(True for _ in dates(folded))
        or any(True for _ in identifiers(folded))
    )
