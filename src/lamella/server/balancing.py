"""What a load balancer needs of a server: whether it is ready, an orderly end, and the addresses of its clients.

A server drains between SIGTERM and its end: `/readyz` says so, new work is refused with 503 and `Retry-After`, and the
turns that run go on. Requests that read, and those that stop or approve something that runs, are still answered.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Literal

from fastapi import Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lamella.app.app import App
from lamella.core.errors import ConfigurationError, LamellaError, NotReady, ServerStopping, StoreUnreachable
from lamella.core.json import encode
from lamella.gateway.errors import RETRY_AFTER, STATUS
from lamella.server.failures import error_answer

CACHED_SECONDS = 1.0
"""How long a finding is kept: probes of any number cost one look a second."""

PATIENCE = 2.0
"""Seconds after which a database that does not answer counts as unavailable."""

LEAST_FREE_BYTES = 64_000_000
"""What the disk of the data folder needs to have free: one upload of the usual most, and some room for the database."""

State = Literal["ok", "unavailable", "full", "stopped", "away"]

GOES_ON: tuple[State, ...] = ("ok", "away")
"""States of a server that takes new work. Redis may be away: replicas are slower then."""

Networks = Sequence[IPv4Network | IPv6Network]


class ServerReadiness:
    """The state of each part of a server, looked at no more than once a second."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._found: dict[str, State] = {}
        self._looked = -CACHED_SECONDS
        self._looking = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None
        self._why = ""

    async def states(self) -> dict[str, State]:
        """By the name of each part."""
        clock = asyncio.get_running_loop().time
        async with self._looking:
            if clock() - self._looked >= CACHED_SECONDS:
                self._found = await self._look()
                self._looked = clock()
            return self._found

    async def answer(self) -> Response:
        """200 if the server takes new work; else 503 with the first reason."""
        states = await self.states()
        broken = next((name for name, state in states.items() if state not in GOES_ON), None)
        error: LamellaError
        if self._app.chat.is_draining:
            error = ServerStopping("The server is stopping.", hint="Send new work to another one.")
        elif broken is not None:
            why = f" {self._why}" if broken == "database" else ""
            message = f"The server is not ready: {broken} is {states[broken]}.{why}"
            error = NotReady(message, hint="The server's log has the cause.", param=broken)
        else:
            return Response(encode({"status": "ready", "checks": states}), media_type="application/json")
        status = "draining" if self._app.chat.is_draining else "not_ready"
        body = encode({"error": error.as_dict(), "status": status, "checks": states})
        return Response(body, STATUS[error.code], RETRY_AFTER, media_type="application/json")

    async def _look(self) -> dict[str, State]:
        worker: State = "ok" if self._app.is_working else "stopped"
        found = {"database": await self._database(), "disk": await asyncio.to_thread(self._disk), "worker": worker}
        hears = self._app.chat.hears_others
        return found if hears is None else found | {"redis": "ok" if hears else "away"}

    async def _database(self) -> State:
        """Whether a transaction that writes can begin. One that hangs is waited for again, and not begun twice."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._app.store.database.check_writable())
        await asyncio.wait({self._writing}, timeout=PATIENCE)
        if not self._writing.done():
            self._why = f"It gave no answer for {PATIENCE:.0f} s."
            return "unavailable"
        error = self._writing.exception()
        self._why = error.message if isinstance(error, LamellaError) else ""
        return "ok" if error is None else "unavailable"

    def _disk(self) -> State:
        folder = self._app.settings.data
        try:
            if not os.access(folder, os.W_OK):
                return "unavailable"
            return "ok" if shutil.disk_usage(folder).free >= LEAST_FREE_BYTES else "full"
        except OSError:
            return "unavailable"


_CONTROL = re.compile(r"/api/v1/.+/(stop|approval|prefer)|/v1/responses/[^/]+/cancel")
"""What concerns work that runs already."""


class Drain:
    """Refuses new work while the server drains, in the words of the API that a request belongs to.

    Every answer then closes its connection, so that a balancer opens the next one elsewhere.
    """

    def __init__(self, app: ASGIApp, of: App) -> None:
        self._app = app
        self._chat = of.chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._chat.is_draining:
            await self._app(scope, receive, send)
            return

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        if scope["method"] in ("GET", "HEAD", "OPTIONS") or _CONTROL.fullmatch(scope["path"]):
            await self._app(scope, receive, closing)
        else:
            error = ServerStopping("The server is stopping.", hint="Send the request again: another one may take it.")
            await error_answer(error, scope)(scope, receive, closing)


ANSWER_SECONDS, SILENT_SECONDS = 25.0, 20.0
"""The longest that a request waits for its answer to begin while the database is silent, and what counts as silent."""

LOOK_SECONDS = 1.0
"""Seconds between two looks whether it still is, for a request that is older."""


class AnswerLimit:
    """Answers a request in place of a database that says nothing. What it asked for goes on, and may still happen."""

    def __init__(self, app: ASGIApp, of: App) -> None:
        self._app = app
        self._database = of.store.database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state: Literal["waits", "answered", "given up"] = "waits"
        answering: asyncio.Task[None] | None = None
        timer: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()

        async def noting(message: Message) -> None:
            nonlocal state
            if state != "given up":
                state = "answered"
                await send(message)

        def look() -> None:
            nonlocal state, timer, answering
            if state != "waits":
                return
            if self._database.silent_seconds < SILENT_SECONDS:
                timer = loop.call_later(LOOK_SECONDS, look)
                return
            state = "given up"
            error = StoreUnreachable(
                "PostgreSQL gives no answer.",
                hint="What was asked for may still happen: send it again with the same Idempotency-Key.",
            )
            answering = asyncio.create_task(error_answer(error, scope)(scope, receive, send))

        timer = loop.call_later(ANSWER_SECONDS, look)
        try:
            await self._app(scope, receive, noting)
        finally:
            timer.cancel()
            if answering is not None:
                await answering


def read_proxies(text: str) -> Networks:
    """The networks of `LAMELLA_TRUSTED_PROXIES`: addresses and networks, separated by commas.

    Raises `ConfigurationError`.
    """
    try:
        return [ip_network(one.strip()) for one in text.split(",") if one.strip()]
    except ValueError as error:
        raise ConfigurationError(
            f"LAMELLA_TRUSTED_PROXIES: {error}.",
            hint="Write addresses or networks, such as 10.0.0.0/8, separated by commas.",
            param="LAMELLA_TRUSTED_PROXIES",
        ) from None


def is_within(address: str, networks: Networks) -> bool:
    """Whether an address belongs to one of these networks; False for what is no address."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return any((mapped or found) in network for network in networks)


