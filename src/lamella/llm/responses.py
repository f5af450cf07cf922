"""The OpenAI Responses adapter: nothing is kept by the vendor, reasoning travels encrypted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.json import Json, decode_object
from lamella.core.messages import StopReason
from lamella.core.models import Markers, ModelFacts, Thinking, WireProtocol, asked_thinking
from lamella.core.ports import ChatModel
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.event_stream import StreamEvent
from lamella.llm.failures import in_stream
from lamella.llm.fields import OPENAI_FIELD, count_of, index_of, name_of, openai_diagnosis, part, plain, word
from lamella.llm.openai import API, FILTERED, PROVIDER, object_of, sampling_salts, tool_settings
from lamella.llm.responses_wire import BETWEEN_SUMMARIES, ReasoningSeal, blocks_of, body_of
from lamella.llm.retry import retrying
from lamella.llm.streaming import NO_HEADERS, ProviderClient
from lamella.llm.wire_blocks import randomness, wire_segments

COUNTED = ("model", "input", "tools", "tool_choice", "reasoning")
"""Fields of a body that the counting endpoint accepts."""


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
    return retrying(ResponsesModel(facts, ProviderClient(API, base_url, key, timeout, headers)), timeout, retries)


class ResponsesModel:
    """One model at a Responses endpoint.

    Requests have `store: false`, so the vendor keeps nothing. Reasoning comes encrypted and is sent back with its
    steps.
    """

    def __init__(self, facts: ModelFacts, client: ProviderClient) -> None:
        self.facts = replace(facts, protocol=WireProtocol.RESPONSES)
        self._client = client

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """See `ChatModel.wire`."""
        return wire_segments(prompt.segments, blocks_of, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """See `ChatModel.request`."""
        head: dict[str, Json] = {
            "model": prompt.model,
            "max_output_tokens": prompt.sampling.max_output,
            "stream": True,
            "store": False,
        }
        if self.facts.thinking is not Thinking.NONE:
            head["include"] = ["reasoning.encrypted_content"]
            head["reasoning"] = {**self._effort(prompt.sampling), "summary": "auto"}
        if self.facts.markers is Markers.OPENAI:
            head["prompt_cache_options"] = {"mode": "explicit", "ttl": "30m", **self._comparison(prompt.sampling)}
        head |= randomness(prompt.sampling)
        if prompt.sampling.schema:
            head["text"] = {"format": {"type": "json_schema", **decode_object(prompt.sampling.schema)}}
        if any(block.level == "tools" for block in blocks):
            head |= tool_settings(prompt.sampling, lambda name: {"type": "function", "name": name})
        return WireRequest(head, blocks, tuple(markers), prompt.made_from)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """See `ChatModel.salts`: the effort changes the whole prefix; tool choice and pictures do not."""
        return sampling_salts(self.facts, self._effort(sampling).get("effort"), sampling)

    def _comparison(self, sampling: Sampling) -> dict[str, Json]:
        """The earlier answer with which the provider compares the prompt."""
        asks = self.facts.diagnoses and sampling.compared_with is not None
        return {OPENAI_FIELD: sampling.compared_with} if asks else {}

    def _effort(self, sampling: Sampling) -> dict[str, Json]:
        level = asked_thinking(self.facts, sampling.thinking_effort, sampling.max_output).level
        return {"effort": level} if level is not None else {}

    def body(self, request: WireRequest) -> dict[str, object]:
        """See `ChatModel.body`."""
        return body_of(request)

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        return self._client.stream("/responses", self.body(request), headers, ResponsesReader(_compared_with(request)))

    async def count(self, request: WireRequest) -> int:
        """See `ChatModel.count`."""
        body = {name: value for name, value in self.body(request).items() if name in COUNTED}
        counted = await self._client.ask("/responses/input_tokens", body, NO_HEADERS)
        with self._client.readable():
            return index_of(counted["input_tokens"])

    async def close(self) -> None:
        """See `ChatModel.close`."""
        await self._client.close()


def _text(value: object) -> str:
    return plain(value) if isinstance(value, str) else ""


def _compared_with(request: WireRequest) -> str | None:
    return name_of(part(request.head, "prompt_cache_options").get(OPENAI_FIELD))


class ResponsesReader:
    """The provider's stream events as deltas; an output item is a block.

    Unknown types are ignored. An unreadable event raises one of `MALFORMED`, a reported failure a `ProviderError`.
    Items that a server sends only whole are read too.
    """

    def __init__(self, compared_with: str | None = None) -> None:
        self.ended = False
        self._compared_with = compared_with
        self._refused = False
        self._calls: set[int] = set()
        self._heard: set[int] = set()
        """Blocks of which words or arguments came."""

    def of(self, event: StreamEvent) -> Iterator[Delta]:
        """See `EventReader.of`."""
        data = object_of(event)
        if data is None:
            return
        match data["type"]:
            case "response.created":
                name = name_of(part(data, "response").get("id"))
                if name is not None:
                    yield deltas.AnswerNamed(name)
            case "response.output_item.added":
                yield from self._opened(index_of(data["output_index"]), data["item"])
            case "response.output_text.delta":
                yield from self._text(index_of(data["output_index"]), data["delta"])
            case "response.refusal.delta":
                self._refused = True
                yield from self._text(index_of(data["output_index"]), data["delta"])
            case "response.reasoning_summary_part.added" if index_of(data["summary_index"]):
                yield deltas.ReasoningDelta(index_of(data["output_index"]), BETWEEN_SUMMARIES)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._reasoning(index_of(data["output_index"]), data["delta"])
            case "response.function_call_arguments.delta":
                yield from self._arguments(index_of(data["output_index"]), data["delta"])
            case "response.output_item.done":
                yield from self._done(index_of(data["output_index"]), data["item"])
            case "response.completed" | "response.incomplete" | "response.failed":
                yield from self._ended(data["type"], data["response"])
            case "error":
                raise in_stream(PROVIDER, word(data.get("code")), _text(data.get("message")))
            case _:
                pass

    def _opened(self, block: int, item: Mapping[str, Any]) -> Iterator[Delta]:
        if item["type"] == "function_call" and block not in self._calls:
            self._calls.add(block)
            yield deltas.ToolCallOpened(block, plain(item["call_id"]), plain(item["name"]))

    def _text(self, block: int, text: str) -> Iterator[Delta]:
        self._heard.add(block)
        if text:
            yield deltas.TextDelta(block, plain(text))

    def _reasoning(self, block: int, text: str) -> Iterator[Delta]:
        self._heard.add(block)
        if text:
            yield deltas.ReasoningDelta(block, plain(text))

    def _arguments(self, block: int, json: str) -> Iterator[Delta]:
        if block not in self._calls:
            raise ValueError(f"arguments came for item {block}, which is no call")
        self._heard.add(block)
        if json:
            yield deltas.ToolArgsDelta(block, plain(json))

    def _done(self, block: int, item: Mapping[str, Any]) -> Iterator[Delta]:
        """The rest of an item that did not stream, and its encrypted reasoning, which is complete only now."""
        match item["type"]:
            case "function_call":
                yield from self._opened(block, item)
                if block not in self._heard:
                    yield from self._arguments(block, item["arguments"])
            case "message" if block not in self._heard:
                for piece in item["content"]:
                    is_refusal = piece["type"] == "refusal"
                    self._refused = self._refused or is_refusal
                    yield from self._text(block, piece["refusal" if is_refusal else "text"])
            case "reasoning":
                summary = [plain(piece["text"]) for piece in item.get("summary") or ()]
                if block not in self._heard:
                    yield from self._reasoning(block, BETWEEN_SUMMARIES.join(summary))
                if item.get("encrypted_content"):
                    seal = ReasoningSeal(plain(item["id"]), tuple(len(piece) for piece in summary))
                    yield deltas.ReasoningSealed(block, seal.text(), plain(item["encrypted_content"]))
            case _:
                pass

    def _ended(self, kind: str, response: Mapping[str, Any]) -> Iterator[Delta]:
        if self._compared_with is not None:
            diagnosis = openai_diagnosis(response.get("prompt_cache_diagnostics"), self._compared_with)
            if diagnosis is not None:
                yield deltas.Diagnosed(diagnosis)
        if response.get("usage") is not None:
            yield deltas.UsageReported(usage_of(part(response, "usage")))
        if kind == "response.failed":
            error = part(response, "error")
            raise in_stream(PROVIDER, word(error.get("code")), _text(error.get("message")))
        self.ended = True
        yield self._closed(kind, response)

    def _closed(self, kind: str, response: Mapping[str, Any]) -> Delta:
        if kind == "response.incomplete":
            if part(response, "incomplete_details").get("reason") == "content_filter":
                return deltas.Closed(StopReason.REFUSAL, FILTERED)
            return deltas.Closed(StopReason.MAX_TOKENS)
        if self._calls:
            return deltas.Closed(StopReason.TOOL_CALLS)
        return deltas.Closed(StopReason.REFUSAL if self._refused else StopReason.END_TURN)


def usage_of(reported: Mapping[str, object]) -> Usage:
    """OpenAI's `input_tokens` is the whole prompt already, cached tokens included."""
    details = part(reported, "input_tokens_details")
    written = count_of(details, "cache_write_tokens")
    long = count_of(part(details, "cache_write_tokens_details"), "ttl_12h_tokens")
    return Usage(
        input=count_of(reported, "input_tokens"),
        cache_read=count_of(details, "cached_tokens"),
        cache_write_5m=written - min(long, written),
        cache_write_1h=min(long, written),
        output=count_of(reported, "output_tokens"),
        reasoning=count_of(part(reported, "output_tokens_details"), "reasoning_tokens"),
    )
