"""What went out of a document: each passage next to the sentences that restricted readers got of it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lamella.core.access import Disclosure
from lamella.core.knowledge import Document, StoredPassage
from lamella.core.records import Caller
from lamella.guard.lexicon import Lexicon, TokenKind, language_of, tokens
from lamella.guard.masking import mask
from lamella.guard.names import placed
from lamella.guard.terms import ProtectedTerms
from lamella.knowledge.restricted.base_terms import BaseTerms
from lamella.knowledge.restricted.material import chunk_id
from lamella.storage.bases import AccessRows
from lamella.storage.knowledge.store import KnowledgeStore


@dataclass(frozen=True, slots=True)
class PassageReader:
    """What one reader has of a passage.

    `words` of its content words, out of those that may be said; `most` is the largest share of one sentence.
    For example 12 words of 60, with 4 of the 8 of one sentence: `words` 12, `out_of` 60, `most` 0.5. `covered` are the
    places of these words in the passage, as characters from and to.
    """

    user_id: str
    user_name: str
    words: int
    out_of: int
    most: float
    covered: tuple[tuple[int, int], ...]
    disclosures: tuple[Disclosure, ...]


@dataclass(frozen=True, slots=True)
class DisclosedPassage:
    """A passage and who got what of it; None for a passage of an earlier version of the document."""

    id: str
    passage: StoredPassage | None
    readers: tuple[PassageReader, ...]


@dataclass(frozen=True, slots=True)
class DisclosedPassages:
    """Finds what went out of documents; `lexicons` is None if the word lists are not installed."""

    store: KnowledgeStore
    uses: AccessRows
    terms: BaseTerms
    lexicons: Callable[[], Mapping[str, Lexicon]] | None

    async def of(self, caller: Caller, document: Document, limit: int) -> tuple[tuple[DisclosedPassage, ...], bool]:
        """The passages of a document of the caller's of which something went out, and whether `limit` left out some of
        what was said.
        """
        found, more = await self.uses.disclosures(caller, document.shelf.id, document.id, limit)
        passages = await self.store.passages_of(caller, document.id) if found else ()
        terms = await self.terms.of(document.shelf) or {}
        lexicons = await asyncio.to_thread(self.lexicons) if self.lexicons is not None else {}
        return await asyncio.to_thread(_disclosed, found, passages, terms, lexicons), more


def _disclosed(
    found: Sequence[Disclosure],
    passages: Sequence[StoredPassage],
    terms: Mapping[str, ProtectedTerms],
    lexicons: Mapping[str, Lexicon],
) -> tuple[DisclosedPassage, ...]:
    known = {chunk_id(passage.document_id, passage): passage for passage in passages}
    of: defaultdict[str, defaultdict[str, list[Disclosure]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        of[one.told.passage_id][one.user_id].append(one)
    order = {id: place for place, id in enumerate(known)}
    made: list[DisclosedPassage] = []
    for id in sorted(of, key=lambda id: order.get(id, len(order))):
        passage = known.get(id)
        code = language_of(passage.text, lexicons) if passage is not None else ""
        sentences: tuple[tuple[str, ...], ...] = ()
        if passage is not None and code:
            sentences = mask(passage.text, lexicons[code], terms.get(code, ProtectedTerms())).sentences
        places = list(_places(passage.text, lexicons[code])) if passage is not None and code else []
        readers = [_reader(disclosures, sentences, places) for disclosures in of[id].values()]
        made.append(DisclosedPassage(id, passage, tuple(readers)))
    return tuple(made)


_Place = tuple[str, int, int]
"""The stem of a content word, and where it stands."""


def _places(text: str, lexicon: Lexicon) -> Iterator[_Place]:
    for place in placed(tokens(text, lexicon.code), lexicon):
        token = place.token
        if token.kind is TokenKind.WORD and lexicon.is_content(token.key):
            yield lexicon.stem(token.key), token.start, token.end


def _reader(
    disclosures: Sequence[Disclosure], sentences: Sequence[Sequence[str]], places: Sequence[_Place]
) -> PassageReader:
    said = {word for one in disclosures for word in one.told.words}
    all_words = {word for sentence in sentences for word in sentence}
    shares = [len(said & set(sentence)) / len(set(sentence)) for sentence in sentences if sentence]
    last = disclosures[0]
    return PassageReader(
        last.user_id,
        last.user_name,
        len(said),
        len(all_words | said),
        max(shares, default=0.0),
        tuple((start, end) for stem, start, end in places if stem in said),
        tuple(disclosures),
    )
