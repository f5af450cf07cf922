"""Logs go to stderr, as lines for people on a terminal and as JSON elsewhere."""

from __future__ import annotations

import sys

import structlog


def configure_logs() -> None:
    """Set the log's form once, at the start of a server."""
    shape: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            shape,
        ],
        # Asked for with every line: what stderr is may change while the process lives.
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
    )
