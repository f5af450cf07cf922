"""Values that several rows share: usage, errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import RowMapping

from lamella.core.tokens import Usage
from lamella.storage.columns import (
    ERROR,
    json_of,
    json_text,
)

Row = dict[str, Any]
"""Columns by name, as they are written."""


_USAGE = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")


USAGE_COLUMNS = (*(f"{name}_tokens" for name in _USAGE), "usage_estimated", "input_estimated")


def usage_row(usage: Usage) -> Row:
    figures = {f"{name}_tokens": getattr(usage, name) for name in _USAGE}
    return {**figures, "usage_estimated": usage.estimated, "input_estimated": usage.input_estimated}


def usage_of(row: RowMapping) -> Usage:
    """The usage of a row that has one."""
    figures = {name: row[f"{name}_tokens"] for name in _USAGE}
    return Usage(**figures, estimated=bool(row["usage_estimated"]), input_estimated=bool(row["input_estimated"]))


def error_text(error: Mapping[str, str | None] | None) -> str | None:
    """The column of an error object."""
    return None if error is None else json_text(error)


def error_of(value: str | None, what: str) -> Mapping[str, str | None] | None:
    return None if value is None else json_of(ERROR, value, what)
