"""Turns `[n]` in a streamed answer into citations of the documents that there are (SPEC O7).

Of a list the numbers that no document has stay text: `[1, 99]` cites 1 alone, at its own digits. A range is cited where
both of its ends are documents. A list that is mostly other numbers, or counts from 0, is an array and no citation.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from lamella.core.messages import Attachment
from lamella.core.packets import CitationPacket, SourcePacket
from lamella.engine.citation_scanner import CitationScanner, Found, Item
from lamella.engine.passages import PassageFinder, statement_before

Cited = CitationPacket | SourcePacket

LONGEST_RANGE = 100
"""Numbers of a range that is still a citation, and not two figures with a dash between them."""


class CitationWatch:
    """Turns what the scanners find into packets, for the documents that there are."""

    def __init__(self, attachments: Iterable[Attachment]) -> None:
        self._documents: dict[int, Attachment] = {}
        self._numbers: list[int] = []
        self.know(attachments)
        self._scanners: dict[int, CitationScanner] = {}
        self._passages = PassageFinder()
        self._named: set[int] = set()

    def know(self, attachments: Iterable[Attachment]) -> None:
        """From now on these documents can be cited too."""
        self._documents |= {attachment.document: attachment for attachment in attachments}
        self._numbers = sorted(self._documents)

    async def text(self, block: int, piece: str) -> list[Cited]:
        """The citations that `piece` of shown block `block` completes."""
        scanner = self._scanners.setdefault(block, CitationScanner())
        return [packet for found in scanner.feed(piece) for packet in await self._packets(found)]

    async def end(self) -> list[tuple[int, Cited]]:
        """The citations at the very end of the blocks of a step; the next step has new blocks."""
        scanners, self._scanners = self._scanners, {}
        return [
            (block, packet)
            for block, scanner in scanners.items()
            for found in scanner.end()
            for packet in await self._packets(found)
        ]

    async def _packets(self, found: Found) -> list[Cited]:
        numbers = [self._of(item) for item in found.items]
        whole, known = all(numbers), sum(1 for documents in numbers if documents)
        if known * 2 < len(numbers) or any(item.first == 0 for item in found.items):
            return []
        packets: dict[int, list[Cited]] = {}
        for item, documents in zip(found.items, numbers, strict=True):
            place = (found.start, found.end) if whole else (item.start, item.end)
            for number in documents:
                if number not in packets:
                    packets[number] = await self._cited(number, place, statement_before(found.before))
        return [packet for made in packets.values() for packet in made]

    def _of(self, item: Item) -> Sequence[int]:
        """The documents that an item cites; none where it names one that is not there."""
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
        passage = await self._passages.find(statement, attachment.file_id, attachment.text or "")
        packets.append(
            CitationPacket(
                document=number,
                start=place[0],
                end=place[1],
                file_id=file_id,
                passage_start=passage.start if passage else None,
                passage_end=passage.end if passage else None,
                page=passage.page if passage else None,
            )
        )
        return packets
