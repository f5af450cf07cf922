"""What every table is made with: the one metadata, and the columns that most of them have."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Column, ForeignKey, Integer, MetaData, String, false

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)


def row_id() -> Column[str]:
    """The id of a row."""
    return Column("id", String, primary_key=True)


def owner(*, index: bool = False) -> Column[str]:
    """The user whose row it is."""
    return Column("owner", String, nullable=False, index=index)


def part_of(name: str, target: str, *, index: bool = True) -> Column[str]:
    """A reference to the row that this one belongs to and goes with."""
    return Column(name, String, ForeignKey(target, ondelete="CASCADE"), nullable=False, index=index)


def usage(*, nullable: bool) -> list[Column[Any]]:
    """The six figures of `core.tokens.Usage`, and whether the output or all of them are estimated."""
    names = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
    default = None if nullable else "0"
    figures = [Column(f"{name}_tokens", Integer, nullable=nullable, server_default=default) for name in names]
    marks = [
        Column(name, Boolean, nullable=nullable, server_default=None if nullable else false())
        for name in ("usage_estimated", "input_estimated")
    ]
    return [*figures, *marks]
