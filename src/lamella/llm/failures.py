"""Maps a provider's refusal or failure to our error tree, with a hint.

`cause_of` says in plain words what broke a connection. Libraries wrap the cause in errors of their own, with texts for
programmers; this is the one place that unwraps them. Examples: no such host, nothing listens at the port, a bad
certificate, an unreadable answer.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping

import structlog

from lamella.core.errors import (
    ProviderContextOverflow,
    ProviderError,
    ProviderOverloaded,
    ProviderRateLimited,
    ProviderRefusedKey,
    ProviderRefusedRequest,
    ProviderStreamBroken,
    ProviderTimeout,
    ProviderUnreachable,
)

log = structlog.get_logger()

_OVERFLOW_SIGNS = (
    "prompt is too long",
    "input is too long",
    "context_length_exceeded",
    "context window",
    "context limit",
    "context size",
    "maximum context length",
    "maximum model length",
    "maximum number of tokens",
    "too large for model",
)
_SHRINK = "Start a new conversation or choose a model with a larger window."
_KEPT = "What came is kept. Send the message again."
_LEAST_FIGURE = 256
"""A smaller number in a refusal is no size of a prompt or a window."""

_LONGEST = 400
"""Characters of a provider's text that a message repeats: proxies answer with whole pages."""

MALFORMED = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""Errors raised by an answer that is not as documented, because events are read without checking them first."""


def of_status(provider: str, status: int, body: object, key_variable: str, retry_after: str | None) -> ProviderError:
    """The error of an HTTP answer with this body. `key_variable` is the setting that holds the key."""
    error = _of_status(provider, status, body, key_variable, retry_after)
    if retry_after is not None and _is_number(retry_after):
        error.retry_after = float(retry_after)
    return error


def _of_status(provider: str, status: int, body: object, key_variable: str, retry_after: str | None) -> ProviderError:
    message = ": ".join(part for part in said_in(body) if part)
    said = f"{provider} answered {status}{f': {_short(message)}' if message else _silent(body)}"
    wait = f"Try again in {retry_after} s." if _is_number(retry_after) else "Try again in a moment."
    no_credit = ProviderRefusedKey(said, hint=f"Check the billing of the account behind {key_variable}.")
    match status:
        case 401 | 403:
            return ProviderRefusedKey(said, hint=f"Check {key_variable} and that the key may use this model.")
        case 402:
            return no_credit
        case 404:
            return ProviderRefusedRequest(said, hint="Check the name in LAMELLA_MODEL and the base URL.")
        case 408 | 504:
            return ProviderTimeout(said, hint=wait)
        case 413:
            return _overflow(said, message)
        case 429 if "insufficient_quota" in message:
            return no_credit
        case 429:
            return ProviderRateLimited(said, hint=wait)
        case 503 | 529:
            return ProviderOverloaded(said, hint=wait)
        case _ if status >= 500:
            return ProviderUnreachable(said, hint=wait)
        case _ if status < 400:
            return ProviderRefusedRequest(said, hint="Check the base URL: what answers there is not the provider.")
        case _ if _overflows(message):
            return _overflow(said, message)
        case _:
            return ProviderRefusedRequest(said, hint="The request's map and its raw body show the details.")


_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)


def said_in(body: object) -> tuple[str, str]:
    """The code and message of an error in a provider's body, "" for a missing one.

    The plain-text page of a proxy is quoted; an HTML page is not.
    """
    error = body.get("error") if isinstance(body, Mapping) else None
    match error if isinstance(error, Mapping) else body:
        case {"message": str(text), "code": str(name)} | {"message": str(text), "type": str(name)}:
            return name, text
        case {"message": str(text)}:
            return "", text
        case {"error": str(text)} | {"detail": str(text)} | str(text):
            return "", "" if _PAGE.match(text) else text
        case _:
            return "", ""


def _silent(body: object) -> str:
    """The message for an empty body."""
    is_page = isinstance(body, str) and _PAGE.match(body)
    return " with a web page: something else answers there, such as a proxy." if is_page else " and did not say why."


def _overflows(message: str) -> bool:
    return any(sign in message.lower() for sign in _OVERFLOW_SIGNS)


_TOKENS = re.compile(r"(?<![\w.:/-])\d{1,3}(?:,\d{3})+(?![\w:/-])|(?<![\w.:/-])\d+(?![\w:/-])")


def _overflow(said: str, message: str) -> ProviderContextOverflow:
    error = ProviderContextOverflow(said, hint=_SHRINK)
    error.counted, error.limit = figures_of(message)
    return error


def figures_of(message: str) -> tuple[int | None, int | None]:
    """The token count and the limit in a refusal of a prompt; None if it does not give them.

    `prompt is too long: 210342 tokens > 200000 maximum` gives (210342, 200000). Room for the answer is subtracted:
    `exceed context limit: 188240 + 21333 > 200000` gives (188240, 178667).
    """
    found = [int(number.replace(",", "")) for number in _TOKENS.findall(message)]
    match [number for number in found if number >= _LEAST_FIGURE]:
        case [limit]:
            return None, limit
        case [one, other] if one != other:
            return max(one, other), min(one, other)
        case [prompt, output, limit] if "+" in message and limit > output:
            return prompt, limit - output
        case [limit, whole, prompt, output] if whole == prompt + output and limit > output:
            return prompt, limit - output
        case _:
            return None, None


def _short(text: str) -> str:
    """A text in one line, cut if long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


