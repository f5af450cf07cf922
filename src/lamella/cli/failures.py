"""Errors on a terminal: what was wrong and what to do, never a stack trace."""

from __future__ import annotations

import sys

from lamella.core.errors import CallerError, ConfigurationError, LamellaError


def exit_code_of(error: LamellaError) -> int:
    """2 when it was asked for wrongly, 1 when it failed."""
    return 2 if isinstance(error, CallerError | ConfigurationError) else 1


def report(error: LamellaError) -> None:
    """Print an error to stderr."""
    sys.stderr.write(f"lamella: {error.message}\n")
    if error.hint:
        sys.stderr.write(f"         {error.hint}\n")
