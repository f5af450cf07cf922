"""A provider for the adapters to talk to: the simulator behind a socket, and what a test wants to ask it for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.request import Request, urlopen

from lamella.context.assemble import assemble
from lamella.context.input import ContextInput
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.deltas import Delta, ReasoningDelta, TextDelta, ToolArgsDelta, UsageReported
from lamella.core.errors import ProviderError
from lamella.core.messages import Turn, UserMessage
from lamella.core.ports import ChatModel
from lamella.core.prompt import Marker, Sampling, ToolSpec, Ttl, WireRequest
from lamella.core.tokens import Usage
from lamella.llm import anthropic, openai, responses
from lamella.llm.model_table import ModelTable

Json = dict[str, Any]
TABLE = ModelTable.shipped()
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEARCH = ToolSpec("search", "Looks words up.", '{"type":"object","properties":{"query":{"type":"string"}}}')
MODULES = {"anthropic": anthropic, "openai": openai, "responses": responses}
USUAL = {"anthropic": "claude-opus-5-5", "openai": "gpt-6.1-sol", "responses": "gpt-6.1-sol"}
VENDORS = tuple(USUAL)
"""The adapters: OpenAI has two, by the names of their modules."""
MAKERS = {"anthropic": "anthropic", "openai": "openai", "responses": "openai"}


@dataclass(frozen=True, slots=True)
class Provider:
    """A running simulator."""

    url: str

    def post(self, path: str, value: object) -> Any:
        with urlopen(Request(self.url + path, json.dumps(value).encode())) as response:
            return json.load(response)

    def reset(self) -> None:
        self.post("/_sim/reset", {})

    def script(self, **replies: Json) -> None:
        self.post("/_sim/replies", replies)

    def requests(self) -> list[Json]:
        """What it received, oldest first."""
        with urlopen(f"{self.url}/_sim/requests") as response:
            received: list[Json] = json.load(response)["requests"]
            return received

    def model(self, vendor: str, name: str = "", *, key: str = "test", timeout: float = 20.0) -> ChatModel:
        """An adapter that talks to it."""
        return connected(vendor, self.url, name, key=key, timeout=timeout)


def connected(vendor: str, url: str, name: str = "", *, key: str = "test", timeout: float = 20.0) -> ChatModel:
    """An adapter for one of a vendor's models at `url`."""
    maker = MAKERS[vendor]
    base_url = f"{url}/v1" if maker == "openai" else url
    facts = TABLE.facts(name or USUAL[vendor], maker)
    model: ChatModel = MODULES[vendor].connect(facts, base_url=base_url, key=key, timeout=timeout, retries=0)
    return model


def context(
    model: ChatModel, text: str = "Hello?", *, system: str = "You are helpful.", effort: str = "off"
) -> ContextInput:
    """A conversation of one question."""
    user = UserMessage("msg_1", text, NOON, "UTC", len(text) // 4)
    sampling = Sampling(4_000, effort)
    return ContextInput(model.facts, 10_000_000, sampling, system, (SEARCH,), (), Turn("turn_1", user))


def made_after(asked: ContextInput) -> str:
    """The fingerprint that an answer to this window is made after."""
    return assemble(asked, LAMELLA).report.durable


def request_of(model: ChatModel, asked: ContextInput, marked: Sequence[int] = ()) -> WireRequest:
    """The request of a window; `marked` are the blocks that carry a cache marker, -1 the last."""
    assembled = assemble(asked, LAMELLA)
    blocks = model.wire(assembled.prompt).blocks
    life = Ttl.FIVE_MINUTES if model.facts.provider == "anthropic" else Ttl.THIRTY_MINUTES
    markers = [Marker(index % len(blocks), life, "test") for index in marked]
    return model.request(assembled.prompt, blocks, markers)


@dataclass(slots=True)
class Heard:
    """Everything that a stream gave before it ended or failed."""

    deltas: list[Delta] = field(default_factory=list)
    error: ProviderError | None = None

    def text(self, kind: type[TextDelta | ReasoningDelta] = TextDelta) -> str:
        return "".join(delta.text for delta in self.deltas if isinstance(delta, kind))

    def arguments(self) -> dict[int, str]:
        """The JSON text of each call, by block."""
        texts: dict[int, str] = {}
        for delta in self.deltas:
            if isinstance(delta, ToolArgsDelta):
                texts[delta.block] = texts.get(delta.block, "") + delta.json
        return texts

    def of(self, kind: type[Any]) -> list[Any]:
        return [delta for delta in self.deltas if isinstance(delta, kind)]

    @property
    def usage(self) -> Usage:
        usage: Usage = self.of(UsageReported)[-1].usage
        return usage


async def listen(model: ChatModel, request: WireRequest, **rules: str) -> Heard:
    """Drain a stream; `rules` are the simulator's headers, `reply` and `now`. Only a `ProviderError` is caught."""
    heard = Heard()
    headers = {f"x-sim-{name}": value for name, value in rules.items()}
    try:
        async with aclosing(model.stream(request, headers)) as stream:  # type: ignore[type-var]  # it is a generator
            async for delta in stream:
                heard.deltas.append(delta)
    except ProviderError as error:
        heard.error = error
    return heard


async def ask(model: ChatModel, text: str = "Hello?", *, reply: str = "r", now: datetime = NOON) -> Heard:
    """One question, answered by a scripted reply."""
    return await listen(model, request_of(model, context(model, text)), reply=reply, now=now.isoformat())
