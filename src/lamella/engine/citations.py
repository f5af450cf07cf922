"""Turns `[n]` in a streamed answer into citations of the documents that there are (SPEC O7)."""

from __future__ import annotations

from collections.abc import Iterable

from lamella.core.messages import Attachment
from lamella.core.packets import CitationPacket, SourcePacket
from lamella.engine.citation_scanner import CitationScanner, Found
from lamella.engine.passages import PassageFinder, statement_before

Cited = CitationPacket | SourcePacket


class CitationWatch:
    """Turns what the scanners find into packets, for the documents that there are."""

    def __init__(self, attachments: Iterable[Attachment]) -> None:
        self._documents = {attachment.document: attachment for attachment in attachments}
        self._scanners: dict[int, CitationScanner] = {}
        self._passages = PassageFinder()
        self._named: set[int] = set()

    def know(self, attachments: Iterable[Attachment]) -> None:
        """From now on these documents can be cited too."""
        self._documents |= {attachment.document: attachment for attachment in attachments}

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
        if not all(number in self._documents for number in found.documents):
            return []
        statement = statement_before(found.before)
        packets: list[Cited] = []
        for number in found.documents:
            attachment = self._documents[number]
            file_id = None if attachment.found else attachment.file_id
            if number not in self._named:
                self._named.add(number)
                packets.append(
                    SourcePacket(document=number, title=attachment.title, file_id=file_id, url=attachment.url)
                )
            passage = await self._passages.find(statement, attachment.file_id, attachment.text or "")
            packets.append(
                CitationPacket(
                    document=number,
                    start=found.start,
                    end=found.end,
                    file_id=file_id,
                    passage_start=passage.start if passage else None,
                    passage_end=passage.end if passage else None,
                    page=passage.page if passage else None,
                )
            )
        return packets
