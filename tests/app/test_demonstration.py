"""The offline default: its process comes up, comes back when it has died, and ends with us."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from lamella.app.app import App, open_app
from lamella.app.demonstration import MODEL, Simulator, demonstration
from lamella.core.errors import ConfigurationError
from lamella.server.testing import ServerClient, client, serving
from lamella.server.web import create_web
from lamella.settings import Settings, read_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server without any provider."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LAMELLA_MODEL"):
        monkeypatch.delenv(name, raising=False)
    settings: Settings = read_settings(data=tmp_path)
    async with open_app(settings) as app, serving(create_web(app)) as url, client(url) as speaking:
        yield app, speaking


def simulators() -> list[int]:
    """The process ids of our own simulators."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and b"lamella_simulator" in command and b"--rate" in command:
            found.append(int(folder.name))
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


async def test_it_answers_from_a_document_and_cites_it(offline: tuple[App, ServerClient]) -> None:
    _, speaking = offline
    file = await speaking.upload("lease.txt", b"The rent is 900 euros. The lease ends in May 2027. Pets are allowed.")
    packets = await speaking.send(await speaking.conversation(), "When does the lease end?", file_ids=[file["id"]])
    assert packets[-1]["status"] == "finished"
    answer = "".join(packet["text"] for packet in packets if packet["type"] == "text.delta")
    assert "May 2027" in answer
    citations = [packet for packet in packets if packet["type"] == "citation"]
    assert citations[0]["file_id"] == file["id"]
    content = (await speaking.get(f"/files/{file['id']}/text"))["text"]
    assert "ends in May 2027" in content[citations[0]["passage_start"] : citations[0]["passage_end"]]
    status = await speaking.get("/status")
    assert (status["model"], status["demonstration"], bool(status["notice"])) == (MODEL, True, True)


@needs_proc
async def test_it_comes_back_when_its_process_has_died(offline: tuple[App, ServerClient]) -> None:
    _, speaking = offline
    conversation = await speaking.conversation()
    assert (await speaking.send(conversation, "Hello?"))[-1]["status"] == "finished"
    [first] = simulators()
    os.kill(first, signal.SIGKILL)
    await asyncio.sleep(0.1)
    assert (await speaking.send(conversation, "Are you still there?"))[-1]["status"] == "finished"
    [second] = simulators()
    assert second != first


async def test_its_address_answers_until_it_is_closed() -> None:
    simulator = demonstration()
    try:
        url = await simulator.start()
        assert await simulator.start() == url
        assert await answers(url)
    finally:
        await simulator.close()
    assert not await answers(url)
    await simulator.close()


async def test_one_that_does_not_come_up_is_an_error() -> None:
    simulator = Simulator("--nonsense")
    with pytest.raises(ConfigurationError, match="did not start"):
        await simulator.start()
    await simulator.close()


@needs_proc
async def test_it_ends_with_us_however_we_end() -> None:
    code = (
        "import asyncio, os; from lamella.app.demonstration import demonstration\n"
        "async def main():\n"
        "    print(await demonstration().start(), flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    url = (await parent.stdout.readline()).decode().strip()
    parent.kill()
    await parent.wait()
    for _ in range(100):
        if not await answers(url):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the simulator outlived its parent")


async def answers(url: str) -> bool:
    """Whether there is a simulator at this address."""
    async with httpx2.AsyncClient(trust_env=False) as http:
        try:
            await http.get(f"{url}/_sim/clock")
        except httpx2.TransportError:
            return False
    return True


async def test_what_follows_a_tool_call_costs_what_was_predicted(offline: tuple[App, ServerClient]) -> None:
    """Text that is read by a tool outweighs what was billed before: what the provider adds to the tools on its own may
    not be taken for a habit of its tokenizer."""
    _, speaking = offline
    pages = sorted((Path(__file__).parents[2] / "docs").rglob("*.md"))
    text = "\n\n".join(page.read_text() for page in pages)
    manual = await speaking.upload("manual.md", (text * (900_000 // len(text) + 1)).encode())
    for greeted in (True, False):
        conversation = await speaking.conversation()
        if greeted:
            await speaking.send(conversation, "Hello there.")
        asked = "What does the manual say about the budget of a window?"
        [begun, *_] = await speaking.send(conversation, asked, file_ids=[manual["id"]])
        requests = (await speaking.get(f"/turns/{begun['turn_id']}/requests"))["data"]
        assert len(requests) > 1, "the demonstration called no tool"
        last = requests[-1]
        billed, predicted = last["usage"], last["predicted"]
        assert last["estimate"] == pytest.approx(billed["input"], rel=0.05), greeted
        assert predicted["read"] == billed["cache_read"]
        assert predicted["written"] == pytest.approx(billed["cache_write"], rel=0.08), greeted
