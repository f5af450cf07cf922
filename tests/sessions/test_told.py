"""A compaction that can't be made is told once, with a way out, and keeps no message from being answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.errors import ProviderUnreachable, StoreFailed
from lamella.core.records import Job, JobStatus
from lamella.llm.scripted import ReplayEvent, ScriptedModels, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.sessions.compactions import COMPACT
from lamella.settings import read_settings

from .provider import Provider, is_order, sentences
from .test_giving_up import Hurried, Talk
from .test_in_pieces import talking

pytestmark = pytest.mark.anyio


async def notices(client: ServerClient, conversation: str) -> list[Object]:
    listed = (await client.get(f"/conversations/{conversation}/commands"))["data"]
    return [one for one in listed if one["name"] == "not_compacted"]


async def job_of(app: App, conversation: str) -> Job:
    """The job as it stands once its row says how it ended, which is after the compaction is settled."""
    with anyio.fail_after(5):
        while True:
            found = await app.store.jobs.job(LOCAL_OWNER, COMPACT, conversation)
            if isinstance(found, Job) and found.error is not None:
                return found
            await anyio.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([ProviderUnreachable("down")], "the summary could not be made: down"),
        (saying(" "), "the summary is empty"),
        ([StoreFailed("The disk is full.")], "The disk is full."),
    ],
)
async def test_who_asks_is_told_why_and_what_to_do(tmp_path: Path, answer: Sequence[ReplayEvent], why: str) -> None:
    model = Provider()
    async with talking(tmp_path, model, sizes=[1_500] * 5, keep_recent_tokens=1_000) as (app, client, conversation):
        model.then(answer)
        started = await client.post(f"/conversations/{conversation}/compact")
        assert started["data"]["started"]
        await app.sessions.wait_until_idle(conversation)
        [told] = await notices(client, conversation)
        assert why in told["text"]
        assert "Nothing has changed. The conversation continues" in told["text"]
        assert "/compact tries again now" in told["data"]["hint"]
        job = await job_of(app, conversation)
        assert (job.status, why in str((job.error or {})["message"])) == (JobStatus.WAITING, True)


async def test_nothing_to_do_is_said_with_what_is_kept(tmp_path: Path) -> None:
    model = Provider()
    async with talking(tmp_path, model, sizes=[100]) as (app, client, conversation):
        answer = await client.post(f"/conversations/{conversation}/compact")
        assert answer["answer"].startswith("Nothing to compact: all of it is recent. LAMELLA_KEEP_RECENT_TOKENS")
        assert "/new begins an empty window." in answer["answer"]
        app.sessions.compact(LOCAL_OWNER, conversation, who="engine", why="asked for")
        await app.sessions.wait_until_idle(conversation)
        job = await job_of(app, conversation)
        assert (job.status, (job.error or {})["message"]) == (JobStatus.FAILED, "all of it is recent")


async def test_with_the_summariser_down_every_message_is_answered(tmp_path: Path) -> None:
    """At most one summary is tried for a message; what it was to make room for leaves the window; it is told once."""
    main = Provider("main", 1_000_000)
    async with talking(tmp_path, main, sizes=[3_000] * 8):
        pass
    main, down = Provider("main", 1_000_000), Provider("down", summary=lambda _: "")
    models, settings = ScriptedModels(main, down), {"context_budget": 12_000, "compaction_model": "down"}
    async with served(read_settings(data=tmp_path, **settings), models=models) as (app, client):
        [only] = (await client.get("/conversations"))["data"]
        for number in range(6):
            asked = len(down.requests)
            packets = await client.send(only["id"], sentences(100 + number, 2_000))
            assert packets[-1]["status"] == "finished"
            assert len(down.requests) - asked <= 1
            await app.chat.rest(only["id"])
        assert len(await notices(client, only["id"])) == 1
        assert len(await app.store.sessions.sessions(LOCAL_OWNER, only["id"])) == 1
        path = await app.store.turns.path(LOCAL_OWNER, only["id"])
        assert len(path) == 14, "what left the window is stored"
        assert not any(is_order(request) for request in main.requests)


async def test_reasons_that_alternate_are_told_once_each(tmp_path: Path) -> None:
    model, clock = Provider(), Hurried()
    settings = read_settings(data=tmp_path, keep_recent_tokens=1_000)
    async with served(settings, models=ScriptedModels(model), clock=clock) as (app, client):
        talk = Talk(app, client, model, clock, await client.conversation())
        for number in range(5):
            await client.send(talk.conversation, sentences(number, 1_500))
        for _ in range(2):
            model.then([ProviderUnreachable("down")], saying(" "), [ProviderUnreachable("down")])
            app.sessions.compact(LOCAL_OWNER, talk.conversation, who="engine", why="the window is full")
            await app.sessions.wait_until_idle(talk.conversation)
            await talk.settle()
            assert (await job_of(app, talk.conversation)).status is JobStatus.FAILED
        assert len(await notices(client, talk.conversation)) == 2
