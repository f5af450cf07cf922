"""What an owner should know before a base is shared with restricted access: what is missing, and what would be cut."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from lamella.core.access import KnowledgeBase
from lamella.core.knowledge import Document, Shelf, StoredPassage
from lamella.core.records import Caller, PageQuery
from lamella.guard.lexicon import Lexicon, language_of
from lamella.guard.masking import FIGURE, NAME, TERM, mask
from lamella.guard.terms import ProtectedTerms, is_heading, merged
from lamella.knowledge.restricted.base_terms import BaseTerms
from lamella.knowledge.restricted.metadata import CheckedText, SafeMetadataSource
from lamella.knowledge.restricted.summary import Reason
from lamella.storage.knowledge.store import KnowledgeStore

LOOKED_AT = 20
"""Passages of each document whose language is looked at."""

MOST_DOCUMENTS = 1_000


@dataclass(frozen=True, slots=True)
class TellingHeading:
    """A title or heading that holds names or figures, and how it reads without them.

    For example `Project Falcon, 3 May` reads `project [name], [figure]`.
    """

    document: Document
    heading: str
    masked: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """How ready a base is. `missing` is what the server lacks, `has_model` whether it has a second model.

    `languages` counts documents by the language of most of their passages; answers leave out those of
    `unknown_language`. `told` is what is said of the base, as restricted readers are told it. `terms` are the names
    that were found in the documents. `headings` are those of the documents that hold names or figures.
    """

    missing: Reason | None = None
    has_model: bool = False
    documents: int = 0
    languages: Mapping[str, int] = field(default_factory=dict)
    unknown_language: tuple[Document, ...] = ()
    headings: tuple[TellingHeading, ...] = ()
    told: tuple[CheckedText, ...] = ()
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """Looks at bases; `lexicons` is None if the word lists are not installed: then nothing can be compared."""

    store: KnowledgeStore
    metadata: SafeMetadataSource
    terms: BaseTerms
    lexicons: Callable[[], Mapping[str, Lexicon]] | None
    missing: Reason | None
    has_model: bool

    async def of(self, base: KnowledgeBase) -> Readiness:
        """How ready a base is."""
        shelf = Shelf(base.owner, base.id)
        documents = await self._documents(shelf)
        if self.lexicons is None:
            return Readiness(self.missing, self.has_model, len(documents))
        read = [
            (one, await self.store.passages_of(Caller(base.owner), one.id, 0, LOOKED_AT))
            for one in documents[:MOST_DOCUMENTS]
        ]
        codes = await asyncio.to_thread(_languages, read, self.lexicons)
        terms = await self.terms.of(shelf) or {}
        found = merged(terms.values())
        headings = await asyncio.to_thread(_telling, read, codes, terms, self.lexicons)
        return Readiness(
            self.missing,
            self.has_model,
            len(documents),
            Counter(code for code in codes if code),
            tuple(one for one, code in zip(documents, codes, strict=False) if not code),
            headings,
            await self.metadata.checked(base),
            tuple(sorted(found.words | found.phrases)),
        )

    async def _documents(self, shelf: Shelf) -> list[Document]:
        """Those that are indexed."""
        found: list[Document] = []
        after: str | None = None
        while True:
            page = await self.store.documents_on_shelf(shelf, PageQuery(100, after, "asc"))
            found += [document for document in page.data if document.found is not None]
            if not page.has_more:
                return found
            after = page.data[-1].id


def _languages(
    read: Sequence[tuple[Document, Sequence[StoredPassage]]], lexicons: Callable[[], Mapping[str, Lexicon]]
) -> list[str]:
    """The language of each document, "" for one that the guard does not know."""
    known = lexicons()
    found = [Counter(language_of(passage.text, known) for passage in passages) for _, passages in read]
    return [count.most_common(1)[0][0] if count else "" for count in found]


def _telling(
    read: Sequence[tuple[Document, Sequence[StoredPassage]]],
    codes: Sequence[str],
    terms: Mapping[str, ProtectedTerms],
    lexicons: Callable[[], Mapping[str, Lexicon]],
) -> tuple[TellingHeading, ...]:
    """Titles, without the ending of a file, and headings that hold a name or a figure, each once for each document."""
    known, made = lexicons(), []
    for (document, passages), code in zip(read, codes, strict=True):
        lines = (line.strip("# ") for passage in passages for line in passage.text.splitlines() if is_heading(line))
        above = (heading for passage in passages for heading in passage.headings)
        for heading in dict.fromkeys([PurePath(document.name).stem, *above, *lines]) if code else ():
            # Every heading begins with a capital, which tells nothing.
            masked = mask(heading[:1].lower() + heading[1:], known[code], terms.get(code, ProtectedTerms())).text
            if any(hidden in masked for hidden in (FIGURE, NAME, TERM)):
                made.append(TellingHeading(document, heading, masked))
    return tuple(made)
