"""Vectors as they are made and as they are stored. Pure.

An embedder makes float16, little-endian, of length 1. Stored are whole numbers from -127 to 127, a byte each: the
greatest of a vector is 127 or -127, and its length is made 1 again when it is read. They are deflated if that is
shorter: of the 384 numbers of the lexical embedder most are 0 for a short text. What was stored before is float16.

    768 bytes    float16
    384 bytes    a byte each
    fewer        a byte each, deflated

The cosine of a vector and of what is read of it is at least .9999 for both embedders.

Of very many vectors *sketches* are compared in their place: a bit says on which side of a random plane a vector lies.
Two vectors at an angle `a` differ in `a` / 180° of their bits, give or take. 1,024 bits are 128 bytes, a twelfth of
a vector in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

JOINED_AT_ONCE = 256
"""Stored vectors that are copied at a time: other threads wait for no more than these."""

_GREATEST = 127

SKETCH_BITS = 1_024
"""Planes of a sketch."""

FINER = 20_000
"""The vectors, nearest by their sketches, that are compared by more than the count of bits that differ."""

_SKETCHED_AT_ONCE = 4_096

Sketches = NDArray[np.uint64]
"""A row of `SKETCH_BITS` for each vector; all are 0 for a vector of zeros."""


def packed(vector: Sequence[float] | NDArray[np.float32]) -> bytes:
    """A vector of any length, as it is made; one of zeros stays that."""
    made = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(made))
    return (made / length if length > 0 else made).astype("<f2").tobytes()


def unpacked(data: bytes) -> NDArray[np.float32]:
    """A vector that was made."""
    return np.frombuffer(data, dtype="<f2").astype(np.float32)


def stored(data: bytes) -> bytes:
    """A vector that was made, as it is stored."""
    made = unpacked(data)
    greatest = float(np.abs(made).max(initial=0.0))
    whole = np.rint(made * (_GREATEST / greatest)) if greatest > 0 else made
    plain = whole.astype(np.int8).tobytes()
    deflating = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    short = deflating.compress(plain) + deflating.flush()
    return short if len(short) < len(plain) else plain


def matrix_of(rows: Sequence[bytes | None], dimension: int) -> NDArray[np.float32]:
    """Stored vectors one below the other; zeros for what is missing or of another dimension."""
    made = np.zeros((len(rows), dimension), dtype=np.float32)
    for start in range(0, len(rows), JOINED_AT_ONCE):
        part = rows[start : start + JOINED_AT_ONCE]
        plain = [_plain(row, dimension) for row in part]
        whole = np.frombuffer(b"".join(plain), dtype=np.int8).reshape(len(part), dimension).astype(np.float32)
        lengths = np.linalg.norm(whole, axis=1, keepdims=True)
        made[start : start + len(part)] = whole / np.where(lengths > 0, lengths, 1)
        for at, row in enumerate(part, start):
            if row is not None and dimension and len(row) == 2 * dimension:
                made[at] = unpacked(row)
    return made


def _plain(row: bytes | None, dimension: int) -> bytes:
    """The bytes of a stored vector; zeros for what is none of this dimension."""
    found = row
    if row is not None and len(row) < dimension:
        found = _inflated(row, dimension)
    return found if found is not None and len(found) == dimension else bytes(dimension)


def _inflated(row: bytes, dimension: int) -> bytes | None:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(row, dimension + 1)
    except zlib.error:
        return None


@cache
def _planes(dimension: int) -> NDArray[np.float32]:
    """The same planes in every process."""
    return np.random.default_rng(dimension).standard_normal((dimension, SKETCH_BITS), dtype=np.float32)


def sketches(vectors: NDArray[np.float32]) -> Sketches:
    """The sketches of vectors, one below the other."""
    made = np.zeros((len(vectors), SKETCH_BITS // 64), np.uint64)
    for start in range(0, len(vectors), _SKETCHED_AT_ONCE):
        rows = slice(start, start + _SKETCHED_AT_ONCE)
        sides = vectors[rows] @ _planes(vectors.shape[1]) > 0
        made[rows] = np.packbits(sides, axis=1).view(np.uint64)
    return made


def estimated(rows: Sketches, vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """The cosines of many vectors and one, about, by their sketches; 0 for a vector of zeros.

    Each bit of the nearest counts by how far the one vector lies from its plane, which halves their errors. Those of
    the others have a deviation of .05 at most.
    """
    length = float(np.linalg.norm(vector))
    if not length:
        return np.zeros(len(rows))
    asked = vector @ _planes(len(vector))
    bits = np.packbits(asked > 0).view(np.uint64)
    differing = np.zeros(len(rows), np.int16)
    for start in range(0, len(rows), _SKETCHED_AT_ONCE):  # as many as fit the processor's cache
        some = slice(start, start + _SKETCHED_AT_ONCE)
        differing[some] = np.bitwise_count(rows[some] ^ bits).sum(axis=1)
    found = np.cos(np.pi * np.arange(SKETCH_BITS + 1) / SKETCH_BITS)[differing]
    few = np.argpartition(differing, FINER)[:FINER] if len(rows) > FINER else np.arange(len(rows))
    sides = np.unpackbits(rows[few].view(np.uint8), axis=1).astype(np.float32)
    found[few] = (2 * (sides @ asked) - asked.sum()) / (SKETCH_BITS * np.sqrt(2 / np.pi) * length)
    return np.where(rows[:, 0], found, 0.0)
