"""What a loss of power may cost is set, on both databases; the default is fast, and `full` loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from lamella.core.errors import ConfigurationError
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import served
from lamella.settings import read_settings
from lamella.storage.store import Store, open_store
from postgres import PostgresServer, running, skip_if_absent

pytestmark = pytest.mark.anyio

NORMAL, FULL = 1, 2
"""Of `PRAGMA synchronous`."""


@pytest.mark.parametrize(("setting", "level"), [(None, NORMAL), ("normal", NORMAL), ("full", FULL)])
async def test_the_file_is_written_as_the_setting_says(tmp_path: Path, setting: str | None, level: int) -> None:
    settings = read_settings(data=tmp_path, synchronous=setting)
    async with served(settings, models=ScriptedModels(ScriptedModel([saying("Yes.")]))) as (app, client):
        assert (await client.send(await client.conversation(), "Sure?"))[-1]["status"] == "finished"
        assert isinstance(app.store, Store)
        pragma = text("PRAGMA synchronous")
        assert await app.store.database.write(lambda connection: connection.execute(pragma).scalar_one()) == level


def test_another_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="LAMELLA_SYNCHRONOUS"):
        read_settings(data=tmp_path, synchronous="off")


@pytest.fixture(scope="module")
def careful() -> Iterator[PostgresServer]:
    """A server that waits for its disk, as servers do; that of other tests does not."""
    skip_if_absent()
    with running() as server:
        server.run("ALTER SYSTEM RESET fsync")
        server.run("SELECT pg_reload_conf()")
        yield server


async def test_a_server_as_it_is_shipped_loses_nothing(careful: PostgresServer) -> None:
    async with await open_store(careful.url(careful.copied()), full=True) as store:
        await store.database.check_writable()


@pytest.mark.parametrize("name", ["synchronous_commit", "fsync"])
async def test_a_server_that_may_lose_commits_is_refused_with_full_alone(careful: PostgresServer, name: str) -> None:
    database = careful.copied()
    if name == "fsync":
        careful.run("ALTER SYSTEM SET fsync = off")
        careful.run("SELECT pg_reload_conf()")
    else:
        careful.run(f"ALTER DATABASE {database} SET synchronous_commit = off")
    try:
        with pytest.raises(ConfigurationError, match=f"may lose commits with its power: its {name} is off") as found:
            await open_store(careful.url(database), full=True)
        assert found.value.param == "LAMELLA_SYNCHRONOUS"
        async with await open_store(careful.url(database)) as store:
            await store.database.check_writable()
    finally:
        careful.run("ALTER SYSTEM RESET fsync")
        careful.run("SELECT pg_reload_conf()")
