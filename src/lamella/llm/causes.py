"""What broke a connection, in plain words: the one place where errors of libraries become text for people.

Every library wraps what happened in errors of its own, with texts for programmers. What they were raised from is a
plain fact: a name that nobody has, a port where nobody listens, a certificate, bytes that make no sense.
"""

from __future__ import annotations

import errno
import socket
import ssl
import zlib
from collections.abc import Iterator

import structlog

log = structlog.get_logger()

_DEEPEST = 12
"""Errors of a chain that are looked at."""

_NO_ROUTE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN}
_UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)


def cause_of(error: BaseException, *, began: bool) -> str:
    """Why a connection failed, or an answer that `began`; a half sentence. The error itself is in the log."""
    chain = list(_chain(error))
    log.info("a connection failed", errors=[type(one).__qualname__ for one in chain], began=began)
    known = next((said for one in chain if (said := _of(one))), "")
    if known:
        return known
    if isinstance(error, _UNREADABLE):
        return "what it sent can't be read"
    return (
        "the connection ended before the answer was whole" if began else "the connection ended without a valid answer"
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from, also where the library hides that."""
    found: BaseException | None = error
    for _ in range(_DEEPEST):
        if found is None:
            return
        yield found
        inner = found.exceptions[0] if isinstance(found, BaseExceptionGroup) else None
        found = inner or found.__cause__ or found.__context__


def _of(error: BaseException) -> str:
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
            return "what it sent can't be unpacked"
        case _:
            status = getattr(getattr(error, "response", None), "status_code", None)
            return f"it answered {status}" if isinstance(status, int) else ""
