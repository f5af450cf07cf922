"""Multipart uploads, parsed as they arrive: nothing of a file is held in memory, and every malformed body is a 400."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from lamella.app.app import App
from lamella.core.errors import InvalidRequest
from lamella.knowledge.intake import too_large

FIELD = b"file"
FRAMING_BYTES = 100_000
"""What a body may have beside the file itself: boundaries, headers, other small fields."""


@dataclass(slots=True)
class _Parts:
    """What the parser found so far: the part named `file`, and whether the body came to its end."""

    name: str | None = None
    pieces: list[bytes] = field(default_factory=list)
    ended: bool = False
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _inside: bool = False
    _headers: dict[bytes, bytes] = field(default_factory=dict)

    def callbacks(self) -> dict[str, object]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._headers = {}
        self._inside = False

    def _header_end(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if options.get(b"name") != FIELD:
            return
        if self.name is not None:
            raise InvalidRequest("The upload has two files.", hint="Upload one file at a time.", param="file")
        self._inside = True
        self.name = options.get(b"filename", b"").decode("utf-8", "replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self.pieces.append(data[start:end])

    def _end(self) -> None:
        self.ended = True

    def take(self) -> list[bytes]:
        pieces, self.pieces = self.pieces, []
        return pieces


def _parser(request: Request, parts: _Parts) -> MultipartParser:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequest(
            "The request is not a multipart form with a boundary.",
            hint="Send the file as multipart/form-data, in the field `file`.",
            param="file",
        )
    try:
        return MultipartParser(boundary, parts.callbacks())  # type: ignore[arg-type]
    except FormParserError as error:
        raise _malformed(error) from None


def _malformed(error: FormParserError) -> InvalidRequest:
    return InvalidRequest(
        f"The multipart body is malformed: {error}.", hint="Let a library write the form.", param="file"
    )


async def received(request: Request, app: App) -> tuple[str, AsyncIterator[bytes]]:
    """The name of a multipart request's file, and its bytes as they come. Raises `InvalidRequest`
    or `PayloadTooLarge`."""
    limit = app.settings.max_upload_bytes
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit + FRAMING_BYTES:
        raise too_large(limit)
    parts = _Parts()
    body = _Body(request, _parser(request, parts), parts, limit)
    await body.until_named()
    return parts.name or "", body.pieces()


class _Body:
    """Feeds the request's body to the parser, piece by piece."""

    def __init__(self, request: Request, parser: MultipartParser, parts: _Parts, limit: int) -> None:
        self._stream = request.stream().__aiter__()
        self._parser = parser
        self._parts = parts
        self._limit = limit
        self._left = limit + FRAMING_BYTES

    async def until_named(self) -> None:
        """Read up to the headers of the file's part."""
        while self._parts.name is None:
            if not await self._more():
                raise InvalidRequest("The upload has no field `file`.", hint="Name the field `file`.", param="file")

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes of the file; the body is read to its end, so that a cut one is never taken for whole."""
        more = True
        while more:
            for piece in self._parts.take():
                yield piece
            more = await self._more()
        if not self._parts.ended:
            raise InvalidRequest("The upload broke off before its end.", hint="Send it again.", param="file")

    async def _more(self) -> bool:
        try:
            data = await anext(self._stream, b"")
            self._left -= len(data)
            if self._left < 0:
                raise too_large(self._limit)
            if data:
                self._parser.write(data)
        except ClientDisconnect:
            return False
        except FormParserError as error:
            raise _malformed(error) from None
        return bool(data)
