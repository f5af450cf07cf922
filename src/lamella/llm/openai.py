"""The adapter of OpenAI Chat Completions, also for compatible servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import ProviderRefusedRequest
from lamella.core.json import Json, decode_object, encode_text
from lamella.core.messages import StopReason
from lamella.core.models import Markers, ModelFacts, Thinking, WireProtocol, asked_thinking
from lamella.core.ports import ChatModel
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.event_stream import StreamEvent
from lamella.llm.failures import in_stream, said_in
from lamella.llm.fields import count_of, index_of, part, plain
from lamella.llm.openai_wire import blocks_of, body_of
from lamella.llm.retry import retrying
from lamella.llm.streaming import NO_HEADERS, ProviderClient, VendorApi, json_of
from lamella.llm.wire_blocks import randomness, wire_segments

PROVIDER = "OpenAI"
API = VendorApi(PROVIDER, "x-request-id", "OPENAI_API_KEY")
FILTERED = "the provider's content filter stopped it"
"""The explanation of a refusal without a text."""


def object_of(event: StreamEvent) -> Any:
    """The JSON of an event; None after the last one. Raises the error that the event reports."""
    if event.data.startswith(b"[DONE]"):
        return None
    data = json_of(event.data)
    if data.get("error"):
        raise in_stream(PROVIDER, *said_in(data))
    return data


MOST_STOPS = 4
"""Stop sequences that a request may have."""


def sampling_salts(facts: ModelFacts, effort: Json, sampling: Sampling) -> Mapping[Level, str]:
    """Effort, schema and parallel calls change the whole prefix; tool choice and pictures do not."""
    said = encode_text(effort or facts.default_effort) if facts.thinking is not Thinking.NONE else ""
    said += sampling.schema + ("" if sampling.parallel_calls else " alone")
    return {"tools": said, "system": said} if said else {}


def tool_settings(sampling: Sampling, named: Callable[[str], Json]) -> dict[str, Json]:
    """How tools may be called, if not as by default. `named` is the choice of one tool by its name."""
    name, found = sampling.forced_tool, dict[str, Json]()
    if sampling.tool_choice != "auto":
        found["tool_choice"] = named(name) if name is not None else sampling.tool_choice
    if not sampling.parallel_calls:
        found["parallel_tool_calls"] = False
    return found


_STOPS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSAL,
}


def connect(
    facts: ModelFacts,
    *,
    base_url: str,
    key: str,
    timeout: float,
    retries: int = 0,
    headers: Mapping[str, str] = NO_HEADERS,
) -> ChatModel:
    """A model with connections of its own. `timeout` is in seconds of silence; `headers` go with every request."""
    return retrying(OpenAIModel(facts, ProviderClient(API, base_url, key, timeout, headers)), timeout, retries)


class OpenAIModel:
    """One model at a Chat Completions endpoint. Reasoning is not sent back: the protocol has no field for it."""

    def __init__(self, facts: ModelFacts, client: ProviderClient) -> None:
        self.facts = replace(facts, protocol=WireProtocol.CHAT)
        self._client = client

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """See `ChatModel.wire`."""
        return wire_segments(prompt.segments, blocks_of, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """See `ChatModel.request`."""
        head: dict[str, Json] = {
            "model": prompt.model,
            "max_completion_tokens": prompt.sampling.max_output,
            "stream": True,
        }
        head["stream_options"] = {"include_usage": True}
        head |= self._effort(prompt.sampling)
        if self.facts.markers is Markers.OPENAI:
            head["prompt_cache_options"] = {"mode": "explicit", "ttl": "30m"}
        head |= randomness(prompt.sampling)
        if prompt.sampling.stop and self.facts.thinking is Thinking.NONE:  # models that think refuse the field
            head["stop"] = list(prompt.sampling.stop[:MOST_STOPS])
        if prompt.sampling.schema:
            schema = decode_object(prompt.sampling.schema)
            head["response_format"] = {"type": "json_schema", "json_schema": schema}
        if any(block.level == "tools" for block in blocks):
            head |= tool_settings(prompt.sampling, lambda name: {"type": "function", "function": {"name": name}})
        return WireRequest(head, blocks, tuple(markers), prompt.made_from)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """See `ChatModel.salts`: the effort changes the whole prefix; tool choice and pictures do not."""
        return sampling_salts(self.facts, self._effort(sampling).get("reasoning_effort"), sampling)

    def _effort(self, sampling: Sampling) -> dict[str, Json]:
        level = asked_thinking(self.facts, sampling.thinking_effort, sampling.max_output).level
        return {"reasoning_effort": level} if level is not None else {}

    def body(self, request: WireRequest) -> dict[str, object]:
        """See `ChatModel.body`."""
        return body_of(request)

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        return self._client.stream("/chat/completions", self.body(request), headers, ChatReader())

    async def count(self, request: WireRequest) -> int:
        """Always refused: Chat Completions has no counting endpoint."""
        raise ProviderRefusedRequest(
            f"{PROVIDER}'s Chat Completions can't count the tokens of a request.",
            hint="Use the estimate; the next answer brings the provider's own count.",
        )

    async def close(self) -> None:
        """See `ChatModel.close`."""
        await self._client.close()


class ChatReader:
    """The provider's chunks as deltas. A block ends when another kind begins: thinking, text, thinking are three
    blocks.

    Compatible servers omit many fields; an unreadable chunk raises one of `MALFORMED`.
    """

    def __init__(self) -> None:
        self.ended = False
        self._refused = False
        self._calls: dict[int, int] = {}
        """The blocks of calls by the provider's index; their parts may be interleaved."""
        self._blocks = 0
        self._kind = ""
        """The kind of the last block."""

    def of(self, event: StreamEvent) -> Iterator[Delta]:
        """See `EventReader.of`."""
        chunk = object_of(event)
        if chunk is None:
            return
        for choice in (chunk.get("choices") or ())[:1]:
            if choice.get("delta") is not None:
                yield from self._choice(choice["delta"])
            finish_reason = choice.get("finish_reason")
            if finish_reason:
                self.ended = True
                met = choice.get("stop_reason")  # vLLM and SGLang tell the stop sequence, others do not
                filtered = FILTERED if finish_reason == "content_filter" else ""
                yield deltas.Closed(self._stop(finish_reason), filtered, plain(met) if isinstance(met, str) else "")
        if chunk.get("usage") is not None:
            yield deltas.UsageReported(usage_of(part(chunk, "usage")))

    def _stop(self, finish_reason: str) -> StopReason:
        """A refusal is a text of its own that ends like any other answer."""
        stop = _STOPS.get(finish_reason, StopReason.END_TURN)
        return StopReason.REFUSAL if self._refused and stop is StopReason.END_TURN else stop

    def _choice(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        reasoning = delta.get("reasoning_content")
        if isinstance(reasoning, str) and reasoning:
            yield deltas.ReasoningDelta(self._block("reasoning"), plain(reasoning))
        if delta.get("content"):
            yield deltas.TextDelta(self._block("text"), plain(delta["content"]))
        if delta.get("refusal"):
            self._refused = True
            yield deltas.TextDelta(self._block("text"), plain(delta["refusal"]))
        for call in delta.get("tool_calls") or ():
            yield from self._call(call)

    def _call(self, call: Mapping[str, Any]) -> Iterator[Delta]:
        number, function = index_of(call["index"]), call.get("function") or {}
        if number not in self._calls:
            self._calls[number] = self._block(f"call {number}")
            id = plain(call.get("id") or f"call_{number}")
            yield deltas.ToolCallOpened(self._calls[number], id, plain(function.get("name") or ""))
        if function.get("arguments"):
            yield deltas.ToolArgsDelta(self._calls[number], plain(function["arguments"]))

    def _block(self, kind: str) -> int:
        """The number of the current block, or of a new one."""
        if kind != self._kind:
            self._kind, self._blocks = kind, self._blocks + 1
        return self._blocks - 1


def usage_of(reported: Mapping[str, object]) -> Usage:
    """OpenAI's `prompt_tokens` is the whole prompt already, cached tokens included."""
    prompt = part(reported, "prompt_tokens_details")
    completion = part(reported, "completion_tokens_details")
    return Usage(
        input=count_of(reported, "prompt_tokens"),
        cache_read=count_of(prompt, "cached_tokens"),
        cache_write_5m=count_of(prompt, "cache_write_tokens"),
        output=count_of(reported, "completion_tokens"),
        reasoning=count_of(completion, "reasoning_tokens"),
    )
