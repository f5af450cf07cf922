"""A block of which only digests are stored: enough to say where two blocks differ, without a word of them.

    hashed(b'{"type":"text","text":"Hello"}')   # b'{"type":"hashed","length":30,"pieces":"…"}'

A block is cut into pieces of 64 bytes, each with a digest of 4 bytes. So the first difference of two blocks is known to
64 bytes. Who has the database can check a guess at a whole piece, and reads nothing else.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import blake2b

from lamella.core.json import decode_object, encode

PIECE = 64
"""Bytes of a piece: the place of a difference is known to so many."""

_DIGEST = 4
_BEGINS = b'{"type":"hashed","length":'


def hashed(data: bytes) -> bytes:
    """What is stored of a block in its place: its length, and the digests of its pieces."""
    if is_hashed(data):
        return data
    pieces = (data[at : at + PIECE] for at in range(0, len(data), PIECE))
    digests = b"".join(blake2b(piece, digest_size=_DIGEST).digest() for piece in pieces)
    return encode({"type": "hashed", "length": len(data), "pieces": b64encode(digests).decode()})


def is_hashed(data: bytes) -> bool:
    """Whether only digests of a block are stored."""
    return data.startswith(_BEGINS)


def common(one: bytes, other: bytes) -> int:
    """How many bytes two blocks, of which one is stored as digests at least, begin with together: to a piece."""
    mine, theirs = _pieces(hashed(one)), _pieces(hashed(other))
    pairs = zip(_cut(mine), _cut(theirs), strict=False)
    return PIECE * next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(mine), len(theirs)) // _DIGEST)


def _pieces(data: bytes) -> bytes:
    return b64decode(str(decode_object(data)["pieces"]))


def _cut(digests: bytes) -> list[bytes]:
    return [digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST)]
