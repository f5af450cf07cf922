"""Writes a small PNG with stripes, as of a cloth."""

from __future__ import annotations

import struct
import zlib

SIZE = 48


def write_picture() -> bytes:
    """The file: header, one compressed block of rows, end."""
    rows = b"".join(b"\0" + b"".join(_colour(x, y) for x in range(SIZE)) for y in range(SIZE))
    header = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _colour(x: int, y: int) -> bytes:
    return bytes((210 if x % 8 < 4 else 40, 90, 160 if y % 12 < 6 else 60))


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
