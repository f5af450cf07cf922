"""No session is out of reach because its summary failed: it is made when it is needed, or done without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.app.core import build_core, build_services
from lamella.core.clock import SystemClock
from lamella.core.errors import ProviderUnreachable
from lamella.core.ids import RandomIds
from lamella.core.settings import EngineSettings
from lamella.core.tokens import Threshold
from lamella.llm.scripted import Gate, ScriptedModels, saying
from lamella.server.testing import ServerClient
from lamella.storage.store import Store
from lamella.tooling.tool import Registry

from .provider import Provider, facts, sentences, shown
from .test_ended import ended_job
from .test_in_pieces import talking

pytestmark = pytest.mark.anyio

SIZES = [3_000] * 4


@asynccontextmanager
async def left(folder: Path, model: Provider, **settings: Any) -> AsyncIterator[tuple[App, ServerClient, str, str]]:
    """A conversation whose first session was left and whose summary has failed."""
    async with talking(folder, model, sizes=SIZES, **settings) as (app, client, conversation):
        first = (await app.store.conversations.conversation(LOCAL_OWNER, conversation)).session_id
        model.then(saying(" "))
        await client.post(f"/conversations/{conversation}/commands", {"text": "/new"})
        await failed(app, first)
        yield app, client, conversation, first


async def failed(app: App, session: str) -> None:
    """Come back when a summary of the session has failed."""
    async with asyncio.timeout(10):
        while True:
            job = await app.store.jobs.job(LOCAL_OWNER, "summarise", session)
            if job is not None and job.error is not None:
                return
            await asyncio.sleep(0.01)


async def resume(client: ServerClient, conversation: str) -> dict[str, Any]:
    answer: dict[str, Any] = await client.post(f"/conversations/{conversation}/commands", {"text": "/resume 1"})
    return answer


async def test_one_that_fits_goes_on_in_full(tmp_path: Path) -> None:
    model = Provider()
    async with left(tmp_path, model) as (_, client, conversation, first):
        answer = await resume(client, conversation)
        assert answer["data"] == {"session_id": first, "number": 1, "in_full": True}
        await client.send(conversation, "Where were we?")
        assert [fact for fact in facts(range(4)) if fact not in "".join(shown(model.requests[-1]))] == []


async def test_one_that_is_too_large_gets_its_summary_now(tmp_path: Path) -> None:
    model = Provider()
    async with left(tmp_path, model, resume_token_budget="5000") as (_, client, conversation, first):
        answer = await resume(client, conversation)
        assert answer["data"] == {**answer["data"], "in_full": False, "summary_of": first}
        await client.send(conversation, "Where were we?")
        window = "".join(shown(model.requests[-1]))
        assert [fact for fact in facts(range(4)) if fact not in window] == []
        assert "they spoke of ships" not in window


async def test_one_that_can_not_be_summarised_goes_on_in_full_all_the_same(tmp_path: Path) -> None:
    """The next message is answered, with as much of it as has room, and with the summariser still down."""
    model = Provider()
    settings: dict[str, Any] = {"resume_token_budget": "5000", "context_budget": 16_000}
    async with left(tmp_path, model, **settings) as (app, client, conversation, first):
        model.then([ProviderUnreachable("down")])
        answer = await resume(client, conversation)
        assert answer["data"] == {"session_id": first, "number": 1, "in_full": True, "summary": False}
        assert "no summary of it could be made" in answer["answer"]
        model.then([ProviderUnreachable("down")])
        packets = await client.send(conversation, sentences(9, 4_000))
        assert packets[-1]["status"] == "finished"
        window = "".join(shown(model.requests[-1]))
        assert "Left out here for want of room" in window
        assert facts([3])[0] in window
        await app.chat.rest(conversation)
        assert len(await app.store.turns.path(LOCAL_OWNER, conversation)) == 5


async def test_a_summary_that_takes_too_long_is_not_waited_for(tmp_path: Path) -> None:
    model, gate = Provider(), Gate()
    async with left(tmp_path, model) as (app, _, conversation, first):
        store, clock = app.store, SystemClock()
        assert isinstance(store, Store)
        services = build_services(store, Registry(()), clock, RandomIds(clock))
        hasty = EngineSettings(resume_token_budget=Threshold(tokens=5_000), resume_timeout=0.1)
        sessions = build_core(services, ScriptedModels(model), hasty, jobs=store.jobs).sessions
        model.then([gate, *saying("# Facts\n- Too late.")])
        opened = await asyncio.wait_for(sessions.resume(LOCAL_OWNER, conversation, first, why="/resume 1"), 10)
        assert opened.id == first
        await asyncio.wait_for(gate.reached.wait(), 10)
        gate.opened.set()
        await ended_job(app, first)
        assert (await store.sessions.session(LOCAL_OWNER, first)).summary is None
