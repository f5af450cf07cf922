"""Files: taken in, listed, shown, given back and removed.

Uploads are parsed as they arrive: nothing of a file is held in memory, and every malformed body is a 400.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote

from fastapi import Request, Response
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from lamella.app.app import App
from lamella.context.input import MARGIN
from lamella.core.errors import InvalidRequest, StoreFailed
from lamella.core.records import File, FileStatus
from lamella.knowledge.file_uploads import too_large
from lamella.server.objects import PREFIX, ListObject, Moment, Object, listed
from lamella.server.routing import IdempotencyKey, TheApp, TheCaller, ThePage, api_router

UPLOAD_PATH = f"{PREFIX}/files"

SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What a browser may show itself; whatever else is given back is a download, for it may hold a script."""

MULTIPART = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"file": {"type": "string", "format": "binary"}},
                    "required": ["file"],
                }
            }
        },
    }
}
"""The body of an upload, for the description of the API."""

router = api_router()


class UploadedFileObject(Object, kw_only=True):
    """A file. `fits` says whether its text has room in the default model's window; if not, it is read in pieces.

    `code` and `reason` say why it could not be read, or does not fit. A picture has a size in pixels.
    """

    id: str
    object: Literal["file"] = "file"
    name: str
    size: int
    media_type: str
    status: FileStatus
    code: str | None
    reason: str | None
    tokens: int
    fits: bool
    pages: int | None
    width: int | None
    height: int | None
    created_at: Moment


class FileTextObject(Object, kw_only=True):
    """The text that was read from a file; a form feed stands between pages."""

    id: str
    name: str
    pages: int | None
    text: str


def file_object(file: File, app: App) -> UploadedFileObject:
    """A file, for the default model of the app."""
    facts = app.models.facts(app.models.default)
    budget = app.settings.budget(facts)
    estimate = round(file.tokens * facts.token_factor * (1 + MARGIN))
    fits = estimate <= budget
    reason = file.reason
    if file.status == "ready" and not fits:
        reason = (
            f"About {estimate:,} tokens do not fit the {budget:,} of {facts.name}: "
            "the file is listed, and read in pieces when a question needs it."
        )
    return UploadedFileObject.of(file, reason=reason, fits=fits if file.status == "ready" else False)


@router.post("/files", status_code=201, openapi_extra=MULTIPART)
async def upload(request: Request, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> UploadedFileObject:
    """Upload one file in the multipart field `file`; answers when it has been read."""
    name, pieces = await received(request, app)
    return file_object(await app.intake.receive(caller, name, pieces, key), app)


@router.get("/files")
async def files(page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[UploadedFileObject]:
    """The caller's files."""
    return listed(await app.store.files.files(caller, page), lambda file: file_object(file, app))


@router.get("/files/{file_id}")
async def file(file_id: str, app: TheApp, caller: TheCaller) -> UploadedFileObject:
    """One file."""
    return file_object(await app.store.files.file(caller, file_id), app)


@router.delete("/files/{file_id}", status_code=204)
async def delete_file(file_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a file; one that a message or a project holds stays."""
    await app.delete_file(caller, file_id)
    return Response(status_code=204)


@router.get("/files/{file_id}/content", responses={200: {"application/octet-stream": bytes}})
async def file_content(file_id: str, request: Request, app: TheApp, caller: TheCaller) -> Response:
    """The bytes that were uploaded: pictures to be shown, whatever else to be saved. A range gives a part of them."""
    found = await app.store.files.file(caller, file_id)
    size = await app.uploads.size(found.id)
    if size is None:
        raise StoreFailed(f"The bytes of “{found.name}” are missing.", hint="Restore the uploads.")
    shown = found.media_type in SHOWN
    headers = {
        "accept-ranges": "bytes",
        "etag": f'"{found.id}"',
        "content-disposition": _disposition(found, shown=shown),
        "content-security-policy": "sandbox",
        "x-content-type-options": "nosniff",
    }
    part = asked_range(request.headers, size, headers["etag"])
    if part is None:
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{size}"})
    start, end = part
    headers["content-length"] = str(end - start)
    if part != (0, size):
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    return StreamingResponse(
        app.uploads.read(found.id, start, end),
        status_code=200 if part == (0, size) else 206,
        media_type=found.media_type if shown else "application/octet-stream",
        headers=headers,
    )


_RANGE = re.compile(r"bytes=(?:(\d+)-(\d*)|-(\d+))")


def asked_range(headers: Mapping[str, str], size: int, etag: str) -> tuple[int, int] | None:
    """The first byte that is asked for and the one after the last; None if the file has none of them.

    All bytes if none or several ranges are asked for, or those of another file: RFC 9110, section 14.2.
    """
    form = _RANGE.fullmatch(headers.get("range", "").strip())
    if form is None or headers.get("if-range", etag) != etag:
        return 0, size
    first, last, suffix = form.groups()
    if suffix is not None:
        return (max(0, size - int(suffix)), size) if int(suffix) else None
    start, end = int(first), min(size, int(last) + 1) if last else size
    if last and int(last) < int(first):
        return 0, size
    return (start, end) if start < end else None


def _disposition(file: File, *, shown: bool) -> str:
    """The header that names a file, in a form that any name fits in."""
    return f"{'inline' if shown else 'attachment'}; filename*=utf-8''{quote(file.name, safe='')}"


@router.get("/files/{file_id}/text")
async def file_text(file_id: str, app: TheApp, caller: TheCaller) -> FileTextObject:
    """The text that was read from a file; a form feed stands between pages."""
    found = await app.store.files.file(caller, file_id)
    text = await app.store.files.file_text(caller, file_id)
    return FileTextObject.of(found, text=text or "")


# Uploads

FIELD = b"file"
FIELDS = (b"purpose",)
"""Short fields next to the file that somebody reads."""

FRAMING_BYTES = 100_000
"""Bytes that a body may have besides the file: boundaries, headers, other small fields."""


@dataclass(slots=True)
class _Parts:
    """What the parser found so far: the part named `file`, short fields, and whether the body came to its end."""

    name: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    ended: bool = False
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _inside: bool = False
    _field: bytes = b""
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
        self._field = options.get(b"name", b"")
        if self._field != FIELD:
            return
        if self.name is not None:
            raise InvalidRequest("The upload has two files.", hint="Upload one file at a time.", param="file")
        self._inside = True
        self.name = options.get(b"filename", b"").decode("utf-8", "replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self.pieces.append(data[start:end])
        elif self._field in FIELDS:
            self.fields[self._field.decode()] = self.fields.get(self._field.decode(), "") + data[start:end].decode(
                "utf-8", "replace"
            )

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


async def received(
    request: Request, app: App, fields: dict[str, str] | None = None
) -> tuple[str, AsyncIterator[bytes]]:
    """The name of a multipart request's file, and its bytes as they come. Raises `InvalidRequest`
    or `PayloadTooLarge`. `fields` gets the form's short fields; after the last byte it has them all."""
    limit = app.settings.max_upload_bytes
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit + FRAMING_BYTES:
        raise too_large(limit)
    parts = _Parts() if fields is None else _Parts(fields=fields)
    body = _Body(request, _parser(request, parts), parts, limit)
    await body.until_named()
    _check_form(parts)
    return parts.name or "", body.pieces()


def _check_form(parts: _Parts) -> None:
    """Raises `InvalidRequest` for a field with NUL. Of the name of a file it is left out, as all controls are."""
    for param, value in parts.fields.items():
        if "\0" in value:
            said = f"{param} holds NUL (U+0000), which is no character to store."
            raise InvalidRequest(said, hint="Leave it out.", param=param)


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
