"""Ways to reach a simulator from tests: one in this process without a socket, and one as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec

from lamella_simulator.app import create_app
from lamella_simulator.settings import Settings

Json = dict[str, Any]
EXACT = Settings(token_factor=1.0, message_overhead=0)
"""A block's tokens are exactly those of its text, so that a test can count on its fingers."""


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: httpx2.Headers
    text: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.text)

    @property
    def usage(self) -> Any:
        return self.json["usage"]

    @property
    def error(self) -> str:
        """The message of an error body of either vendor."""
        return str(self.json["error"]["message"])

    @property
    def events(self) -> list[Json]:
        """The data of every server-sent event, without OpenAI's closing [DONE]."""
        lines = (line.removeprefix("data: ") for line in self.text.splitlines() if line.startswith("data: "))
        return [msgspec.json.decode(line) for line in lines if line != "[DONE]"]


class InProcess:
    """A simulator without a socket; every call is one HTTP request to its ASGI application."""

    def __init__(self, settings: Settings = EXACT) -> None:
        self._transport = httpx2.ASGITransport(create_app(settings))

    async def messages(self, body: Json, *, path: str = "/v1/messages", **rules: str) -> Answered:
        """A Messages request; `rules` are `now`, `reply`, `key` and `beta`."""
        return await self.post(path, {"model": "claude-opus-5", "max_tokens": 1_000, **body}, **rules)

    async def chat(self, body: Json, **rules: str) -> Answered:
        return await self.post("/v1/chat/completions", {"model": "gpt-5.6", **body}, **rules)

    async def responses(self, body: Json, *, path: str = "/v1/responses", **rules: str) -> Answered:
        return await self.post(path, {"model": "gpt-5.6", **body}, **rules)

    async def script(self, **replies: Json) -> None:
        await self.post("/_sim/replies", replies)

    async def post(self, path: str, body: Any, **rules: str) -> Answered:
        names = {"now": "x-sim-now", "reply": "x-sim-reply", "beta": "anthropic-beta"}
        headers = {names[rule]: value for rule, value in rules.items() if rule in names}
        headers["authorization"] = f"Bearer {rules.get('key', 'test')}"
        return await self.post_with(headers, path, body)

    async def post_with(self, headers: dict[str, str], path: str, body: Any) -> Answered:
        """A call with these headers only, a key among them."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self._send("POST", path, headers, content)

    async def get(self, path: str, headers: dict[str, str] | None = None) -> Answered:
        return await self._send("GET", path, {"authorization": "Bearer test", **(headers or {})}, None)

    async def _send(self, method: str, path: str, headers: dict[str, str], content: bytes | None) -> Answered:
        async with httpx2.AsyncClient(transport=self._transport, base_url="http://simulator") as client:
            response = await client.request(method, path, headers=headers, content=content)
            return Answered(response.status_code, response.headers, response.text)


@contextmanager
def running(*arguments: str) -> Iterator[str]:
    """A simulator in its own process; gives its address and ends it afterwards."""
    command = [sys.executable, "-m", "lamella_simulator", "--exit-with-stdin", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield str(msgspec.json.decode(process.stdout.readline())["simulator"])
        finally:
            process.terminate()
