"""The ways that a request can take to the upstream, and a client that resends its whole conversation on each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec

from loading.litellm import PROXY_KEY
from processes import KEY
from relaying.upstream import PATHS, WORD

PROSE = "The keeper lights the lamp at dusk and notes the weather, the ships and the oil that is left. "
MODELS = {"messages": "claude-opus-5-5", "chat": "gpt-6.1-terra", "responses": "gpt-6.1-terra"}
MARK = {"cache_control": {"type": "ephemeral"}}


@dataclass(frozen=True, slots=True)
class Way:
    """`pid` is the server's between client and upstream; None if there is none. `marks`: the client sets its own cache
    markers. `asks`: it asks for the usage of a Chat stream.
    """

    name: str
    url: str
    pid: int | None
    dialect: str
    marks: bool = False
    asks: bool = False
    model: str = ""
    is_ours: bool = False


@dataclass
class Conversation:
    """A client's conversation: of so many bytes when it begins, in messages of so many."""

    way: Way
    size: int
    message: int = 1_500
    name: str = ""
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        text = PROSE * (self.message // len(PROSE) + 1)
        for number in range(self.size // self.message):
            said = f"{self.name} {number} {text}"[: self.message]
            self.history.append({"role": "assistant" if number % 2 else "user", "content": said})
        if self.history and self.history[-1]["role"] == "user":
            self.history.pop()

    def body(self, text: str) -> bytes:
        """The request that sends a message, which stays in the history with an answer."""
        self.history.append({"role": "user", "content": text})
        made = {"model": self.way.model or MODELS[self.way.dialect], "stream": True, **self._prompt()}
        self.history.append({"role": "assistant", "content": WORD * 20})
        return msgspec.json.encode(made)

    def _prompt(self) -> dict[str, Any]:
        system = PROSE * 40
        schema = {"type": "object", "properties": {"place": {"type": "string"}}}
        match self.way.dialect:
            case "messages":
                mark = MARK if self.way.marks else {}
                tools = [{"name": "weather", "description": PROSE, "input_schema": schema}]
                *old, last = self.history
                block = {"type": "text", "text": last["content"], **mark}
                messages = [*old, {"role": "user", "content": [block]}]
                said = [{"type": "text", "text": system, **mark}]
                return {"max_tokens": 1000, "system": said, "tools": tools, "messages": messages}
            case "chat":
                function = {"name": "weather", "description": PROSE, "parameters": schema}
                options = {"stream_options": {"include_usage": True}} if self.way.asks else {}
                messages = [{"role": "system", "content": system}, *self.history]
                return {"messages": messages, "tools": [{"type": "function", "function": function}], **options}
            case _:
                tools = [{"type": "function", "name": "weather", "description": PROSE, "parameters": schema}]
                return {"instructions": system, "input": list(self.history), "tools": tools, "store": False}


def headers_of(way: Way) -> dict[str, str]:
    """The client's headers."""
    key = PROXY_KEY if way.model and not way.is_ours else KEY
    name = {"x-api-key": key} if way.dialect == "messages" else {"authorization": f"Bearer {key}"}
    return {**name, "content-type": "application/json", "anthropic-version": "2023-06-01", "user-agent": "bench/1"}


@dataclass(slots=True)
class Streamed:
    """A stream: when it was asked for, when bytes came, and how many words."""

    asked: float
    times: list[float]
    words: int = 0

    @property
    def first(self) -> float:
        """Seconds to the first byte."""
        return self.times[0] - self.asked

    def gaps(self) -> list[float]:
        """Seconds between what came."""
        return [later - sooner for sooner, later in zip(self.times, self.times[1:], strict=False)]


async def stream(http: httpx2.AsyncClient, way: Way, body: bytes, leave_after: int = 0) -> Streamed:
    """Send a request and read its stream, or so many chunks of it. Raises RuntimeError if it was not answered."""
    found = Streamed(time.perf_counter(), [])
    async with http.stream("POST", way.url + PATHS[way.dialect], content=body, headers=headers_of(way)) as answer:
        if answer.status_code != 200:
            raise RuntimeError(f"{way.name} answered {answer.status_code}: {(await answer.aread())[:300]!r}")
        async for data in answer.aiter_raw():
            found.times.append(time.perf_counter())
            found.words += data.count(WORD.encode())
            if leave_after and len(found.times) >= leave_after:
                break
    return found
