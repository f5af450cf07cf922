"""What is in a trace's file: its text, a picture, or one of the two made to measure, the same in every run."""

from __future__ import annotations

import struct
import zlib
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from dataclasses import dataclass

from lamella.core.errors import InvalidRequest
from lamella_lab.trace.parts import TraceFile

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_NOUNS = ("pump", "report", "valve", "survey", "garden", "ledger", "harbour", "meeting", "roof", "supplier", "bridge")
_DOES = (
    "was inspected",
    "is late",
    "needs a new seal",
    "has been paid",
    "was moved",
    "is in good order",
    "stands empty",
)
_WHEN = ("in March", "on Tuesday", "after the storm", "before the audit", "last winter", "this week", "without notice")


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file's content: `text`, or a picture as `data`."""

    media_type: str
    text: str | None = None
    data: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data if self.data is not None else (self.text or "").encode())


def check_file(file: TraceFile) -> None:
    """Raises `InvalidRequest` for a file that does not say in one way what is in it."""
    if file.id is not None:
        _check_stored(file)
        return
    given = [name for name in ("text", "data") if getattr(file, name) is not None]
    if file.width is not None or file.height is not None:
        given.append("width and height")
    elif file.size is not None and file.data is None:
        given.append("size")
    if len(given) != 1:
        what = " and ".join(given) if given else "nothing"
        raise InvalidRequest(
            f"it is given by {what}.", hint="Give one of `text`, `data`, `size`, or `width` with `height`."
        )
    is_picture = (file.media_type or "").startswith("image/")
    match given[0]:
        case "data":
            if file.media_type not in PICTURES:
                raise InvalidRequest(
                    f"`data` holds a picture, not {file.media_type or 'a file without `media_type`'}.",
                    hint="Name one of " + ", ".join(PICTURES) + ", or give text as `text`.",
                )
            _decoded(file)
        case "width and height":
            if file.width is None or file.height is None:
                raise InvalidRequest("`width` and `height` go together.", hint="Give both.")
            if file.media_type not in (None, "image/png"):
                raise InvalidRequest(
                    f"a picture that is made here is image/png, not {file.media_type}.", hint="Leave `media_type` out."
                )
        case name if is_picture:
            raise InvalidRequest(f"{file.media_type} can't be given by `{name}`.", hint="Give `width` and `height`.")
        case _:
            pass


def _check_stored(file: TraceFile) -> None:
    """As `check_file`, for a file that is given as it was stored."""
    given = [name for name in ("text", "data", "unreadable") if getattr(file, name) is not None]
    if not given and file.width is not None:
        given = ["width"]
    if len(given) != 1:
        what = " and ".join(given) if given else "nothing"
        raise InvalidRequest(
            f"it is given by {what}.",
            hint="A file with an `id` has `text`, `data`, `width` and `height`, or `unreadable`.",
        )
    if file.media_type is None:
        raise InvalidRequest("it has an `id` and no `media_type`.", hint="Say what it is, such as text/plain.")
    if file.data is not None:
        _decoded(file)
    if (file.data is not None or file.width is not None) and (file.width is None or file.height is None):
        raise InvalidRequest("a stored picture has `width` and `height`.", hint="Give both, in pixels.")


def content_of(file: TraceFile) -> FileContent:
    """The content of a file that `check_file` let pass."""
    if file.data is not None:
        data = _decoded(file)
        return FileContent(file.media_type or PICTURES[0], data=data)
    if file.width is not None and file.height is not None:
        size = (file.width, file.height) if file.id is None else (1, 1)  # of a stored one nobody looks at the picture
        return FileContent(file.media_type or "image/png", data=png(*size, seed=file.id or file.name))
    if file.unreadable is not None:
        return FileContent(file.media_type or "application/octet-stream")
    text = file.text if file.text is not None else generated_text(file.size or 0, seed=file.name)
    return FileContent(file.media_type or "text/plain", text=text)


def _decoded(file: TraceFile) -> bytes:
    try:
        return b64decode(file.data or "", validate=True)
    except (Base64Error, ValueError):
        raise InvalidRequest("`data` is not base64.") from None


def generated_text(size: int, *, seed: str) -> str:
    """Plain sentences of exactly `size` bytes; every seed has its own."""
    numbers = _numbers(seed)
    text = ""
    while len(text) < size:
        n = next(numbers)
        noun, does, when = _NOUNS[n % 11], _DOES[n // 11 % 7], _WHEN[n // 77 % 7]
        text += f"The {noun} {n % 90 + 10} {does} {when}. " if n % 6 else f"The {noun} {does}.\n"
    return text[:size]


def _numbers(seed: str) -> Iterator[int]:
    state = zlib.crc32(seed.encode())
    while True:
        state = (state * 1103515245 + 12345) % 2**31
        yield state >> 8


def png(width: int, height: int, *, seed: str) -> bytes:
    """A grey picture of stripes; every seed has its own."""
    shade = zlib.crc32(seed.encode())
    row = b"\0" + bytes((shade + x * 7) % 256 for x in range(width))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(row * height, 9)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", body), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
