"""The numbers of a project's documents in a conversation: given once, and never used twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.records import AgentAndProject, ProjectContent
from lamella.storage import Store

from .conftest import Backing
from .examples import ANN, NOON, agent, conversation, file, minutes, new_turn, turn_end

pytestmark = pytest.mark.anyio


async def _conversation(store: Store, files: tuple[str, ...]) -> None:
    for number in range(1, 6):
        await store.files.add_file(ANN, file(f"file_{number}"), f"text {number}")
    await store.library.add_project(ANN, "proj_1", ProjectContent("Plan", "Be exact.", files), NOON)
    await store.conversations.create_conversation(ANN, replace(conversation(), project_id="proj_1"))


async def _hold(store: Store, *files: str) -> None:
    await store.library.change_project(ANN, "proj_1", lambda now: replace(now, file_ids=files), minutes(1))


def _numbers(found: AgentAndProject) -> dict[str, int]:
    assert found.project is not None
    return {one.file_id: one.document for one in found.project.files}


async def test_a_conversation_without_any_is_surrounded_by_nothing(store: Store) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    assert await store.snapshots.agent_and_project(ANN, "conv_1", None) == AgentAndProject()


async def test_agent_and_project_come_with_all_that_a_window_needs(store: Store) -> None:
    await _conversation(store, ("file_2", "file_1"))
    await store.library.add_agent(ANN, agent(), NOON)
    found = await store.snapshots.agent_and_project(ANN, "conv_1", "agent_1")
    assert found.agent == agent()
    assert found.project is not None
    assert (found.project.name, found.project.instructions, found.project.revision) == ("Plan", "Be exact.", 1)
    assert [one.text for one in found.project.files] == ["text 2", "text 1"]


async def test_numbers_are_kept_and_never_used_twice(store: Store, backing: Backing) -> None:
    await _conversation(store, ("file_2", "file_1"))
    assert _numbers(await store.snapshots.agent_and_project(ANN, "conv_1", None)) == {"file_2": 1, "file_1": 2}
    begun = await store.turns.begin_turn(ANN, new_turn(files=("file_3",)), NOON)
    assert [one.document for one in begun.user.attachments] == [3]
    await store.turns.finish_turn(ANN, turn_end())
    await _hold(store, "file_4", "file_1")
    assert _numbers(await store.snapshots.agent_and_project(ANN, "conv_1", None)) == {"file_4": 4, "file_1": 2}
    await _hold(store, "file_2", "file_5", "file_4", "file_1")
    before = {"file_2": 1, "file_5": 5, "file_4": 4, "file_1": 2}
    assert _numbers(await store.snapshots.agent_and_project(ANN, "conv_1", None)) == before
    async with await backing.open() as again:
        assert _numbers(await again.snapshots.agent_and_project(ANN, "conv_1", None)) == before


async def test_a_look_ahead_stores_nothing(store: Store, backing: Backing) -> None:
    await _conversation(store, ("file_2", "file_1"))
    before = backing.dump()
    ahead = await store.snapshots.agent_and_project(ANN, "conv_1", None, keep=False)
    assert _numbers(ahead) == {"file_2": 1, "file_1": 2}
    would = await store.files.attachments(ANN, "conv_1", ("file_3", "file_1"), ahead.files)
    assert [(one.document, one.use) for one in would] == [(3, 0), (2, 1)]
    assert backing.dump() == before
    assert await store.snapshots.agent_and_project(ANN, "conv_1", None) == ahead


async def test_a_file_has_one_number_whatever_brings_it(store: Store) -> None:
    """Its uses stand in the window apart: each of them is admitted for itself."""
    await _conversation(store, ("file_2",))
    await _hold(store)
    first = await store.turns.begin_turn(ANN, new_turn(files=("file_1", "file_2")), NOON)
    await store.turns.finish_turn(ANN, turn_end())
    await _hold(store, "file_3", "file_2")
    around = await store.snapshots.agent_and_project(ANN, "conv_1", None)
    again = await store.turns.begin_turn(ANN, new_turn("turn_2", files=("file_2", "file_3")), minutes(1))
    found = [(one.file_id, one.document, one.use) for one in (*first.user.attachments, *around.files)]
    assert found == [("file_1", 1, 0), ("file_2", 2, 0), ("file_3", 3, 0), ("file_2", 2, 1)]
    assert [(one.file_id, one.document, one.use) for one in again.user.attachments] == [
        ("file_2", 2, 2),
        ("file_3", 3, 1),
    ]
    assert await store.snapshots.agent_and_project(ANN, "conv_1", None) == around
    assert (await store.turns.attached(ANN, "conv_1", "file_2")).document == 2
    assert [turn.user for turn in await store.turns.path(ANN, "conv_1")] == [first.user, again.user]


async def test_each_conversation_of_a_project_has_its_own_numbers(store: Store) -> None:
    await _conversation(store, ("file_2", "file_1"))
    await store.conversations.create_conversation(ANN, replace(conversation("conv_2"), project_id="proj_1"))
    await store.turns.begin_turn(ANN, new_turn(conversation_id="conv_2", files=("file_3",)), NOON)
    assert _numbers(await store.snapshots.agent_and_project(ANN, "conv_2", None)) == {"file_2": 2, "file_1": 3}
    assert _numbers(await store.snapshots.agent_and_project(ANN, "conv_1", None)) == {"file_2": 1, "file_1": 2}
