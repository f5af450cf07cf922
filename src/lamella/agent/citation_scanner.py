"""Finds citations in a text that arrives in pieces, the same for all pieces; changes no character.

A citation is a list of numbers and ranges in brackets: `[1]`, `[1, 3]`, `[1-3]`; also `【1】`, `【1†source】`, `［1］`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category

LONGEST_STATEMENT = 600


_OPENING = re.compile(r"[\[【［`~$\\]")
_PLAIN = re.compile(r"\[\d{1,5}(?:, ?\d{1,5}){0,27}\](?=[^\](:])")
"""The usual form of a citation with its next character; never longer than a candidate."""
_COMMA, _DASH = ",，、", "‐‑‒–—−~～〜－-"
_NO_BRACKET = r"[^\[\]【】［］\n]"
_CANDIDATE = re.compile(rf"[\[【［][\s\d{_COMMA}{_DASH}]{{0,200}}(?:†{_NO_BRACKET}{{0,200}})?[\]】］]?")
_ITEM = re.compile(rf"(\d{{1,5}})(?:\s*[{_DASH}]\s*(\d{{1,5}}))?")
_LIST = rf"\s*{_ITEM.pattern}(?:\s*[{_COMMA}]\s*{_ITEM.pattern})*\s*|\s*\d{{1,5}}\s*†{_NO_BRACKET}*"
_NUMBERS = re.compile(rf"\[(?:{_LIST})\]|【(?:{_LIST})】|［(?:{_LIST})］")
"""Some models write the brackets that they were trained to cite with, and a name after the number."""
_RUN = re.compile(r"`+|~+|\$+")
_RUN_OR_BLANK_LINE = re.compile(r"`+|\n[ \t]*\n")
_MATHS = re.compile(r"\\[^\n]|\$+|\n[ \t]*\n")
"""What may end maths, and escaped characters, which do not."""
_INLINE = re.compile(r"(?:\\[^\n]|[^\\$`\n])*")
_AMOUNT = re.compile(r"\$\d")
_FORMULA = re.compile(r"[\\^_={}<>]")
_LINE_END = re.compile(r"\n[ \t]*\Z")
_CLOSES = {"\\(": "\\)", "\\[": "\\]"}

LONGEST_INLINE = 300
"""Characters of maths between single dollars: further on a dollar is another one's."""

KEPT = 4 * LONGEST_STATEMENT
"""Number of characters kept before old lines are dropped."""


class Item(NamedTuple):
    """A number of a citation, or a range of them, at characters `start` to `end` of the text."""

    start: int
    end: int
    first: int
    last: int


class FoundCitation(NamedTuple):
    """Characters `start` to `end` of a text cite the documents of `items`, for the statement `before` them."""

    start: int
    end: int
    items: tuple[Item, ...]
    before: str


