"""Files given back as they came, and removed where nothing holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.messages import Image
from lamella.core.records import File
from lamella.llm.scripted import ScriptedModel, saying
from lamella.server.testing import ServerClient

from .asking import error_of

pytestmark = pytest.mark.anyio

HTML = b"<html><body><script>alert(1)</script>Text.</body></html>"


async def picture(app: App, media_type: str = "image/png") -> str:
    """A stored picture's id."""
    id = app.ids.new("file")
    row = File(id, "ä b.png", media_type, 4, "ready", 0, app.clock.now(), width=640, height=480)
    async with app.uploads.receive(id) as path:
        path.write_bytes(b"\x89PNG")
    await app.store.files.add_file(LOCAL_OWNER, row, None, Image(id, media_type, 640, 480, "d", b"\x89PNG"))
    return id


async def test_a_file_is_given_back_as_it_came_and_only_to_be_saved(client: ServerClient) -> None:
    file = await client.upload("page “1”.html", HTML)
    answer = await client.call("GET", f"/files/{file['id']}/content")
    assert (answer.status_code, answer.content) == (200, HTML)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename*=utf-8''page%20%E2%80%9C1%E2%80%9D.html"
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "Text." in (await client.get(f"/files/{file['id']}/text"))["text"]


@pytest.mark.parametrize(("media_type", "shown"), [("image/png", True), ("image/svg+xml", False)])
async def test_only_pictures_are_shown(client: ServerClient, app: App, media_type: str, shown: bool) -> None:
    id = await picture(app, media_type)
    described = await client.get(f"/files/{id}")
    assert (described["status"], described["tokens"], described["width"], described["height"]) == ("ready", 0, 640, 480)
    answer = await client.call("GET", f"/files/{id}/content")
    assert answer.headers["content-type"] == (media_type if shown else "application/octet-stream")
    assert answer.headers["content-disposition"].partition(";")[0] == ("inline" if shown else "attachment")
    assert answer.headers["content-security-policy"] == "sandbox"


async def test_a_file_is_removed_with_its_bytes(client: ServerClient, app: App, tmp_path: Path) -> None:
    file = await client.upload("a.txt", b"Text.")
    assert await app.uploads.size(file["id"]) == 5
    assert (await client.call("DELETE", f"/files/{file['id']}")).status_code == 204
    assert await app.uploads.size(file["id"]) is None
    error_of(await client.call("GET", f"/files/{file['id']}"), 404, "not_found", "file_id")
    assert (await client.get("/files"))["data"] == []


async def test_a_file_that_is_held_stays_until_it_is_let_go(
    client: ServerClient, app: App, model: ScriptedModel
) -> None:
    model.then(saying("Hi."))
    file = await client.upload("a.txt", b"Text.")
    project = await client.post("/projects", {"name": "Plan", "file_ids": [file["id"]]})
    conversation = await client.conversation(title="Costs")
    await client.send(conversation, "Hello", file_ids=[file["id"]])
    for holder, remove in (
        ("conversation “Costs”", f"/conversations/{conversation}"),
        ("project “Plan”", f"/projects/{project['id']}"),
    ):
        error = error_of(await client.call("DELETE", f"/files/{file['id']}"), 409, "file_in_use", "file_id")
        assert holder in error["hint"]
        assert (await client.call("GET", f"/files/{file['id']}/content")).content == b"Text."
        assert (await client.call("DELETE", remove)).status_code == 204
    assert (await client.call("DELETE", f"/files/{file['id']}")).status_code == 204


async def test_bytes_that_are_missing_are_an_error_that_says_so(client: ServerClient, app: App) -> None:
    file = await client.upload("a.txt", b"Text.")
    await app.uploads.remove(file["id"])
    error = error_of(await client.call("GET", f"/files/{file['id']}/content"), 500, "store_failed", None)
    assert "a.txt" in error["message"]


@pytest.mark.parametrize(
    ("asked", "status", "given", "range"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=7-99", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=-99", 200, b"0123456789", None),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=-0", 416, b"", "bytes */10"),
        ("bytes=5-2", 200, b"0123456789", None),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
    ],
)
async def test_a_part_of_a_file_can_be_asked_for(
    client: ServerClient, asked: str, status: int, given: bytes, range: str | None
) -> None:
    file = await client.upload("a.txt", b"0123456789")
    answer = await client.call("GET", f"/files/{file['id']}/content", headers={"range": asked})
    assert (answer.status_code, answer.content, answer.headers.get("content-range")) == (status, given, range)
    assert answer.headers["content-length"] == str(len(given))
    other = {"range": asked, "if-range": '"another"'}
    assert (await client.call("GET", f"/files/{file['id']}/content", headers=other)).content == b"0123456789"
