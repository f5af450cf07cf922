"""Which knowledge bases are closed to the reader of results that came from them: decided with each reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncConnection

from lamella.core.access import GrantLevel, level_of
from lamella.core.messages import ToolResult, Turn
from lamella.core.records import Caller, TurnRecord
from lamella.core.withheld import bases_of, with_held_back
from lamella.storage.grants import standings


async def closed_bases(connection: AsyncConnection, caller: Caller, results: Iterable[ToolResult]) -> frozenset[str]:
    """Of the bases that these results hold passages of, those that the caller may not read in full as it stands now."""
    named = {base for result in results for base in bases_of(result)}
    if not named:
        return frozenset()
    known = await standings(connection, caller, sorted(named))
    return frozenset(base for base in named if level_of(known[base]) is not GrantLevel.FULL)


async def turns_held_back(connection: AsyncConnection, caller: Caller, turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns without what came from bases that are closed to the caller."""
    results = (result for turn in turns for step in turn.steps for result in step.results)
    closed = await closed_bases(connection, caller, results)
    return tuple(replace(turn, steps=with_held_back(turn.steps, closed)) for turn in turns) if closed else tuple(turns)


async def records_held_back(
    connection: AsyncConnection, caller: Caller, records: Sequence[TurnRecord]
) -> tuple[TurnRecord, ...]:
    """As `turns_held_back`, for turns as clients see them."""
    results = (result for one in records for run in one.runs for step in run.steps for result in step.results)
    closed = await closed_bases(connection, caller, results)
    if not closed:
        return tuple(records)
    return tuple(
        replace(one, runs=tuple(replace(run, steps=with_held_back(run.steps, closed)) for run in one.runs))
        for one in records
    )