def _is_number(text: str | None) -> bool:
    """Whether a `retry-after` is in seconds; it may be a date."""
    return text is not None and text.replace(".", "", 1).isdecimal()


def unreachable(provider: str, base_url: str, cause: str) -> ProviderError:
    """No connection; `cause` is a half sentence (`causes.cause_of`)."""
    return ProviderUnreachable(
        f"{provider} can't be reached at {base_url}: {cause}.", hint="Check the network and the base URL."
    )


def timed_out(provider: str) -> ProviderError:
    """No answer in time."""
    return ProviderTimeout(f"{provider} did not answer in time.", hint="Try again in a moment.")


def broken(provider: str, cause: str) -> ProviderError:
    """The stream ended or made no sense in the middle of an answer; `cause` is a half sentence."""
    return ProviderStreamBroken(f"{provider} broke off in the middle of the answer: {cause}.", hint=_KEPT)


def in_stream(provider: str, type: str, message: str) -> ProviderError:
    """An `error` event after the provider had accepted the request; OpenAI's `code` says more than its type."""
    named = ": ".join(part for part in (type, _short(message)) if part)
    said = f"{provider} failed in the middle of the answer{f': {named}' if named else ' and did not say why.'}"
    if _overflows(f"{type} {message}"):
        return _overflow(said, message)
    if type == "overloaded_error":
        return ProviderOverloaded(said, hint=_KEPT)
    if type in ("rate_limit_error", "rate_limit_exceeded"):
        return ProviderRateLimited(said, hint=_KEPT)
    return ProviderStreamBroken(said, hint=_KEPT)


_DEEPEST = 12
"""Errors of a chain that are looked at."""

_NO_ROUTE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN}
_UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)


def cause_of(error: BaseException, *, began: bool) -> str:
    """Why a connection failed, or an answer that `began`; a half sentence. The error itself is in the log."""
    chain = list(_chain(error))
    log.info("a connection failed", errors=[type(one).__qualname__ for one in chain], began=began)
    known = next((said for one in chain if (said := _cause(one))), "")
    if known:
        return known
    if isinstance(error, _UNREADABLE):
        return "its answer can't be read"
    return (
        "the connection ended before the answer was whole" if began else "the connection ended without a valid answer"
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, including those that the library hides."""
    found: BaseException | None = error
    for _ in range(_DEEPEST):
        if found is None:
            return
        yield found
        inner = found.exceptions[0] if isinstance(found, BaseExceptionGroup) else None
        found = inner or found.__cause__ or found.__context__


def _cause(error: BaseException) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return "its TLS certificate is not trusted here"
        case ssl.SSLError():
            return "no TLS connection could be made with it"
        case socket.gaierror():
            return "there is no host of this name"
        case ConnectionRefusedError():
            return "nothing listens at this address"
        case OSError(errno=number) if number in _NO_ROUTE:
            return "there is no route to this address"
        case zlib.error():
            return "its answer can't be unpacked"
        case _:
            return ""
