"""The one error tree: a class answers whose fault it is and what the caller can do.

LamellaError
├── CallerError                 the caller must change the request
│   ├── InvalidRequest              invalid_request
│   ├── ContextLengthExceeded       context_length_exceeded
│   │   └── NeedsCompaction             the same, but a compaction can make room
│   ├── AuthenticationFailed        authentication_error
│   ├── PermissionDenied            permission_denied
│   ├── NotFound                    not_found
│   ├── TurnInProgress              turn_in_progress
│   ├── SessionMoved                session_moved
│   ├── HeadMoved                   head_moved
│   ├── FileInUse                   file_in_use
│   ├── NotWaiting                  not_waiting
│   ├── QueueFull                   queue_full
│   ├── IdempotencyMismatch         idempotency_mismatch
│   ├── PayloadTooLarge             payload_too_large
│   └── ClientLoops                 rate_limit_exceeded
├── ProviderError               the model's provider refused or failed
│   ├── ProviderRefusedKey          provider_error
│   ├── ProviderRefusedRequest      provider_error
│   ├── ProviderContextOverflow     context_length_exceeded
│   ├── ProviderUnreachable         provider_error
│   ├── ProviderStreamBroken        provider_error
│   ├── ProviderAnsweredNothing     provider_error
│   ├── ProviderRefusedAnswer       provider_error
│   ├── OutputLimitReached          provider_error
│   ├── ProviderRateLimited         rate_limit_exceeded
│   ├── ProviderOverloaded          overloaded
│   └── ProviderTimeout             provider_timeout
├── ToolFailed                  a tool failed; the model gets the error as the result
├── DynamicContextFailed        dynamic_context_failed; the message was not sent
├── LeaseLost                   a worker's lease expired: another worker has its job
├── StoreFailed                 the database or the file folder failed
│   └── StoreUnreachable            store_unreachable; the database may be back in a moment
├── ServerStopping              overloaded; the process is shutting down
├── NotReady                    overloaded; a part of the server does not work
├── TooManyConnections          overloaded; all connections are in use
└── ConfigurationError          a setting is missing or wrong; nothing was started
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar


def _text(quoted: str) -> str:
    """A text that may quote a request: half of a surrogate pair, which no answer and no log can hold, becomes “?”."""
    return quoted.encode("utf-8", "replace").decode()


class LamellaError(Exception):
    """`message` says what was wrong, `hint` what to do, `param` where (for example a field or the name of a file)."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, hint: str | None = None, param: str | None = None) -> None:
        message = _text(message)
        super().__init__(message)
        self.message = message
        self.hint = _text(hint) if hint is not None else None
        self.param = _text(param) if param is not None else None

    def as_dict(self) -> dict[str, str | None]:
        """The `error` object of API answers, error packets and stored turns; `error_of_fields` reads it."""
        return {
            "message": self.message,
            "type": type(self).__name__,
            "code": self.code,
            "param": self.param,
            "hint": self.hint,
        }


class CallerError(LamellaError):
    """The caller must change the request before sending it again."""

    code = "invalid_request"


class InvalidRequest(CallerError):
    """Something in the request is malformed, missing or contradictory."""


class ContextLengthExceeded(CallerError):
    """The request does not fit the model's window, even with every file listed instead of included."""

    code = "context_length_exceeded"