class CitationScanner:
    r"""Scans one text block as it arrives. Undecided text waits for more.

    Code spans and fences, maths (`$…$`, `$$…$$`, `\(…\)`, `\[…\]`), links (`[1](…)`, `[[1]](…)`, `[text][1]`) and
    definitions (`[1]: …`) have no citations. As in CommonMark, backticks that are not closed in their paragraph are
    plain text, and so are marks of maths. A dollar before an amount opens none, unless a formula follows.
    """

    def __init__(self) -> None:
        self._text = ""
        self._dropped = 0
        """Characters in front of `_text` that are forgotten."""
        self._behind: list[str] = []
        """Pieces after `_text` that open nothing; they are joined to it when something does."""
        self._length = 0
        """Characters of `_text` and `_behind`."""
        self._at = 0
        self._looked = 0
        """How far the end of the span that begins at `_at` was searched for."""
        self._run: re.Match[str] | None = None
        """The run of equal characters that begins at `_at`, once something else follows it."""
        self._ran = 0
        """How far that run was followed so far."""
        self._unclosed: dict[str, int] = {}
        """For each closing mark of maths: up to where none was found."""
        self._cited = 0
        """Where the last citation in the whole text ends; another may follow directly."""

    def feed(self, piece: str) -> Iterator[FoundCitation]:
        """The citations that `piece` completes."""
        nothing_waits = self._at == self._length
        self._length += len(piece)
        self._behind.append(piece)
        if nothing_waits and _OPENING.search(piece) is None:
            self._at = self._length
            return iter(())
        return self._scan(final=False)

    def end(self) -> Iterator[FoundCitation]:
        """The citations that only the end of the block completes."""
        return self._scan(final=True)

    def _scan(self, *, final: bool) -> Iterator[FoundCitation]:
        text = self._text = "".join((self._text, *self._behind))
        self._behind.clear()
        self._length = len(text)
        plain_at = _PLAIN.match
        behind: int | None
        while (opening := _OPENING.search(text, self._at)) is not None:
            self._at = start = opening.start()
            mark = opening.group()
            if mark == "[" and (plain := plain_at(text, start)) and text[start - 1 : start] not in ("\\", "]"):
                yield self._found(start, plain.end())
                behind = plain.end()
            elif mark in "[【［":
                candidate = _CANDIDATE.match(text, start)
                assert candidate is not None
                behind = candidate.end()
                if not final and text[behind : behind + 2] in ("", "]"):
                    return
                if self._is_citation(candidate):
                    yield self._found(start, behind)
                else:
                    behind = start + 1
            else:
                behind = self._behind_mark(mark, final=final)
                if behind is None:
                    return
            self._at = self._looked = behind
        self._at = len(text)
        if self._at > KEPT:
            self._forget()

    def _forget(self) -> None:
        """Drop lines that are no longer needed, so that a long answer does not become slower."""
        cut = self._text.rfind("\n", 0, self._at - LONGEST_STATEMENT) + 1
        self._text, self._dropped = self._text[cut:], self._dropped + cut
        self._at = self._looked = self._length = len(self._text)
        self._run, self._ran = None, 0
        self._unclosed.clear()

    def _behind_mark(self, mark: str, *, final: bool) -> int | None:
        """The end of the code or maths that begins with this mark, or of the mark if there is none; None while
        undecided.
        """
        match mark:
            case "$":
                return self._behind_dollars(final=final)
            case "\\":
                return self._behind_backslash(final=final)
            case _:
                return self._behind_code(final=final)

    def _found(self, start: int, end: int) -> FoundCitation:
        """The citation at these characters of `_text`. Text after a dagger is not a number."""
        before = self._text[max(0, start - LONGEST_STATEMENT) : start]
        dagger = self._text.find("†", start, end)
        items = _ITEM.finditer(self._text, start + 1, dagger if dagger >= 0 else end)
        self._cited = self._dropped + end
        return FoundCitation(self._dropped + start, self._cited, tuple(self._item(match) for match in items), before)

    def _item(self, match: re.Match[str]) -> Item:
        first = int(match.group(1))
        last = int(match.group(2)) if match.group(2) is not None else first
        return Item(self._dropped + match.start(), self._dropped + match.end(), first, last)

    def _is_citation(self, match: re.Match[str]) -> bool:
        text, start, end = self._text, match.start(), match.end()
        if not _NUMBERS.fullmatch(match.group()) or text.endswith("\\", 0, start):
            return False
        is_link = text.startswith("(", end) or (text.endswith("[", 0, start) and text.startswith("](", end))
        is_link = is_link or (text.endswith("]", 0, start) and not self._follows_one(start))
        is_definition = text.startswith(":", end) and self._begins_line(start)
        return not is_link and not is_definition

    def _follows_one(self, at: int) -> bool:
        """Whether the bracket before `at` closes another citation, or no link because it is escaped."""
        return self._cited == self._dropped + at or self._text.endswith("\\]", 0, at)

    def _begins_line(self, at: int) -> bool:
        text = self._text
        while at > 0 and text[at - 1] != "\n":
            at -= 1
            if not text[at].isspace():
                return False
        return True

    def _behind_code(self, *, final: bool) -> int | None:
        """The end of the code that begins here, or of the run of characters if there is none; None while undecided."""
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
        """The run that begins here; None while it may continue. Each character is examined once."""
        if self._run is not None and self._run.start() == self._at:
            return self._run
        begin = max(self._ran, self._at)
        more = _RUN.match(self._text, begin)
        if more is not None and self._text[begin] == self._text[self._at]:
            self._ran = more.end()
        if self._ran == len(self._text) and not final:
            return None
        self._run = more if begin == self._at else _RUN.match(self._text, self._at)
        return self._run

    def _behind_backslash(self, *, final: bool) -> int | None:
        """The end of the maths that begins here, or of the escaped character; None while undecided."""
        opening = self._text[self._at : self._at + 2]
        if len(opening) < 2:
            return self._length if final else None
        closing = _CLOSES.get(opening)
        if closing is not None:
            return self._behind_maths(closing, self._at + 2, final=final)
        # An escaped dollar or backslash opens nothing; of what else is escaped the others decide.
        return self._at + (2 if opening in ("\\\\", "\\$") else 1)

    def _behind_dollars(self, *, final: bool) -> int | None:
        """The end of the maths that begins here, or of the run of dollars if there is none; None while undecided."""
        run = self._whole_run(final=final)
        if run is None:
            return None
        match run.end() - run.start():
            case 1:
                return self._behind_inline(final=final)
            case 2:
                return self._behind_maths("$$", run.end(), final=final)
            case _:
                return run.end()

    def _behind_inline(self, *, final: bool) -> int | None:
        """Inline maths is between single dollars on one line, without inner spaces at the dollars or words outside.

        So the next dollar decides: in “$5 and $6” it closes nothing. Scripts without capitals have no space before a
        formula, as in “公式$x$是”; there it may touch a word.
        """
        text, start = self._text, self._at
        if _is_of_word(text[start - 1 : start]) or text[start + 1 : start + 2].isspace():
            return start + 1
        end = self._looked = _end_of_inline(text, max(self._looked, start + 1))
        if end - start > LONGEST_INLINE:
            return start + 1
        behind = text[end + 1 : end + 2]
        if not final and not behind and text[end : end + 1] in ("", "$", "\\"):
            return None
        closes = text[end : end + 1] == "$" and not _is_of_word(behind) and not text[end - 1].isspace()
        # “${a}-${b}” and “$(a)/$(b)” are variables of a shell.
        if behind in ("$", "{") or (behind == "(" and text[start + 1] == "("):
            closes = False
        if not closes or (_AMOUNT.match(text, start) and not _FORMULA.search(text, start, end)):
            return start + 1
        return end + 1

    def _behind_maths(self, closing: str, begin: int, *, final: bool) -> int | None:
        """The end of maths that is closed in its paragraph, or `begin` if it is not."""
        if begin <= self._unclosed.get(closing, 0):
            return begin
        text = self._text
        looked = max(self._looked, begin)
        for match in _MATHS.finditer(text, looked):
            looked = match.start()
            if match.end() == len(text) and not final and text[looked] == "$":
                break
            if match.group() == closing:
                is_prose = closing != "$$" and _is_prose(closing, text[begin : match.start()])
                return begin if is_prose else match.end()
            looked = match.end()
            if match.group()[0] == "\n":
                self._unclosed[closing] = looked
                return begin
        if final:
            self._unclosed[closing] = len(text)
            return begin
        if text.endswith("\\") and looked < len(text):
            self._looked = len(text) - 1
        elif looked < len(text) and text[looked] == "$":
            self._looked = looked
        else:
            self._looked = self._open_line(looked)
        return None

    def _open_line(self, begin: int) -> int:
        """The beginning of a line that may still turn out to be blank; else the end of the text."""
        line_end = _LINE_END.search(self._text, begin)
        return line_end.start() if line_end else len(self._text)

    def _behind_fence(self, run: re.Match[str], *, final: bool) -> int | None:
        """A fence lasts to a line of at least as many of its characters, or to the end."""
        match = _end_of_fence(run.group()).search(self._text, max(self._looked, run.end()))
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
        self._looked = self._open_line(max(self._looked, run.end()))
        return None


def _is_prose(closing: str, inside: str) -> bool:
    r"""Whether escaped brackets hold prose, as in “Dear \[Your Name\]”: letters but no sign of a formula.

    Round brackets may hold names such as “ABCD” and numbers; alone on a line these are hardly a formula.
    """
    if _FORMULA.search(inside) or any(character == "*" or category(character) == "Sm" for character in inside):
        return False
    words = "".join(character if character.isalpha() else " " for character in inside).split()
    if any(character.isalpha() and not _is_of_word(character) for character in inside):
        return True
    if closing == "\\]":
        return not words or max(map(len, words)) > 2
    spoken = [len(word) for word in words if word[1:].islower()]
    return len(spoken) > 1 or max(spoken, default=0) > 4


def _is_of_word(character: str) -> bool:
    return character.islower() or character.isupper() or character.istitle() or character.isdecimal()


@lru_cache(64)
def _end_of_fence(run: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*{run}{run[0]}*[ \t]*$", re.MULTILINE)


def _end_of_inline(text: str, begin: int) -> int:
    """The next dollar, or the character that ends inline maths before one."""
    match = _INLINE.match(text, begin)
    assert match is not None
    return match.end()
