"""`/v1/files`: our files in the shapes of OpenAI's and Anthropic's Files APIs.

A request with the header `anthropic-version` gets Anthropic's shapes, any other OpenAI's. The ids are those of
`/api/v1/files`: a file that was uploaded at one door is there at the others.

https://platform.openai.com/docs/api-reference/files, https://docs.claude.com/en/api/files-create
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.records import Caller, File, Page, PageQuery
from lamella.gateway.errors import ANTHROPIC_HEADER
from lamella.server.objects import AnyObject
from lamella.server.routes.files import MULTIPART, file_content, received
from lamella.server.routing import JSON, Answers, IdempotencyKey, TheApp, TheCaller, api_router
from lamella.storage import Store

router = api_router("/v1")

VENDOR_UPLOAD_PATH = "/v1/files"

PURPOSES = ("user_data", "assistants", "vision")
"""OpenAI's purposes of files that a model reads. The others are for services that this server does not have."""

ANSWER: Answers = {200: {JSON: AnyObject}}
PAGE_PREFIX = "page_"
MOST = 10_000
MOST_OF_ANTHROPIC = 1_000


def _is_anthropic(request: Request) -> bool:
    return ANTHROPIC_HEADER in request.headers


def vendor_file(file: File, request: Request) -> dict[str, Any]:
    """A file in the shape that the request asks for."""
    if _is_anthropic(request):
        return {
            "type": "file",
            "id": file.id,
            "filename": file.name,
            "mime_type": file.media_type,
            "size_bytes": file.size,
            "created_at": file.created_at.isoformat(),
            "downloadable": True,
        }
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": int(file.created_at.timestamp()),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed" if file.status == "ready" else "error",
        "status_details": file.reason,
        "expires_at": None,
    }


@router.post("/files", responses=ANSWER, openapi_extra=MULTIPART)
async def upload_vendor_file(request: Request, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Response:
    """Upload one file in the multipart field `file`; for OpenAI's API with a `purpose`."""
    fields: dict[str, str] = {}
    name, pieces = await received(request, app, fields)

    def purpose() -> str:
        return "user_data" if _is_anthropic(request) else _purpose_of(fields)

    file = await app.intake.receive(caller, name, pieces, key, purpose)
    return JSONResponse(vendor_file(file, request))


def _purpose_of(fields: dict[str, str]) -> str:
    """Raises `InvalidRequest`."""
    purpose = fields.get("purpose")
    if purpose in PURPOSES:
        return purpose
    said = f"“{purpose[:60]}” is no purpose of files here." if purpose else "The upload has no purpose."
    raise InvalidRequest(said, hint=f"Send one of {', '.join(PURPOSES)}.", param="purpose")


@router.get("/files", responses=ANSWER)
async def vendor_files(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    limit: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
    purpose: str | None = None,
    after_id: str | None = None,
    before_id: str | None = None,
    page: str | None = None,
) -> Response:
    """The caller's files, newest first. OpenAI's API has `after`, `order` and `purpose`; Anthropic's has `after_id`,
    `before_id` and `page`.
    """
    store, is_anthropic = app.store, _is_anthropic(request)
    if not is_anthropic:
        await _must_be_file(store, caller, after, "after")
        found = await store.files.files(caller, PageQuery(limit or MOST, after, order), purpose)
        return JSONResponse({"object": "list", **_listed(found.data, request, found.has_more)})
    limit, forward = min(limit or 20, MOST_OF_ANTHROPIC), after_id
    if page is not None:
        forward = page.removeprefix(PAGE_PREFIX)
    await _must_be_file(store, caller, forward, "page" if page is not None else "after_id")
    await _must_be_file(store, caller, before_id, "before_id")
    if before_id is not None:
        newer = await store.files.files(caller, PageQuery(limit, before_id, "asc"))
        found = Page(newer.data[::-1], newer.has_more)
    else:
        found = await store.files.files(caller, PageQuery(limit, forward))
    following = f"{PAGE_PREFIX}{found.data[-1].id}" if found.has_more and before_id is None else None
    return JSONResponse({**_listed(found.data, request, found.has_more), "next_page": following})


def _listed(files: Sequence[File], request: Request, has_more: bool) -> dict[str, Any]:
    first, last = (files[0].id, files[-1].id) if files else (None, None)
    data = [vendor_file(file, request) for file in files]
    return {"data": data, "has_more": has_more, "first_id": first, "last_id": last}


async def _must_be_file(store: Store, caller: Caller, file_id: str | None, param: str) -> None:
    """Raises `InvalidRequest` for a cursor that is no file of the caller's."""
    if file_id is None:
        return
    try:
        await store.files.file(caller, file_id)
    except (NotFound, InvalidRequest):  # also one with a NUL
        raise InvalidRequest(
            f"“{file_id[:80]}” is no file in this list.", hint="Send the id of a file of the page before.", param=param
        ) from None


@router.get("/files/{file_id}", responses=ANSWER)
async def retrieve_vendor_file(file_id: str, request: Request, app: TheApp, caller: TheCaller) -> Response:
    """One file."""
    return JSONResponse(vendor_file(await app.store.files.file(caller, file_id), request))


@router.delete("/files/{file_id}", responses=ANSWER)
async def delete_vendor_file(file_id: str, request: Request, app: TheApp, caller: TheCaller) -> Response:
    """Remove a file with its bytes; one that a message or a project holds stays (409)."""
    await app.delete_file(caller, file_id)
    if _is_anthropic(request):
        return JSONResponse({"id": file_id, "type": "file_deleted"})
    return JSONResponse({"id": file_id, "object": "file", "deleted": True})


@router.get("/files/{file_id}/content", responses={200: {"application/octet-stream": bytes}})
async def vendor_file_content(file_id: str, request: Request, app: TheApp, caller: TheCaller) -> Response:
    """The bytes that were uploaded."""
    return await file_content(file_id, request, app, caller)
