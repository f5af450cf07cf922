"""The wire answers a turn of a server that finds it by its entry point, and the embedder is found by its name.

The package is installed as pip installs one: a folder on the path with the files and a `.dist-info`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tomllib
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from lamella.app.extensions import EMBEDDERS, WIRES, registered_embedder, registered_wires
from lamella.core.errors import ConfigurationError
from letters import Letters

HERE = Path(__file__).parent
POINTS = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
ROW = {"name": "llama3.2", "provider": "openai", "wire": "ollama", "window": 32_768, "max_output": 4_096}

ASK = """
import asyncio, json
from pathlib import Path
from lamella.server.testing import served
from lamella.settings import read_settings

async def main():
    async with served(read_settings(data=Path("data"), model="llama3.2"), checked=False) as (app, client):
        packets = await client.send(await client.conversation(), "What is a tide?")
        text = "".join(packet["text"] for packet in packets if packet["type"] == "text.delta")
        [request] = (await client.get(f"/turns/{packets[0]['turn_id']}/requests"))["data"]
        body = await client.get(f"/requests/{request['id']}/raw")
        usage = {name: request["usage"][name] for name in ("input", "output")}
        print(json.dumps([text, body, usage, app.recall.embedder]))

asyncio.run(main())
"""


def points(group: str, **more: str) -> list[EntryPoint]:
    return [EntryPoint(name, value, group) for name, value in {**POINTS[group], **more}.items()]


@asynccontextmanager
async def ollama(received: list[dict[str, object]]) -> AsyncIterator[str]:
    """A server that answers as Ollama does, and keeps the bodies it got."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split()[0])
        received.append(json.loads(await reader.readexactly(length)))
        lines = [{"message": {"content": word}, "done": False} for word in ("The sea ", "rises.")]
        last = {"message": {"content": ""}, "done": True, "prompt_eval_count": 900, "eval_count": 5}
        data = "".join(json.dumps(line) + "\n" for line in (*lines, last)).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/x-ndjson\r\n\r\n" + data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def install(folder: Path) -> None:
    """What pip writes for the package."""
    info = folder / "lamella_own_model-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lamella-own-model\nVersion: 0.1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in POINTS[group].items()) for group in POINTS
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    for module in ("ollama_wire.py", "letters.py"):
        shutil.copy(HERE / module, folder)


@pytest.mark.anyio
async def test_a_server_finds_the_installed_wire_and_embedder(tmp_path: Path) -> None:
    install(tmp_path / "site")
    (tmp_path / "models.json").write_text(json.dumps({"models": [ROW]}))
    received: list[dict[str, object]] = []
    async with ollama(received) as url:
        settings = {"LAMELLA_MODELS": str(tmp_path / "models.json"), "LAMELLA_EMBEDDING_MODEL": "letters"}
        variables = {
            "PYTHONPATH": str(tmp_path / "site"),
            "OPENAI_BASE_URL": url,
            "LAMELLA_TITLES": "false",
            **settings,
        }
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ASK, cwd=tmp_path, env=variables, stdout=subprocess.PIPE
        )
        said, _ = await child.communicate()
    text, body, usage, embedder = json.loads(said.splitlines()[-1])
    assert text == "The sea rises."
    assert usage == {"input": 900, "output": 5}
    assert embedder == "letters"
    assert received == [body]
    assert body["messages"][-1]["role"] == "user"
    assert body["messages"][-1]["content"].startswith("What is a tide?\n")
    assert body["options"] == {"num_predict": 4_096}


def test_its_entry_points_are_found() -> None:
    assert isinstance(registered_embedder("letters", points(EMBEDDERS)), Letters)
    assert registered_embedder("words", points(EMBEDDERS)) is None
    assert list(registered_wires(points(WIRES))) == ["ollama"]


def test_what_can_not_be_used_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"“letters” of the entry point broken of lamella.wires .* `connect`"):
        registered_wires(points(WIRES, broken="letters"))
    with pytest.raises(ConfigurationError, match=r"“ollama_wire” of the entry point broken .* `space`"):
        registered_embedder("broken", points(EMBEDDERS, broken="ollama_wire"))


@pytest.mark.anyio
async def test_near_texts_have_near_vectors() -> None:
    made = (await Letters().embed(["A tide.", "the tides", "zzz"])).vectors
    near, far = (sum(a * b for a, b in zip(*map(_floats, pair), strict=True)) for pair in (made[:2], made[1:]))
    assert near > 0.7 > far


def _floats(vector: bytes) -> array[float]:
    return array("f", vector)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
