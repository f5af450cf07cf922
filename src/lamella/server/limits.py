"""How much a request may bring: bodies are read whole before a route sees them, up to a limit."""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lamella.core.errors import PayloadTooLarge
from lamella.server.failures import error_answer

MAX_BODY_BYTES = 4_000_000
"""A message of a million tokens is about this long; what is larger is sent as a file."""


class BodyLimit:
    """Refuses long bodies. Routes whose whole path one of `streamed` matches read them themselves, piece by piece."""

    def __init__(self, app: ASGIApp, streamed: Collection[str], limit: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._streamed = re.compile("|".join(streamed))
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._streamed.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        body = await self._read(receive)
        if body is None:
            message = f"The body is longer than {self._limit // 1_000_000} MB."
            await error_answer(PayloadTooLarge(message, hint="Upload long texts as files."))(scope, receive, send)
            return
        await self._app(scope, _from(body, receive), send)

    async def _read(self, receive: Receive) -> list[Message] | None:
        """The messages of the body to its end, or to where the client left; None when they are too long."""
        messages: list[Message] = []
        left = self._limit
        while not messages or messages[-1].get("more_body"):
            messages.append(await receive())
            left -= len(messages[-1].get("body", b""))
            if left < 0:
                return None
        return messages


def _from(messages: list[Message], receive: Receive) -> Receive:
    """Gives `messages` first, then what else comes."""
    waiting = iter(messages)

    async def receiving() -> Message:
        for message in waiting:
            return message
        return await receive()

    return receiving
