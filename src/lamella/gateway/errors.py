"""Errors of ours in the words of each dialect, so that a client's library reads them as its vendor's."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from lamella.core.errors import (
    LamellaError,
    LeaseLost,
    NotReady,
    ServerStopping,
    StoreUnreachable,
    TooManyConnections,
)
from lamella.core.json import Json, decode_object, encode
from lamella.gateway.dialects import Dialect
from lamella.llm.event_stream import EventDecoder

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
    "store_unreachable": 504,
    "lease_lost": 504,
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
    504: "timeout_error",
    529: "overloaded_error",
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


RETRY_AFTER = {"retry-after": "1"}
"""Of an answer whose request may be sent again soon, here or to another server."""


def retry_after(error: LamellaError) -> Mapping[str, str]:
    """The header that asks to send a request again, if that may help soon."""
    soon = isinstance(error, ServerStopping | NotReady | TooManyConnections | StoreUnreachable | LeaseLost)
    return RETRY_AFTER if soon else {}


def failure_code(error: LamellaError) -> str:
    """OpenAI's code of a response that failed."""
    return _CODES.get(error.code, "server_error")


def error_body(dialect: Dialect, error: LamellaError, status: int | None = None) -> bytes:
    """The JSON of an error. `status`: that of an upstream, which is kept."""
    status = status or status_of(error)
    message = f"{error.message} {error.hint}" if error.hint else error.message
    if dialect is Dialect.MESSAGES:
        kind = _ANTHROPIC.get(status, "api_error")
        return encode({"type": "error", "error": {"type": kind, "message": message}})
    code = _MISSING.get(str(error.param)) if error.code == "not_found" else _CODES.get(error.code)
    kind = _OPENAI.get(status, "invalid_request_error" if status < 500 else "server_error")
    return encode({"error": {"message": message, "type": kind, "param": error.param, "code": code}})


def error_event(dialect: Dialect, error: LamellaError, begun: bytes) -> bytes:
    """The event by which a stream of this dialect ends with an error, after what was `begun`."""
    if dialect is Dialect.RESPONSES:
        return b"event: response.failed\ndata: %b\n\n" % encode(_failed_response(error, begun))
    name = b"event: error\n" if dialect is Dialect.MESSAGES else b""
    return b"%bdata: %b\n\n" % (name, error_body(dialect, error))


_NUMBERS = re.compile(rb'"sequence_number": ?(\d+)')
_END = 100_000
"""Bytes of a stream in which its last event begins."""


def _failed_response(error: LamellaError, begun: bytes) -> dict[str, Json]:
    """The response that a stream began, with its error: libraries look for the id and the number of the event."""
    numbers = _NUMBERS.findall(begun[-_END:])
    message = f"{error.message} {error.hint}" if error.hint else error.message
    response = {"id": "", "object": "response", "output": [], **_begun_response(begun)}
    response |= {"status": "failed", "error": {"code": "server_error", "message": message}}
    number = int(numbers[-1]) + 1 if numbers else 0
    return {"type": "response.failed", "sequence_number": number, "response": response}


def _begun_response(begun: bytes) -> dict[str, Json]:
    """The response as the first event of a stream describes it."""
    events = EventDecoder().feed(begun[:_END])
    try:
        response = decode_object(events[0].data).get("response") if events else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return dict(response) if isinstance(response, Mapping) else {}
