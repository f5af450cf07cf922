"""A server whose uploads are in S3-compatible storage: taken in, read, given back, removed, and what if it is away."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from lamella.app.app import sweep_files
from lamella.core.errors import ConfigurationError
from lamella.llm.scripted import ScriptedModel, ScriptedModels
from lamella.server.testing import ServerClient, served
from lamella.settings import Settings, read_settings
from lamella.storage.file_store import DAY, MARK, open_files
from lamella.storage.migrate import migrate
from s3 import S3Server, in_between

pytestmark = pytest.mark.anyio
GERMAN = "Die Wärmepumpe der Mühle wurde im März geprüft. " * 200


def settings_of(data: Path, bucket: str) -> Settings:
    return read_settings(data=data, files=f"s3://{bucket}/lamella")


async def document_of(client: ServerClient, base: str) -> dict[str, object]:
    """The one document of a base, when it is ready."""
    async with asyncio.timeout(60):
        while True:
            [document] = (await client.get(f"/knowledge-bases/{base}/documents"))["data"]
            if document["state"] in ("ready", "failed"):
                return dict(document)
            await asyncio.sleep(0.05)


async def test_files_and_documents_are_kept_read_and_removed_there(tmp_path: Path, bucket: str) -> None:
    files = open_files(f"s3://{bucket}/lamella")
    async with served(settings_of(tmp_path, bucket), models=ScriptedModels(ScriptedModel())) as (_, client):
        file = await client.upload("pumpe.txt", GERMAN.encode())
        assert file["status"] == "ready"
        path = f"/files/{file['id']}/content"
        assert (await client.call("GET", path)).content == GERMAN.encode()
        part = await client.call("GET", path, headers={"range": "bytes=4-15"})
        assert (part.status_code, part.content) == (206, GERMAN.encode()[4:16])
        base = (await client.post("/knowledge-bases", {"name": "Mill"}))["id"]
        upload = {"file": ("pump.md", (GERMAN * 9).encode())}
        await client.call("POST", f"/knowledge-bases/{base}/documents", files=upload)
        document = await document_of(client, base)
        assert (document["state"], document["searchable_version"]) == ("ready", 1)
        assert len(await files.ids()) == 2
        assert not await asyncio.to_thread((tmp_path / "files").exists)
        await client.call("DELETE", f"/knowledge-bases/{base}/documents/{document['id']}")
        assert await files.ids() == {file["id"]}
        assert (await client.call("DELETE", f"/files/{file['id']}")).status_code == 204
        assert await files.ids() == frozenset()


async def test_while_the_storage_is_away_uploads_are_refused_and_what_is_removed_goes_later(
    tmp_path: Path, bucket: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as stack:
        way = await stack.enter_async_context(AsyncExitStack())
        address = await way.enter_async_context(in_between(s3_server.address, 10_000_000))
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        opened = served(settings_of(tmp_path, bucket), models=ScriptedModels(ScriptedModel()))
        app, client = await stack.enter_async_context(opened)
        kept, removed = await client.upload("a.txt", b"Text."), await client.upload("b.txt", b"Text.")
        base = (await client.post("/knowledge-bases", {"name": "Mill"}))["id"]
        upload = {"file": ("pump.md", GERMAN.encode())}
        await client.call("POST", f"/knowledge-bases/{base}/documents", files=upload)
        document = await document_of(client, base)
        await way.aclose()
        left = f"/knowledge-bases/{base}/documents"
        assert (await client.call("DELETE", f"{left}/{document['id']}")).status_code == 204
        assert (await client.call("POST", left, files=upload)).status_code == 500
        assert (await client.get(left))["data"] == []
        answer = await client.call("POST", "/files", files={"file": ("c.txt", b"Text.")})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "store_failed")
        assert "The upload could not be kept: the storage does not answer" in answer.json()["error"]["message"]
        answer = await client.call("DELETE", f"/files/{removed['id']}")
        assert "The file is removed, but its bytes are not yet" in answer.json()["error"]["message"]
        assert [file["id"] for file in (await client.get("/files"))["data"]] == [kept["id"]]
        port = int(address.rpartition(":")[2])
        await stack.enter_async_context(in_between(s3_server.address, 10_000_000, port))
        assert await app.uploads.ids() >= {kept["id"], removed["id"]}
        await asyncio.sleep(1.1)  # S3 tells times in seconds
        await sweep_files(app.uploads, app.store, 0)
        assert await app.uploads.ids() == {kept["id"]}
        assert (await client.call("GET", f"/files/{kept['id']}/content")).content == b"Text."


async def test_another_replicas_fresh_upload_is_not_swept_and_another_database_is_refused(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAMELLA_DATABASE_URL", raising=False)
    settings, models = settings_of(tmp_path / "one", bucket), ScriptedModels(ScriptedModel())
    async with served(settings, models=models) as (app, client):
        await client.upload("a.txt", b"Text.")
        async with app.uploads.receive("file_fresh") as path:
            path.write_bytes(b"of another replica, whose row is not there yet")
    async with served(settings, models=models) as (app, _):
        assert "file_fresh" in await app.uploads.ids()
        await sweep_files(app.uploads, app.store, DAY)
        assert "file_fresh" in await app.uploads.ids()
    await migrate(tmp_path / "lamella.db")  # the databases of tests are copies of one, with the same id
    with pytest.raises(ConfigurationError, match="belong to another database"):
        async with served(settings_of(tmp_path, bucket), models=models):
            pass
    assert len(await open_files(f"s3://{bucket}/lamella").ids()) == 2
    assert MARK not in await open_files(f"s3://{bucket}/lamella").ids()
