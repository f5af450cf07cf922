"""The ledger across restarts: what a provider has cached is known again, and figures that can't be break no turn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from databases import place
from lamella.app.app import kept_ledger
from lamella.cache.ledger import Entry, Ledger
from lamella.core.clock import VirtualClock
from lamella.core.errors import StoreFailed
from lamella.core.prompt import Ttl
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.storage.cached import SqlCacheEntries
from lamella.storage.store import open_store
from lamella_simulator.provider import simulated
from postgres import PostgresServer
from valkey_server import Valkey

pytestmark = pytest.mark.anyio

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
TEXT = "a long question about the harbour " * 300


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def entry(key: str, life: Ttl = Ttl.FIVE_MINUTES, minutes: float = 0) -> Entry:
    return Entry(key, 1_000, life, START + timedelta(minutes=minutes), exact=True)


async def test_entries_are_known_after_a_restart_until_they_end(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    async with await open_store(place(tmp_path)) as store:
        kept = SqlCacheEntries(store.database)
        async with kept_ledger(kept, clock) as ledger:
            for one in (entry("short"), entry("long", Ttl.ONE_HOUR), entry("gone")):
                ledger.write(one)
            ledger.forget("gone")
        clock.set(START + timedelta(minutes=10))
        async with kept_ledger(kept, clock) as ledger:
            assert ledger.live("long", clock.now()) == entry("long", Ttl.ONE_HOUR)
            assert ledger.live("short", clock.now()) is None
            ledger.renew("long", clock.now())
        assert list(await kept.live(START)) == [entry("long", Ttl.ONE_HOUR, minutes=10)]


async def test_processes_that_share_a_ledger_read_what_each_other_noted(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    async with await open_store(place(tmp_path)) as store:
        kept = SqlCacheEntries(store.database)
        async with kept_ledger(kept, clock, shared=True) as here, kept_ledger(kept, clock, shared=True) as there:
            here.write(entry("first"))
            here.write(entry("second"))
            await here.settled()
            assert there.live("first", clock.now()) is None
            await there.read(["first", "second", "third"])
            assert there.live("first", clock.now()) == entry("first")
            clock.set(START + timedelta(minutes=4))
            there.renew("first", clock.now())
            there.forget("second")
            await there.settled()
            assert here.live("second", clock.now()) is not None
            await here.read(["first", "second"])
            clock.set(START + timedelta(minutes=8))
            assert here.live("first", clock.now()) == entry("first", minutes=4)
            assert here.live("second", START) is None


async def test_an_earlier_use_does_not_replace_a_later_one_of_another_process(tmp_path: Path) -> None:
    async with await open_store(place(tmp_path)) as store:
        kept = SqlCacheEntries(store.database)
        await kept.keep([entry("key", minutes=3)], (), START)
        await kept.keep([entry("key", minutes=2)], (), START)
        assert list(await kept.find(["key"])) == [entry("key", minutes=3)]
        await kept.keep([entry("key", minutes=4)], (), START)
        assert list(await kept.find(["key"])) == [entry("key", minutes=4)]


async def test_what_is_noted_while_others_are_read_stays() -> None:
    """A slow answer of the database knows nothing of it."""
    asked, answer = anyio.Event(), anyio.Event()

    async def find(_keys: Sequence[str]) -> list[Entry]:
        asked.set()
        await answer.wait()
        return [entry("key")]

    async def stored() -> None:
        return

    ledger = Ledger()
    ledger.share(find, stored)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ledger.read, ["key", "other"])
        await asked.wait()
        ledger.write(entry("key", minutes=1))
        ledger.write(entry("other", minutes=1))
        answer.set()
    assert ledger.live("key", START + timedelta(minutes=2)) == entry("key", minutes=1)
    assert ledger.live("other", START + timedelta(minutes=2)) == entry("other", minutes=1)


class Unwilling:
    """Entries in memory; the first times that it is asked to keep some it fails. `asked` is set each time."""

    def __init__(self, times: int = 0) -> None:
        self.times = times
        self.kept: list[str] = []
        self.asked = anyio.Event()

    async def live(self, now: datetime) -> list[Entry]:
        return []

    async def find(self, keys: Any) -> list[Entry]:
        return []

    async def keep(self, entries: Any, forgotten: Any, now: datetime) -> None:
        self.asked.set()
        if self.times:
            self.times -= 1
            raise StoreFailed("The disk is full.")
        self.kept += [one.key for one in entries]


async def test_it_is_stored_while_it_runs() -> None:
    """A crash loses no more than a moment."""
    store = Unwilling()
    async with kept_ledger(store, VirtualClock(START)) as ledger:
        ledger.write(entry("key"))
        with anyio.fail_after(30):
            await store.asked.wait()
        assert store.kept == ["key"]


async def test_what_could_not_be_stored_is_stored_with_what_comes_next() -> None:
    store = Unwilling(1)
    async with kept_ledger(store, VirtualClock(START)) as ledger:
        ledger.write(entry("first"))
        with anyio.fail_after(30):
            await store.asked.wait()
        ledger.write(entry("second"))
    assert sorted(store.kept) == ["first", "second"]


def answering(*bills: Usage) -> ScriptedModels:
    model = ScriptedModel()
    for number, usage in enumerate(bills):
        model.then(saying(f"Answer {number}.", usage=usage))
    return ScriptedModels(model)


def bill(read: int, written: int, whole: int = 6_000) -> Usage:
    return Usage(input=whole, cache_read=read, cache_write_5m=written, output=10)


async def predicted(client: ServerClient, conversation: str, text: str) -> int:
    """What was predicted to be read by the one request that a message makes."""
    packets = await client.send(conversation, text)
    [began] = [packet for packet in packets if packet["type"] == "request.started"]
    return int(began["predicted_read"])


async def test_the_first_prediction_after_a_restart_knows_what_is_cached(tmp_path: Path) -> None:
    settings = read_settings(data=tmp_path, debounce_ms=0)
    async with served(settings, models=answering(bill(0, 5_900))) as (_, client):
        conversation = (await client.post("/conversations", {}))["id"]
        assert await predicted(client, conversation, TEXT) == 0
    async with served(settings, models=answering(bill(5_900, 90))) as (_, client):
        assert await predicted(client, conversation, "And then?") == 5_900


async def test_the_difference_to_the_request_before_is_told(tmp_path: Path) -> None:
    models = answering(bill(0, 5_900), bill(0, 5_990))
    async with served(read_settings(data=tmp_path, debounce_ms=0), models=models) as (_, client):
        conversation = (await client.post("/conversations", {}))["id"]
        await client.send(conversation, TEXT)
        version = await client.post("/system-prompts", {"text": "Speak of ships.", "note": ""})
        changed = {"system_prompt_version": version["version"]}
        (await client.call("PATCH", f"/conversations/{conversation}", json=changed)).raise_for_status()
        packets = await client.send(conversation, "And then?")
        [request] = [packet["request_id"] for packet in packets if packet["type"] == "request.started"]
        found = await client.get(f"/requests/{request}/diff")
        mapped = await client.get(f"/requests/{request}/map")
    assert (found["cause"], found["by"]) == ("decided", "setting")
    place = found["difference"]
    assert (place["segment"], place["reordered"]) == ("system", False)
    assert "Speak of ships." in place["after"]
    assert f"block {place['block']}, byte {place['byte']})" in found["text"]
    assert mapped["why"] == found["text"]


async def test_figures_that_do_not_add_up_are_said_and_break_nothing(tmp_path: Path) -> None:
    models = answering(bill(0, 5_900), bill(9_000, 500), bill(5_900, 90))
    async with served(read_settings(data=tmp_path, debounce_ms=0), models=models) as (_, client):
        conversation = (await client.post("/conversations", {}))["id"]
        await client.send(conversation, TEXT)
        assert (await client.send(conversation, "And then?"))[-1]["status"] == "finished"
        said = await client.post(f"/conversations/{conversation}/commands", {"text": "/why"})
        assert said["data"]["cause"] == "counters"
        assert "do not add up" in said["answer"]
        assert (await client.send(conversation, "And now?"))[-1]["status"] == "finished"


async def test_each_of_two_processes_predicts_what_the_other_has_cached(
    postgres: PostgresServer, valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMELLA_DATABASE_URL", postgres.url(postgres.copied()))
    monkeypatch.setenv("LAMELLA_REDIS_URL", valkey.url)
    with simulated() as provider:
        keys = {"anthropic_api_key": "sk-upstream", "anthropic_base_url": provider.url}
        here, there = (read_settings(data=tmp_path / name, model="claude-opus-4-8", **keys) for name in ("a", "b"))
        async with served(here) as (_, client), served(there) as (_, other):
            conversation = await client.conversation()
            for number in range(6):
                asked = other if number % 2 else client
                await asked.send(conversation, f"Question {number}: {TEXT}")
            turns = (await client.get(f"/conversations/{conversation}/turns"))["data"]
            requests = [
                request
                for turn in reversed(turns)
                for request in (await client.get(f"/turns/{turn['id']}/requests"))["data"]
                if request["purpose"] == "chat"
            ]
    assert len(requests) == 6
    for request in requests[1:]:
        assert request["usage"]["cache_read"] > 1_000
        assert request["usage"]["cache_read"] == pytest.approx(request["predicted"]["read"], rel=0.02)
