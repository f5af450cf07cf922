"""`lamella sessions`: listed, searched, resumed and taken back in a data folder, the same JSON as the API's."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import lamella.cli.sessions  # noqa: F401 (registers the command)
from lamella.app.app import LOCAL_OWNER, open_app
from lamella.app.conversations import NewConversation
from lamella.chat import Message
from lamella.cli.failures import exit_code_of
from lamella.cli.main import cli
from lamella.core.errors import LamellaError
from lamella.settings import read_settings

from .test_inspect import offline


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of the demonstration with one conversation, which was compacted."""
    data = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patched:
        offline(patched)
        asyncio.run(_converse(data))
    return data


@pytest.fixture
def folder(compacted: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(compacted, tmp_path / "data"))


async def _converse(data: Path) -> None:
    async with open_app(read_settings(data=data, keep_recent_tokens=10)) as app:
        conversation = (await app.conversations.create(LOCAL_OWNER, NewConversation())).id
        for text in ("The heron stands in the reeds. " + "Some words. " * 300, "And how does this work?"):
            turn_id = await app.chat.sender.begin(LOCAL_OWNER, conversation, Message(text))
            async for _ in app.chat.stream(LOCAL_OWNER, turn_id):
                pass
        command = app.chat.sender.read(Message("/compact"))
        await app.chat.orders.submit(LOCAL_OWNER, conversation, command)  # type: ignore[arg-type]
        await app.sessions.wait_until_idle(conversation)


def ran(data: Path, *arguments: str) -> Result:
    with pytest.MonkeyPatch.context() as patched:
        offline(patched)
        return CliRunner().invoke(cli, ["sessions", *arguments, "--data", str(data)])


def listed(data: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ran(data, "list", "--json").stdout)["data"]
    return found


def test_sessions_are_listed_and_the_newest_compaction_is_taken_back(folder: Path) -> None:
    first, second = listed(folder)
    lines = ran(folder, "list").stdout.splitlines()
    assert lines[0].startswith(f"  1 · {first['id']} · 20")
    assert lines[1].startswith(f"* 2 · {second['id']} · 20")
    assert " · compaction · " in lines[1]
    assert lines[1].endswith("tokens")
    done = ran(folder, "undo", second["id"])
    assert done.stdout == "The compaction is taken back: session 1 continues, with all later messages.\n"
    assert [one["current"] for one in listed(folder)] == [True, False]
    again = ran(folder, "undo", second["id"])
    assert isinstance(again.exception, LamellaError)
    assert exit_code_of(again.exception) == 2
    assert "/resume" in (again.exception.hint or "")


def test_what_was_said_is_found_and_its_session_resumed(folder: Path) -> None:
    first, second = listed(folder)
    found = ran(folder, "search", "heron", "reeds").stdout
    assert f"session 1 ({first['id']})" in found
    assert "The heron stands in the reeds." in found
    shown = json.loads(ran(folder, "search", "heron", "--json").stdout)
    assert (shown["object"], shown["data"][0]["session_id"]) == ("search", first["id"])
    nothing = ran(folder, "search", "zzzz", "-c", second["conversation_id"])
    assert nothing.exit_code == 0
    assert nothing.stdout.startswith("Nothing was found.\nSearched by words alone: ")
    assert "LAMELLA_EMBEDDING_MODEL=minilm" in nothing.stdout
    assert "Session 1 continues in full" in ran(folder, "resume", first["id"]).stdout
    assert [one["current"] for one in listed(folder)] == [True, False]
    answer = json.loads(ran(folder, "resume", second["id"], "--json").stdout)
    assert (answer["object"], answer["name"]) == ("command", "resume")


def test_a_session_that_is_not_there_is_said(tmp_path: Path) -> None:
    for arguments in (("undo", "sess_gone"), ("resume", "sess_gone"), ("list", "conv_gone")):
        result = ran(tmp_path, *arguments)
        assert isinstance(result.exception, LamellaError), arguments
        assert exit_code_of(result.exception) == 2
