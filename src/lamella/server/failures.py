"""Errors over HTTP: one shape, one status per code, never a stack trace."""

from __future__ import annotations

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from lamella.core.errors import InvalidRequest, LamellaError, NotFound, TurnInProgress
from lamella.core.json import encode
from lamella.gateway.errors import dialect_of, error_body

log = structlog.get_logger()

STATUS = {
    "invalid_request": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "permission_denied": 403,
    "not_found": 404,
    "turn_in_progress": 409,
    "session_moved": 409,
    "head_moved": 409,
    "file_in_use": 409,
    "not_waiting": 409,
    "payload_too_large": 413,
    "idempotency_mismatch": 422,
    "rate_limit_exceeded": 429,
    "queue_full": 429,
    "internal_error": 500,
    "store_failed": 500,
    "dynamic_context_failed": 500,
    "configuration_error": 500,
    "provider_error": 502,
    "overloaded": 503,
    "provider_timeout": 504,
}


FIELDS_HINT = "/openapi.json has the fields of every request; bodies are JSON, as content-type application/json."


def error_answer(error: LamellaError, path: str, status: int | None = None) -> Response:
    """The answer for an error of our tree, in the words of the API that the path belongs to."""
    headers = {"x-should-retry": "false"} if isinstance(error, TurnInProgress) else None
    status = status or STATUS.get(error.code, 500)
    dialect = dialect_of(path)
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


def install(api: FastAPI) -> None:
    """Make every failure of a route an answer of the one shape."""

    @api.exception_handler(LamellaError)
    async def ours(request: Request, error: LamellaError) -> Response:
        return error_answer(error, request.url.path)

    @api.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        first, path = error.errors()[0], request.url.path
        where = ".".join(str(part) for part in first["loc"][1:])
        if first["type"] == "json_invalid":
            return error_answer(InvalidRequest("The body is not valid JSON.", hint="Send one JSON object."), path)
        if not where:
            return error_answer(_no_object(request, is_missing=first["type"] == "missing"), path)
        said = {"missing": f"{where} is missing.", "extra_forbidden": f"There is no field {where}."}
        message = said.get(first["type"], f"{where}: {first['msg']}")
        return error_answer(InvalidRequest(message, hint=FIELDS_HINT, param=where), path)

    @api.exception_handler(HTTPException)
    async def framework(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            return error_answer(NotFound(f"There is nothing at {request.url.path}."), request.url.path)
        answer = error_answer(InvalidRequest(f"{error.detail}.", hint=FIELDS_HINT), request.url.path, error.status_code)
        answer.headers.update(error.headers or {})
        return answer

    @api.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        log.error("request failed", path=request.url.path, exc_info=error)
        return error_answer(
            LamellaError("The server failed.", hint="The server's log has the cause."), request.url.path
        )
