"""Logs go to stderr, as lines for people on a terminal and as JSON elsewhere; and to a file if one is set."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from lamella.core.errors import ConfigurationError


def configure_logs(file: Path | None = None) -> None:
    """Set the log's form once, at the start of a server. Raises `ConfigurationError` for a file that won't open."""
    shape: Processor = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *([LogFile(file)] if file is not None else []),
            shape,
        ],
        # Asked for with every line: what stderr is may change while the process lives.
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
    )


class LogFile:
    """Adds each line to a file that only its owner may read; a line that can't be written is not lost for stderr."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"The log file {path} can't be opened: {error.strerror}.",
                hint="Set LAMELLA_LOG_FILE to a file in a folder that can be written to.",
                param="LAMELLA_LOG_FILE",
            ) from None
        self._json = structlog.processors.JSONRenderer(ensure_ascii=False)

    def __call__(self, logger: WrappedLogger, name: str, line: EventDict) -> EventDict:
        """The line goes on as it is."""
        text = self._json(logger, name, dict(line))
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
        try:
            os.write(self._file, data + b"\n")
        except OSError as error:
            return {**line, "log_file": f"not written: {error.strerror}"}
        return line
