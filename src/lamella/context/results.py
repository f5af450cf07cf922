"""How the results of tool calls stand in the window: whole, cut, or as a stub after they are pruned.

A stub may keep an extract: pieces of the result that mattered, word for word, chosen without a model, `EXTRACT_TOKENS`
tokens in all. First what stands around the figures and names that the turn went on to use; then a line that is unlike
the others, such as a note among readings; else the beginning. Only the turn's own texts decide, so an extract has the
same bytes wherever and whenever it is made. The decision that made a stub says by which rules (`EXTRACT_VERSION`):
rules that change get another number, and stubs that stand keep theirs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from types import MappingProxyType

from lamella.core.counting import ApproximateCounter, count_tokens
from lamella.core.json import decode_arguments, encode_text
from lamella.core.messages import (
    Step,
    StopReason,
    ToolCall,
    ToolResult,
    Turn,
)
from lamella.core.prompt import ToolSpec
from lamella.search.terms import STOP_WORDS, stem, terms_of

EXTRACT_VERSION = 1
"""The number of these rules."""

EXTRACT_TOKENS = 40
"""Local tokens of an extract."""

AROUND = 12
"""Tokens kept around a used piece, so that other pieces have room too."""

LOOKED_AT = 30_000
"""Characters of a result that are looked at."""

ALIKE = 0.2
"""The share of words of its own that the usual line has at most in a text of lines that are alike."""

LEAST_LINES = 6
"""The fewest lines among which one can be an outlier."""

PIECE = 200
"""Characters of a line from which on it is taken apart, into sentences or the members of a list."""

TELLING = 2.0
"""The weight at which a piece counts as used: one identifier or figure, or two words that are rare in the result."""

GAP = " … "

_ENDS = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|(?<=[,}\]])\s*(?=[\"{\[])")
_IDENTIFIER = re.compile(r"[^\W_]+(?:[-._:/@#,'’][^\W_]+)*")
_GROUPED = re.compile(r"(?<=\d)[,'’](?=\d{3}(?!\d))")
_STOP_TERMS = frozenset(stem(word) for word in STOP_WORDS)


@lru_cache(maxsize=2048)
def extract(content: str, before: str, after: str) -> str:
    """The extract of `content`. `before` are the question and the call, `after` is the later text and calls of the
    turn.

    One line of at most `EXTRACT_TOKENS` local tokens.
    """
    paragraphs = content[:LOOKED_AT].split("\n")
    lines = [_Piece(line, frozenset(_words(line))) for line in map(_plain, paragraphs) if line]
    alone = _alone(paragraphs)
    apart = _clipped(_apart(lines, alone), EXTRACT_TOKENS)
    kept = _tokens(apart) + 2 if apart in alone else 0
    found = list(_used(_pieces(lines), before, after, EXTRACT_TOKENS - min(kept, EXTRACT_TOKENS - AROUND)))
    if apart:
        found = [*(piece for piece in found if piece.strip("…") not in apart), apart]
    return _clipped(
        GAP.join(found) if found else " ".join(line.text for line in lines[:EXTRACT_TOKENS]), EXTRACT_TOKENS
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line, or of a long one a sentence or a member of a list; and its words."""

    text: str
    words: frozenset[str]


def _pieces(lines: Sequence[_Piece]) -> list[_Piece]:
    return [
        piece
        for line in lines
        for piece in (
            [_Piece(text, frozenset(_words(text))) for text in _ENDS.split(line.text) if text]
            if len(line.text) > PIECE
            else [line]
        )
    ]


def _plain(text: str) -> str:
    return " ".join(text.split())


def _tokens(text: str) -> int:
    return ApproximateCounter().count(text)


def _words(text: str) -> set[str]:
    """The terms of a text that are not figures and are specific enough."""
    return {term for term in terms_of(text) if len(term) > 1 and term.isalpha() and term not in _STOP_TERMS}


# What was used


