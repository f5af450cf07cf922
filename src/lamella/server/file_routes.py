"""Files: taken in, listed, shown, given back and removed."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.responses import FileResponse

from lamella.core.errors import StoreFailed
from lamella.core.records import File
from lamella.server.asked import PREFIX, IdempotencyKey, TheApp, TheCaller, ThePage
from lamella.server.schemas import Json, file_json, list_json
from lamella.server.uploads import received_file

UPLOAD_PATH = f"{PREFIX}/files"

SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What a browser may show itself; whatever else is given back is a download, for it may hold a script."""

router = APIRouter(prefix=PREFIX)


@router.post("/files", status_code=201)
async def upload(request: Request, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Json:
    """Upload one file in the multipart field `file`; answers when it has been read."""
    return file_json(await received_file(request, app, caller, key), app)


@router.get("/files")
async def files(page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The caller's files."""
    return list_json(await app.store.files(caller, page), lambda file: file_json(file, app))


@router.get("/files/{file_id}")
async def file(file_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One file."""
    return file_json(await app.store.file(caller, file_id), app)


@router.delete("/files/{file_id}", status_code=204)
async def delete_file(file_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a file; one that a message or a project holds stays."""
    await app.delete_file(caller, file_id)
    return Response(status_code=204)


@router.get("/files/{file_id}/content")
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
async def file_text(file_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The text that was read from a file; a form feed stands between pages."""
    found = await app.store.file(caller, file_id)
    text = await app.store.file_text(caller, file_id)
    return {"id": found.id, "name": found.name, "pages": found.pages, "text": text or ""}
