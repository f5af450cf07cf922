"""The child that makes the passages of one document: `python -m lamella.knowledge.passage_worker`.

It reads one line of JSON and then the text from stdin, and writes batches of passages, a line each, to stdout.
"""

from __future__ import annotations

import os
import sys
from itertools import islice

import msgspec

from lamella.core.knowledge import NewPassage
from lamella.knowledge.passages import passages_of
from lamella.search.lexical import LexicalEmbedder

BATCH = 16
"""Passages of one batch, which the server stores in one transaction."""


class CutRequest(msgspec.Struct, frozen=True):
    """A text to split. `lexical`: include vectors of the built-in embedder."""

    name: str
    paged: bool
    lexical: bool
    skip: int = 0
    """Passages that are stored already."""


class Batch(msgspec.Struct, frozen=True):
    """A line of the answer."""

    passages: list[NewPassage]


def main() -> None:
    """Make the passages of one text, in the server's spare time."""
    if sys.platform != "win32":
        os.nice(10)
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=CutRequest)
    text = sys.stdin.buffer.read().decode()
    made = passages_of(text, order.name, paged=order.paged, lexical=LexicalEmbedder() if order.lexical else None)
    wanted = (passage for number, passage in enumerate(made) if number >= order.skip)
    while batch := list(islice(wanted, BATCH)):
        sys.stdout.buffer.write(msgspec.json.encode(Batch(batch)) + b"\n")
    sys.stdout.buffer.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
