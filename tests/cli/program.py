"""Runs `lamella` as its own process, forked from one that has loaded the program: a start costs what it does, no more.

Loading the program takes most of a second of CPU, and some eighty tests start it. Every call is still a process of its
own, with its own arguments, environment, standard streams, working folder and exit code. What the installed command
does before `main` is tested by those tests that start it by its path.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

LOADED = Path(__file__).with_name("loaded.py")


@cache
def _loaded() -> socket.socket:
    """The connection to the process that has loaded the program; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    process = subprocess.Popen([sys.executable, str(LOADED), str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait(timeout=10)

    atexit.register(end)
    return ours


def run(
    *arguments: str,
    said: str = "",
    terminal: int | None = None,
    environment: dict[str, str] | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run `lamella ARGUMENTS` to its end. Its standard input is `terminal`, or else what is `said`."""
    with (
        TemporaryFile() as given,
        TemporaryFile() as out,
        TemporaryFile() as errors,
    ):
        given.write(said.encode())
        given.seek(0)
        standard_input = given.fileno() if terminal is None else terminal
        order = {
            "arguments": arguments,
            "environment": dict(os.environ) if environment is None else environment,
            "folder": str(Path.cwd()),
        }
        door = _loaded()
        door.settimeout(timeout)
        socket.send_fds(door, [json.dumps(order).encode()], [standard_input, out.fileno(), errors.fileno()])
        status = int(door.recv(20))
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(arguments, code, _text(out), _text(errors))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
