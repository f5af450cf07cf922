"""The adapter of OpenAI Chat Completions, on the official SDK; also for compatible servers.

The adapter of the Responses API shares the SDK's client and the meaning of its errors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import openai
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import ProviderError, ProviderRefusedRequest
from lamella.core.json import Json, encode_text
from lamella.core.messages import StopReason
from lamella.core.models import Markers, ModelFacts, Thinking, WireProtocol, asked_thinking
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.failures import in_stream, of_status, said_in, timed_out
from lamella.llm.fields import counter, index_of, plain
from lamella.llm.openai_wire import blocks_of, body_of
from lamella.llm.streaming import Vendor, http_client, lost, streamed
from lamella.llm.wire_blocks import wire_segments

PROVIDER = "OpenAI"
KEY_VARIABLE = "OPENAI_API_KEY"
FILTERED = "the provider's content filter stopped it"
"""The explanation of a refusal without a text."""


def client_of(base_url: str, key: str, timeout: float, retries: int) -> openai.AsyncOpenAI:
    """A client of its own. `timeout` is in seconds of silence."""
    http = http_client(openai.DefaultAsyncHttpxClient, base_url, key, timeout)
    return openai.AsyncOpenAI(api_key=key, base_url=base_url, timeout=timeout, max_retries=retries, http_client=http)


def failure_of(error: openai.OpenAIError, base_url: str, *, began: bool) -> ProviderError:
    """The SDK's error as one of ours; `began`: the provider had accepted the request."""
    match error:
        case openai.APITimeoutError():
            return timed_out(PROVIDER)
        case openai.APIStatusError() if not began:
            retry_after = error.response.headers.get("retry-after")
            return of_status(PROVIDER, error.status_code, error.body, KEY_VARIABLE, retry_after)
        case openai.APIError() if error.body is not None:
            return in_stream(PROVIDER, *said_in(error.body))
        case _:
            return lost(PROVIDER, base_url, error, began=began)


VENDOR = Vendor(PROVIDER, "x-request-id", openai.OpenAIError, failure_of)


def effort_salts(facts: ModelFacts, effort: Json) -> Mapping[Level, str]:
    """The effort changes the whole prefix; tool choice and pictures do not."""
    if facts.thinking is Thinking.NONE:
        return {}
    said = encode_text(effort or facts.default_effort)
    return {"tools": said, "system": said}


_STOPS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSAL,
}


def connect(facts: ModelFacts, *, base_url: str, key: str, timeout: float, retries: int) -> OpenAIModel:
    """An adapter with a client of its own. `timeout` is in seconds of silence."""
    return OpenAIModel(facts, client_of(base_url, key, timeout, retries))


class OpenAIModel:
    """One model at a Chat Completions endpoint. Reasoning is not sent back: the protocol has no field for it."""

    def __init__(self, facts: ModelFacts, client: openai.AsyncOpenAI) -> None:
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
        if prompt.sampling.tool_choice == "none" and any(block.level == "tools" for block in blocks):
            head["tool_choice"] = "none"
        return WireRequest(head, blocks, tuple(markers), prompt.made_from)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """See `ChatModel.salts`: the effort changes the whole prefix; tool choice and pictures do not."""
        return effort_salts(self.facts, self._effort(sampling).get("reasoning_effort"))

    def _effort(self, sampling: Sampling) -> dict[str, Json]:
        level = asked_thinking(self.facts, sampling.thinking_effort, sampling.max_output).level
        return {"reasoning_effort": level} if level is not None else {}

    def body(self, request: WireRequest) -> dict[str, object]:
        """See `ChatModel.body`."""
        return body_of(request)

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        body: Any = self.body(request)
        opening = self._client.chat.completions.with_streaming_response.create(**body, extra_headers=headers)
        return streamed(VENDOR, str(self._client.base_url), opening, _Chunks())

    async def count(self, request: WireRequest) -> int:
        """Always refused: Chat Completions has no counting endpoint."""
        raise ProviderRefusedRequest(
            f"{PROVIDER}'s Chat Completions can't count the tokens of a request.",
            hint="Use the estimate; the next answer brings the provider's own count.",
        )

    async def close(self) -> None:
        """See `ChatModel.close`."""
        await self._client.close()


class _Chunks:
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

    def of(self, chunk: ChatCompletionChunk) -> Iterator[Delta]:
        for choice in (chunk.choices or ())[:1]:
            if choice.delta is not None:
                yield from self._choice(choice.delta)
            if choice.finish_reason:
                self.ended = True
                filtered = choice.finish_reason == "content_filter"
                yield deltas.Closed(self._stop(choice.finish_reason), FILTERED if filtered else "")
        if chunk.usage is not None:
            yield deltas.UsageReported(usage_of(chunk.usage))

    def _stop(self, finish_reason: str) -> StopReason:
        """A refusal is a text of its own that ends like any other answer."""
        stop = _STOPS.get(finish_reason, StopReason.END_TURN)
        return StopReason.REFUSAL if self._refused and stop is StopReason.END_TURN else stop

    def _choice(self, delta: Any) -> Iterator[Delta]:
        reasoning = getattr(delta, "reasoning_content", None)
        if isinstance(reasoning, str) and reasoning:
            yield deltas.ReasoningDelta(self._block("reasoning"), plain(reasoning))
        if delta.content:
            yield deltas.TextDelta(self._block("text"), plain(delta.content))
        if delta.refusal:
            self._refused = True
            yield deltas.TextDelta(self._block("text"), plain(delta.refusal))
        for call in delta.tool_calls or ():
            yield from self._call(call)

    def _call(self, call: Any) -> Iterator[Delta]:
        number = index_of(call.index)
        if number not in self._calls:
            self._calls[number] = self._block(f"call {number}")
            name = call.function.name if call.function else None
            id = plain(call.id or f"call_{number}")
            yield deltas.ToolCallOpened(self._calls[number], id, plain(name or ""))
        if call.function and call.function.arguments:
            yield deltas.ToolArgsDelta(self._calls[number], plain(call.function.arguments))

    def _block(self, kind: str) -> int:
        """The number of the current block, or of a new one."""
        if kind != self._kind:
            self._kind, self._blocks = kind, self._blocks + 1
        return self._blocks - 1


def usage_of(reported: CompletionUsage) -> Usage:
    """OpenAI's `prompt_tokens` is the whole prompt already, cached tokens included."""
    prompt = reported.prompt_tokens_details
    completion = reported.completion_tokens_details
    return Usage(
        input=counter(reported, "prompt_tokens"),
        cache_read=counter(prompt, "cached_tokens"),
        cache_write_5m=counter(prompt, "cache_write_tokens"),
        output=counter(reported, "completion_tokens"),
        reasoning=counter(completion, "reasoning_tokens"),
    )
