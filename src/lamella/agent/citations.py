"""Turns `[n]` in a streamed answer into citations of existing documents.

In a list, numbers without a document stay text: `[1, 99]` cites only 1, at its digits. A range is a citation if both
ends are documents. A list of mostly other numbers, or one that counts from 0, is an array and no citation.

A citation opens the place in the document that supports its statement: the sentence that contains it word for word, or
the one with most of its rare words.
"""

from __future__ import annotations

import asyncio
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from lamella.agent.citation_scanner import LONGEST_STATEMENT, CitationScanner, FoundCitation, Item
from lamella.core.messages import Attachment
from lamella.core.packets import CitationPacket, SourcePacket
from lamella.core.word_split import WORD, words_of

_CLOSING = r"\"”'’»)」』"
_SENTENCE_END = re.compile(rf"(?<=[.!?…])[\s{_CLOSING}]+|(?<=[.!?…][{_CLOSING}])\s+|(?<=[。！？])[\s{_CLOSING}]*|\n+")
_TEXT_SENTENCE_END = re.compile(rf"[.!?…][{_CLOSING}]*\s+|[。！？][\s{_CLOSING}]*|\n\s*\n|\f|\Z")
_CITATIONS = re.compile(r"(?:\s*[\[【［][\d\s,，、‐-—−~～〜－-]+(?:†[^\[\]【】［］\n]*)?[\]】］])+\s*$")
_EDGES = " \t\n\"“”'’«»「」『』*_>-–—#.,;:!?…。！？"
LONG_TEXT = 200
"""Number of sentences from which on words are ignored that occur in every fifth of them."""

IN_THREAD_FROM = 100_000
"""Characters from which a document is indexed in a thread, so that packets of other turns go on."""

LONGEST_QUOTE = 400
"""Characters of a passage that its citation quotes."""

ENOUGH = 0.34
"""Share of a statement's weight that a passage must hold to be shown as its source."""


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """Characters `start` to `end` of a document's text; `page` counts from 1 if the text has pages."""

    start: int
    end: int
    page: int | None


def statement_before(text: str) -> str:
    """The sentence before a citation, without other citations."""
    text = _CITATIONS.sub("", text[-LONGEST_STATEMENT:]).rstrip(_EDGES)
    return _SENTENCE_END.split(text)[-1].strip(_EDGES)


class _Index:
    """A document's words in order, and its sentences by their words."""

    def __init__(self, text: str) -> None:
        self._starts = array("l")
        self._ends = array("l")
        self._offsets = array("l")
        """Where each word begins in `_folded`."""
        self._spans: list[tuple[int, int]] = []
        self._holders: dict[str, list[int]] = {}
        sentences = [match.end() for match in _TEXT_SENTENCE_END.finditer(text)]
        words: list[str] = []
        offset, begin = 1, 0
        for match in WORD.finditer(text):
            word = match.group().casefold()
            if not self._spans or match.start() >= self._spans[-1][1]:
                border = bisect_right(sentences, match.start())
                begin = sentences[border - 1] if border else 0
                self._spans.append((begin, sentences[border]))
            holders = self._holders.setdefault(word, [])
            if not holders or holders[-1] != len(self._spans) - 1:
                holders.append(len(self._spans) - 1)
            words.append(word)
            self._starts.append(match.start())
            self._ends.append(match.end())
            self._offsets.append(offset)
            offset += len(word) + 1
        self._folded = f" {' '.join(words)} "

    def literal(self, words: Sequence[str]) -> tuple[int, int] | None:
        """Where these words occur in this order, with other words between them."""
        found = self._folded.find(f" {' '.join(words)} ")
        if found < 0:
            return None
        first = bisect_left(self._offsets, found + 1)
        return self._starts[first], self._ends[first + len(words) - 1]

    def nearest(self, words: set[str]) -> tuple[int, int] | None:
        """The sentence with most of the weight of `words`, if that is enough: rare words weigh more."""
        count = len(self._spans)
        words = {word for word in words if self._tells(word)} or words
        weights = {w: log(1 + count / len(self._holders[w])) for w in words if w in self._holders}
        total = sum(weights.values()) + (len(words) - len(weights)) * log(1 + count)
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in weights.items():
            for sentence in self._holders[word]:
                scores[sentence] += weight
        if not scores:
            return None
        sentence, score = max(scores.items(), key=lambda item: (item[1], -item[0]))
        return self._spans[sentence] if score / total >= ENOUGH else None

    def _tells(self, word: str) -> bool:
        """Whether a word is specific: in a long text, one that few sentences have."""
        count = len(self._spans)
        return count < LONG_TEXT or len(self._holders.get(word, ())) * 5 < count


