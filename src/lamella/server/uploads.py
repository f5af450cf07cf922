"""Multipart uploads, parsed as they arrive: nothing of a file is held in memory, and every malformed body is a 400."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from lamella.app.app import App
from lamella.core.errors import InvalidRequest, PayloadTooLarge
from lamella.core.records import Caller, File

FIELD = b"file"
FRAMING_BYTES = 100_000
"""What a body may have beside the file itself: boundaries, headers, other small fields."""

MAX_HEADER_BYTES = 8_000


@dataclass(slots=True)
class _Part:
    """What the parser found so far of the part named `file`."""

    name: str | None = None
    pieces: list[bytes] = field(default_factory=list)
    done: bool = False
    overhead: int = 0
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _inside: bool = False
    _headers: dict[bytes, bytes] = field(default_factory=dict)

    def callbacks(self) -> dict[str, object]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._add(self._header, data[start:end]),
            "on_header_value": lambda data, start, end: self._add(self._value, data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self._end,
        }

    def _begin(self) -> None:
        self._headers = {}
        self._inside = False

    def _add(self, target: bytearray, data: bytes) -> None:
        target += data
        if len(target) > MAX_HEADER_BYTES:
            raise InvalidRequest("A header of the upload is too long.", param="file")

    def _header_end(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if options.get(b"name") == FIELD and self.name is None:
            self._inside = True
            self.name = options.get(b"filename", b"").decode("utf-8", "replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self.pieces.append(data[start:end])
        else:
            self.overhead += end - start
            if self.overhead > FRAMING_BYTES:
                raise InvalidRequest("The upload has other fields than `file`, and they are too long.", param="file")

    def _end(self) -> None:
        self.done = self.done or self._inside
        self._inside = False

    def take(self) -> list[bytes]:
        pieces, self.pieces = self.pieces, []
        return pieces


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequest("Send the file as multipart/form-data, in the field `file`.", param="file")
    return boundary


def _check_length(request: Request, limit: int) -> None:
    """Refuse what says itself that it is too large before reading any of it."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit + FRAMING_BYTES:
        raise PayloadTooLarge(
            f"The file is larger than {limit // 1_000_000} MB.",
            hint="Split it and upload the parts you need.",
            param="file",
        )


async def received_file(request: Request, app: App, caller: Caller) -> File:
    """Take the file of a multipart request in. Raises `InvalidRequest` or `PayloadTooLarge`; then nothing is stored."""
    _check_length(request, app.settings.max_upload_bytes)
    part = _Part()
    parser = MultipartParser(_boundary(request), part.callbacks())  # type: ignore[arg-type]
    body = _Body(request, parser, part)
    await body.until_named()
    return await app.intake.receive(caller, part.name or "untitled", body.pieces())


class _Body:
    """Feeds the request's body to the parser, piece by piece."""

    def __init__(self, request: Request, parser: MultipartParser, part: _Part) -> None:
        self._stream = request.stream().__aiter__()
        self._parser = parser
        self._part = part

    async def until_named(self) -> None:
        """Read up to the headers of the file's part."""
        while self._part.name is None:
            if not await self._more():
                raise InvalidRequest("The upload has no field `file`.", hint="Name the field `file`.", param="file")

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes of the file."""
        while True:
            for piece in self._part.take():
                yield piece
            if self._part.done:
                return
            if not await self._more():
                raise InvalidRequest("The upload broke off before its end.", hint="Send it again.", param="file")

    async def _more(self) -> bool:
        try:
            data = await anext(self._stream, b"")
            if data:
                self._parser.write(data)
        except ClientDisconnect:
            return False
        except FormParserError as error:
            raise InvalidRequest(f"The multipart body is malformed: {error}.", param="file") from None
        return bool(data)
