"""Replicas under speaking conversations while Redis or PostgreSQL is away, behind PgBouncer, and at a failover.

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
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random

import httpx2
import pytest
from sqlalchemy import make_url

from cut_connections import proxied
from postgres import PostgresServer
from processes import simulator
from replicas import KEPT, OPTIONS, _client, _speak, _tell
from replicating import laws
from replicating.clients import Heard, Speaker
from replicating.cluster import MISSING, SBIN, Cluster, Servers, cluster, free_port, servers

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
    provider: str,
    on: Servers,
    meanwhile: Callable[[Cluster], Awaitable[None]],
    database: str = "",
    url: str = "",
    *,
    conversations: int = 6,
    silence: float = laws.STUCK_SECONDS,
) -> list[str]:
    """The laws that are broken after conversations were spoken through two replicas until `meanwhile` came back.

    `database` is the URL that the replicas use in place of one of their own, `url` the same one for the test. No turn
    is silent for longer than `silence` seconds.
    """
    await _tell(provider)
    heard, ended, settings = list[Heard](), asyncio.Event(), {"LAMELLA_DATABASE_URL": database} if database else {}
    async with cluster(provider, 2, on, settings) as among, _client(among.url) as http:
        async with asyncio.TaskGroup() as group:
            for number in range(conversations):
                speaker, own = Speaker(http), Random(f"{SEED} {number}")
                group.create_task(_speak(speaker, own, f"{SEED}-{number}", ended, heard))
            await meanwhile(among)
            ended.set()
        assert len(heard) > 12
        broken = await laws.of_conversations(http, heard, silence)
        states = (await http.get("/readyz")).json()["checks"]
    assert set(states.values()) == {"ok"}
    _say(heard)
    return broken + laws.of_rows(url or among.database)


def _say(heard: list[Heard]) -> None:
    """What happened, for who reads the output of a test."""
    ended = Counter(one.ended for one in heard)
    told = Counter(answer for one in heard for answer in one.told)
    lines = [f"{len(heard)} messages: {dict(ended)}, longest silence {max(one.silence for one in heard):.1f} s"]
    lines += [f"{count} times: {answer}" for answer, count in told.most_common(8)]
    sys.stdout.write("\n".join(lines) + "\n")


async def test_redis_is_away_for_a_minute(on: Servers) -> None:
    async def away(among: Cluster) -> None:
        await asyncio.sleep(3)
        await asyncio.to_thread(on[1].kill)
        await asyncio.sleep(30)
        async with httpx2.AsyncClient(trust_env=False) as http:
            for one in among.replicas:
                answer = await http.get(f"{one.url}/readyz")
                assert answer.status_code == 200, "replicas do without it"
                assert answer.json()["checks"]["redis"] == "away"
        await asyncio.sleep(30)
        await asyncio.to_thread(on[1].start)
        await asyncio.sleep(3)

    with simulator(*OPTIONS, *KEPT) as provider:
        assert await spoken(provider.url, on, away) == []


async def test_redis_loses_its_memory_again_and_again(on: Servers) -> None:
    async def emptied(_: Cluster) -> None:
        for _round in range(20):
            await asyncio.sleep(0.5)
            await asyncio.to_thread(on[1].flush)

    with simulator(*OPTIONS, *KEPT) as provider:
        assert await spoken(provider.url, on, emptied) == []


AWAY = 10.0
"""Seconds that PostgreSQL is away: half of what a request waits for it."""


async def _says_away(among: Cluster) -> None:
    """Every replica says that the database is not there, and why."""
    async with httpx2.AsyncClient(trust_env=False, timeout=10) as http:
        for one in among.replicas:
            answer = await http.get(f"{one.url}/readyz")
            assert (answer.status_code, answer.json()["checks"]["database"]) == (503, "unavailable")
            error = answer.json()["error"]
            assert error["message"].startswith("The server is not ready: database is unavailable.")
            assert "\n" not in error["message"]
            assert error["param"] == "database"
            assert (await http.get(f"{one.url}/healthz")).status_code == 200


@pytest.mark.parametrize(
    ("leaves", "comes"),
    [("stop", "start"), ("crash", "start"), ("freeze", "thaw")],
    ids=["stopped", "ended at once", "standing still"],
)
async def test_postgresql_is_away_for_ten_seconds(on: Servers, leaves: str, comes: str) -> None:
    async def away(among: Cluster) -> None:
        await asyncio.sleep(3)
        await asyncio.to_thread(getattr(on[0], leaves))
        await asyncio.sleep(AWAY / 2)
        await _says_away(among)
        await asyncio.sleep(AWAY / 2)
        await asyncio.to_thread(getattr(on[0], comes))
        await asyncio.sleep(5)

    with simulator(*OPTIONS, *KEPT) as provider:
        assert await spoken(provider.url, on, away, conversations=10, silence=AWAY + laws.STUCK_SECONDS) == []


async def test_connections_are_cut_in_the_midst_of_transactions(on: Servers) -> None:
    async def cut(among: Cluster) -> None:
        name = make_url(among.database).database or ""
        for _round in range(30):
            await asyncio.sleep(0.3)
            await asyncio.to_thread(on[0].cut, name)

    with simulator(*OPTIONS, *KEPT) as provider:
        assert await spoken(provider.url, on, cut, conversations=10) == []


# A standby takes over


@contextmanager
def _by_an_address(primary: PostgresServer, standby: PostgresServer, database: str) -> Iterator[str]:
    """A port of haproxy that leads to the primary, and to the standby once the primary is gone."""
    program, port = shutil.which("haproxy", path=SBIN), free_port()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="tcp-") as folder:
        config = Path(folder) / "haproxy.cfg"
        config.write_text(
            "defaults\n mode tcp\n timeout connect 1s\n timeout client 1h\n timeout server 1h\n"
            f"listen postgresql\n bind 127.0.0.1:{port}\n option redispatch\n"
            f" default-server check inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions\n"
            f" server primary unix@{primary.socket}\n server standby unix@{standby.socket} backup\n"
        )
        with subprocess.Popen([program, "-db", "-q", "-f", str(config)]) as process:
            try:
                yield primary.behind(port, database)
            finally:
                process.terminate()


@contextmanager
def _by_two_hosts(primary: PostgresServer, standby: PostgresServer, database: str) -> Iterator[str]:
    """A URL that names both servers."""
    hosts = ",".join(str(Path(one.socket).parent) for one in (primary, standby))
    yield f"postgresql://postgres@/{database}?host={hosts}"


@pytest.mark.parametrize("reached", [_by_two_hosts, _by_an_address], ids=["two hosts", "one address"])
async def test_a_standby_takes_over(
    on: Servers, reached: Callable[[PostgresServer, PostgresServer, str], AbstractContextManager[str]]
) -> None:
    database = on[0].copied("followed")

    async def promoted(among: Cluster) -> None:
        await asyncio.sleep(3)
        paused = among.replicas[0].pid
        os.kill(paused, signal.SIGSTOP)  # the other one will take its conversations, at the new primary
        await asyncio.sleep(1)
        await asyncio.to_thread(on[0].kill)
        await asyncio.sleep(5)
        await asyncio.to_thread(standby.promote)
        await asyncio.sleep(10)
        os.kill(paused, signal.SIGCONT)
        await asyncio.sleep(5)

    with (
        simulator(*OPTIONS, *KEPT) as provider,
        on[0].standby() as standby,
        reached(on[0], standby, database) as url,
    ):
        broken = await spoken(provider.url, on, promoted, url, standby.url(database), conversations=10, silence=40)
    # A paused replica said a word more after its pause, which is not stored: as long as that was it counts as lost.
    assert [law for law in broken if "of its stream are lost" not in law] == []


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
