"""Reaching a server from tests and benchmarks: one over a socket in this process, and a client that reads streams.

What the client gets is held against the description of the API: an answer or a packet that is not as described fails.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import jsonschema_rs
import uvicorn
from starlette.types import ASGIApp

from lamella.app.app import App, database_path, open_app
from lamella.client import Client
from lamella.core.json import Json, decode, decode_object
from lamella.server.authentication import Authentication
from lamella.server.connections import DEFAULT, Limits, bounded
from lamella.server.routing import JSON
from lamella.server.sse import SILENCE_SECONDS
from lamella.server.web import create_web, described_api
from lamella.settings import Settings
from lamella.storage.migrate import migrate

Object = dict[str, Any]

FIRST_RUN_TOKEN = "printed-once"
"""The token of the servers that tests start."""


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; a comment has neither number nor packet."""

    n: int | None
    packet: Object

    @property
    def type(self) -> str:
        """The packet's type, "" for a comment."""
        return str(self.packet.get("type", ""))


@asynccontextmanager
async def serving(web: ASGIApp, limits: Limits = DEFAULT) -> AsyncIterator[str]:
    """Serve an application on a free port of this machine, as `lamella serve` does; gives its address."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    config = uvicorn.Config(
        web,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # those of trusted proxies are read in `create_web`
        lifespan="off",
        timeout_graceful_shutdown=1,
        ws="none",
        http=bounded(limits),
    )
    server = _QuickServer(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.ended.set()
        await running


class _QuickServer(uvicorn.Server):
    """A server that ends as soon as it can: the usual one looks every tenth of a second, and there are many tests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for closing in (*self.servers, *(sockets or ())):
            closing.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while state.connections or state.tasks:  # noqa: ASYNC110 (uvicorn tells nobody when they end)
                    await asyncio.sleep(0.002)
        for task in state.tasks:
            task.cancel()


