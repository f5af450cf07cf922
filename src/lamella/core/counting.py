"""A quick local token count for what has no other: messages, results, traces. Files are counted when extracted.

It follows the habits of byte-pair vocabularies (o200k) without carrying one: the server stays small, and the provider's
own counts calibrate it after the first answer (`docs/decisions/0003-two-local-counters.md` has the measured error).
"""

from __future__ import annotations

import re

_PIECES = re.compile(
    r"(?P<word>[A-Za-z]+)"
    r"|(?P<digits>[0-9]+)"
    r"|(?P<space>\s+)"
    r"|(?P<wide>[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+)"
    r"|(?P<letters>[^\W\d_A-Za-z]+)"
    r"|(?P<other>[^\sA-Za-z0-9]+)"
)


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
                    total += (length + 2) // 3
                case "space":
                    total += 0 if length == 1 and match.group() == " " else 1
                case "wide":
                    total += 0.75 * length
                case "letters":
                    total += 1 if length <= 3 else length / 3.2
                case _:
                    total += (length + 1) // 2
        return round(total)
