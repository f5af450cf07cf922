"""Sessions that ended without a summary get one in the background, unless they go on first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.records import Caller, Job, JobStatus
from lamella.core.tokens import Usage
from lamella.llm.scripted import Gate, ScriptedModel, saying

from .test_compaction import MUCH, SUMMARY, summarised, talking, texts

pytestmark = pytest.mark.anyio


async def ended_job(app: App, session: str, kind: str = "summarise", caller: Caller = LOCAL_OWNER) -> Job:
    """The job of a session once it neither waits nor runs."""
    store = app.store
    async with asyncio.timeout(10):
        while True:
            found = await store.jobs.job(caller, kind, session)
            if found is not None and found.status in (JobStatus.FINISHED, JobStatus.FAILED):
                assert isinstance(found, Job)
                return found
            await asyncio.sleep(0.01)


async def current(app: App, conversation: str) -> str:
    return (await app.store.conversations.conversation(LOCAL_OWNER, conversation)).session_id


@pytest.mark.parametrize("word", ["new", "clear"])
async def test_a_session_that_is_left_gets_its_summary_and_the_new_one_does_not_show_it(
    tmp_path: Path, word: str
) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (app, client, conversation):
        first = await current(app, conversation)
        live = model.requests[-1]
        model.then(saying(SUMMARY))
        await client.post(f"/conversations/{conversation}/commands", {"text": f"/{word}"})
        found = await summarised(app, first)
        assert (found.summary, found.opened_by, found.usage["summary"].input) == (SUMMARY, "created", 100)
        asked = model.requests[-1]
        assert texts(asked)[: len(texts(live))] == texts(live)
        assert "Summarise this conversation now." in texts(asked)[-1]
        model.then(saying("Fresh."))
        await client.send(conversation, "Hello?")
        assert [text.split("\n")[0] for text in texts(model.requests[-1])] == ["Hello?"]
        path = await app.store.turns.path(LOCAL_OWNER, conversation)
        assert len(path) == 5


async def test_one_that_is_resumed_meanwhile_goes_on_without_a_summary(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    async with talking(tmp_path, model) as (app, client, conversation):
        first = await current(app, conversation)
        model.then([gate, *saying(SUMMARY)])
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        await asyncio.wait_for(gate.reached.wait(), 10)
        await app.sessions.resume(LOCAL_OWNER, conversation, first, why="/resume")
        gate.opened.set()
        assert (await ended_job(app, first)).status is JobStatus.FINISHED
        found = await app.store.sessions.session(LOCAL_OWNER, first)
        assert (found.summary, found.closed_at) == (None, None)
        assert found.usage["summary"].output == 10
        model.then(saying("Back."))
        await client.send(conversation, "And?")
        asked = [text.split("\n")[0] for text in texts(model.requests[-1])]
        assert [line for line in asked if line.endswith("?")] == [*(f"Question {n}?" for n in range(4)), "And?"]


async def test_one_that_goes_on_and_ends_again_gets_a_summary_of_all_of_it(tmp_path: Path) -> None:
    """What is said behind the end that was summarised is in the next summary, and in who goes on by it."""
    model, later = ScriptedModel(), "# Facts\nThe vault is 9933 (msg_2)."
    async with talking(tmp_path, model, turns=2, resume_token_budget="5000") as (app, client, conversation):
        first = await current(app, conversation)
        model.then(saying(SUMMARY))
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        await summarised(app, first)
        await app.sessions.resume(LOCAL_OWNER, conversation, first, why="/resume")
        model.then(saying(f"Noted. {MUCH}", usage=Usage(input=9_000, output=10)), saying(later), saying("9933."))
        await client.send(conversation, "The vault is 9933.")
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        await ended_job(app, first)
        assert "The vault is 9933." in "\n".join(texts(model.requests[-1]))
        opened = await app.sessions.resume(LOCAL_OWNER, conversation, first, why="/resume")
        assert opened.parent_id == first
        await client.send(conversation, "What is the vault?")
        assert later in texts(model.requests[-1])[0]


async def test_one_that_ends_again_behind_the_same_turn_keeps_its_summary(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=2) as (app, _, conversation):
        first = await current(app, conversation)
        model.then(saying(SUMMARY))
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        await summarised(app, first)
        await app.sessions.resume(LOCAL_OWNER, conversation, first, why="/resume")
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        assert (await ended_job(app, first)).status is JobStatus.FINISHED
        assert (await app.store.sessions.session(LOCAL_OWNER, first)).summary == SUMMARY
    assert len(model.requests) == 3


async def test_one_whose_summary_is_old_is_resumed_by_the_one_that_is_being_made(tmp_path: Path) -> None:
    model, gate, later = ScriptedModel(), Gate(), "# Facts\nThe vault is 9933 (msg_2)."
    async with talking(tmp_path, model, turns=2, resume_token_budget="5000") as (app, client, conversation):
        first = await current(app, conversation)
        model.then(saying(SUMMARY))
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        await summarised(app, first)
        await app.sessions.resume(LOCAL_OWNER, conversation, first, why="/resume")
        model.then(saying(MUCH, usage=Usage(input=9_000, output=10)), [gate, *saying(later)])
        await client.send(conversation, "The vault is 9933.")
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        resuming = asyncio.create_task(app.sessions.resume(LOCAL_OWNER, conversation, first, why="/resume"))
        await asyncio.wait_for(gate.reached.wait(), 10)
        assert not resuming.done()
        gate.opened.set()
        assert (await asyncio.wait_for(resuming, 10)).parent_id == first
        model.then(saying("9933."))
        await client.send(conversation, "What is the vault?")
        assert later in texts(model.requests[-1])[0]


async def test_one_that_hardly_said_anything_is_its_own_summary(tmp_path: Path) -> None:
    model = ScriptedModel([saying("Hello Ann.")])
    async with talking(tmp_path, model, turns=0) as (app, client, conversation):
        await client.send(conversation, "I am Ann.")
        first = await current(app, conversation)
        asked = (await app.store.turns.path(LOCAL_OWNER, conversation))[0].user.id
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        found = await summarised(app, first)
        assert found.summary == f"# Said\n- User: “I am Ann.” [{asked}]\n- Answer: “Hello Ann.” [{asked}]"
    assert len(model.requests) == 1


async def test_an_empty_session_has_nothing_to_summarise(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=0) as (app, _, conversation):
        first = await current(app, conversation)
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        assert await app.store.jobs.job(LOCAL_OWNER, "summarise", first) is None
    assert model.requests == []
