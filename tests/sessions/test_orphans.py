"""A process that is killed in a compaction: the next one goes on with it at once, and says the same everywhere."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER
from lamella.core.clock import VirtualClock
from lamella.core.records import JobStatus
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.sessions.compactions import COMPACT
from lamella.settings import read_settings

from .test_compaction import SUMMARY, talking
from .test_ended import ended_job

pytestmark = pytest.mark.anyio


def killed_at(folder: Path, left: Path) -> Path:
    """The data folder as a process leaves it that is killed at this moment."""
    left.mkdir()
    with (
        closing(sqlite3.connect(folder / "lamella.db")) as here,
        closing(sqlite3.connect(left / "lamella.db")) as there,
    ):
        here.backup(there)
    return left


async def compacting(client: ServerClient, conversation: str) -> set[bool]:
    """Whether a compaction runs, as it is said at each place that says it."""
    gauge = await client.get(f"/conversations/{conversation}/context")
    status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
    return {gauge["compacting"], status["data"]["compacting"], "A compaction runs." in status["answer"]}


async def test_it_goes_on_though_no_time_has_passed(tmp_path: Path) -> None:
    """No lease ends on this clock: what a process held is due when the next one has its folder."""
    model, gate = ScriptedModel(), Gate()
    async with talking(tmp_path / "a", model, keep_recent_tokens=1_200) as (app, client, conversation):
        model.then([gate, *saying(SUMMARY)])
        app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        await asyncio.wait_for(gate.reached.wait(), 10)
        assert await compacting(client, conversation) == {True}
        left = killed_at(tmp_path / "a", tmp_path / "b")
        gate.opened.set()
    again, reached = ScriptedModel(), Gate()
    again.then([reached, *saying(SUMMARY)])
    clock, settings = VirtualClock(datetime.now(UTC)), read_settings(data=left, keep_recent_tokens=1_200)
    async with served(settings, models=ScriptedModels(again), clock=clock) as (app, client):
        await asyncio.wait_for(reached.reached.wait(), 10)
        assert await compacting(client, conversation) == {True}
        answer = await client.post(f"/conversations/{conversation}/compact")
        assert answer["data"] == {"started": False, "why": "running"}
        reached.opened.set()
        assert (await ended_job(app, conversation, COMPACT)).status is JobStatus.FINISHED
        assert await compacting(client, conversation) == {False}
        assert len(await app.store.sessions.sessions(LOCAL_OWNER, conversation)) == 2
