"""The sentences of a text: what is taken out of it goes by these."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SENTENCE = re.compile(r".+?(?:[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？]+|\n+|$)", re.DOTALL)


def sentence_places(text: str) -> Iterator[re.Match[str]]:
    """Each sentence where it stands; together they are the text."""
    return _SENTENCE.finditer(text)


def sentences(text: str) -> Iterator[str]:
    """Each sentence."""
    return (match.group() for match in sentence_places(text))
