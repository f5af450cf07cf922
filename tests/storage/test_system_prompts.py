from __future__ import annotations

import asyncio

import pytest

from lamella.core.errors import InvalidRequest
from lamella.core.records import PageQuery, SystemPrompt
from lamella.storage import Store

from .examples import ANN, BOB, NOON, minutes

pytestmark = pytest.mark.anyio


async def test_versions_are_counted_from_one_for_each_owner(store: Store) -> None:
    assert await store.library.newest_system_prompt(ANN) is None
    first = await store.library.add_system_prompt(ANN, "Be brief.", "shorter", NOON)
    second = await store.library.add_system_prompt(ANN, "Be brief.", "", minutes(1))
    assert (first, second) == (
        SystemPrompt(1, "Be brief.", "shorter", NOON),
        SystemPrompt(2, "Be brief.", "", minutes(1)),
    )
    assert (await store.library.add_system_prompt(BOB, "Be long.", "", NOON)).version == 1
    assert await store.library.system_prompt(ANN, 1) == first
    assert await store.library.newest_system_prompt(ANN) == second


async def test_versions_written_at_once_are_different_ones(store: Store) -> None:
    made = await asyncio.gather(*(store.library.add_system_prompt(ANN, f"Text {n}", "", NOON) for n in range(5)))
    assert sorted(one.version for one in made) == [1, 2, 3, 4, 5]


async def test_pages_go_by_number(store: Store) -> None:
    for number in range(11):
        await store.library.add_system_prompt(ANN, f"Text {number}", "", NOON)
    newest = await store.library.system_prompts(ANN, PageQuery(limit=2))
    assert ([one.version for one in newest.data], newest.has_more) == ([11, 10], True)
    older = await store.library.system_prompts(ANN, PageQuery(limit=2, after="10"))
    assert [one.version for one in older.data] == [9, 8]
    rising = await store.library.system_prompts(ANN, PageQuery(limit=20, after="9", order="asc"))
    assert ([one.version for one in rising.data], rising.has_more) == ([10, 11], False)
    for nonsense in ("x", "-1", "1.5", "٣", "9" * 40):
        with pytest.raises(InvalidRequest):
            await store.library.system_prompts(ANN, PageQuery(after=nonsense))
