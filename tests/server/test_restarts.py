"""Clients follow through the balancer while replicas restart one after the other, or are killed.

Nobody helps them: they ask again as their kind does, and hear each packet once and in order. In the end the laws of
`bench/replicating/laws.py` hold.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import httpx2
import msgspec
import pytest

from lamella.client import Client
from lamella.core.errors import LamellaError
from lamella.core.packets import encode_packet
from processes import simulator
from replicas import KEPT, OPTIONS, _client, _speak, _tell
from replicating import laws
from replicating.clients import Heard, Speaker
from replicating.cluster import MISSING, Cluster, Replica, Servers, cluster, servers

pytestmark = [
    pytest.mark.long,
    pytest.mark.anyio,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

SEED = 11


class EventSource(Speaker):
    """Names the last event that it saw, as the `EventSource` of browsers does."""

    def _request(self, one: Heard) -> Any:
        if not one.turn_id:
            return super()._request(one)
        seen = {"last-event-id": str(one.numbers[-1])} if one.packets else {}
        return self._http.stream("GET", f"/api/v1/turns/{one.turn_id}/events", headers=seen)


class Library(Speaker):
    """Speaks by `lamella.client`: each message is one call, and an error is the end of it."""

    async def say(self, one: Heard, placed: asyncio.Event | None = None) -> None:
        one.connections += 1
        try:
            async for packet in Client(self._http).send(one.conversation, one.text, models=one.models):
                self._take(one, msgspec.json.decode(encode_packet(packet)))
                if placed is not None:
                    placed.set()
        except (LamellaError, httpx2.HTTPError) as error:
            one.refused = repr(error)
        finally:
            if placed is not None:
                placed.set()


KINDS = Speaker, EventSource, Library


@pytest.fixture(scope="module")
def on() -> Iterator[Servers]:
    with servers() as started:
        yield started


async def _is_refused(one: Replica) -> bool:
    """Whether a replica that drains refuses new work in our shape; False if it has ended before."""
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as http:
        for _ in range(100):
            try:
                answer = await http.post(f"{one.url}/api/v1/conversations", json={})
            except httpx2.HTTPError:
                return False
            if answer.status_code == 503:
                assert answer.headers["retry-after"] == "1"
                error = answer.json()["error"]
                assert (error["type"], error["code"]) == ("ServerStopping", "overloaded")
                assert error["message"] == "The server is stopping."
                return True
            await asyncio.sleep(0.01)
    return False


async def _restarted(among: Cluster, how: signal.Signals) -> int:
    """Restart all replicas, one after the other. Returns how many were seen to refuse new work."""
    refused = 0
    for one in among.replicas:
        await asyncio.sleep(1)
        one.kill(how)
        if how == signal.SIGTERM:
            refused += await _is_refused(one)
        await one.begin()
        await one.ready()
    return refused


@pytest.mark.parametrize(
    ("how", "drain"),
    [(signal.SIGTERM, "20"), (signal.SIGTERM, "0"), (signal.SIGKILL, "0")],
    ids=["drained", "stopped at once", "killed"],
)
async def test_a_rolling_restart_loses_nothing(on: Servers, how: signal.Signals, drain: str) -> None:
    heard, ended = list[Heard](), asyncio.Event()
    with simulator(*OPTIONS, *KEPT) as provider:
        await _tell(provider.url)
        settings = {"LAMELLA_DRAIN_SECONDS": drain}
        async with cluster(provider.url, 3, on, settings) as among, _client(among.url) as http:
            async with asyncio.TaskGroup() as group:
                for number in range(12):
                    speaker, own = KINDS[number % len(KINDS)](http), Random(f"{SEED} {number}")
                    group.create_task(_speak(speaker, own, f"{SEED}-{number}", ended, heard))
                refused = await _restarted(among, how)
                await asyncio.sleep(2)
                ended.set()
            broken = await laws.of_conversations(http, heard)
        broken += laws.of_rows(among.database)
    ends = Counter(one.ended for one in heard)
    assert broken == [], ends
    assert len(heard) > 24
    assert sum(one.connections > 1 for one in heard) > 0
    if drain != "0":
        assert refused > 0
        assert not ends["interrupted"], "a replica that drains lets its turns end"
