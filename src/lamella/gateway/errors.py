"""Errors of ours in the words of each dialect, so that a client's library reads them as its vendor's."""

from __future__ import annotations

from lamella.core.errors import LamellaError
from lamella.core.json import Json, encode
from lamella.gateway.dialects import Dialect

_STATUS = {
    "invalid_request": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "permission_denied": 403,
    "not_found": 404,
    "payload_too_large": 413,
    "rate_limit_exceeded": 429,
    "provider_error": 502,
    "overloaded": 503,
    "provider_timeout": 504,
}

_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_OPENAI = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_denied",
    404: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}


def dialect_of(path: str) -> Dialect | None:
    """The dialect of a path; None for one of this server's own API."""
    if path.startswith("/v1/messages"):
        return Dialect.MESSAGES
    if path.startswith("/v1/responses"):
        return Dialect.RESPONSES
    return Dialect.CHAT if path.startswith("/v1/") else None


def status_of(error: LamellaError) -> int:
    """The status of an error."""
    return _STATUS.get(error.code, 500)


def error_body(dialect: Dialect, error: LamellaError, *, streams: bool = False) -> bytes:
    """The JSON of an error. `streams`: as an event of a stream, which Responses words otherwise."""
    status = status_of(error)
    message = f"{error.message} {error.hint}" if error.hint else error.message
    if dialect is Dialect.MESSAGES:
        kind = _ANTHROPIC.get(status, "api_error")
        return encode({"type": "error", "error": {"type": kind, "message": message}})
    code = "model_not_found" if error.param == "model" and status == 404 else error.code
    said: dict[str, Json] = {"message": message, "type": _OPENAI.get(status, "server_error"), "param": error.param}
    if dialect is Dialect.RESPONSES and streams:
        return encode({"type": "error", **said, "code": code})
    return encode({"error": {**said, "code": code}})
