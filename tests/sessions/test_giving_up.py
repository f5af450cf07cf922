"""A compaction that fails again and again is given up until something has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.clock import SystemClock
from lamella.core.prompt import WireRequest
from lamella.core.records import Job, JobStatus
from lamella.core.tokens import Usage
from lamella.llm.scripted import ReplayEvent, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.sessions.compactions import COMPACT
from lamella.settings import read_settings

from .test_compaction import MUCH, told

pytestmark = pytest.mark.anyio

SETTINGS: dict[str, Any] = {
    "keep_recent_tokens": 1_200,
    "compaction_threshold": "5000",
    "context_budget": 100_000,
    "tool_summarization_policy": "keep_all",
}


class Hurried(SystemClock):
    """The machine's time and what is added to it."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead


class NoSummaries(ScriptedModel):
    """Answers by its script, and with nothing where that has ended."""

    def _next(self, request: WireRequest) -> Iterator[ReplayEvent]:
        return super()._next(request) if self._steps else iter(saying(" "))


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation whose answers read as much as is said of them, and whose summaries are empty."""

    app: App
    client: ServerClient
    model: ScriptedModel
    clock: Hurried
    conversation: str

    async def attempts(self, read: int) -> int:
        """How often a compaction is tried after an answer that read so many tokens, until it is given up."""
        before = len(self.model.requests)
        self.model.then(saying(f"So. {MUCH}", usage=Usage(input=read, output=10)))
        await self.client.send(self.conversation, "And?")
        await self.app.chat.rest(self.conversation)
        await self.settle()
        return len(self.model.requests) - before - 1

    async def settle(self) -> None:
        """Let time pass until no compaction waits."""
        await self.app.sessions.wait_until_idle(self.conversation)
        while True:
            job: Job | None = await self.app.store.jobs.job(LOCAL_OWNER, COMPACT, self.conversation)
            if job is None or job.status not in (JobStatus.WAITING, JobStatus.RUNNING):
                return
            if job.status is JobStatus.WAITING:
                self.clock.ahead = max(self.clock.ahead, job.due_at - datetime.now(job.due_at.tzinfo))
                self.app.sessions.wake()
            await asyncio.sleep(0.01)


async def test_after_three_attempts_nothing_is_tried_until_something_changes(tmp_path: Path) -> None:
    model, clock = NoSummaries(), Hurried()
    parts: dict[str, Any] = {"models": ScriptedModels(model), "clock": clock}
    async with served(read_settings(data=tmp_path, **SETTINGS), **parts) as (app, client):
        talk = Talk(app, client, model, clock, await client.conversation())
        assert [await talk.attempts(read) for read in (3_000, 3_000, 6_000, 6_000, 7_000)] == [0, 0, 3, 0, 0]
        assert (await told(client, talk.conversation)).count("not_compacted") == 1
        assert [await talk.attempts(7_600) for _ in range(2)] == [3, 0], "the window has grown by a quarter"
        changed = await client.call("PATCH", f"/conversations/{talk.conversation}", json={"thinking_effort": "low"})
        assert changed.status_code == 200
        assert [await talk.attempts(7_600) for _ in range(2)] == [3, 0], "a setting has changed"
        await client.post(f"/conversations/{talk.conversation}/compact", {})
        await talk.settle()
        assert [await talk.attempts(7_600) for _ in range(2)] == [3, 0], "the user has asked for one"


async def test_what_stands_in_every_window_and_is_too_much_is_said_once(tmp_path: Path) -> None:
    """No compaction can help: none is made, and none is asked for again."""
    model, clock = NoSummaries(), Hurried()
    settings = {**SETTINGS, "compaction_threshold": "1000"}
    parts: dict[str, Any] = {"models": ScriptedModels(model), "clock": clock}
    async with served(read_settings(data=tmp_path, **settings), **parts) as (app, client):
        agent = await client.post("/agents", {"name": "A", "prompt": "Be kind. " * 1_500})
        talk = Talk(app, client, model, clock, await client.conversation(agent_id=agent["id"]))
        jobs = []
        for _ in range(4):
            assert await talk.attempts(8_000) == 0
            job = await app.store.jobs.job(LOCAL_OWNER, COMPACT, talk.conversation)
            assert job is not None
            jobs.append(job)
        assert [job.status for job in jobs] == [JobStatus.FAILED] * 4
        assert len({job.id for job in jobs[1:]}) == 1
        last = (await client.get(f"/conversations/{talk.conversation}/commands"))["data"]
        assert sum("what stands in every window" in one["text"] for one in last) == 1
