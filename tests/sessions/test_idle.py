"""The timer of a conversation, on a clock that the test moves: it is stored, and it rings once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.clock import VirtualClock
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import ToolCall
from lamella.core.records import Job, JobStatus
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.sessions.compaction import Compacted
from lamella.sessions.idle import IDLE, MARGIN
from lamella.settings import read_settings

from .test_compaction import MUCH
from .test_policies import Book

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIFE = timedelta(minutes=5)


@asynccontextmanager
async def opened(folder: Path, model: ScriptedModel, clock: VirtualClock) -> AsyncIterator[tuple[App, ServerClient]]:
    settings = read_settings(data=folder, debounce_ms=0, tool_keep_threshold=0, keep_recent_tokens=100)
    parts: dict[str, Any] = {"models": ScriptedModels(model), "tools": [Book("look", "prune")], "clock": clock}
    async with served(settings, **parts) as (app, client):
        yield app, client


async def looked(client: ServerClient, model: ScriptedModel, layout: str = "lamella") -> str:
    """A conversation with one turn that called a tool four times, and two that said so much that pruning at once does
    not pay."""
    conversation = await client.conversation(layout=layout)
    calls = [ToolCall(f"c{number}", "look", "{}") for number in range(4)]
    model.then(calling(*calls), saying(MUCH, usage=Usage(input=8_000, output=900)))
    await client.send(conversation, "Go")
    for input in (9_500, 11_000):
        model.then(saying(MUCH, usage=Usage(input=input, output=900)))
        await client.send(conversation, "Go on")
    return conversation


async def prunings(app: App, conversation: str) -> list[Decision]:
    stored = await app.store.conversations.decisions(LOCAL_OWNER, conversation)
    return [one.decision for one in stored if one.decision.kind is DecisionKind.PRUNE]


async def timer(app: App, conversation: str) -> Job | None:
    found: Job | None = await app.store.jobs.job(LOCAL_OWNER, IDLE, conversation)
    return found


async def rung(app: App, conversation: str, status: JobStatus, *, after: datetime) -> Job:
    """The timer once it has this status, and is due after this moment if it waits."""
    async with asyncio.timeout(20):
        while True:
            app.sessions.wake()
            job = await timer(app, conversation)
            if job is not None and job.status is status and (status is not JobStatus.WAITING or job.due_at > after):
                return job
            await asyncio.sleep(0.01)


async def test_results_are_pruned_once_when_the_cache_has_ended_and_a_restart_forgets_no_timer(tmp_path: Path) -> None:
    model, clock = ScriptedModel(), VirtualClock(NOON)
    async with opened(tmp_path, model, clock) as (app, client):
        conversation = await looked(client, model)
        waiting = await rung(app, conversation, JobStatus.WAITING, after=NOON)
        assert waiting.due_at == NOON + LIFE - MARGIN
        gauge = (await client.get(f"/conversations/{conversation}/context"))["cache"]
        assert (gauge["ends_at"], gauge["next"], gauge["at"]) == (
            "2026-03-01T12:05:00+00:00",
            "prune",
            gauge["ends_at"],
        )
        for name in ("/status", "/context"):
            said = await client.post(f"/conversations/{conversation}/commands", {"text": name})
            assert "The cache ends in 5 min; next is a pruning in 5 min: old results of tools cost" in said["answer"]
            assert said["data"]["cache"] == gauge
        clock.set(waiting.due_at)
        later = await rung(app, conversation, JobStatus.WAITING, after=waiting.due_at)
        assert later.due_at == NOON + LIFE, "nobody was ever away for longer, so nothing is summarised before it ends"
        assert await prunings(app, conversation) == []
    clock.set(NOON + timedelta(hours=2))
    async with opened(tmp_path, model, clock) as (app, client):
        await rung(app, conversation, JobStatus.FINISHED, after=NOON)
        [pruning] = await prunings(app, conversation)
        assert pruning.why.startswith("the cache has ended, so ")
        assert (pruning.numbers["pays_after"], pruning.numbers["results"]) == (0, 1)
        gauge = (await client.get(f"/conversations/{conversation}/context"))["cache"]
        assert gauge["next"] == "nothing"
        model.then(saying("Yes.", usage=Usage(input=2_000, output=3)))
        await client.send(conversation, "Still there?")
        assert len(await prunings(app, conversation)) == 1


async def test_a_message_sets_the_timer_again(tmp_path: Path) -> None:
    model, clock = ScriptedModel(), VirtualClock(NOON)
    async with opened(tmp_path, model, clock) as (app, client):
        conversation = await looked(client, model)
        clock.set(NOON + timedelta(minutes=3))
        model.then(saying("Yes.", usage=Usage(input=12_500, output=3)))
        await client.send(conversation, "And?")
        again = await rung(app, conversation, JobStatus.WAITING, after=NOON + LIFE)
        assert again.due_at == NOON + timedelta(minutes=8) - MARGIN


async def test_a_compaction_forgets_nobody_who_was_away(tmp_path: Path) -> None:
    """Who came back ten minutes later in an earlier session is expected to do so again."""
    model, clock = ScriptedModel(), VirtualClock(NOON)
    parts: dict[str, Any] = {"models": ScriptedModels(model), "clock": clock}
    settings = read_settings(data=tmp_path, debounce_ms=0, keep_recent_tokens=0, compaction_when="pays")
    async with served(settings, **parts) as (app, client):
        conversation = await client.conversation()
        for away in (10, 1, 1, 1):
            model.then(saying(MUCH, usage=Usage(input=8_000, output=900)))
            await client.send(conversation, "Go on")
            clock.set(clock.now() + timedelta(minutes=away))
        model.then(saying("# Facts\n- Ships."))
        found = await app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        assert isinstance(found, Compacted)
        model.then(saying(MUCH, usage=Usage(input=3_000, output=900)))
        await client.send(conversation, "And?")
        why = (await client.get(f"/conversations/{conversation}/context"))["cache"]["why"]
        assert "67% likely" in why


async def test_in_layout_lis_nothing_waits_for_the_end_of_a_cache(tmp_path: Path) -> None:
    model, clock = ScriptedModel(), VirtualClock(NOON)
    async with opened(tmp_path, model, clock) as (app, client):
        conversation = await looked(client, model, "lis")
        assert await timer(app, conversation) is None


async def test_after_a_clock_was_set_back_nobody_waits_for_a_cache_that_is_not_known(tmp_path: Path) -> None:
    """The gauge says that it has ended, and what is done then is done."""
    model, clock = ScriptedModel(), VirtualClock(NOON)
    async with opened(tmp_path, model, clock) as (app, client):
        conversation = await looked(client, model)
        await rung(app, conversation, JobStatus.WAITING, after=NOON)
        clock.put_back(7_200)
        gauge = (await client.get(f"/conversations/{conversation}/context"))["cache"]
        assert gauge["ends_at"] <= clock.now().isoformat()
        await rung(app, conversation, JobStatus.FINISHED, after=NOON)
        assert len(await prunings(app, conversation)) == 1
