"""A compaction that somebody waits for: it begins at once, also while an answer runs, and leaves that answer alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.llm.scripted import Gate, ScriptedModel, saying
from lamella.sessions.compaction import Compacted, CompactionRequest
from lamella.sessions.summariser import NotCompacted

from .test_compaction import MUCH, SUMMARY, talking, texts

pytestmark = pytest.mark.anyio


def needed(app: App, conversation: str) -> asyncio.Task[Compacted | NotCompacted]:
    """What a message, or a turn that runs, asks for when its window is too large."""
    return app.sessions.make_room(LOCAL_OWNER, conversation, why="it does not fit")


async def test_while_an_answer_runs_what_is_before_it_is_compacted(tmp_path: Path) -> None:
    """The running turn is in no summary, goes on as it was, and is the newest turn of the next session."""
    model, gate = ScriptedModel(), Gate()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, client, conversation):
        model.then([gate, *saying("It was the Aurora.")])
        answering = asyncio.create_task(client.send(conversation, "Which ship was it?"))
        await asyncio.wait_for(gate.reached.wait(), 10)
        live = texts(model.requests[-1])
        model.then(saying(SUMMARY))
        found = await asyncio.wait_for(needed(app, conversation), 10)
        assert isinstance(found, Compacted)
        assert "Which ship was it?" not in "\n".join(texts(model.requests[-1]))
        gate.opened.set()
        packets = await answering
        assert packets[-1]["status"] == "finished"
        assert texts(model.requests[-2]) == live, "the running answer was asked for once, with what it had"
        model.then(saying("Yes."))
        await client.send(conversation, "Sure?")
        window = texts(model.requests[-1])
        assert SUMMARY in window[0]
        order = [text.split("\n")[0] for text in window if not text.startswith("Answer")]
        assert order[-4:] == ["Question 3?", "Which ship was it?", "It was the Aurora.", "Sure?"]
        path = await app.store.turns.path(LOCAL_OWNER, conversation)
        kept = [turn for turn in path if turn.id > str(found.session.begins_after)]
        figures = await app.sessions.figures(LOCAL_OWNER, conversation)
        assert figures.messages[found.session.id] == 2 * len(kept), "each message is in one session"


async def test_one_that_runs_and_would_not_pay_is_followed_by_one_that_is_made(tmp_path: Path) -> None:
    """After a turn a compaction is only made if it frees enough; who waits for room needs one in any case."""
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, _, conversation):
        model.then(saying(SUMMARY))
        by_price = CompactionRequest(LOCAL_OWNER, conversation, "engine", "it may pay", if_it_pays=True)
        unneeded = app.sessions._compactions.ask(by_price)
        await asyncio.sleep(0)
        assert isinstance(await asyncio.wait_for(needed(app, conversation), 10), Compacted)
        await unneeded
        assert len(model.requests) == 5


async def test_it_waits_for_no_other_compaction(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    begun = [Gate() for _ in range(3)]
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, client, last):
        others = []
        for _ in range(5):
            others.append(await client.conversation())
            for number in range(3):
                model.then(saying(f"Answer {number}. {MUCH}"))
                await client.send(others[-1], f"Question {number}?")
        for one in begun:
            one.opened.set()
            model.then([one, gate, *saying(SUMMARY)])
        tasks = [app.sessions.compact(LOCAL_OWNER, one, who="user_local", why="asked for") for one in others]
        await asyncio.wait_for(asyncio.gather(*(one.reached.wait() for one in begun)), 10)
        model.then(saying(SUMMARY))
        assert isinstance(await asyncio.wait_for(needed(app, last), 10), Compacted)
        assert not any(task.done() for task in tasks)
        model.then(saying(SUMMARY), saying(SUMMARY))
        gate.opened.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 10)
