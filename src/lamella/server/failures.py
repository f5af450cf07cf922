"""Errors over HTTP: one shape, one status per code, never a stack trace."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from lamella.core.errors import (
    FileInUse,
    InvalidRequest,
    LamellaError,
    NotFound,
    TurnInProgress,
)
from lamella.core.json import encode, unstorable
from lamella.gateway.errors import STATUS, dialect_of, error_body, retry_after, status_of
from lamella.gateway.recorder import LONG_BYTES

log = structlog.get_logger()

FIELDS_HINT = "/openapi.json has the fields of every request; bodies are JSON, as content-type application/json."


def error_answer(error: LamellaError, scope: Scope, status: int | None = None) -> Response:
    """The answer for an error of our tree, in the words of the API that a request belongs to."""
    headers = {"x-should-retry": "false"} if isinstance(error, TurnInProgress | FileInUse) else retry_after(error)
    dialect = dialect_of(scope["path"], Headers(scope=scope))
    status = status or (STATUS.get(error.code, 500) if dialect is None else status_of(error))
    body = encode({"error": error.as_dict()}) if dialect is None else error_body(dialect, error)
    return Response(body, status, headers, media_type="application/json")


def _no_object(request: Request, *, is_missing: bool) -> InvalidRequest:
    """A body that is missing, or no JSON object: `curl -d` says that it is a form."""
    sent_as = request.headers.get("content-type", "").partition(";")[0]
    if is_missing:
        return InvalidRequest("The request has no body.", hint=f"Send a JSON object, {{}} at least. {FIELDS_HINT}")
    if sent_as and not sent_as.endswith("json"):
        hint = "Send it with the header content-type: application/json."
        return InvalidRequest(f"The body came as {sent_as}, not as JSON.", hint=hint)
    return InvalidRequest("The body is not a JSON object.", hint=FIELDS_HINT)


async def check_text(body: bytes) -> None:
    """Raises `InvalidRequest` for a body with a text that can't be stored. A long one is read in a thread."""
    found = await asyncio.to_thread(unstorable, body) if len(body) > LONG_BYTES else unstorable(body)
    if found is not None:
        where, what = found
        hint = "Leave it out." if what.startswith("NUL") else "Send valid Unicode."
        raise InvalidRequest(
            f"{where or 'The body'} holds {what}, which can't be stored.", hint=hint, param=where or None
        )


def check_query(query: bytes) -> None:
    """Raises `InvalidRequest` for a query with NUL."""
    for name, value in parse_qsl(query.decode("latin-1")) if b"%00" in query else ():
        if "\0" in name + value:
            said = f"{name} holds NUL (U+0000), which is no character to store."
            raise InvalidRequest(said, hint="Leave it out.", param=name)


EVERYTHING = "/{path:path}"
"""The path of the route that answers what no other route does."""


def methods_of(request: Request) -> tuple[str, ...]:
    """The methods of a path by all of its routes; none for a path that is nobody's."""
    found: set[str] = set()
    included = (getattr(route, "original_router", None) for route in request.app.router.routes)
    within = (route for router in included if router is not None for route in router.routes)
    for route in (*request.app.router.routes, *within):
        if route.matches(request.scope)[0] is not Match.NONE and getattr(route, "path", None) != EVERYTHING:
            found |= set(getattr(route, "methods", None) or ())
    return tuple(sorted(found))


def install(api: FastAPI) -> None:
    """Make every failure of a route an answer of the one shape."""

    @api.exception_handler(LamellaError)
    async def ours(request: Request, error: LamellaError) -> Response:
        return error_answer(error, request.scope)

    @api.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first, scope = error.errors()[0], request.scope
        # The name of a field may hold half of a surrogate pair, which no answer can.
        where = ".".join(str(part) for part in first["loc"][1:]).encode("utf-8", "replace").decode()
        if first["type"] == "json_invalid":
            return error_answer(InvalidRequest("The body is not valid JSON.", hint="Send one JSON object."), scope)
        if not where:
            return error_answer(_no_object(request, is_missing=first["type"] == "missing"), scope)
        said = {"missing": f"{where} is missing.", "extra_forbidden": f"There is no field {where}."}
        message = said.get(first["type"], f"{where}: {first['msg']}")
        return error_answer(InvalidRequest(message, hint=FIELDS_HINT, param=where), scope)

    @api.exception_handler(HTTPException)
    async def framework(request: Request, error: HTTPException) -> Response:
        allowed = methods_of(request) if error.status_code == 405 else ()
        if error.status_code == 404 or (error.status_code == 405 and not allowed):
            return error_answer(NotFound(f"There is nothing at {request.url.path}."), request.scope)
        answer = error_answer(InvalidRequest(f"{error.detail}.", hint=FIELDS_HINT), request.scope, error.status_code)
        answer.headers.update(error.headers or {})
        if allowed:
            answer.headers["allow"] = ", ".join(allowed)
        return answer

    @api.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        log.error("request failed", path=request.url.path, exc_info=error)
        return error_answer(LamellaError("The server failed.", hint="The server's log has the cause."), request.scope)
