"""Finds `[n]` in a streamed answer, the same however it was chunked, and never changes a character of it (SPEC O7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from lamella.core.messages import Attachment
from lamella.core.packets import CitationPacket, SourcePacket
from lamella.engine.passages import PassageFinder, statement_before

_NUMBERS = re.compile(r"\[\s*\d{1,5}(?:\s*,\s*\d{1,5})*\s*\]")
_CANDIDATE = re.compile(r"\[[\s\d,]*\]?")


@dataclass(frozen=True, slots=True)
class Found:
    """Characters `start` to `end` of a text cite `documents`."""

    start: int
    end: int
    documents: tuple[int, ...]


class _State(StrEnum):
    PROSE = "prose"
    CODE = "code"
    FENCE = "fence"


class CitationScanner:
    """Scans one text block as it arrives. What may become a citation waits for the character behind it.

    Text in code spans and fences, the text of links (`[1](…)`) and definitions (`[1]: …`) is no citation.
    """

    def __init__(self) -> None:
        self.text = ""
        self._at = 0
        self._state = _State.PROSE
        self._ticks = 0

    def feed(self, piece: str) -> Iterator[Found]:
        """The citations that `piece` completes."""
        self.text += piece
        yield from self._scan(final=False)

    def end(self) -> Iterator[Found]:
        """The citations that only the end of the block completes."""
        yield from self._scan(final=True)

    def _scan(self, *, final: bool) -> Iterator[Found]:
        while self._at < len(self.text):
            character = self.text[self._at]
            if character == "`":
                if not self._tick(final=final):
                    return
            elif character == "[" and self._state is _State.PROSE:
                match = _CANDIDATE.match(self.text, self._at)
                assert match is not None
                if not final and match.end() == len(self.text):
                    return
                found = self._citation(match)
                if found is not None:
                    yield found
                self._at = found.end if found else self._at + 1
            else:
                self._at += 1

    def _tick(self, *, final: bool) -> bool:
        """Step over a run of backticks; False when more of it may follow."""
        end = self._at
        while end < len(self.text) and self.text[end] == "`":
            end += 1
        if end == len(self.text) and not final:
            return False
        run = end - self._at
        line_start = self.text.rfind("\n", 0, self._at) + 1
        at_line_start = not self.text[line_start : self._at].strip()
        if self._state is _State.PROSE:
            self._state = _State.FENCE if run >= 3 and at_line_start else _State.CODE
            self._ticks = run
        elif (self._state is _State.CODE and run == self._ticks) or (
            self._state is _State.FENCE and run >= self._ticks and at_line_start
        ):
            self._state = _State.PROSE
        self._at = end
        return True

    def _citation(self, match: re.Match[str]) -> Found | None:
        text = match.group()
        if not _NUMBERS.fullmatch(text) or self.text[match.end() : match.end() + 1] in ("(", ":"):
            return None
        numbers = tuple(int(number) for number in re.findall(r"\d+", text))
        return Found(match.start(), match.end(), numbers)


Cited = CitationPacket | SourcePacket


class CitationWatch:
    """Turns what the scanners find into packets, for the documents that there are."""

    def __init__(self, attachments: Iterable[Attachment]) -> None:
        self._documents = {attachment.document: attachment for attachment in attachments}
        self._scanners: dict[int, CitationScanner] = {}
        self._passages = PassageFinder()
        self._named: set[int] = set()

    async def text(self, block: int, piece: str) -> list[Cited]:
        """The citations that `piece` of shown block `block` completes."""
        scanner = self._scanners.setdefault(block, CitationScanner())
        return [packet for found in scanner.feed(piece) for packet in await self._packets(scanner, found)]

    async def end(self) -> list[tuple[int, Cited]]:
        """The citations at the very end of the blocks of a step; the next step has new blocks."""
        scanners, self._scanners = self._scanners, {}
        return [
            (block, packet)
            for block, scanner in scanners.items()
            for found in scanner.end()
            for packet in await self._packets(scanner, found)
        ]

    async def _packets(self, scanner: CitationScanner, found: Found) -> list[Cited]:
        if not all(number in self._documents for number in found.documents):
            return []
        statement = statement_before(scanner.text[: found.start])
        packets: list[Cited] = []
        for number in found.documents:
            attachment = self._documents[number]
            if number not in self._named:
                self._named.add(number)
                packets.append(SourcePacket(document=number, title=attachment.title, file_id=attachment.file_id))
            passage = await self._passages.find(statement, attachment.file_id, attachment.text or "")
            packets.append(
                CitationPacket(
                    document=number,
                    start=found.start,
                    end=found.end,
                    file_id=attachment.file_id,
                    passage_start=passage.start if passage else None,
                    passage_end=passage.end if passage else None,
                    page=passage.page if passage else None,
                )
            )
        return packets