@dataclass(frozen=True, slots=True)
class _Marks:
    """The marks by which a text is recognised: identifiers and figures as written, and words."""

    identifiers: frozenset[str]
    words: frozenset[str]

    @classmethod
    def of(cls, text: str) -> _Marks:
        """Identifiers have a digit and at least three characters. Short words are too common."""
        found = (match.group() for match in _IDENTIFIER.finditer(_form(text)))
        identifiers = (one for one in found if len(one) >= 3 and any(character.isdigit() for character in one))
        words = (word for word in _words(text) if len(word) >= 5 or _is_dense(word))
        return cls(frozenset(identifiers), frozenset(words))

    def without(self, other: _Marks) -> _Marks:
        """Those that the other has not."""
        return _Marks(self.identifiers - other.identifiers, self.words - other.words)

    def held_by(self, piece: _Piece) -> frozenset[str]:
        """The marks that occur in a piece."""
        form = _form(piece.text)
        return (self.words & piece.words) | {one for one in self.identifiers if _stands_in(one, form)}


def _form(text: str) -> str:
    """A text as identifiers are compared: `1,200` is `1200`."""
    return _GROUPED.sub("", text.casefold())


def _stands_in(identifier: str, form: str) -> bool:
    """Whether it is there, and not only as a part of a longer figure."""
    at = form.find(identifier)
    while at >= 0:
        end = at + len(identifier)
        if not (form[at - 1 : at].isdigit() and identifier[0].isdigit()) and not form[end : end + 1].isdigit():
            return True
        at = form.find(identifier, at + 1)
    return False


def _is_dense(term: str) -> bool:
    """Whether this is a pair of characters of a script without breaks between words."""
    return len(term) == 2 and term >= "\u0e00"


def _weight(mark: str) -> float:
    if any(character.isdigit() for character in mark):
        return TELLING
    return TELLING / (6 if _is_dense(mark) else 2)


def _used(pieces: Sequence[_Piece], before: str, after: str, room: int) -> Iterator[str]:
    """The pieces around used marks, most specific first, while there is room.

    Marks that occur in more than two pieces count less.
    """
    wanted = _Marks.of(after).without(_Marks.of(before))
    held = [wanted.held_by(piece) for piece in pieces]
    often = Counter(mark for marks in held for mark in marks)
    weight = {mark: _weight(mark) / max(1, often[mark] - 1) for mark in often}
    left = set(weight)
    for at in sorted(range(len(pieces)), key=lambda at: -sum(weight[mark] for mark in held[at])):
        if room < AROUND // 2 or sum(weight[mark] for mark in held[at]) < TELLING:
            return
        if sum(weight[mark] for mark in held[at] & left) >= TELLING:
            marks = {mark: weight[mark] for mark in held[at]}
            longest = max(_tokens(mark) for mark in marks)
            shown = _around(pieces[at].text, marks, min(room, AROUND + longest))
            left -= held[at]
            room -= _tokens(shown) + 2
            yield shown


def _around(piece: str, marks: Mapping[str, float], room: int) -> str:
    """The text around the most specific of `marks` in a piece, equally on both sides."""
    words = piece.split(" ") if " " in piece[:PIECE] else re.findall(r".{1,4}", piece)
    glue = " " if " " in piece[:PIECE] else ""
    forms = [_form(word) for word in words]
    score = [sum(weight for mark, weight in marks.items() if mark[:5] in form) for form in forms]
    low = high = max(range(len(words)), key=lambda at: sum(score[max(0, at - 2) : at + 3]) + score[at])
    room -= 2 + _tokens(words[low])
    if room < 0:
        return _clipped(words[low], room + _tokens(words[low]))
    while True:
        grown = [at for at in (high + 1, low - 1) if 0 <= at < len(words) and _tokens(words[at]) <= room]
        if not grown:
            break
        at = min(grown, key=lambda at: (abs(2 * at - high - low), -at)) if room % 2 else grown[-1]
        low, high = min(low, at), max(high, at)
        room -= _tokens(words[at])
    text = glue.join(words[low : high + 1])
    return f"{'…' if low else ''}{text}{'…' if high + 1 < len(words) else ''}"


# What stands apart


def _alone(paragraphs: Sequence[str]) -> frozenset[str]:
    """The lines that are paragraphs of their own, if most are not."""
    filled = [bool(line.strip()) for line in paragraphs]
    before, after = [False, *filled[:-1]], [*filled[1:], False]
    own = [at for at, one in enumerate(filled) if one and not before[at] and not after[at]]
    return frozenset(_plain(paragraphs[at]) for at in own) if len(own) * 4 <= sum(filled) else frozenset()


