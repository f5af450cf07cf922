"""`lamella export`, then `lamella replay` of what it wrote: from a data folder, and from the server that holds it."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import lamella.cli.export
import lamella.cli.replay  # noqa: F401 (they register the commands)
from lamella.app.app import LOCAL_OWNER, open_app
from lamella.app.conversations import NewConversation
from lamella.chat import Message
from lamella.cli.main import cli
from lamella.core.errors import NotFound
from lamella.settings import read_settings

from .test_inspect import offline

LAMELLA = str(Path(sys.executable).with_name("lamella"))
SECRET = "The code word is Silberdistel 4711."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a conversation of the demonstration."""
    data = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patched:
        offline(patched)
        asyncio.run(_converse(data))
    return data


async def _converse(data: Path) -> None:
    async with open_app(read_settings(data=data)) as app:
        conversation = await app.conversations.create(LOCAL_OWNER, NewConversation())
        for text in (SECRET, "What is it?"):
            turn_id = await app.chat.sender.begin(LOCAL_OWNER, conversation.id, Message(text))
            async for _ in app.chat.stream(LOCAL_OWNER, turn_id):
                pass


def run(*arguments: object) -> Result:
    with pytest.MonkeyPatch.context() as patched:
        offline(patched)
        return CliRunner().invoke(cli, [*map(str, arguments)])


def test_a_conversation_is_written_and_replayed_with_the_same_bodies(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    exported = run("export", "--out", file, "--data", folder)
    assert exported.exit_code == 0, exported.exception
    assert f"Wrote {file}: " in exported.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert SECRET in json.loads(file.read_bytes())["turns"][0]["user"]
    replayed = run("replay", file)
    assert replayed.exit_code == 0, replayed.output
    assert "2 of 2 requests are as they were: the same bodies." in replayed.stderr
    assert "  S U1 A1 U2" in replayed.stdout
    changed = run("replay", file, "--layout", "onyx")
    assert changed.exit_code == 0
    assert "as they were" not in changed.stderr


def test_without_content_nothing_of_it_can_be_read_and_the_lengths_are_the_same(folder: Path, tmp_path: Path) -> None:
    exported = run("export", "--without-content", "--data", folder)
    assert "Silber" not in exported.stdout
    assert "4711" not in exported.stdout
    file = tmp_path / "report.json"
    file.write_text(exported.stdout)
    replayed = run("replay", file)
    assert replayed.exit_code == 0, replayed.output
    assert "2 of 2 requests are as they were: the same letters and lengths." in replayed.stderr


def test_a_replay_that_differs_says_where_and_fails(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    trace = json.loads(run("export", "--data", folder).stdout)
    trace["turns"][0]["user"] += " And more."
    file.write_text(json.dumps(trace))
    replayed = run("replay", file)
    assert replayed.exit_code == 1
    assert replayed.stdout.count("[not as it was: another body of ") == 2
    assert "0 of 2 requests are as they were" in replayed.stderr


def test_an_empty_conversation_makes_no_request_and_says_so(tmp_path: Path) -> None:
    async def empty() -> None:
        async with open_app(read_settings(data=tmp_path / "data")) as app:
            await app.conversations.create(LOCAL_OWNER, NewConversation())

    with pytest.MonkeyPatch.context() as patched:
        offline(patched)
        asyncio.run(empty())
    file = tmp_path / "trace.json"
    assert run("export", "--out", file, "--data", tmp_path / "data").exit_code == 0
    replayed = run("replay", file)
    assert replayed.exit_code == 1
    assert replayed.stderr == "No request was made: nothing is in the trace.\n"


def test_a_conversation_that_is_not_there(folder: Path) -> None:
    assert isinstance(run("export", "conv_gone", "--data", folder).exception, NotFound)


def test_it_asks_the_server_that_holds_the_folder(folder: Path) -> None:
    with subprocess.Popen(
        [LAMELLA, "serve", "--port", "0", "--data", str(folder)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert "http://" in server.stdout.readline()
            command = [LAMELLA, "export", "--data", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        finally:
            server.terminate()
    assert done.returncode == 0, done.stderr
    assert SECRET in done.stdout
