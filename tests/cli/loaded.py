"""The process that has loaded `lamella`: it forks one for every order that comes over a socket, and tells its end."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from typing import NoReturn

import lamella.app.app
import lamella.cli.chat
import lamella.server.web  # noqa: F401 (loaded before anybody asks)
from lamella.cli import main


def serve(door: socket.socket) -> None:
    """Run one program after the other, until the other end is closed."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(door, 1_000_000, 3)
        if not message:
            return
        order = json.loads(message)
        child = os.fork()
        if child == 0:
            door.close()
            become(order["arguments"], order["environment"], order["folder"], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        door.send(str(os.waitpid(child, 0)[1]).encode())


def become(arguments: Sequence[str], environment: dict[str, str], folder: str, streams: Sequence[int]) -> NoReturn:
    """Be the program with these arguments, environment, folder and standard streams, and end as it ends."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[:] = ["lamella", *arguments]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 (the end of a program, told as Python tells it)
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        serve(connection)