def _apart(lines: Sequence[_Piece], alone: frozenset[str]) -> str:
    """The outlier line: most of its words occur in no other line. Returns "" if there is none.

    If other lines are also mostly unique, only a separate paragraph counts.
    """
    if len(lines) < LEAST_LINES:
        return ""
    often = Counter(word for line in lines for word in line.words)
    new = [sum(often[word] == 1 for word in line.words) for line in lines]
    shares = [count / len(line.words) if line.words else 0.0 for count, line in zip(new, lines, strict=True)]
    usual = median(shares)
    least = [max(0.3, 1.5 * usual) if line.text in alone else 0.5 if usual <= ALIKE else 2.0 for line in lines]
    found = [at for at in range(len(lines)) if new[at] >= 3 and shares[at] >= least[at]]
    return lines[max(found, key=lambda at: shares[at] * new[at])].text if found else ""


def _clipped(text: str, room: int) -> str:
    """The beginning of a text in so many tokens, with a mark if it was cut; cut between words if possible."""
    text = text[: room * 40]
    if _tokens(text) <= room:
        return text
    ends = [match.start() for match in re.finditer(r" ", text)]
    ends = ends if len(ends) > 2 else list(range(1, len(text)))
    last = bisect_right(ends, room - 1, key=lambda end: _tokens(text[:end])) - 1
    while last > 0 and _tokens(f"{text[: ends[last]]}…") > room:
        last -= 1
    return f"{text[: ends[max(last, 0)]]}…"


INTERRUPTED = "This call was interrupted; it has no result."
NOT_ANSWERED = "No result came for this call."
"""The result of a call that was handed to a caller, who went on without an answer to it."""
NO_LONGER_THERE = "The result of this call is no longer available. Call the tool again if it is needed."
"""Replaces every tool result of an earlier turn in layout `onyx`."""

EXPANDED = "expanded_queries"
"""The argument that shows every query of a call that ran more than the model asked for."""

READ_MESSAGE = "read_message"
"""The tool that returns a whole result again, by the id of its call."""

NO_EXTRACTS: Mapping[str, str] = MappingProxyType({})

LEAST_CUT = 64
"""The fewest tokens of a cut result, even without room: less would be useless."""


@dataclass(frozen=True, slots=True, order=True)
class ResultCut:
    """How much of a call's result is shown: `head` characters of its beginning and `tail` of its end."""

    call_id: str
    head: int
    tail: int

    @property
    def outcome(self) -> str:
        """The outcome of the decision: `HEAD:TAIL`."""
        return f"{self.head}:{self.tail}"


def cut_text(content: str, cut: ResultCut, *, readable: bool = False) -> str:
    """Head and tail of a result, after a line that says how much is missing and how to get it."""
    missing = len(content) - cut.head - cut.tail
    if missing <= 0:
        return content
    way = f"{READ_MESSAGE} {cut.call_id} gives" if readable else "Call the tool again for less to see"
    notice = f"[Cut to fit the window: {missing} of {len(content)} characters are left out in the middle. {way} them.]"
    tail = content[len(content) - cut.tail :]
    return f"{notice}\n{content[: cut.head]}\n[…]\n{tail}"


