"""Counts tokens locally, and moves work that grows with the window off the event loop (`aside`).

Messages, results and traces are counted here; files are counted when they are extracted. The count imitates byte-pair
vocabularies (o200k) without their tables, so the server stays small. The provider's own counts calibrate it after the
first answer (`docs/decisions/0003-two-local-counters.md` has the measured error).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import ParamSpec, TypeVar

_PIECES = re.compile(
    r"(?P<blob>[A-Za-z0-9+/]{48,}={0,2})"
    r"|(?P<capitals>\b[A-Z]{4,}\b)"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<digits>[0-9]+)"
    r"|(?P<space>\s+)"
    r"|(?P<wide>[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+)"
    r"|(?P<emoji>[\u200d\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]+)"
    r"|(?P<marked>[\u0900-\u0fff]+)"
    r"|(?P<old>[\u0370-\u03ff\u0590-\u08ff\u10a0-\u10ff]+)"
    r"|(?P<rare>[\u1000-\u109f\u1100-\u1cff\u2c00-\u2dff\ua000-\uabff]+)"
    r"|(?P<letters>[^\W\d_A-Za-z]+)"
    r"|(?P<other>(?:_|[^\s\w\u0900-\u0fff\u200d\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff])+)"
)
"""Blobs are base64 and the like; `marked` is writing with vowel signs, `old` Greek, Hebrew, Arabic and Georgian, `rare`
scripts of Africa and Asia."""

_RUNS = re.compile(r"(?P<row>(?:[A-Za-z][a-z]{0,7}[,.]? (?=[A-Za-z]))+)|" + _PIECES.pattern)
"""The same pieces, but a row of words of up to eight letters, each with a space and perhaps a comma or a full stop
before it, is one match: each of them counts as one token, and prose is counted two to three times as fast."""

_PER_CHARACTER = {
    "blob": 0.6,
    "capitals": 0.27,
    "wide": 0.65,
    "emoji": 1.55,
    "marked": 0.38,
    "old": 0.44,
    "rare": 1.5,
}
"""Tokens of a character, measured against o200k."""

_MOST = {
    "blob": 1.4,
    "capitals": 2.1,
    "word": 1.15,
    "digits": 1.4,
    "space": 1.1,
    "wide": 1.8,
    "emoji": 1.6,
    "marked": 3.3,
    "old": 2.0,
    "rare": 3.0,
    "letters": 1.9,
    "other": 1.4,
}
"""How many times our count a tokenizer in use may make of each class, measured against o200k, cl100k and voyage-3."""

LEAST_PART = 0.8
"""The share of its room that a cut text uses at least, for the sake of ending with a line, or else with a word."""


class ApproximateCounter:
    """Counts by classes of characters; deterministic and without tables."""

    def count(self, text: str) -> int:
        """About the number of o200k tokens of `text`."""
        return round(sum(tokens for _, tokens in _weights(text)))

    def most(self, text: str) -> int:
        """About the most tokens that a tokenizer in use makes of `text`: far more than the count in some scripts."""
        return round(sum(tokens * _MOST[kind] for kind, tokens in _weights(text)))


def _weights(text: str) -> Iterator[tuple[str, float]]:
    """The pieces of a text: their class, and their tokens. A row of short words is one piece."""
    for match in _RUNS.finditer(text):
        length, kind = match.end() - match.start(), str(match.lastgroup)
        match kind:
            case "row":
                yield "word", text.count(" ", *match.span())
                yield "other", text.count(",", *match.span()) + text.count(".", *match.span())
            case "word":
                yield kind, 1 if length <= 8 else length / 6
            case "digits":
                yield kind, (length + 2) // 3 + (text[match.start() - 1 : match.start()] == " ")
            case "space":
                yield kind, 0 if length == 1 and match.group() == " " else 1 + length // 80
            case "letters":
                yield kind, 1 if length <= 3 else length / 3
            case "other":
                yield kind, 1 if length <= 3 else (length + 1) // 2
            case _:
                yield kind, length * _PER_CHARACTER[kind]


def classes_of(text: str) -> Iterator[tuple[str, int, int]]:
    """Splits a text into pieces of one class each, in order: class, start, end. The class "" counts no tokens."""
    end = 0
    for match in _PIECES.finditer(text):
        if match.start() > end:
            yield "", end, match.start()
        end = match.end()
        yield str(match.lastgroup), match.start(), end
    if end < len(text):
        yield "", end, len(text)


@lru_cache(maxsize=512)
def count_tokens(text: str) -> int:
    """Approximate number of o200k tokens of `text`. The last texts are cached, since prompts repeat."""
    return ApproximateCounter().count(text)


def most_tokens(text: str) -> int:
    """About the most tokens that a tokenizer in use makes of `text`; see `ApproximateCounter.most`."""
    return ApproximateCounter().most(text)


def beginning_of(text: str, room: int) -> str:
    """The beginning of a text, up to `room` local tokens. It ends at the end of a line or a word if one is near."""
    counter = ApproximateCounter()
    if counter.count(text) <= room:
        return text
    while text and counter.count(text) > room:
        text = text[: len(text) * 9 // 10]
    return at_an_end(text)


def at_an_end(text: str) -> str:
    """A text without its last, probably cut, line or word, if that is short."""
    ends = [text.rfind(mark) + 1 for mark in ("\n", " ")]
    return text[: next((end for end in ends if end > len(text) * LEAST_PART), len(text))]


P = ParamSpec("P")
T = TypeVar("T")

LONG_WINDOW = 20
"""Turns of a window from which on it is worked on in a thread; for a shorter one the thread would cost more."""


async def aside(turns: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs `work` in a thread if the window has many turns, otherwise at once. `work` must be pure."""
    if turns >= LONG_WINDOW:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


MESSAGE_TOKENS = 8
"""Tokens that a message costs in addition to its text."""
