"""Files: taken in, listed, shown, given back and removed."""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

from fastapi import Request, Response
from starlette.responses import FileResponse

from lamella.app.app import App
from lamella.context.input import MARGIN
from lamella.core.errors import StoreFailed
from lamella.core.records import File, FileStatus
from lamella.server.objects import PREFIX, ListObject, Moment, Object, listed
from lamella.server.routing import IdempotencyKey, TheApp, TheCaller, ThePage, api_router
from lamella.server.uploads import received

UPLOAD_PATH = f"{PREFIX}/files"

SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What a browser may show itself; whatever else is given back is a download, for it may hold a script."""

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
    budget = app.engine_settings.budget(facts)
    estimate = round(file.tokens * facts.token_factor * (1 + MARGIN))
    fits = estimate <= budget
    reason = file.reason
    if file.status == "ready" and not fits:
        reason = (
            f"About {estimate:,} tokens do not fit the {budget:,} of {facts.name}: "
            "the file is listed, and read in pieces when a question needs it."
        )
    return UploadedFileObject.of(file, reason=reason, fits=fits if file.status == "ready" else False)


@router.post("/files", status_code=201)
async def upload(request: Request, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> UploadedFileObject:
    """Upload one file in the multipart field `file`; answers when it has been read."""
    name, pieces = await received(request, app)
    return file_object(await app.intake.receive(caller, name, pieces, key), app)


@router.get("/files")
async def files(page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[UploadedFileObject]:
    """The caller's files."""
    return listed(await app.store.files(caller, page), lambda file: file_object(file, app))


@router.get("/files/{file_id}")
async def file(file_id: str, app: TheApp, caller: TheCaller) -> UploadedFileObject:
    """One file."""
    return file_object(await app.store.file(caller, file_id), app)


@router.delete("/files/{file_id}", status_code=204)
async def delete_file(file_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a file; one that a message or a project holds stays."""
    await app.delete_file(caller, file_id)
    return Response(status_code=204)


@router.get("/files/{file_id}/content", responses={200: {"application/octet-stream": bytes}})
async def file_content(file_id: str, app: TheApp, caller: TheCaller) -> Response:
    """The bytes that were uploaded: pictures to be shown, whatever else to be saved."""
    found = await app.store.file(caller, file_id)
    path = app.uploads.path(found.id)
    if not path.is_file():
        raise StoreFailed(f"The bytes of “{found.name}” are missing.", hint="Restore the folder of uploads.")
    shown = found.media_type in SHOWN
    return FileResponse(
        path,
        media_type=found.media_type if shown else "application/octet-stream",
        headers={
            "content-disposition": _disposition(found, shown=shown),
            "content-security-policy": "sandbox",
            "x-content-type-options": "nosniff",
        },
    )


def _disposition(file: File, *, shown: bool) -> str:
    """The header that names a file, in a form that any name fits in."""
    return f"{'inline' if shown else 'attachment'}; filename*=utf-8''{quote(file.name, safe='')}"


@router.get("/files/{file_id}/text")
async def file_text(file_id: str, app: TheApp, caller: TheCaller) -> FileTextObject:
    """The text that was read from a file; a form feed stands between pages."""
    found = await app.store.file(caller, file_id)
    text = await app.store.file_text(caller, file_id)
    return FileTextObject.of(found, text=text or "")
