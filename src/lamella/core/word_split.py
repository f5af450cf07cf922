"""Splits text of any script into words, for search and citations."""

from __future__ import annotations

import re

_IDEOGRAPHS = r"\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"

WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
"""One word, or one character in scripts without spaces between words."""


def words_of(text: str) -> list[str]:
    """The words in order, as they compare."""
    return [word.casefold() for word in WORD.findall(text)]
