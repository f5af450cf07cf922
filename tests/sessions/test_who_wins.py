"""Who wins where a compaction meets `/new`, `/resume` or another process: what was asked for, never the background."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from databases import place
from lamella.app.app import LOCAL_OWNER
from lamella.app.core import build_core, build_services
from lamella.commands.parse import TypedCommand
from lamella.core.clock import SystemClock
from lamella.core.errors import StoreFailed
from lamella.core.ids import RandomIds
from lamella.core.records import Caller, Job
from lamella.core.sessions import Session, SessionCause, SessionReturn, SessionStep
from lamella.core.settings import EngineSettings
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, saying
from lamella.sessions.compaction import Compacted
from lamella.sessions.sessions import Sessions
from lamella.sessions.summariser import NotCompacted
from lamella.storage.conversations.conversations import ConversationRows
from lamella.storage.conversations.sessions import SessionRows
from lamella.storage.jobs import JobRows
from lamella.storage.store import Store, open_store
from lamella.tooling.tool import Registry

from .test_compaction import SUMMARY, talking

pytestmark = pytest.mark.anyio


async def test_a_session_that_was_left_and_resumed_meanwhile_is_not_compacted(tmp_path: Path) -> None:
    """The conversation is in the session that the compaction began with, and whoever went back to it still wins."""
    model, gate = ScriptedModel(), Gate()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, _, conversation):
        model.then([gate, *saying(SUMMARY)])
        task = app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        await asyncio.wait_for(gate.reached.wait(), 10)
        model.then(saying(SUMMARY), saying(SUMMARY))
        await app.chat.orders.run(LOCAL_OWNER, conversation, TypedCommand("new"))
        await app.chat.orders.run(LOCAL_OWNER, conversation, TypedCommand("resume", "1"))
        gate.opened.set()
        assert await task == NotCompacted("another session was opened meanwhile", code="silent")
        view = await app.sessions.view(LOCAL_OWNER, conversation)
        assert (view.current.number, len(view.sessions)) == (1, 2)


class QuickCompactor(SessionRows):
    """Another writer opens a session just before the first change of session that is asked for here."""

    quick = True

    async def next_session(self, caller: Caller, step: SessionStep, job: Job | None = None) -> Session:
        await self._overtake(caller, step.session.conversation_id)
        return await super().next_session(caller, step, job)

    async def return_to_session(self, caller: Caller, back: SessionReturn) -> Session:
        await self._overtake(caller, (await self.session(caller, back.session_id)).conversation_id)
        return await super().return_to_session(caller, back)

    async def _overtake(self, caller: Caller, conversation_id: str) -> None:
        if self.quick:
            self.quick = False
            now = await ConversationRows(self._database, self._ids).conversation(caller, conversation_id)
            other = Session("sess_other", conversation_id, 0, now.updated_at, SessionCause.COMPACTION, now.session_id)
            step = SessionStep(now.session_id, other, "a compaction", now.updated_at)
            await super().next_session(caller, step)


class Unwritable(SessionRows):
    """Sessions of a store that can't open another session."""

    async def next_session(self, caller: Caller, step: SessionStep, job: Job | None = None) -> Session:
        raise StoreFailed("The disk is full.")


async def test_a_summary_that_can_not_be_committed_is_paid_for_all_the_same(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, _, conversation):
        pass
    clock = SystemClock()
    model.then(saying(SUMMARY))
    async with await open_store(place(tmp_path)) as store:
        store.sessions = Unwritable(store.database, store.ids)
        services = build_services(store, Registry(()), clock, RandomIds(clock))
        settings = EngineSettings(keep_recent_tokens=1_200)
        core = build_core(services, ScriptedModels(model), settings, jobs=store.jobs)
        core.sessions.start()
        asked = core.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        assert isinstance(await asyncio.wait_for(asked, 10), NotCompacted)
        [only] = await store.sessions.sessions(LOCAL_OWNER, conversation)
        assert (only.summary, only.usage["summary"].output) == (None, 10)
        await core.sessions.close()


async def overtaken(folder: Path) -> tuple[Sessions, Store, str]:
    """Sessions over such a store, and a conversation of one turn."""
    model = ScriptedModel()
    async with talking(folder, model, turns=1) as (_, _, conversation):
        pass
    store = await open_store(place(folder))
    store.sessions = QuickCompactor(store.database, store.ids)
    clock = SystemClock()
    services = build_services(store, Registry(()), clock, RandomIds(clock))
    core = build_core(services, ScriptedModels(model), jobs=store.jobs)
    return core.sessions, store, conversation


async def test_new_wins_over_a_compaction_that_was_a_moment_quicker(tmp_path: Path) -> None:
    sessions, store, conversation = await overtaken(tmp_path)
    async with store:
        opened = await sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        assert (opened.parent_id, opened.opened_by) == ("sess_other", SessionCause.NEW)
        assert (await store.conversations.conversation(LOCAL_OWNER, conversation)).session_id == opened.id


async def test_resume_wins_over_a_compaction_that_was_a_moment_quicker(tmp_path: Path) -> None:
    sessions, store, conversation = await overtaken(tmp_path)
    async with store:
        assert isinstance(store.sessions, QuickCompactor)
        store.sessions.quick = False
        first = (await store.conversations.conversation(LOCAL_OWNER, conversation)).session_id
        await sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        store.sessions.quick = True
        await sessions.resume(LOCAL_OWNER, conversation, first, why="/resume")
        assert (await store.conversations.conversation(LOCAL_OWNER, conversation)).session_id == first


class SlowJobs(JobRows):
    """A database that takes its time to store that a job failed."""

    async def fail(self, *args: Any, **kwargs: Any) -> None:
        await asyncio.sleep(0.2)
        await super().fail(*args, **kwargs)


async def test_a_failure_is_told_when_it_is_stored(tmp_path: Path) -> None:
    """Else a user who asks at once is told that a compaction runs already, and is not heard."""
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, _, conversation):
        pass
    async with await open_store(place(tmp_path)) as store:
        clock = SystemClock()
        services = build_services(store, Registry(()), clock, RandomIds(clock))
        settings = EngineSettings(keep_recent_tokens=1_200)
        jobs = SlowJobs(store.database, store.ids)
        sessions = build_core(services, ScriptedModels(model), settings, jobs=jobs).sessions
        sessions.start()
        model.then(saying(" "))
        asked = sessions.compact(LOCAL_OWNER, conversation, who="engine", why="the window is full")
        assert isinstance(await asyncio.wait_for(asked, 10), NotCompacted)
        assert not await sessions.compacts(LOCAL_OWNER, conversation)
        await sessions.close()


async def test_a_compaction_that_another_process_does_is_heard_of(tmp_path: Path) -> None:
    """Nobody waits for ever for a job that somebody else has ended."""
    model, gate = ScriptedModel(), Gate()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, _, conversation):
        store, clock = app.store, SystemClock()
        assert isinstance(store, Store)
        services = build_services(store, Registry(()), clock, RandomIds(clock))
        other = build_core(services, ScriptedModels(model), jobs=store.jobs).sessions
        model.then([gate, *saying(SUMMARY)])
        here = app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        await asyncio.wait_for(gate.reached.wait(), 10)
        there = other.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        gate.opened.set()
        assert isinstance(await asyncio.wait_for(here, 10), Compacted)
        assert await asyncio.wait_for(there, 10) == NotCompacted("a compaction ended a moment ago", code="silent")
        assert not other.is_compacting(conversation)
