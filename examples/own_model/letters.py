"""An embedder of our own: a text is how often it has each letter. A real one asks a model.

`LAMELLA_EMBEDDING_MODEL=letters` chooses it, if the package is installed beside Lamella.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import sqrt
from string import ascii_lowercase

from lamella.core.recall import Embedded, Space


class Letters:
    """Vectors of 26 numbers of length 1, as little-endian 32-bit floats."""

    space = Space("letters", weight=0.2, floor=0.5)
    is_local = True

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of these texts; they cost nothing."""
        return Embedded(tuple(_vector(text.lower()) for text in texts))

    async def close(self) -> None:
        """Nothing is open."""


def _vector(text: str) -> bytes:
    counts = [text.count(letter) for letter in ascii_lowercase]
    length = sqrt(sum(count * count for count in counts)) or 1.0
    return array("f", [count / length for count in counts]).tobytes()
