"""A quick local token count for what has no other: messages, results, traces. Files are counted when extracted.

It follows the habits of byte-pair vocabularies (o200k) without carrying one: the server stays small, and the provider's
own counts calibrate it after the first answer (`docs/decisions/0003-two-local-counters.md` has the measured error).
"""

from __future__ import annotations

import re
from functools import lru_cache

_PIECES = re.compile(
    r"(?P<blob>[A-Za-z0-9+/]{48,}={0,2})"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<digits>[0-9]+)"
    r"|(?P<space>\s+)"
    r"|(?P<wide>[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+)"
    r"|(?P<emoji>[\u200d\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]+)"
    r"|(?P<marked>[\u0900-\u0fff]+)"
    r"|(?P<old>[\u0370-\u03ff\u0590-\u08ff]+)"
    r"|(?P<letters>[^\W\d_A-Za-z]+)"
    r"|(?P<other>(?:_|[^\s\w\u0900-\u0fff\u200d\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff])+)"
)
"""Blobs are base64 and the like; `marked` is writing with vowel signs, `old` Greek, Hebrew and Arabic."""

_PER_CHARACTER = {"blob": 0.6, "wide": 0.65, "emoji": 1.55, "marked": 0.38, "old": 0.44}
"""Tokens of a character, measured against o200k."""


class ApproximateCounter:
    """Counts by classes of characters; deterministic and without tables."""

    def count(self, text: str) -> int:
        """About the number of o200k tokens of `text`."""
        total = 0.0
        for match in _PIECES.finditer(text):
            length = match.end() - match.start()
            match match.lastgroup:
                case "word":
                    total += 1 if length <= 8 else length / 6
                case "digits":
                    total += (length + 2) // 3 + (text[match.start() - 1 : match.start()] == " ")
                case "space":
                    total += 0 if length == 1 and match.group() == " " else 1 + length // 80
                case "letters":
                    total += 1 if length <= 3 else length / 3
                case "other":
                    total += 1 if length <= 3 else (length + 1) // 2
                case kind:
                    assert kind is not None
                    total += length * _PER_CHARACTER[kind]
        return round(total)


@lru_cache(maxsize=512)
def count_tokens(text: str) -> int:
    """About the number of o200k tokens of `text`; remembers the last texts, since prompts come again and again."""
    return ApproximateCounter().count(text)
