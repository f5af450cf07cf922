"""An upload that is sent again with its Idempotency-Key is taken once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

import httpx2
import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.clock import VirtualClock
from lamella.core.json import digest
from lamella.core.records import File, PageQuery
from lamella.knowledge.extraction import Extraction
from lamella.knowledge.file_uploads import ELSEWHERE_PAUSE, ELSEWHERE_SECONDS, FileUploads
from lamella.llm.scripted import Gate
from lamella.server.testing import ServerClient
from lamella.storage.file_store import FolderFiles
from lamella.storage.store import Store, open_store

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def upload(client: ServerClient, text: str, key: str, name: str = "notes.txt") -> httpx2.Response:
    files = {"file": (name, text.encode())}
    return await client.call("POST", "/files", files=files, headers={"idempotency-key": key})


async def test_the_same_upload_with_the_same_key_is_the_same_file(client: ServerClient) -> None:
    first = (await upload(client, "Heat comes from the river.", "k1")).json()
    again = (await upload(client, "Heat comes from the river.", "k1")).json()
    other = (await upload(client, "Heat comes from the river.", "k2")).json()
    assert again == first
    assert other["id"] != first["id"]
    assert len((await client.get("/files"))["data"]) == 2


@pytest.mark.parametrize(("text", "name"), [("Another text.", "notes.txt"), ("Heat.", "other.txt")])
async def test_the_same_key_with_another_file_is_a_mismatch(client: ServerClient, text: str, name: str) -> None:
    await upload(client, "Heat.", "k1")
    answer = await upload(client, text, "k1", name)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "idempotency_mismatch")
    assert len((await client.get("/files"))["data"]) == 1


async def test_two_at_once_store_one_file(client: ServerClient) -> None:
    answers = await asyncio.gather(*(upload(client, "Heat. " * 1000, "k1") for _ in range(2)))
    assert sorted(answer.status_code for answer in answers) in ([201, 201], [201, 400])
    assert len((await client.get("/files"))["data"]) == 1


async def test_a_key_whose_upload_never_became_a_file_is_free(client: ServerClient, app: App) -> None:
    """As after a process that was killed while it read the file."""
    content = blake2b(b"Heat.", digest_size=16).digest()
    lost = digest(b"notes.txt", content)
    await app.store.keys.claim_key(LOCAL_OWNER, "k1", "files", lost, "file_lost", app.clock.now())
    first = await upload(client, "Heat.", "k1")
    assert first.status_code == 201
    assert (await upload(client, "Heat.", "k1")).json() == first.json()


class GatedReader:
    """Reads a file once its gate is open."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def extract(self, path: Path, name: str) -> Extraction:
        await self.gate.passed()
        return Extraction("ready", "text/plain", "Heat.", 2)


class Process:
    """One of two processes on one database and one folder of files."""

    def __init__(self, store: Store, files: FolderFiles) -> None:
        store.database.process_id = store.ids.new("proc")
        self.reader, self.clock = GatedReader(), VirtualClock(NOON)
        self._uploads = FileUploads(store, files, self.reader, self.clock, store.ids, 1_000)

    def upload(self) -> asyncio.Task[File]:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"Heat."

        return asyncio.create_task(self._uploads.receive(LOCAL_OWNER, "notes.txt", pieces(), "k1"))

    async def pass_by(self, seconds: float) -> None:
        for _ in range(round(seconds / ELSEWHERE_PAUSE)):
            self.clock.advance(ELSEWHERE_PAUSE)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def two_processes(folder: Path) -> AsyncIterator[tuple[Process, Process, Callable[[], Awaitable[list[str]]]]]:
    """Both, and what lists the stored files: their rows, which must be those of the folder."""
    path, files = folder / "lamella.db", FolderFiles(folder / "files")
    async with await open_store(path) as here, await open_store(path) as there:

        async def stored() -> list[str]:
            rows = (await here.files.files(LOCAL_OWNER, PageQuery())).data
            assert await files.ids() == {row.id for row in rows}
            return [row.id for row in rows]

        yield Process(here, files), Process(there, files), stored


async def test_an_upload_that_comes_to_two_processes_at_once_is_stored_once(tmp_path: Path) -> None:
    async with two_processes(tmp_path) as (here, there, stored), asyncio.timeout(20):
        first = here.upload()
        await here.reader.gate.reached.wait()
        second = there.upload()
        await there.pass_by(ELSEWHERE_SECONDS / 2)
        here.reader.gate.opened.set()
        file = await first
        await there.pass_by(1)
        assert await second == file
        assert await stored() == [file.id]
        assert not there.reader.gate.reached.is_set()


async def test_an_upload_whose_process_is_too_slow_is_taken_over_and_stored_once(tmp_path: Path) -> None:
    async with two_processes(tmp_path) as (here, there, stored), asyncio.timeout(20):
        first = here.upload()
        await here.reader.gate.reached.wait()
        second = there.upload()
        await there.pass_by(ELSEWHERE_SECONDS + 1)
        there.reader.gate.opened.set()
        file = await second
        here.reader.gate.opened.set()
        assert await first == file
        assert await stored() == [file.id]
