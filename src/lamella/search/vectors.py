"""Vectors as they are stored: float16, little-endian, of length 1. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

JOINED_AT_ONCE = 256
"""Stored vectors that are copied at a time: other threads wait for no more than these."""


def packed(vector: Sequence[float] | NDArray[np.float32]) -> bytes:
    """A vector of any length, as it is stored; one of zeros stays that."""
    made = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(made))
    return (made / length if length > 0 else made).astype("<f2").tobytes()


def unpacked(data: bytes) -> NDArray[np.float32]:
    """A stored vector."""
    return np.frombuffer(data, dtype="<f2").astype(np.float32)


def matrix_of(rows: Sequence[bytes | None], dimension: int) -> NDArray[np.float16]:
    """Stored vectors one below the other; zeros for what is missing or of another dimension."""
    made, nothing = np.zeros((len(rows), dimension), dtype="<f2"), bytes(2 * dimension)
    for start in range(0, len(rows), JOINED_AT_ONCE):
        part = rows[start : start + JOINED_AT_ONCE]
        joined = b"".join(row if row is not None and len(row) == len(nothing) else nothing for row in part)
        made[start : start + len(part)] = np.frombuffer(joined, dtype="<f2").reshape(len(part), dimension)
    return made
