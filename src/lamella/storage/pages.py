"""Pages of a list by the key of its last item, so that a page stays right while rows come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, RowMapping, Select

from lamella.core.records import PageQuery


def page(
    connection: Connection, rows: Select[*tuple[Any, ...]], key: Column[str], query: PageQuery
) -> tuple[Sequence[RowMapping], bool]:
    """One page of `rows` by their id `key`, and whether another follows."""
    rising = query.order == "asc"
    if query.after is not None:
        rows = rows.where(key > query.after if rising else key < query.after)
    limited = rows.order_by(key.asc() if rising else key.desc()).limit(query.limit + 1)
    found = connection.execute(limited).mappings().all()
    return found[: query.limit], len(found) > query.limit