class TrustedProxies:
    """Takes client, protocol and host from the `X-Forwarded-` headers of trusted proxies.

    The client is the last address of `X-Forwarded-For` that is no trusted proxy: what stands before it was written by
    the client itself. Headers from any other address are left alone.
    """

    def __init__(self, app: ASGIApp, networks: Networks) -> None:
        self._app = app
        self._networks = networks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._networks and is_within((scope.get("client") or ("",))[0], self._networks):
            scope = {**scope, **self._forwarded(scope)}
        await self._app(scope, receive, send)

    def _forwarded(self, scope: Scope) -> dict[str, object]:
        """The fields of the scope that the proxies know better."""
        said: dict[bytes, str] = {}
        for name, value in scope["headers"]:
            text = value.decode("latin-1")
            said[name] = f"{said[name]},{text}" if name in said else text
        found: dict[str, object] = {}
        addresses = [one.strip() for one in said.get(b"x-forwarded-for", "").split(",") if one.strip()]
        own = [one for one in addresses if not is_within(one, self._networks)]
        if own or addresses:
            found["client"] = ((own or addresses[:1])[-1], 0)
        protocol = said.get(b"x-forwarded-proto", "").rpartition(",")[2].strip().lower()
        if protocol in ("http", "https"):
            found["scheme"] = protocol
        host = said.get(b"x-forwarded-host", "").rpartition(",")[2].strip()
        if host:
            others = [header for header in scope["headers"] if header[0] != b"host"]
            found["headers"] = [*others, (b"host", host.encode("latin-1"))]
        return found
