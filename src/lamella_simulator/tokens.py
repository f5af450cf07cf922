"""Counts tokens offline: o200k over the text of one block, times a factor per model, remembered by content."""

from __future__ import annotations

import importlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Protocol


class Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


LOADING = threading.Lock()
LONGEST = 50_000
"""Characters in one call: at most four bytes each, and no token is shorter than a byte."""
BOUNDARY = re.compile(r"[a-z](?= [a-z])")


@cache
def _load() -> Encoding:
    # The tokenizer costs half a second to import: the server is already listening while a thread does it.
    encoding: Encoding = importlib.import_module("bpe_openai").get_encoding("o200k_base")
    return encoding


def encoding() -> Encoding:
    """The one tokenizer of the process, loaded once, on first use."""
    with LOADING:
        return _load()


def load_in_background() -> None:
    threading.Thread(target=encoding, name="tokenizer", daemon=True).start()


class TokenCounter:
    """Raw o200k counts by content digest: a conversation's old blocks are never tokenised twice."""

    def __init__(self, capacity: int = 200_000) -> None:
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._capacity = capacity

    def count(self, digest: bytes, text: Callable[[], str]) -> int:
        """Tokens of the text of `digest`. `text` is only called for content that was not seen before."""
        known = self._counts.get(digest)
        if known is not None:
            self._counts.move_to_end(digest)
            return known
        count = count_text(text())
        self._counts[digest] = count
        if len(self._counts) > self._capacity:
            self._counts.popitem(last=False)
        return count


def count_text(text: str) -> int:
    return sum(len(encoding().encode_ordinary(piece)) for piece in pieces(text))


def encode_text(text: str) -> list[int]:
    return [token for piece in pieces(text) for token in encoding().encode_ordinary(piece)]


def pieces(text: str) -> Iterator[str]:
    """A long text in parts that the tokenizer takes (200,000 tokens), cut before spaces, which no token spans."""
    start = 0
    while len(text) - start > LONGEST:
        space = BOUNDARY.search(text, start + LONGEST // 2, start + LONGEST)
        end = space.start() + 1 if space is not None else start + LONGEST
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def scaled(count: int, factor: float) -> int:
    """`count` o200k tokens in a model's own tokens."""
    return round(count * factor)