class NeedsCompaction(ContextLengthExceeded):
    """The window fits once everything up to the turn `cut` is summarised (law 7)."""

    def __init__(self, message: str, *, cut: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.cut = cut


class AuthenticationFailed(CallerError):
    """No credentials, or unknown ones."""

    code = "authentication_error"


class PermissionDenied(CallerError):
    """The caller is known but may not do this."""

    code = "permission_denied"


class NotFound(CallerError):
    """The object does not exist or belongs to another user. Both get the same answer."""

    code = "not_found"


class TurnInProgress(CallerError):
    """The conversation is still answering."""

    code = "turn_in_progress"


class SessionMoved(CallerError):
    """The conversation is in another session than the caller believed; nothing was changed."""

    code = "session_moved"


class HeadMoved(CallerError):
    """The conversation's current turn is not the one that the caller expected. Nothing was changed."""

    code = "head_moved"


class FileInUse(CallerError):
    """A message or a project holds the file."""

    code = "file_in_use"


class NotWaiting(CallerError):
    """The message does not wait in the queue any more."""

    code = "not_waiting"


class QueueFull(CallerError):
    """As many messages wait in the conversation as may."""

    code = "queue_full"


class IdempotencyMismatch(CallerError):
    """The same Idempotency-Key came with another body."""

    code = "idempotency_mismatch"


class PayloadTooLarge(CallerError):
    """More bytes than the setting allows."""

    code = "payload_too_large"


class ClientLoops(CallerError):
    """The client sends requests of which nothing comes, and the deployment refuses loops."""

    code = "rate_limit_exceeded"


class ProviderError(LamellaError):
    """The model's provider refused the request or failed. `retryable`: the same request may succeed later.

    `retry_after` is the pause in seconds that the provider asks for, None if it gives none.
    """

    code = "provider_error"
    retryable: ClassVar[bool] = False
    retry_after: float | None = None

    def as_dict(self) -> dict[str, str | None]:
        """As of every error, with the pause if there is one."""
        pause = {} if self.retry_after is None else {"retry_after": f"{self.retry_after:g}"}
        return {**super().as_dict(), **pause}


class ProviderRefusedKey(ProviderError):
    """The provider does not accept the key."""


class ProviderRefusedRequest(ProviderError):
    """The provider calls the request invalid."""


class ProviderContextOverflow(ProviderError):
    """The prompt has more tokens than the model's window.

    `counted` is the provider's count of the prompt, `limit` its maximum; None if it did not say.
    """

    code = "context_length_exceeded"
    counted: int | None = None
    limit: int | None = None


class ProviderUnreachable(ProviderError):
    """No connection to the provider."""

    retryable = True


class ProviderStreamBroken(ProviderError):
    """The answer began and then broke off or made no sense."""

    retryable = True


class ProviderAnsweredNothing(ProviderError):
    """The model ended its answer without a word and without a call."""


class ProviderRefusedAnswer(ProviderError):
    """The model, or a filter of its provider, refused to answer before anything of an answer came."""


class OutputLimitReached(ProviderError):
    """The tokens of an answer were used up before there was one: by thinking, or by a call that does not fit them."""


class ProviderRateLimited(ProviderError):
    """The provider asks to wait."""

    code = "rate_limit_exceeded"
    retryable = True


class ProviderOverloaded(ProviderError):
    """The provider has no capacity at the moment."""

    code = "overloaded"
    retryable = True


class ProviderTimeout(ProviderError):
    """The provider did not answer in time."""

    code = "provider_timeout"
    retryable = True


class ToolFailed(LamellaError):
    """A tool could not do its work; the text goes back to the model as an error result."""

    code = "tool_failed"


class DynamicContextFailed(LamellaError):
    """A provider of dynamic context failed or took too long; the message was not sent."""

    code = "dynamic_context_failed"


class LeaseLost(LamellaError):
    """Another process took over a job, or all that this process did. The late result was not stored."""

    code = "lease_lost"


class StoreFailed(LamellaError):
    """The database or the file folder failed; nothing was changed."""

    code = "store_failed"


class StoreUnreachable(StoreFailed):
    """The database does not answer now, or takes no changes. The same request may succeed in a moment."""

    code = "store_unreachable"


class ServerStopping(LamellaError):
    """The process is ending; nothing was begun."""

    code = "overloaded"


class NotReady(LamellaError):
    """A part that the server needs does not work; `param` names it."""

    code = "overloaded"


class TooManyConnections(LamellaError):
    """All connections are in use by requests that are being answered."""

    code = "overloaded"


class ConfigurationError(LamellaError):
    """A setting is missing or wrong."""

    code = "configuration_error"


def error_of_fields(fields: Mapping[str, str | None]) -> LamellaError:
    """The error of an `error` object; one of a kind that is not known any more has the general code."""
    kind = next((kind for kind in _kinds(LamellaError) if kind.__name__ == fields.get("type")), LamellaError)
    kind = ContextLengthExceeded if kind is NeedsCompaction else kind
    error = kind(fields.get("message") or "The request failed.", hint=fields.get("hint"), param=fields.get("param"))
    if isinstance(error, ProviderError) and (pause := fields.get("retry_after")):
        error.retry_after = float(pause)
    return error


def _kinds(kind: type[LamellaError]) -> Iterator[type[LamellaError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)
