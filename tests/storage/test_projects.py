from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.errors import FileInUse, InvalidRequest, NotFound
from lamella.core.records import PageQuery, ProjectContent
from lamella.storage import Store

from .conftest import Backing
from .examples import ANN, BOB, NOON, conversation, file, minutes, picture

pytestmark = pytest.mark.anyio


async def _files(store: Store, count: int = 3) -> tuple[str, ...]:
    for number in range(1, count + 1):
        await store.files.add_file(ANN, file(f"file_{number}"), f"text {number}")
    return tuple(f"file_{number}" for number in range(1, count + 1))


async def test_a_project_keeps_the_order_of_its_files(store: Store) -> None:
    one, two, three = await _files(store)
    content = ProjectContent("Plan 🦎", "Be exact.", (three, one))
    stored = await store.library.add_project(ANN, "proj_1", content, NOON)
    assert (stored.content, stored.revision, stored.created_at) == (content, 1, NOON)
    assert await store.library.project(ANN, "proj_1") == stored
    changed = await store.library.change_project(
        ANN, "proj_1", lambda now: replace(now, file_ids=(*now.file_ids, two)), minutes(1)
    )
    assert ([held.id for held in changed.files], changed.revision, changed.updated_at) == (
        [three, one, two],
        2,
        minutes(1),
    )
    assert await store.library.change_project(ANN, "proj_1", lambda now: now, minutes(2)) == changed
    await store.library.add_project(ANN, "proj_2", ProjectContent("Empty"), NOON)
    assert [one.id for one in (await store.library.projects(ANN, PageQuery())).data] == ["proj_2", "proj_1"]


async def test_it_holds_pictures_which_are_not_searched(store: Store, backing: Backing) -> None:
    row, image = picture("picture")
    await store.files.add_file(ANN, row, None, image)
    await store.library.add_project(ANN, "proj_1", ProjectContent("Plan", "", ("picture",)), NOON)
    await store.conversations.create_conversation(ANN, replace(conversation(), project_id="proj_1"))
    around = await store.snapshots.agent_and_project(ANN, "conv_1", None)
    assert around.project is not None
    assert [(held.title, held.image) for held in around.project.files] == [(row.name, image)]
    assert "knowledge_documents" not in backing.dump()
    with pytest.raises(FileInUse):
        await store.files.delete_file(ANN, "picture")


@pytest.mark.parametrize("wrong", ["failed", "foreign", "unknown"])
async def test_a_file_that_it_cannot_hold_changes_nothing(store: Store, backing: Backing, wrong: str) -> None:
    await store.files.add_file(ANN, file("failed", reason="It is encrypted."), None)
    await store.files.add_file(BOB, file("foreign"), "text")
    await store.library.add_project(ANN, "proj_1", ProjectContent("Plan"), NOON)
    before = backing.dump()
    with pytest.raises(InvalidRequest if wrong == "failed" else NotFound) as caught:
        await store.library.change_project(
            ANN, "proj_1", lambda now: replace(now, name="N", file_ids=(wrong,)), minutes(1)
        )
    assert caught.value.param == "file_ids"
    with pytest.raises(type(caught.value)):
        await store.library.add_project(ANN, "proj_2", ProjectContent("Other", "", (wrong,)), NOON)
    assert backing.dump() == before


async def test_a_deleted_project_leaves_its_files_and_conversations(store: Store, backing: Backing) -> None:
    files = await _files(store, 1)
    await store.library.add_project(ANN, "proj_1", ProjectContent("Plan", "", files), NOON)
    await store.conversations.create_conversation(ANN, replace(conversation(), project_id="proj_1"))
    await store.snapshots.agent_and_project(ANN, "conv_1", None)
    await store.library.delete_project(ANN, "proj_1")
    assert (await store.conversations.conversation(ANN, "conv_1")).project_id is None
    await store.files.delete_file(ANN, files[0])
    await store.conversations.delete_conversation(ANN, "conv_1")
    assert backing.dump().keys() == {"knowledge_shelves"}
