"""The processes that a measurement starts, and what the operating system counts of them (Linux)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import msgspec

TICKS = os.sysconf("SC_CLK_TCK")
KEY = "bench"


@dataclass(frozen=True, slots=True)
class Running:
    """A server process: where it is reached, and how long it took to say so."""

    pid: int
    url: str
    announced: float

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        return cpu_of(self.pid)


def cpu_of(pid: int) -> float:
    """Seconds of CPU, user and system, that a process has spent; its children are not counted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass(frozen=True, slots=True)
class Spent:
    """The CPU of a process so far: `whole` in steps of 10 ms, `threads` to the nanosecond, but of living ones only."""

    whole: float
    threads: Mapping[str, float]

    @classmethod
    def of(cls, pid: int) -> Spent:
        """As it is now."""
        files = Path(f"/proc/{pid}/task").glob("*/schedstat")
        return cls(cpu_of(pid), {file.parent.name: int(file.read_text().split()[0]) / 1e9 for file in files})

    def since(self, before: Spent) -> float:
        """Seconds since then, exactly if no thread has ended."""
        if before.threads.keys() <= self.threads.keys():
            return sum(self.threads.values()) - sum(before.threads.values())
        return self.whole - before.whole


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident and proportional memory in MB (1,000,000 bytes); `own` is what no other process shares."""

    rss: float
    pss: float
    own: float


def memory_of(pid: int) -> Memory:
    """What a process holds now."""
    found: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, value = line.partition(":")
        found[name] = int(value.split()[0])
    own = found["Private_Clean"] + found["Private_Dirty"]
    return Memory(*(kilobytes * 1024 / 1e6 for kilobytes in (found["Rss"], found["Pss"], own)))


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and not yet waited for."""
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


@contextmanager
def simulator(*arguments: str) -> Iterator[Running]:
    """The provider simulator on real time."""
    command = [sys.executable, "-m", "lamella_simulator", "--clock", "system", "--exit-with-stdin", *arguments]
    begun = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            url = str(msgspec.json.decode(process.stdout.readline())["simulator"])
            yield Running(process.pid, url, time.perf_counter() - begun)
        finally:
            process.terminate()


@contextmanager
def server(environment: Mapping[str, str], *, folder: Path | None = None) -> Iterator[Running]:
    """`lamella serve` on a free port, over a data folder of its own unless one is given."""
    with tempfile.TemporaryDirectory(prefix="lamella-bench-") as made:
        data = folder or Path(made)
        command = [str(Path(sys.executable).with_name("lamella")), "serve", "--port", "0", "--data", str(data)]
        begun = time.perf_counter()
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            env=clean_environment() | {"LAMELLA_DEBOUNCE_MS": "0", "LAMELLA_TITLES": "false"} | dict(environment),
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline().decode()
                url = line.split()[1] if line.startswith("Lamella") else ""
                if not url:
                    raise RuntimeError("the server did not start")
                yield Running(process.pid, url, time.perf_counter() - begun)
            finally:
                process.terminate()


def clean_environment() -> dict[str, str]:
    """The environment without settings of this machine that would change what is measured."""
    ours = ("LAMELLA_", "ANTHROPIC_", "OPENAI_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def until_healthy(url: str, timeout: float = 30.0) -> None:
    """Come back when the server answers `GET /healthz`; raises `TimeoutError`."""
    end = time.perf_counter() + timeout
    while time.perf_counter() < end:
        try:
            if httpx2.get(f"{url}/healthz", timeout=1.0).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.002)
    raise TimeoutError(f"{url} does not answer")
