"""What strangers can do to a server before it knows them: endless headers, and half-open requests in great number.

python bench/sockets.py [--megabytes 300] [--half-open 0 1000 4000] [--json]
"""

from __future__ import annotations

import resource
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

import httpx2

from processes import Running, memory_of, server, until_healthy
from tables import arguments, emit, show

HELLO = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"
ASKED = 20
"""How many requests are timed beside the half-open ones."""
PATIENCE = 3.0
"""Seconds after which a request counts as not answered."""


@dataclass(frozen=True, slots=True)
class Measured:
    """MB of RSS before and after endless headers, and what they were answered; by the number of half-open requests, how
    many others were answered beside them, and the median of their milliseconds."""

    before: float
    after: float
    said: str
    beside: dict[int, tuple[int, float]]


def endless_headers(running: Running, megabytes: int) -> str:
    """Send one head that never ends; the first line of the answer, or how the connection ended."""
    place = urlsplit(running.url)
    with socket.create_connection((place.hostname, place.port), timeout=30) as one:
        one.sendall(HELLO)
        line = b"x-header: " + b"a" * 8_000 + b"\r\n"
        try:
            for _ in range(megabytes * 1_000_000 // len(line)):
                one.sendall(line)
            one.settimeout(2)
            return one.recv(200).split(b"\r\n")[0].decode() or "closed"
        except TimeoutError:
            return "no answer"
        except OSError:
            return "closed"


@contextmanager
def half_open(running: Running, count: int) -> Iterator[None]:
    """So many connections that have begun a head and do not go on."""
    place = urlsplit(running.url)
    with ExitStack() as stack:
        for _ in range(count):
            try:
                one = stack.enter_context(socket.create_connection((place.hostname, place.port), timeout=PATIENCE))
                one.sendall(HELLO)
            except OSError:
                continue
        yield


def answered(running: Running) -> tuple[int, float]:
    """How many of some requests on new connections are answered, and the median of their milliseconds."""
    times = []
    for _ in range(ASKED):
        began = time.perf_counter()
        try:
            with httpx2.Client(trust_env=False, verify=False, timeout=PATIENCE) as client:
                if client.get(f"{running.url}/healthz").status_code == 200:
                    times.append((time.perf_counter() - began) * 1000)
        except httpx2.HTTPError:
            continue
    return len(times), statistics.median(times) if times else float("nan")


def measure(megabytes: int, counts: list[int]) -> Measured:
    """One server under both attacks."""
    with server({"ANTHROPIC_API_KEY": "bench", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}) as running:
        until_healthy(running.url)
        time.sleep(2)
        before = memory_of(running.pid).rss
        said = endless_headers(running, megabytes)
        after = memory_of(running.pid).rss
        beside = {}
        for count in counts:
            with half_open(running, count):
                beside[count] = answered(running)
        return Measured(before, after, said, beside)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--half-open", type=int, nargs="+", default=[0, 1_000, 4_000])
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = measure(options.megabytes, options.half_open)
    if options.json:
        emit(asdict(found))
        return
    show([["endless headers", "RSS before", "after"], [found.said, f"{found.before:.0f} MB", f"{found.after:.0f} MB"]])
    rows = [[str(count), f"{done} of {ASKED}", f"{ms:.1f} ms"] for count, (done, ms) in found.beside.items()]
    show([["half-open requests", "others answered", "median"], *rows])


if __name__ == "__main__":
    main()
