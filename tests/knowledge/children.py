"""The reading children of this process, as the kernel sees them."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from lamella.knowledge.extraction import WORKER_MODULE

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def reading_children() -> list[int]:
    """The ids of all children that read a file now, dead ones that nobody waited for included."""
    parent = os.getpid()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, ppid = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(ppid) == parent and (state == "Z" or WORKER_MODULE.encode() in command):
            found.append(int(folder.name))
    return found


async def wait_for_child() -> int:
    """The id of a child once there is one."""
    for _ in range(1_000):
        if children := reading_children():
            return children[0]
        await anyio.sleep(0.01)
    raise TimeoutError("no child was started")
