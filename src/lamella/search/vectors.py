"""Vectors as they are made and as they are stored. Pure.

An embedder makes float16, little-endian, of length 1. Stored are whole numbers from -127 to 127, a byte each: the
greatest of a vector is 127 or -127, and its length is made 1 again when it is read. They are deflated if that is
shorter: of the 384 numbers of the lexical embedder most are 0 for a short text. What was stored before is float16.

    768 bytes    float16
    384 bytes    a byte each
    fewer        a byte each, deflated

The cosine of a vector and of what is read of it is at least .9999 for both embedders.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

JOINED_AT_ONCE = 256
"""Stored vectors that are copied at a time: other threads wait for no more than these."""

_GREATEST = 127


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
