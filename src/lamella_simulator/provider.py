"""A simulated provider inside a test: what it was asked, what it read from its cache, and what it would have billed.

    with simulated() as provider:
        client = anthropic.Anthropic(base_url=provider.url, api_key=provider.key)
        ...
    assert provider.cost < 0.01

The server runs in a thread of the test's process, on a free port, with time that stands still until `advance` moves it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from lamella_simulator.app import app_of
from lamella_simulator.replies import Fault, Reply
from lamella_simulator.server import address_of, listen, server_of
from lamella_simulator.settings import checked
from lamella_simulator.state import Record, Simulator
from lamella_simulator.tokens import load_in_background

HOST = "127.0.0.1"


class Provider:
    """A simulator that listens, and its bill so far. It can still be asked when its `with` block has ended."""

    key = "simulated"
    """Any key is taken, but one that begins with `invalid`."""

    def __init__(self, simulator: Simulator, url: str) -> None:
        self._simulator = simulator
        self.url = url
        """The `base_url` of Anthropic's SDK."""
        self.openai_url = f"{url}/v1"
        """The `base_url` of OpenAI's SDK."""

    @property
    def environment(self) -> dict[str, str]:
        """What both SDKs read, for a program that is started with an environment."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": self.key,
            "OPENAI_BASE_URL": self.openai_url,
            "OPENAI_API_KEY": self.key,
        }

    @property
    def requests(self) -> list[Record]:
        """The requests so far, oldest first, refused ones too: `path`, `json`, `status`, `usage`, `cost`, tokens."""
        return list(self._simulator.records)

    @property
    def cost(self) -> float:
        """Dollars of all requests."""
        return sum(request.cost for request in self.requests)

    @property
    def tokens_read(self) -> int:
        """Prompt tokens read from the cache."""
        return sum(request.tokens_read for request in self.requests)

    @property
    def tokens_written(self) -> int:
        """Prompt tokens written to the cache."""
        return sum(request.tokens_written for request in self.requests)

    @property
    def tokens_fresh(self) -> int:
        """Prompt tokens billed at the full price: neither read nor written."""
        return sum(request.tokens_fresh for request in self.requests)

    @property
    def tokens_output(self) -> int:
        """Tokens of all answers."""
        return sum(request.tokens_output for request in self.requests)

    def script(self, replies: Mapping[str, Mapping[str, Any]]) -> None:
        """What is answered, as `POST /_sim/replies` takes it: `{"hello": {"match": "^Hello", "text": "Hi."}}`.

        Raises msgspec.ValidationError for a field that there is not.
        """
        self._simulator.script({name: msgspec.convert(dict(reply), Reply) for name, reply in replies.items()})

    def fail(self, *faults: Mapping[str, Any]) -> None:
        """What goes wrong with the next requests: `{"kind": 529, "times": 2}`, as `POST /_sim/faults` takes it."""
        self._simulator.faults.extend(msgspec.convert(dict(fault), Fault) for fault in faults)

    def advance(self, seconds: float) -> None:
        """Moves the time: after 301 seconds what was written for 5 minutes is gone."""
        clock = self._simulator.clock
        clock.set(clock.now() + seconds)

    def reset(self) -> None:
        """Forgets requests, cache, scripts and faults."""
        self._simulator.reset()


@contextmanager
def simulated(**options: object) -> Iterator[Provider]:
    """A provider on a free port until the block ends; `options` are those of `Settings`: `simulated(seed=3)`.

    Raises msgspec.ValidationError for an option that there is not, or a wrong value.
    """
    simulator = Simulator(checked(options))
    listener = listen(HOST, 0)
    server = server_of(app_of(simulator))
    # The socket already takes connections: they wait until the thread serves.
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listener])), name="simulated provider", daemon=True
    )
    load_in_background()
    thread.start()
    try:
        yield Provider(simulator, address_of(listener, HOST))
    finally:
        server.should_exit = True
        thread.join()