def cut_to(result: ToolResult, tokens: int, *, readable: bool = False) -> ResultCut:
    """The cut of a result to about `tokens` local tokens, two thirds of them from its beginning, never more."""
    content = result.content
    size = max(count_tokens(content), 1)
    keep = len(content)
    while keep > 0:
        keep = min(keep - 1, keep * tokens // size) if size > tokens else keep - 1
        cut = ResultCut(result.call_id, keep * 2 // 3, keep - keep * 2 // 3)
        size = count_tokens(cut_text(content, cut, readable=readable))
        if size <= tokens:
            return cut
        if keep <= tokens // 4:
            break
    return ResultCut(result.call_id, 0, 0)


def results_of(step: Step) -> tuple[ToolResult, ...]:
    """Exactly one result for each call, in the order of the calls; a missing one reads "interrupted" (law 5)."""
    given = {result.call_id: result for result in step.results}
    return tuple(given.get(call.id) or _missing(call, step) for call in step.calls)


def _missing(call: ToolCall, step: Step) -> ToolResult:
    """The result of a call that has none: it was handed out in a step that ended, or was cut off with its step."""
    text = NOT_ANSWERED if step.stop_reason is StopReason.TOOL_CALLS else INTERRUPTED
    return ToolResult(call.id, call.name, text, is_error=True)


def cut_results(step: Step, cuts: Iterable[ResultCut], *, readable: bool = False) -> tuple[ToolResult, ...]:
    """The results of a step, with those of `cuts` cut."""
    by_call = {cut.call_id: cut for cut in cuts}
    return tuple(
        replace(result, content=cut_text(result.content, by_call[result.call_id], readable=readable))
        if result.call_id in by_call
        else result
        for result in results_of(step)
    )


def kept_names(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """The tools whose results stay in the window until a compaction."""
    return frozenset(tool.name for tool in tools if tool.when_old == "summarize")


def can_be_read(tools: Iterable[ToolSpec]) -> bool:
    """Whether the model has the tool that reads cut results again."""
    return any(tool.name == READ_MESSAGE for tool in tools)


def extracts_of(turn: Turn, step: Step) -> Mapping[str, str]:
    """The extracts in the stubs of a step's results, by call. Results with a digest have none."""
    later = turn.steps[turn.steps.index(step) + 1 :]
    before = "\n".join([turn.user.text, *(call.arguments for call in step.calls)])
    after = "\n".join(text for one in later for text in (one.text, *(call.arguments for call in one.calls)))
    results = (result for result in step.results if not result.digest)
    return {result.call_id: extract(result.content, before, after) for result in results}


def stubs_of(
    step: Step,
    kept: Collection[str] = (),
    cuts: Iterable[ResultCut] = (),
    *,
    readable: bool = False,
    extracts: Mapping[str, str] = NO_EXTRACTS,
) -> tuple[ToolResult, ...]:
    """Each result as its digest, or as the name of its function. Call id, name and arguments stay.

    Results of the tools `kept` are shown, cut if they were cut. If the model can read them again (`readable`), a stub
    names the id; with `extracts` it has the extract: `search [read_message ID], in part: …`. A result that is no longer
    than its stub stays.
    """
    stubs = _instead(step, None)
    if readable or extracts:
        given = {result.call_id: result for result in step.results}
        stubs = tuple(_told(stub, given.get(stub.call_id), extracts, readable=readable) for stub in stubs)
    if not kept:
        return stubs
    shown = cut_results(step, cuts, readable=readable)
    return tuple(one if one.name in kept else stub for one, stub in zip(shown, stubs, strict=True))


def _told(stub: ToolResult, given: ToolResult | None, extracts: Mapping[str, str], *, readable: bool) -> ToolResult:
    """A stub with an id or an extract. A result of `read_message` is already named by its call."""
    kept = extracts.get(stub.call_id, "")
    named = f" [{READ_MESSAGE} {stub.call_id}]" if readable and stub.name != READ_MESSAGE else ""
    if given is None or not (named or kept):
        return stub
    text = f"{stub.content}{named}{f', in part: {kept}' if kept else ''}"
    return given if count_tokens(given.content) <= count_tokens(text) else replace(stub, content=text)


def notices_of(step: Step) -> tuple[ToolResult, ...]:
    """Each result as its digest, or as the fixed string."""
    return _instead(step, NO_LONGER_THERE)


def _instead(step: Step, text: str | None) -> tuple[ToolResult, ...]:
    """A call without a result stays interrupted, however old it is."""
    given = {result.call_id: result for result in step.results}
    return tuple(
        ToolResult(call.id, call.name, given[call.id].digest or text or call.name)
        if call.id in given
        else _missing(call, step)
        for call in step.calls
    )


def expanded(call: ToolCall, step: Step) -> ToolCall:
    """The call with every query that ran for it, from the first request that shows its result."""
    queries = next((result.queries for result in step.results if result.call_id == call.id), ())
    if not queries:
        return call
    arguments = decode_arguments(call.arguments) | {EXPANDED: list(queries)}
    return replace(call, arguments=encode_text(arguments))


def said_tokens(step: Step) -> int:
    """Local tokens of a step without its results."""
    return max(step.tokens - sum(count_tokens(result.content) for result in step.results), 0)
