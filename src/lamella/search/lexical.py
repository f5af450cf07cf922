"""The embedder that is always there: words and character trigrams, hashed with signs into 384 dimensions.

It knows no meaning, only spelling: it finds other forms of a word and slips of the pen. People read it as "lexical".
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from lamella.core.recall import Embedded, Space
from lamella.search.terms import STOP_WORDS, stem, terms_of
from lamella.search.vectors import packed

DIMENSION = 384
WORDS_ONLY = (
    "The built-in embedder compares words and their spelling, not what they mean. For searches by meaning, set "
    "LAMELLA_EMBEDDING_MODEL=minilm, or LAMELLA_EMBEDDING_BASE_URL to a server with embeddings."
)
SPACE = Space(model=f"lexical-1-{DIMENSION}", weight=0.1, floor=0.3, document_weight=0.1, words_only=WORDS_ONLY)

_TRIGRAM = 0.35
"""Weight of a trigram, relative to a word: a word of six letters has six trigrams."""

_REMEMBERED = 50_000
_STOP = frozenset(stem(word) for word in STOP_WORDS)


class LexicalEmbedder:
    """The lexical embedder; deterministic, on any machine, for good: a change of its rule is another model name."""

    space = SPACE
    is_local = True

    def __init__(self) -> None:
        self._hashed: dict[str, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """See `Embedder.embed`. Costs nothing."""
        return Embedded(await asyncio.to_thread(self.vectors, tuple(texts)))

    async def close(self) -> None:
        """Nothing is open."""

    def vectors(self, texts: Sequence[str]) -> tuple[bytes, ...]:
        """The vectors of texts, without waiting."""
        return tuple(packed(self._vector(text)) for text in texts)

    def _vector(self, text: str) -> NDArray[np.float32]:
        counts: dict[str, int] = {}
        for term in terms_of(text):
            if term not in _STOP:
                counts[term] = counts.get(term, 0) + 1
        made = np.zeros(DIMENSION, dtype=np.float32)
        for term, count in counts.items():
            places, weights = self._features(term)
            np.add.at(made, places, weights * np.float32(count**0.5))
        return made

    def _features(self, term: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        known = self._hashed.get(term)
        if known is None:
            if len(self._hashed) >= _REMEMBERED:
                self._hashed.clear()
            known = self._hashed[term] = _hashed(term)
        return known


def _hashed(term: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Dimension and signed weight of a term and of its trigrams."""
    edged = f"^{term}$"
    trigrams = [edged[at : at + 3] for at in range(len(edged) - 2)] if len(term) > 2 else []
    hashes = [_mixed(f"w{term}"), *(_mixed(f"t{trigram}") for trigram in trigrams)]
    weights = [1.0, *([_TRIGRAM] * len(trigrams))]
    signed = [weight if value & 1 else -weight for value, weight in zip(hashes, weights, strict=True)]
    return np.array([(value >> 1) % DIMENSION for value in hashes], np.int32), np.array(signed, np.float32)


def _mixed(feature: str) -> int:
    """A hash whose every bit depends on every character: the checksum's own low bits do not."""
    value = crc32(feature.encode("utf-8", "surrogatepass"))
    value = ((value ^ (value >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    value = ((value ^ (value >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return value ^ (value >> 16)
