"""What every table is made with: the one metadata, and the columns that most of them have."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, MetaData, String

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
