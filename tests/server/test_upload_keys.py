"""An upload that is sent again with its Idempotency-Key is taken once."""

from __future__ import annotations

import asyncio
from hashlib import blake2b

import httpx2
import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.json import digest
from lamella.server.testing import ServerClient

pytestmark = pytest.mark.anyio


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
