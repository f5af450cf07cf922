"""A wire of our own: Ollama's `POST /api/chat`, which streams lines of JSON. Text only: tools are not sent.

With the package installed, `OPENAI_BASE_URL=http://localhost:11434` is where it speaks to, and a row of the file that
`LAMELLA_MODELS` names chooses it:

    {"models": [{"name": "llama3.2", "provider": "openai", "wire": "ollama", "window": 32768, "max_output": 4096}]}
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

import httpx2

from lamella.core import deltas
from lamella.core.errors import ProviderRefusedRequest, ProviderStreamBroken, ProviderUnreachable
from lamella.core.messages import StopReason, Text
from lamella.core.models import ModelFacts
from lamella.core.prompt import Level, Marker, Prompt, Sampling, Segment, WireBlock, Wired, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.wire_blocks import wire_segments


def connect(facts: ModelFacts, *, base_url: str, key: str, timeout: float, retries: int) -> OllamaModel:
    """A model at an address; the server takes no key."""
    return OllamaModel(facts, httpx2.AsyncClient(base_url=base_url, timeout=timeout, trust_env=False))


def body_of(request: WireRequest) -> dict[str, object]:
    """The JSON body of a request."""
    return {**request.head, "messages": [block.value for block in request.blocks]}


class OllamaModel:
    """One model of an Ollama server."""

    def __init__(self, facts: ModelFacts, http: httpx2.AsyncClient) -> None:
        self.facts = facts
        self._http = http

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """A block for each message."""
        return wire_segments(prompt.segments, _blocks, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """The request of these blocks. No marker: the server keeps its own prefix."""
        options = {"num_predict": prompt.sampling.max_output}
        return WireRequest({"model": prompt.model, "stream": True, "options": options}, blocks, ())

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """Nothing beside the messages is part of the cache's key."""
        return {}

    def body(self, request: WireRequest) -> dict[str, object]:
        """The JSON body."""
        return body_of(request)

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[deltas.Delta]:
        """Send it and yield what comes back; raises a `ProviderError`."""
        began = False
        try:
            async with self._http.stream("POST", "/api/chat", json=self.body(request), headers=headers) as answer:
                if answer.is_error:
                    said = (await answer.aread()).decode(errors="replace")[:200]
                    raise ProviderRefusedRequest(f"Ollama answered {answer.status_code}: {said}")
                began = True
                yield deltas.Opened(None, answer.request.content)
                async for line in answer.aiter_lines():
                    for delta in _read(json.loads(line)):
                        yield delta
        except (httpx2.TransportError, ValueError, LookupError) as error:
            broken = ProviderStreamBroken if began else ProviderUnreachable
            raise broken(f"Ollama at {self._http.base_url} failed: {error!r}.") from error

    async def count(self, request: WireRequest) -> int:
        """Always refused: there is no counting endpoint."""
        raise ProviderRefusedRequest("Ollama can't count the tokens of a request.")

    async def close(self) -> None:
        """Let its connections go."""
        await self._http.aclose()


def _blocks(segment: Segment) -> Iterator[WireBlock]:
    for message in segment.messages:
        text = "".join(part.text for part in message.parts if isinstance(part, Text))
        if text:
            level: Level = "system" if message.role == "system" else "messages"
            value = {"role": message.role, "content": text}
            yield WireBlock.of(level, message.role, value, segment.id, markable=False)


def _read(line: Mapping[str, object]) -> Iterator[deltas.Delta]:
    message = line["message"]
    if isinstance(message, dict) and message.get("content"):
        yield deltas.TextDelta(0, str(message["content"]))
    if line["done"]:
        yield deltas.UsageReported(Usage(input=_count(line, "prompt_eval_count"), output=_count(line, "eval_count")))
        is_cut = line.get("done_reason") == "length"
        yield deltas.Closed(StopReason.MAX_TOKENS if is_cut else StopReason.END_TURN)


def _count(line: Mapping[str, object], name: str) -> int:
    value = line.get(name, 0)
    return value if isinstance(value, int) else 0