class PassageFinder:
    """Finds passages; each document is indexed once."""

    def __init__(self) -> None:
        self._indexes: dict[str, _Index] = {}

    async def find(self, statement: str, key: str, text: str) -> CitedPassage | None:
        """The passage of document `key` that holds `statement` word for word, else the sentence nearest to it."""
        words = words_of(statement)
        if not words or not text:
            return None
        if len(text) >= IN_THREAD_FROM:
            return await asyncio.to_thread(self._find, words, key, text)
        return self._find(words, key, text)

    def _find(self, words: list[str], key: str, text: str) -> CitedPassage | None:
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = _Index(text)
        span = (index.literal(words) if len(words) > 2 else None) or index.nearest(set(words))
        return _passage(text, *span) if span else None


def _passage(text: str, start: int, end: int) -> CitedPassage:
    inner = text[start:end]
    start += len(inner) - len(inner.lstrip())
    end -= len(inner) - len(inner.rstrip())
    page = text.count("\f", 0, start) + 1 if "\f" in text else None
    return CitedPassage(start, end, page)


Cited = CitationPacket | SourcePacket

LONGEST_RANGE = 100
"""Numbers of a range that is still a citation, and not two figures with a dash between them."""


class CitationWatch:
    """Turns citations that the scanners find into packets, for the existing documents."""

    def __init__(self, attachments: Iterable[Attachment]) -> None:
        self._documents: dict[int, Attachment] = {}
        self._numbers: list[int] = []
        self._shown: Mapping[int, str] = {}
        self.know(attachments)
        self._scanners: dict[int, CitationScanner] = {}
        self._ended: set[int] = set()
        self._passages = PassageFinder()
        self._named: set[int] = set()

    def know(self, attachments: Iterable[Attachment], shown: Mapping[int, str] | None = None) -> None:
        """From now on these documents can be cited too. `shown`: what was shown of those without a text, by number."""
        self._shown = shown or self._shown
        self._documents |= {attachment.document: attachment for attachment in attachments}
        self._numbers = sorted(self._documents)

    async def text(self, block: int, piece: str) -> list[Cited]:
        """The citations that `piece` of shown block `block` completes."""
        if block in self._ended:
            return []
        scanner = self._scanners.setdefault(block, CitationScanner())
        return [packet for found in scanner.feed(piece) for packet in await self._packets(found)]

    async def end(self) -> list[tuple[int, Cited]]:
        """The citations at the very end of the blocks so far: another one begins, or the step has ended."""
        scanners, self._scanners = self._scanners, {}
        self._ended |= scanners.keys()
        return [
            (block, packet)
            for block, scanner in scanners.items()
            for found in scanner.end()
            for packet in await self._packets(found)
        ]

    async def _packets(self, citation: FoundCitation) -> list[Cited]:
        numbers = [self._of(item) for item in citation.items]
        whole, known = all(numbers), sum(1 for documents in numbers if documents)
        if known * 2 < len(numbers) or any(item.first == 0 for item in citation.items):
            return []
        packets: dict[int, list[Cited]] = {}
        for item, documents in zip(citation.items, numbers, strict=True):
            place = (citation.start, citation.end) if whole else (item.start, item.end)
            for number in documents:
                if number not in packets:
                    packets[number] = await self._cited(number, place, statement_before(citation.before))
        return [packet for made in packets.values() for packet in made]

    def _of(self, item: Item) -> Sequence[int]:
        """The documents that an item cites; empty if one of them does not exist."""
        first, last = item.first, item.last
        is_known = first in self._documents and last in self._documents
        if not is_known or not 0 <= last - first <= LONGEST_RANGE:
            return ()
        return self._numbers[bisect_left(self._numbers, first) : bisect_right(self._numbers, last)]

    async def _cited(self, number: int, place: tuple[int, int], statement: str) -> list[Cited]:
        """The packets of one document that is cited at a place; of its source too, the first time."""
        attachment, packets = self._documents[number], list[Cited]()
        file_id = None if attachment.found else attachment.file_id
        if number not in self._named:
            self._named.add(number)
            packets.append(SourcePacket(document=number, title=attachment.title, file_id=file_id, url=attachment.url))
        text = attachment.text or self._shown.get(number, "")
        found = await self._passages.find(statement, f"{attachment.file_id} {len(text)}", text)
        passage = found if attachment.text else None
        packets.append(
            CitationPacket(
                document=number,
                start=place[0],
                end=place[1],
                file_id=file_id,
                passage_start=passage.start if passage else None,
                passage_end=passage.end if passage else None,
                page=passage.page if passage else None,
                quote=text[found.start : min(found.end, found.start + LONGEST_QUOTE)] if found else "",
            )
        )
        return packets
