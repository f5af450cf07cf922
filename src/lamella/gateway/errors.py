"""Errors of ours in the words of each dialect, so that a client's library reads them as its vendor's."""

from __future__ import annotations

from collections.abc import Mapping

from lamella.core.errors import LamellaError
from lamella.core.json import Json, encode
from lamella.gateway.dialects import Dialect

ANTHROPIC_HEADER = "anthropic-version"
"""Every request of Anthropic's libraries has it, and none of OpenAI's."""

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
"""The HTTP status of an error by its code."""

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
    403: "permission_denied",
    429: "rate_limit_error",
}
"""OpenAI's types of errors by status; `invalid_request_error` below 500, `server_error` from there on."""


_MISSING = {
    "model": "model_not_found",
    "conversation": "conversation_not_found",
    "previous_response_id": "previous_response_not_found",
}
"""OpenAI's codes for what is not there, by the field that names it."""

_CODES = {
    "authentication_error": "invalid_api_key",
    "context_length_exceeded": "context_length_exceeded",
    "rate_limit_exceeded": "rate_limit_exceeded",
    "turn_in_progress": "conversation_locked",
    "overloaded": "server_is_overloaded",
}
"""OpenAI's codes by ours. For all others it has none."""


def dialect_of(path: str, headers: Mapping[str, str] | None = None) -> Dialect | None:
    """The dialect of a path; None for one of this server's own API.

    Both vendors have `/v1/models` and `/v1/files`: there a header says which library asks.
    """
    if path.startswith("/v1/messages"):
        return Dialect.MESSAGES
    if path.startswith("/v1/responses"):
        return Dialect.RESPONSES
    if headers is not None and path.startswith("/v1/") and ANTHROPIC_HEADER in headers:
        return Dialect.MESSAGES
    return Dialect.CHAT if path.startswith("/v1/") else None


def status_of(error: LamellaError) -> int:
    """The status of an error in the vendors' APIs: for a previous response that is not there OpenAI has 400."""
    if error.code == "not_found" and error.param == "previous_response_id":
        return 400
    return STATUS.get(error.code, 500)


def error_body(dialect: Dialect, error: LamellaError, *, streams: bool = False) -> bytes:
    """The JSON of an error. `streams`: as an event of a stream, which Responses words otherwise."""
    status = status_of(error)
    message = f"{error.message} {error.hint}" if error.hint else error.message
    if dialect is Dialect.MESSAGES:
        kind = _ANTHROPIC.get(status, "api_error")
        return encode({"type": "error", "error": {"type": kind, "message": message}})
    code = _MISSING.get(str(error.param)) if error.code == "not_found" else _CODES.get(error.code)
    kind = _OPENAI.get(status, "invalid_request_error" if status < 500 else "server_error")
    said: dict[str, Json] = {"message": message, "type": kind, "param": error.param}
    if dialect is Dialect.RESPONSES and streams:
        return encode({"type": "error", **said, "code": code})
    return encode({"error": {**said, "code": code}})
