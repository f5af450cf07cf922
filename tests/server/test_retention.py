"""What is older than it is kept expires, and every view says so: messages, figures and fingerprints stay."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.app.retention import EXPIRE, PACK
from lamella.core import deltas
from lamella.core.clock import Clock, SystemClock
from lamella.core.errors import ConfigurationError
from lamella.core.json import encode_text
from lamella.core.messages import ToolCall
from lamella.core.records import Caller, Expired, Job, JobStatus, PageQuery
from lamella.core.tokens import Usage
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella_lab.export.export import exporter_of

pytestmark = pytest.mark.anyio

THOUGHT = "Walls, then gates."
LOOK = calling(ToolCall("c1", "read_file", encode_text({"document": 9})), text="One moment.")
BILLED = Usage(input=4_000, cache_write_5m=3_900, output=9)


class Later(SystemClock):
    """The system's clock, some days ahead."""

    def __init__(self, days: float) -> None:
        self.ahead = timedelta(days=days)

    def now(self) -> datetime:
        """See `Clock.now`."""
        return super().now() + self.ahead


@asynccontextmanager
async def world(
    folder: Path, model: ScriptedModel, days: float = 0, **keeps: int
) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server on a data folder, so many days later than it is."""
    given = read_settings(data=folder, debounce_ms=0, titles=False, **keeps)
    clock: Clock = Later(days)
    async with served(given, models=ScriptedModels(model), clock=clock) as opened:
        yield opened


async def rested(app: App, kind: str = EXPIRE) -> Job:
    """The job once it waits for the next time."""
    async with asyncio.timeout(20):
        while True:
            job = await app.store.jobs.job(LOCAL_OWNER, kind, "retention")
            if job is not None and job.status is JobStatus.WAITING and job.due_at > app.clock.now():
                return job
            await asyncio.sleep(0.01)


async def talked(client: ServerClient, model: ScriptedModel) -> tuple[str, str, str]:
    """A conversation of two turns: the first looked something up. Gives it and its turns."""
    conversation = await client.conversation()
    thinking = [deltas.ReasoningDelta(0, THOUGHT), deltas.TextDelta(1, "It is a mill."), *saying(usage=BILLED)]
    model.then(LOOK, thinking, saying("Yes.", usage=BILLED))
    first = (await client.send(conversation, "What is it?"))[0]["turn_id"]
    second = (await client.send(conversation, "Sure?"))[0]["turn_id"]
    return conversation, first, second


async def test_by_default_nothing_expires(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, model) as (_, client):
        _, first, _ = await talked(client, model)
        packets = await client.packets(first, 0)
        assert stored(tmp_path) == (True, 0)
    async with world(tmp_path, model, days=30_000) as (app, client):
        await rested(app, PACK)
        assert await client.packets(first, 0) == packets
        assert await client.packets(first, 5) == packets[5:]
        assert stored(tmp_path)[0] is False
        assert 0 < stored(tmp_path)[1] < 250 < len(encode_text(packets)) / 5
        assert await app.store.jobs.job(LOCAL_OWNER, EXPIRE, "retention") is None


def stored(folder: Path) -> tuple[bool, int]:
    """Whether the journal has packets, and the bytes of the packed ones of the first turn."""
    with closing(sqlite3.connect(folder / "lamella.db")) as database:
        [in_journal] = database.execute("SELECT count(*) > 0 FROM journal").fetchone()
        [size] = database.execute("SELECT coalesce(length(packets), 0) FROM turns ORDER BY id").fetchone()
        return bool(in_journal), int(size)


async def test_expired_packets_are_told_and_the_answer_is_read_from_the_messages(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, model) as (_, client):
        conversation, first, _ = await talked(client, model)
        before = await client.packets(first, 0)
        turn = await client.get(f"/turns/{first}")
    async with world(tmp_path, model, days=29, keep_packets_days=30) as (app, client):
        await rested(app)
        assert await client.packets(first, 0) == before
    async with world(tmp_path, model, days=31, keep_packets_days=30) as (app, client):
        assert (await rested(app)).due_at > app.clock.now() + timedelta(hours=23)
        packets = await client.packets(first, 0)
        assert [one["type"] for one in packets] == [
            "turn.started",
            "packets.expired",
            "run.started",
            "text.delta",
            "tool.call",
            "tool.args.delta",
            "tool.result",
            "reasoning.delta",
            "text.delta",
            "run.finished",
            "turn.finished",
        ]
        today = f"{app.clock.now():%Y-%m-%d}"
        assert packets[1]["kept_days"] == 30
        assert packets[1]["expired_at"].startswith(today)
        assert [one["n"] for one in packets] == list(range(1, 12))
        same = ("text.delta", "reasoning.delta", "turn.finished", "turn.started")
        told = [{**one, "n": 0, "block_index": 0} for one in packets if one["type"] in same]
        assert told == [{**one, "n": 0, "block_index": 0} for one in before if one["type"] in same]
        # Who had some of them is told that the rest expired, and how the turn ended; nothing is told twice.
        resumed = await client.packets(first, 5)
        assert [(one["n"], one["type"]) for one in resumed] == [(6, "packets.expired"), (7, "turn.finished")]
        now = await client.get(f"/turns/{first}")
        assert now.pop("expired") == {"at": packets[1]["expired_at"], "kept_days": 30}
        assert now == {name: value for name, value in turn.items() if name != "expired"}
        status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
        assert "Packets are kept for 30 days\nExpired here: the packets of 2 turns" in status["answer"]
        assert status["data"]["retention"]["expired_turns"] == 2
        assert (await client.get("/status"))["retention"] == {"packets_days": 30, "requests_days": None}
        model.then(saying("Still here."))
        assert (await client.send(conversation, "And now?"))[-1]["type"] == "turn.finished"


async def test_expired_bodies_are_told_and_figures_stay(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, model) as (_, client):
        conversation, first, second = await talked(client, model)
        records = (await client.get(f"/turns/{first}/requests"))["data"]
        newest = (await client.get(f"/turns/{second}/requests"))["data"][-1]["id"]
        why = await client.get(f"/requests/{newest}/why")
        diff = await client.get(f"/requests/{newest}/diff")
        costs = (await client.post(f"/conversations/{conversation}/commands", {"text": "/status"}))["data"]["cost"]
        sizes = [one["tokens"] for one in (await client.get(f"/requests/{newest}/map"))["segments"]]
    async with world(tmp_path, model, days=8, keep_requests_days=7) as (app, client):
        await rested(app)
        raw = (await client.call("GET", f"/requests/{newest}/raw")).json()
        assert raw == {"expired": f"The body of this request expired on {app.clock.now():%Y-%m-%d}, after 7 days."}
        shown = await client.get(f"/requests/{newest}/map")
        assert [one["tokens"] for one in shown["segments"]] == sizes
        assert {one["text_preview"] for one in shown["segments"]} == {""}
        assert shown["expired"]["kept_days"] == 7
        found = (await client.get(f"/turns/{first}/requests"))["data"]
        assert [{**one, "expired": None} for one in found] == records
        assert await client.get(f"/requests/{newest}/why") == why
        now = await client.get(f"/requests/{newest}/diff")
        assert diff["difference"]["before"] != ""
        bytes_gone = {"byte": 0, "before": "", "after": ""}
        assert now == {**diff, "difference": {**diff["difference"], **bytes_gone}}
        status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
        assert status["data"]["cost"] == costs
        assert status["data"]["retention"]["expired_requests"] == 3
        trace = await exporter_of(app).export(LOCAL_OWNER, conversation)
        [told] = [one for one in trace.head.exported.not_carried if "expired" in one]  # type: ignore[union-attr]
        assert told.startswith("the bodies of 3 requests, which expired")
        # A request that is made now is whole, although its window begins as an expired one did.
        model.then(saying("Still here."))
        turn = (await client.send(conversation, "And now?"))[0]["turn_id"]
        [fresh] = (await client.get(f"/turns/{turn}/requests"))["data"]
        body = await client.get(f"/requests/{fresh['id']}/raw")
        assert body == model.body(model.requests[-1])
        assert "It is a mill." in encode_text(body)


async def test_a_window_is_stored_whole_after_a_pause_in_one_process(tmp_path: Path) -> None:
    model = ScriptedModel()
    clock = Later(0)
    given = read_settings(data=tmp_path, debounce_ms=0, titles=False, keep_requests_days=1)
    async with served(given, models=ScriptedModels(model), clock=clock) as (app, client):
        conversation, first, second = await talked(client, model)
        clock.ahead = timedelta(hours=23)
        model.then(saying("Yes, still."))
        third = (await client.send(conversation, "Still?"))[0]["turn_id"]
        clock.ahead = timedelta(days=2)
        before = app.clock.now() - timedelta(hours=30)
        expired = await app.store.retention.conversations_to_expire(before)
        assert expired == ((LOCAL_OWNER, conversation),)
        gone = Expired(app.clock.now(), 1)
        assert await app.store.retention.expire_requests(LOCAL_OWNER, conversation, before, gone) == 3
        [kept] = await app.store.requests.requests(LOCAL_OWNER, third)
        assert kept.expired is None
        assert (await client.get(f"/requests/{kept.id}/raw")) == model.body(model.requests[-1])
        for turn in (first, second):
            assert all(one.expired for one in await app.store.requests.requests(LOCAL_OWNER, turn))


async def test_a_conversation_in_which_a_turn_runs_is_left_for_the_next_time(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    async with world(tmp_path, model) as (_, client):
        conversation, first, _ = await talked(client, model)
    async with world(tmp_path, model, days=3) as (app, client):
        model.then([gate, *saying("At last.")])
        async with client.sending(conversation, "Wait.") as events:
            turn = ""
            async for event in events:
                turn = event.packet["turn_id"]
                break
            now = app.clock.now()
            before, expired = now + timedelta(days=1), Expired(now, 1)
            store = app.store.retention
            assert await store.expire_requests(LOCAL_OWNER, conversation, before, expired) == 0
            assert turn not in await store.turns_to_expire(before, 100)
            assert first in await store.turns_to_expire(before, 100)
            gate.opened.set()
            async for _ in events:
                pass
        assert await store.expire_requests(LOCAL_OWNER, conversation, before, expired) == 4


async def test_a_run_that_was_cut_off_goes_on_with_what_is_left(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with world(tmp_path, model) as (app, client):
        conversation, first, second = await talked(client, model)
        other, third, _ = await talked(client, model)
    async with world(tmp_path, model, days=40) as (app, client):
        store, now = app.store.retention, app.clock.now()
        # What the first batch did before its process ended.
        await store.expire_packets([first], Expired(now, 30))
        await store.expire_requests(LOCAL_OWNER, conversation, now, Expired(now, 30))
    async with world(tmp_path, model, days=41, keep_packets_days=30, keep_requests_days=30) as (app, client):
        await rested(app)
        records = {
            turn.id: turn.expired
            for one in (conversation, other)
            for turn in (await app.store.turns.turns(LOCAL_OWNER, one, PageQuery())).data
        }
        assert records[first] == Expired(now, 30)
        assert None not in records.values()
        assert {one for id, one in records.items() if id != first} == {records[second]}
        gone = [await app.store.retention.expired(Caller(LOCAL_OWNER.user_id), one) for one in (conversation, other)]
        assert [(one.turns, one.requests) for one in gone] == [(2, 3), (2, 3)]
        assert third in records


@pytest.mark.parametrize("name", ["keep_packets_days", "keep_requests_days"])
@pytest.mark.parametrize("value", [0, -1, 40_000, "soon"])
def test_days_that_make_no_sense_are_refused(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name.upper()):
        read_settings(data=tmp_path, **{name: value})
