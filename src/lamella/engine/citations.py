"""Finds `[n]` and `【n】` in a streamed answer, the same however it was chunked, and changes no character (SPEC O7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lamella.core.messages import Attachment
from lamella.core.packets import CitationPacket, SourcePacket
from lamella.engine.passages import LONGEST_STATEMENT, PassageFinder, statement_before

_OPENING = re.compile(r"[\[【`~]")
_CANDIDATE = re.compile(r"[\[【][\s\d,]{0,200}[\]】]?")
_LIST = r"\s*\d{1,5}(?:\s*,\s*\d{1,5})*\s*"
_NUMBERS = re.compile(rf"\[{_LIST}\]|【{_LIST}】")
"""Some models write the brackets that they were trained to cite with."""
_RUN = re.compile(r"`+|~+")
_RUN_OR_BLANK_LINE = re.compile(r"`+|\n[ \t]*\n")
_LINE_END = re.compile(r"\n[ \t]*\Z")

KEPT = 4 * LONGEST_STATEMENT
"""Characters that may lie behind before lines are forgotten."""


@dataclass(frozen=True, slots=True)
class Found:
    """Characters `start` to `end` of a text cite `documents` for what stands `before` them."""

    start: int
    end: int
    documents: tuple[int, ...]
    before: str


class CitationScanner:
    """Scans one text block as it arrives. What can't be decided yet waits for more of the text.

    Code spans and fences, the text of links (`[1](…)`, `[[1]](…)`) and definitions (`[1]: …`) hold no citations. As in
    CommonMark, backticks that nothing closes before the paragraph ends are just backticks.
    """

    def __init__(self) -> None:
        self._text = ""
        self._dropped = 0
        """Characters in front of `_text` that are forgotten."""
        self._behind: list[str] = []
        """Pieces behind `_text` that open nothing; they are joined to it when something does."""
        self._length = 0
        """Characters of `_text` and `_behind`."""
        self._at = 0
        self._looked = 0
        """Up to where the end of the code that begins at `_at` was looked for."""
        self._run: re.Match[str] | None = None
        """The run of equal characters that begins at `_at`, once something else follows it."""
        self._ran = 0
        """Up to where that run was followed while nothing else had come."""

    def feed(self, piece: str) -> Iterator[Found]:
        """The citations that `piece` completes."""
        nothing_waits = self._at == self._length
        self._length += len(piece)
        self._behind.append(piece)
        if nothing_waits and _OPENING.search(piece) is None:
            self._at = self._length
            return iter(())
        return self._scan(final=False)

    def end(self) -> Iterator[Found]:
        """The citations that only the end of the block completes."""
        return self._scan(final=True)

    def _scan(self, *, final: bool) -> Iterator[Found]:
        self._text = "".join((self._text, *self._behind))
        self._behind.clear()
        self._length = len(self._text)
        while (opening := _OPENING.search(self._text, self._at)) is not None:
            self._at = opening.start()
            if opening.group() in "[【":
                match = _CANDIDATE.match(self._text, self._at)
                assert match is not None
                if not final and self._text[match.end() : match.end() + 2] in ("", "]"):
                    return
                is_citation = self._is_citation(match)
                if is_citation:
                    yield self._found(match)
                behind: int | None = match.end() if is_citation else match.start() + 1
            else:
                behind = self._behind_code(final=final)
            if behind is None:
                return
            self._at = self._looked = behind
        self._at = len(self._text)
        if self._at > KEPT:
            self._forget()

    def _forget(self) -> None:
        """Drop the lines that nothing looks back at, where nothing waits: a long answer costs no more by the end."""
        cut = self._text.rfind("\n", 0, self._at - LONGEST_STATEMENT) + 1
        self._text, self._dropped = self._text[cut:], self._dropped + cut
        self._at = self._looked = self._length = len(self._text)
        self._run, self._ran = None, 0

    def _found(self, match: re.Match[str]) -> Found:
        numbers = tuple(int(number) for number in re.findall(r"\d+", match.group()))
        before = self._text[max(0, match.start() - LONGEST_STATEMENT) : match.start()]
        return Found(self._dropped + match.start(), self._dropped + match.end(), numbers, before)

    def _is_citation(self, match: re.Match[str]) -> bool:
        text, start, end = self._text, match.start(), match.end()
        if not _NUMBERS.fullmatch(match.group()) or text.endswith("\\", 0, start):
            return False
        is_link = text.startswith("(", end) or (text.endswith("[", 0, start) and text.startswith("](", end))
        is_definition = text.startswith(":", end) and self._begins_line(start)
        return not is_link and not is_definition

    def _begins_line(self, at: int) -> bool:
        while at > 0 and self._text[at - 1] != "\n":
            at -= 1
            if not self._text[at].isspace():
                return False
        return True

    def _behind_code(self, *, final: bool) -> int | None:
        """Where the code ends that begins here, or the run of characters if none does; None while that is open."""
        run = self._whole_run(final=final)
        if run is None:
            return None
        if run.end() - run.start() >= 3 and self._begins_line(run.start()):
            line_end = self._text.find("\n", run.end())
            is_whole = final or line_end >= 0
            info = self._text[run.end() : line_end if line_end >= 0 else None]
            if self._text[run.start()] == "~" or "`" not in info:
                return self._behind_fence(run, final=final) if is_whole else None
        return run.end() if self._text[run.start()] == "~" else self._behind_span(run, final=final)

    def _whole_run(self, *, final: bool) -> re.Match[str] | None:
        """The run that begins here; None while more of it may come. No character is looked at for each piece again."""
        if self._run is not None and self._run.start() == self._at:
            return self._run
        if not final:
            more = _RUN.match(self._text, max(self._ran, self._at))
            self._ran = max(self._ran, self._at)
            if more is not None and self._text[more.start()] == self._text[self._at]:
                self._ran = more.end()
            if self._ran == len(self._text):
                return None
        self._run = _RUN.match(self._text, self._at)
        return self._run

    def _behind_fence(self, run: re.Match[str], *, final: bool) -> int | None:
        """A fence lasts to a line of at least as many of its characters, or to the end."""
        closing = re.compile(rf"^[ \t]*{run.group()}{run.group()[0]}*[ \t]*$", re.MULTILINE)
        match = closing.search(self._text, max(self._looked, run.end()))
        if match is not None and (final or match.end() < len(self._text)):
            return match.end()
        self._looked = max(run.end(), self._text.rfind("\n") + 1)
        return len(self._text) if final else None

    def _behind_span(self, run: re.Match[str], *, final: bool) -> int | None:
        """A span lasts to the next run of exactly as many backticks in its paragraph."""
        for match in _RUN_OR_BLANK_LINE.finditer(self._text, max(self._looked, run.end())):
            if match.end() == len(self._text) and not final:
                self._looked = match.start()
                return None
            if match.end() - match.start() == run.end() - run.start() and self._text[match.start()] == "`":
                return match.end()
            if match.group().startswith("\n"):
                return run.end()
        if final:
            return run.end()
        line_end = _LINE_END.search(self._text, max(self._looked, run.end()))
        self._looked = line_end.start() if line_end else len(self._text)
        return None


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
