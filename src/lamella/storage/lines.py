"""The line of turns that leads to a head: each with the one that it follows."""

from __future__ import annotations

from sqlalchemy import CTE, literal, select

from lamella.core.records import Caller
from lamella.storage.schema import turns


def line_of(caller: Caller, head: str, after: str | None) -> CTE:
    """The turns from `head` back to the first, or to the one behind `after`; `depth` counts from the head."""
    mine = select(turns.c.id, turns.c.parent_id, turns.c.status).where(turns.c.owner == caller.user_id)
    line = mine.add_columns(literal(0).label("depth")).where(turns.c.id == head).cte("line", recursive=True)
    older = mine.add_columns(line.c.depth + 1).where(turns.c.id == line.c.parent_id)
    if after is not None:
        older = older.where(turns.c.id != after)
    return line.union_all(older)
