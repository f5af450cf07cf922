"""What can go wrong with stored data, in plain words: statements, values and traces stay out of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog
from sqlalchemy.exc import IntegrityError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from lamella.core.errors import InvalidRequest, StoreFailed, StoreUnreachable

log = structlog.get_logger()

_RESTORE = "Restore the data folder from a backup."
_FAILED = "The database failed."

_UNREACHABLE = ("PostgreSQL can't be reached.", "Try again in a moment. Is the server of LAMELLA_DATABASE_URL up?")

_READ_ONLY = ("PostgreSQL takes no changes now.", "Try again in a moment. Is this server a standby, or full?")

_BUSY = ("The database is too busy.", "Try again in a moment.")

_CROWDED = ("The database takes no more connections.", "Raise its max_connections, or run fewer processes.")

_FORBIDDEN = ("The user of the database lacks a right.", "See docs/how-to/postgresql.md, or let it own the database.")

_EXPLANATIONS = (
    ("database or disk is full", "The disk is full: nothing was stored.", "Free some space, then try again."),
    ("database is locked", "The database is locked by another program.", "End the other program, then try again."),
    ("malformed", "The database file is damaged.", _RESTORE),
    ("file is not a database", "The database file is damaged.", _RESTORE),
    ("no such table", "The database lacks a table.", _RESTORE),
    ("unable to open database file", "The database file cannot be opened.", "Is the data folder there, and yours?"),
    ("readonly database", "The database file cannot be written.", "Is the data folder writable?"),
    ("disk i/o error", "The disk failed while the database was used.", "Look at the disk and its free space."),
    ("authentication failed", "The database refuses the user or the password.", "Look at LAMELLA_DATABASE_URL."),
    ("too many clients", *_CROWDED),
    ("too many connections", *_CROWDED),
    ("remaining connection slots", *_CROWDED),
    ("permission denied for database", *_FORBIDDEN),
    ('fatal:  database "', "The server has no such database.", "Make it: createdb --encoding UTF8 NAME"),
    ('fatal:  role "', "The server has no such user.", "Look at LAMELLA_DATABASE_URL."),
    ("connection failed", *_UNREACHABLE),
    ("connection is bad", *_UNREACHABLE),
    ("connection timeout", *_UNREACHABLE),
    ("server closed the connection", *_UNREACHABLE),
    ("terminating connection", *_UNREACHABLE),
    ("starting up", *_UNREACHABLE),
    ("shutting down", *_UNREACHABLE),
    ("the connection is lost", *_UNREACHABLE),
    ("no active connection", "The database is closed.", None),
    ("connection closed", "The database is closed.", None),
)


_STATES = {
    "25006": _READ_ONLY,
    "42501": _FORBIDDEN,
    "42P01": ("The database lacks a table.", "Restore the database from a backup."),
    "53100": ("The disk of the database is full: nothing was stored.", "Free some space, then try again."),
    "53300": _CROWDED,
    "57P01": _UNREACHABLE,
    "57P02": _UNREACHABLE,
    "57P03": _UNREACHABLE,
}
"""What PostgreSQL says, by its codes: its messages are in the language of the server. While a connection is made, the
client library tells no code: those are known by their words above."""


_PASSES = (_UNREACHABLE, _READ_ONLY, _CROWDED, _BUSY)
"""What may be over in a moment."""


CONTRADICTIONS: ContextVar[list[str] | None] = ContextVar("contradictions", default=None)
"""If it is a list, rows that contradict stored ones are noted in it and not logged: they may be no failure."""


def _failed(message: str, hint: str | None) -> StoreFailed:
    kind = StoreUnreachable if (message, hint) in _PASSES else StoreFailed
    return kind(message, hint=hint)


def failure(error: SQLAlchemyError) -> StoreFailed:
    """An error of the database as the store raises it."""
    if isinstance(error, PoolTimeout):
        return _failed(*_BUSY)
    if (known := _STATES.get(getattr(getattr(error, "orig", None), "sqlstate", None) or "")) is not None:
        return _failed(*known)
    cause = str(getattr(error, "orig", None) or type(error).__name__).split("\n", 1)[0]
    for symptom, message, hint in _EXPLANATIONS if not isinstance(error, IntegrityError) else ():
        if symptom in cause.lower():
            return _failed(message, hint)
    is_contradiction, kept = isinstance(error, IntegrityError), CONTRADICTIONS.get()
    if is_contradiction and kept is not None:
        kept.append(cause)
    else:
        log.error("the database failed", cause=cause)
    reason = "The data contradicts stored data." if is_contradiction else _FAILED
    return StoreFailed(reason, hint="Nothing was changed. The server's log has the cause.")


def damaged(what: str, detail: object) -> StoreFailed:
    """A row that can be read but makes no sense. What Python or a library says of it is in the log."""
    if isinstance(detail, Exception):
        log.error("a stored row is damaged", what=what, error=type(detail).__name__)
        return StoreFailed(f"A stored row is damaged: {what}.", hint=_RESTORE)
    return StoreFailed(f"A stored row is damaged: {what} ({detail}).", hint=_RESTORE)


@contextmanager
def unicode_only() -> Iterator[None]:
    """Text that no database can hold is the caller's fault."""
    try:
        yield
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        raise InvalidRequest(
            f"The text holds half of a surrogate pair (U+{half:04X}), which is no character.",
            hint="Send valid Unicode text.",
        ) from error


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors of the database into `StoreFailed`."""
    try:
        with unicode_only():
            yield
    except SQLAlchemyError as error:
        # The type of a column refused a value that was to be stored (`storage.columns`).
        if isinstance(error, StatementError) and isinstance(error.orig, InvalidRequest):
            raise error.orig from None
        raise failure(error) from error
