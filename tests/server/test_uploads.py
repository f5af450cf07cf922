"""Uploads over HTTP: forms as browsers, libraries and attackers write them. What is refused leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.storage.file_store import MARK

from .test_bad_input import refused

pytestmark = pytest.mark.anyio

LIMIT = 200_000


@pytest.fixture
async def client(tmp_path: Path, anyio_backend: str) -> AsyncIterator[ServerClient]:
    """A server that takes small files only."""
    model = ScriptedModel([saying("Read.")])
    settings = read_settings(data=tmp_path, max_upload_bytes=LIMIT)
    async with served(settings, models=ScriptedModels(model)) as (_, speaking):
        yield speaking


def part(content: bytes, *, name: bytes = b"file", filename: bytes | None = b"a.txt", more: bytes = b"") -> bytes:
    """One part of a form whose boundary is XX."""
    disposition = b'Content-Disposition: form-data; name="%b"' % name
    if filename is not None:
        disposition += b'; filename="%b"' % filename
    return b"--XX\r\n%b\r\n%b\r\n%b\r\n" % (disposition, more, content)


async def post(client: ServerClient, body: Any, kind: str = "multipart/form-data; boundary=XX") -> httpx2.Response:
    return await client.call("POST", "/files", content=body, headers={"content-type": kind})


async def nothing_is_left(client: ServerClient, data: Path) -> None:
    assert (await client.get("/files"))["data"] == []
    assert os.listdir(data / "files") == [MARK]


async def test_a_file_is_taken_in(client: ServerClient, tmp_path: Path) -> None:
    answer = await post(client, part("Ein Brief über Füchse.".encode()) + b"--XX--\r\n")
    assert answer.status_code == 201
    file = answer.json()
    assert (file["name"], file["status"], file["media_type"], file["size"]) == ("a.txt", "ready", "text/plain", 24)
    assert (file["fits"], file["reason"], file["tokens"] > 3) == (True, None, True)
    content = await client.get(f"/files/{file['id']}/text")
    assert content["text"].strip() == "Ein Brief über Füchse."
    assert (tmp_path / "files" / file["id"]).read_bytes() == "Ein Brief über Füchse.".encode()
    assert (await client.get("/files"))["data"] == [await client.get(f"/files/{file['id']}")] == [file]


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (b"../../etc/passwd", "passwd"),
        (b"/etc/passwd", "passwd"),
        (b"C:\\\\Users\\\\me\\\\plan.txt", "plan.txt"),
        (b"..", ".."),
        (b"", "untitled"),
        (None, "untitled"),
        (b"a\x00b\x1b[31m.txt", "ab[31m.txt"),
        ("Größe 漢字 🦎.txt".encode(), "Größe 漢字 🦎.txt"),
        (b"\xff\xfe.txt", "\ufffd\ufffd.txt"),
        ("x\u202egpj.exe".encode(), "xgpj.exe"),
        (b"n" * 400, "n" * 255),
        (b'say \\"hi\\".txt', 'say "hi".txt'),
        (b"a;b.txt", "a;b.txt"),
    ],
)
async def test_a_name_is_never_a_path(client: ServerClient, tmp_path: Path, sent: bytes | None, shown: str) -> None:
    answer = await post(client, part(b"Hello.", filename=sent) + b"--XX--\r\n")
    assert answer.status_code == 201
    file = answer.json()
    assert file["name"] == shown
    assert sorted(os.listdir(tmp_path / "files")) == [MARK, file["id"]]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param(b"", "multipart/form-data; boundary=XX", id="no body"),
        pytest.param(b"{}", "application/json", id="json"),
        pytest.param(b"file=a", "application/x-www-form-urlencoded", id="urlencoded"),
        pytest.param(part(b"a") + b"--XX--", "multipart/form-data", id="no boundary"),
        pytest.param(part(b"a") + b"--XX--", "multipart/form-data; boundary=", id="empty boundary"),
        pytest.param(part(b"a") + b"--XX--", f"multipart/form-data; boundary={'X' * 300}", id="long boundary"),
        pytest.param(part(b"a") + b"--XX--", "multipart/form-data; boundary=YY", id="other boundary"),
        pytest.param(part(b"a") + b"--XX--", "text/plain; boundary=XX", id="other type"),
        pytest.param(part(b"a", name=b"upload") + b"--XX--", "multipart/form-data; boundary=XX", id="other field"),
        pytest.param(b"--XX--\r\n", "multipart/form-data; boundary=XX", id="no parts"),
        pytest.param(part(b"abc")[:-5], "multipart/form-data; boundary=XX", id="cut in the file"),
        pytest.param(part(b"abc"), "multipart/form-data; boundary=XX", id="no closing boundary"),
        pytest.param(part(b"abc") + b"--XX", "multipart/form-data; boundary=XX", id="half a closing boundary"),
        pytest.param(part(b"abc")[:40], "multipart/form-data; boundary=XX", id="cut in the headers"),
        pytest.param(b"--XX\r\nnonsense", "multipart/form-data; boundary=XX", id="no header"),
        pytest.param(b"--XX\r\n: a\r\n\r\na\r\n--XX--", "multipart/form-data; boundary=XX", id="nameless header"),
        pytest.param(b"--XX\r\nA\x01: b\r\n\r\na\r\n--XX--", "multipart/form-data; boundary=XX", id="odd header"),
        pytest.param(
            part(b"a", more=b"X: " + b"y" * 20_000 + b"\r\n") + b"--XX--",
            "multipart/form-data; boundary=XX",
            id="long header",
        ),
        pytest.param(
            part(b"a", more=b"X: y\r\n" * 1_000) + b"--XX--", "multipart/form-data; boundary=XX", id="many headers"
        ),
        pytest.param(part(b"a") + part(b"b") + b"--XX--", "multipart/form-data; boundary=XX", id="two files"),
        pytest.param(part(b"") + b"--XX--", "multipart/form-data; boundary=XX", id="no bytes"),
        pytest.param(b"\xff" * 1_000, "multipart/form-data; boundary=XX", id="bytes"),
    ],
)
async def test_a_form_that_is_none_is_refused(client: ServerClient, tmp_path: Path, body: bytes, kind: str) -> None:
    error = refused(await post(client, body, kind), 400, "invalid_request", "file")
    assert error["hint"]
    await nothing_is_left(client, tmp_path)


async def test_other_fields_and_an_epilogue_do_no_harm(client: ServerClient) -> None:
    body = part(b"meta", name=b"comment", filename=None) + part(b"Hello.") + part(b"x", name=b"more", filename=None)
    answer = await post(client, body + b"--XX--\r\nAn epilogue.")
    assert (answer.status_code, answer.json()["size"]) == (201, 6)


@pytest.mark.parametrize("size", [1, 7, 1_000])
async def test_a_form_may_come_in_any_pieces(client: ServerClient, size: int) -> None:
    text = b"--X\r\n--XY\r\n" * 20
    body = part(text) + b"--XX--\r\n"

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]
            await asyncio.sleep(0)

    answer = await post(client, pieces())
    assert (answer.status_code, answer.json()["size"]) == (201, len(text))


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("excess", [1, 150_000, 5_000_000])
async def test_a_file_that_is_too_large_is_refused(
    client: ServerClient, tmp_path: Path, declared: bool, excess: int
) -> None:
    body = part(b"x" * (LIMIT + excess)) + b"--XX--\r\n"

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1 << 16):
            yield body[start : start + (1 << 16)]

    error = refused(await post(client, body if declared else pieces()), 413, "payload_too_large", "file")
    assert error["message"] == "The file is larger than 200,000 bytes."
    await nothing_is_left(client, tmp_path)


async def test_a_file_that_is_just_small_enough_is_taken(client: ServerClient) -> None:
    answer = await post(client, part(b"word " * (LIMIT // 5)) + b"--XX--\r\n")
    assert (answer.status_code, answer.json()["size"]) == (201, LIMIT)


@pytest.mark.parametrize("where", ["before", "after"])
async def test_what_stands_beside_the_file_is_limited_too(client: ServerClient, tmp_path: Path, where: str) -> None:
    bulk = part(b"y" * (LIMIT + 200_000), name=b"bulk", filename=None)
    body = bulk + part(b"a") if where == "before" else part(b"a") + bulk

    async def pieces() -> AsyncIterator[bytes]:
        yield body
        yield b"--XX--\r\n"

    refused(await post(client, pieces()), 413, "payload_too_large", "file")
    await nothing_is_left(client, tmp_path)


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(client: ServerClient, tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield part(b"x" * 1_000)[:500]
        await asyncio.sleep(0.1)
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        await post(client, pieces())
    await asyncio.sleep(0.2)
    await nothing_is_left(client, tmp_path)


async def test_a_file_that_cannot_be_read_is_kept_with_the_reason(client: ServerClient) -> None:
    """The bad files themselves are in `tests/knowledge`; here one stands for all."""
    answer = await post(client, part(b"%PDF-1.7\nnothing", filename=b"plan.pdf") + b"--XX--\r\n")
    file = answer.json()
    assert (answer.status_code, file["status"], file["code"], file["fits"]) == (201, "failed", "corrupt", False)
    assert file["reason"]
    assert (await client.get(f"/files/{file['id']}/text"))["text"] == ""
    conversation = await client.conversation()
    packets = await client.send(conversation, "What does it say?", file_ids=[file["id"]])
    assert packets[0]["documents"][0]["reason"] == file["reason"]
    assert packets[-1]["status"] == "finished"
