"""The line of turns that leads to a place: each with the answer that it follows."""

from __future__ import annotations

from sqlalchemy import CTE, literal, select

from lamella.core.records import Caller, Place
from lamella.storage.tables import turns


def line_of(caller: Caller, place: Place, after: str | None, most: int | None = None) -> CTE:
    """The turns from `place` back to the first, or to the one behind `after`, at most `most`.

    `depth` counts from the place; `followed` is the run whose answer the next turn of the line follows.
    """
    mine = select(turns.c.id, turns.c.parent_id, turns.c.parent_run_id, turns.c.status)
    mine = mine.where(turns.c.owner == caller.user_id)
    line = mine.add_columns(
        literal(0).label("depth"), literal(place.run_id, turns.c.parent_run_id.type).label("followed")
    )
    line_cte = line.where(turns.c.id == place.turn_id).cte("line", recursive=True)
    older = mine.add_columns(line_cte.c.depth + 1, line_cte.c.parent_run_id).where(turns.c.id == line_cte.c.parent_id)
    if after is not None:
        older = older.where(turns.c.id != after)
    if most is not None:
        older = older.where(line_cte.c.depth + 1 < most)
    return line_cte.union_all(older)