class ApiDescription:
    """Holds answers and packets against the description of the API."""

    def __init__(self, document: Object) -> None:
        self._components = document["components"]
        self._operations = [
            (re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"), operations)
            for path, operations in document["paths"].items()
        ]
        self._packets = self._components["schemas"]["Packet"]["discriminator"]["mapping"]
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    async def check(self, response: httpx2.Response) -> None:
        """Raises `AssertionError` for an answer in JSON that is not as described."""
        operation = self._operation(response.request.method.lower(), response.request.url.path)
        if operation is None or response.headers.get("content-type") != JSON:
            return
        await response.aread()
        answers = operation["responses"]
        answer = answers.get(str(response.status_code)) or answers.get("default")
        if answer is not None:
            self._hold(response.content, answer["content"][JSON]["schema"], str(response.request.url))

    def check_packet(self, data: str) -> None:
        """Raises `AssertionError` for a packet that is not as described."""
        kind = str(decode_object(data)["type"])
        self._hold(data, {"$ref": self._packets[kind]}, kind)

    def _operation(self, method: str, path: str) -> Object | None:
        found = (operations.get(method) for pattern, operations in self._operations if pattern.match(path))
        return next((one for one in found if one is not None), None)

    def _hold(self, data: bytes | str, schema: Object, what: str) -> None:
        name = json.dumps(schema)
        if name not in self._validators:
            self._validators[name] = jsonschema_rs.validator_for(schema | {"components": self._components})
        for error in self._validators[name].iter_errors(decode(data)):
            raise AssertionError(f"{what} is not as described: {error}")


@cache
def description() -> ApiDescription:
    """Of this server's API."""
    return ApiDescription(described_api())


class ServerClient:
    """`lamella.client` for tests: packets as JSON objects, the numbers of events, and answers of any status."""

    def __init__(self, http: httpx2.AsyncClient, described: ApiDescription | None = None) -> None:
        self.http = http
        self.api = Client(http)
        self._described = described
        if described is not None:
            http.event_hooks["response"].append(described.check)

    async def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """A request under `/api/v1`."""
        return await self.api.call(method, path, **options)

    async def get(self, path: str) -> Object:
        """The JSON of a successful GET under `/api/v1`."""
        return await self.api.get(path)

    async def post(self, path: str, body: Json = None, **options: Any) -> Object:
        """The JSON of a successful POST under `/api/v1`."""
        return await self.api.ask("POST", path, json=body, **options)

    async def conversation(self, **fields: Json) -> str:
        """The id of a new conversation."""
        return str((await self.post("/conversations", fields))["id"])

    async def send(self, conversation_id: str, text: str, **fields: Json) -> list[Object]:
        """Send a message; all packets of its turn."""
        async with self.sending(conversation_id, text, **fields) as events:
            return [event.packet async for event in events if event.n is not None]

    @asynccontextmanager
    async def sending(self, conversation_id: str, text: str, **fields: Json) -> AsyncIterator[AsyncIterator[Event]]:
        """Send a message and read its stream; leaving the block closes the connection."""
        path = f"/conversations/{conversation_id}/turns"
        async with self.api.events("POST", path, json={"text": text, **fields}) as events:
            yield self._checked(events)

    @asynccontextmanager
    async def following(
        self, turn_id: str, after: int | None = None, last_event_id: int | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Read a turn's packets, from any number on."""
        query = {} if after is None else {"after": after}
        headers = {} if last_event_id is None else {"last-event-id": str(last_event_id)}
        async with self.api.events("GET", f"/turns/{turn_id}/events", params=query, headers=headers) as events:
            yield self._checked(events)

    async def packets(self, turn_id: str, after: int | None = None) -> list[Object]:
        """A turn's packets to its end."""
        async with self.following(turn_id, after) as events:
            return [event.packet async for event in events if event.n is not None]

    async def set_up(self, name: str = "Ann") -> str:
        """Turn accounts on; the key of the first admin."""
        made = await self.post("/setup", {"name": name, "token": FIRST_RUN_TOKEN})
        return str(made["key"]["secret"])

    async def upload(self, name: str, data: bytes) -> Object:
        """Upload a file."""
        return await self.api.ask("POST", "/files", files={"file": (name, data)})

    async def _checked(self, events: AsyncIterator[tuple[int | None, str]]) -> AsyncIterator[Event]:
        async for number, data in events:
            if data and self._described is not None:
                self._described.check_packet(data)
            yield Event(number, decode_object(data) if data else {})


@asynccontextmanager
async def client(address: str, checked: bool = True, /, **headers: str) -> AsyncIterator[ServerClient]:
    """A client of the server at `address` that sends `headers` with every request; `checked`: see the module."""
    # Loopback has no certificates: loading those of the system for each client costs more than many a request.
    async with httpx2.AsyncClient(base_url=address, headers=headers, timeout=30, trust_env=False, verify=False) as http:
        yield ServerClient(http, description() if checked else None)


def authentication_of(app: App) -> Authentication:
    """The entrance of this machine, with the token of tests."""
    return Authentication(app.accounts, first_run_token=FIRST_RUN_TOKEN)


@asynccontextmanager
async def served(
    settings: Settings,
    *,
    silence: float = SILENCE_SECONDS,
    checked: bool = True,
    **parts: Any,
) -> AsyncIterator[tuple[App, ServerClient]]:
    """An app with its server, and a client of it; `parts` are the arguments of `open_app` after the settings."""
    await _lay_out(database_path(settings.data))
    async with (
        open_app(settings, **parts) as app,
        serving(create_web(app, authentication_of(app), silence=silence)) as address,
        client(address, checked) as speaking,
    ):
        yield app, speaking


_new_database: list[bytes] = []
"""The file of a new database, made once in a process: a copy costs a tenth of making the tables."""


async def _lay_out(path: Path) -> None:
    """Put a new database at `path` if nothing is there."""
    if not _new_database:
        with TemporaryDirectory() as folder:
            await migrate(Path(folder) / path.name)
            _new_database.append((Path(folder) / path.name).read_bytes())
    _copy(_new_database[0], path)


def _copy(database: bytes, path: Path) -> None:
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(database)
