"""Writes a trace as the JSON that `reader` reads."""

from __future__ import annotations

from typing import Any

import msgspec

from lamella.core.json import encode
from lamella_lab.trace.format import Trace, TraceEntry, TraceTurn
from lamella_lab.trace.reader import COMMAND, MESSAGE


def encode_trace(trace: Trace) -> bytes:
    """The bytes of its file."""
    return encode(written(trace))


def written(trace: Trace) -> dict[str, Any]:
    """The JSON object of a trace."""
    head: dict[str, Any] = msgspec.to_builtins(trace.head)
    return head | {"turns": [_entry(entry) for entry in trace.entries]}


def _entry(entry: TraceEntry) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(entry)
    if isinstance(entry, TraceTurn) and COMMAND.match(entry.user):
        made = {"at": made.pop("at"), "do": MESSAGE, **made}
    return made
