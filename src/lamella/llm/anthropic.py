"""The Anthropic Messages adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.json import Json, decode_object, encode_text
from lamella.core.messages import StopReason
from lamella.core.models import ModelFacts, RequestedThinking, Thinking, asked_thinking
from lamella.core.ports import ChatModel
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.anthropic_wire import CLEAR_AT, blocks_of, body_of
from lamella.llm.event_stream import StreamEvent
from lamella.llm.failures import MALFORMED, in_stream, said_in
from lamella.llm.fields import ANTHROPIC_FIELD, anthropic_diagnosis, count_of, index_of, name_of, part, plain
from lamella.llm.retry import retrying
from lamella.llm.streaming import NO_HEADERS, ProviderClient, VendorApi, json_of
from lamella.llm.wire_blocks import randomness, wire_segments

PROVIDER = "Anthropic"
API = VendorApi(PROVIDER, "request-id", "ANTHROPIC_API_KEY")
VERSION = {"anthropic-version": "2026-10-21"}
DROP: Mapping[str, Json] = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
"""Drop thinking whose prefix changed, instead of refusing the request."""

BINDING_BETA = "thinking-binding-controls-2026-08-01"
CLEAR_AT_BETA = "mid-conversation-system-clear-at-2026-08-21"

_STOPS = {
    "end_turn": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "pause_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
}


_READ = frozenset(("message_start", "content_block_start", "content_block_delta", "message_delta"))
"""The event types that are read; others are ignored."""


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
    client = ProviderClient(API, base_url, key, timeout, {**VERSION, **headers})
    return retrying(AnthropicModel(facts, client), timeout, retries)


class AnthropicModel:
    """One model behind a Messages endpoint."""

    def __init__(self, facts: ModelFacts, client: ProviderClient) -> None:
        self.facts = facts
        self._client = client

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """See `ChatModel.wire`."""
        return wire_segments(prompt.segments, blocks_of, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """See `ChatModel.request`."""
        head: dict[str, Json] = {"model": prompt.model, "max_tokens": prompt.sampling.max_output, "stream": True}
        head |= self._thinking(prompt.sampling)
        head |= randomness(prompt.sampling)
        if stops := [text for text in prompt.sampling.stop if text.strip()]:  # others are refused
            head["stop_sequences"] = stops
        if any(block.level == "tools" for block in blocks) and (choice := _tool_choice(prompt.sampling)):
            head["tool_choice"] = choice
        if self.facts.diagnoses and prompt.sampling.compared_with is not None:
            head[ANTHROPIC_FIELD] = {"previous_message_id": prompt.sampling.compared_with}
        if self.facts.clears_system_messages and any(_is_late_system(block) for block in blocks):
            head[CLEAR_AT] = "next_user_message"
        return WireRequest(head, blocks, tuple(markers), prompt.made_from)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """See `ChatModel.salts`: these change the key of the messages.

        An explicit default equals none; the handling of unbound thinking is not part of the prompt.
        """
        changed: dict[str, Json] = {}
        if self.facts.thinking is not Thinking.NONE:
            asked = self._asked(sampling)
            level = asked.level or self.facts.default_effort
            changed["thinking"] = [not asked.without, asked.budget, level]
        if choice := _tool_choice(sampling):
            changed["tool_choice"] = choice
        if sampling.images:
            changed["images"] = True
        found: dict[Level, str] = {"messages": encode_text(changed)} if changed else {}
        return found | ({"system": sampling.schema} if sampling.schema else {})

    def _asked(self, sampling: Sampling) -> RequestedThinking:
        return asked_thinking(self.facts, sampling.thinking_effort, sampling.max_output)

    def _thinking(self, sampling: Sampling) -> dict[str, Json]:
        """The request's thinking parameters. Without an effort it is disabled, if the model allows that."""
        asked, drops = self._asked(sampling), sampling.drop_unbound_thinking
        adaptive: dict[str, Json] = {"type": "adaptive"} | (dict(DROP) if drops else {})
        output: dict[str, Json] = {}
        if sampling.schema:
            output["format"] = {"type": "json_schema", "schema": decode_object(sampling.schema)["schema"]}
        if asked.budget:
            thinking: Json = {"type": "enabled", "budget_tokens": asked.budget}
        elif asked.level:
            thinking, output = adaptive, {"effort": asked.level, **output}
        elif asked.without:
            thinking = {"type": "disabled"}
        else:
            thinking = adaptive if drops and self.facts.thinking is Thinking.ALWAYS else None
        head: dict[str, Json] = {"thinking": thinking} if thinking else {}
        return head | {"output_config": output} if output else head

    def body(self, request: WireRequest) -> dict[str, object]:
        """See `ChatModel.body`."""
        return body_of(request)

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        reader = MessagesReader(_compared_with(request))
        return self._client.stream("/v1/messages", self.body(request), headers | _betas(request), reader)

    async def count(self, request: WireRequest) -> int:
        """See `ChatModel.count`."""
        body = self.body(request)
        for name in ("max_tokens", "stream", ANTHROPIC_FIELD):
            body.pop(name, None)
        counted = await self._client.ask("/v1/messages/count_tokens", body, _betas(request))
        with self._client.readable():
            return index_of(counted["input_tokens"])

    async def close(self) -> None:
        """See `ChatModel.close`."""
        await self._client.close()


def _tool_choice(sampling: Sampling) -> dict[str, Json]:
    """Which tools must or must not be called; {} is the default. A model that may call one at a time is told here."""
    name, alone = sampling.forced_tool, {} if sampling.parallel_calls else {"disable_parallel_tool_use": True}
    if sampling.tool_choice == "none":
        return {"type": "none"}
    if name is not None:
        return {"type": "tool", "name": name, **alone}
    if sampling.forced:
        return {"type": "any", **alone}
    return {"type": "auto", **alone} if alone else {}


def _betas(request: WireRequest) -> dict[str, str]:
    """The beta header, if the request uses a feature that needs one."""
    thinking = request.head.get("thinking")
    betas = []
    if isinstance(thinking, dict) and "block_binding" in thinking:
        betas.append(BINDING_BETA)
    if CLEAR_AT in request.head:
        betas.append(CLEAR_AT_BETA)
    return {"anthropic-beta": ",".join(betas)} if betas else {}


def _compared_with(request: WireRequest) -> str | None:
    """The earlier answer with which the provider compares the prompt."""
    return name_of(part(request.head, ANTHROPIC_FIELD).get("previous_message_id"))


def _is_late_system(block: WireBlock) -> bool:
    """Whether the block belongs to a system message after the first user message."""
    return block.level == "messages" and block.role == "system"


def _error_said(data: bytes) -> tuple[str, str]:
    """Type and message of an `error` event."""
    try:
        return said_in(json_of(data))
    except MALFORMED:
        return "", ""


def _dropped(reported: object) -> Iterator[Delta]:
    """The thinking that the provider dropped (`input_transformations`); unknown kinds are ignored."""
    listed = reported.get("input_transformations") if isinstance(reported, dict) else None
    entries = listed if isinstance(listed, list) else []
    count = sum(isinstance(entry, dict) and entry.get("type") == "thinking_dropped" for entry in entries)
    if count:
        yield deltas.ThinkingDropped(count)


def _explained(delta: Any) -> str:
    """The provider's explanation of a refusal (`stop_details`), or its category."""
    details = part(delta, "stop_details")
    said = details.get("explanation") or details.get("category")
    return plain(said) if isinstance(said, str) else ""


class MessagesReader:
    """The provider's stream events as deltas. Usage counters in `message_delta` are cumulative.

    Types that do not exist yet are passed over; an event that can't be read raises one of `MALFORMED`.
    """

    def __init__(self, compared_with: str | None = None) -> None:
        self.ended = False
        self._compared_with = compared_with
        self._usage = Usage()

    def of(self, event: StreamEvent) -> Iterator[Delta]:
        """See `EventReader.of`."""
        if event.name == "error":
            raise in_stream(PROVIDER, *_error_said(event.data))
        if event.name not in _READ or not event.data:
            return
        data = json_of(event.data)
        match data["type"]:
            case "content_block_delta":
                yield from self._delta(index_of(data["index"]), data["delta"])
            case "content_block_start":
                yield from self._block(index_of(data["index"]), data["content_block"])
            case "message_start":
                yield from self._named(data["message"])
                yield from _dropped(data["message"])
                yield self._report(data["message"]["usage"])
            case "message_delta":
                yield from _dropped(data)
                yield self._report(data["usage"])
                delta = data["delta"]
                if delta.get("stop_reason"):
                    self.ended = True
                    stop = _STOPS.get(delta["stop_reason"], StopReason.END_TURN)
                    yield deltas.Closed(stop, _explained(delta), plain(delta.get("stop_sequence") or ""))
            case _:
                pass

    def _named(self, message: Any) -> Iterator[Delta]:
        """The answer's id, and the cache diagnosis if it was requested."""
        name = name_of(message.get("id"))
        if name is not None:
            yield deltas.AnswerNamed(name)
        if self._compared_with is not None and ANTHROPIC_FIELD in message:
            diagnosis = anthropic_diagnosis(message[ANTHROPIC_FIELD], self._compared_with)
            if diagnosis is not None:
                yield deltas.Diagnosed(diagnosis)

    def _block(self, index: int, block: Any) -> Iterator[Delta]:
        match block["type"]:
            case "tool_use":
                yield deltas.ToolCallOpened(index, plain(block["id"]), plain(block["name"]))
            case "redacted_thinking":
                yield deltas.ReasoningSealed(index, redacted=plain(block["data"]))
            case "text" if block["text"]:
                yield deltas.TextDelta(index, plain(block["text"]))
            case "thinking" if block["thinking"]:
                yield deltas.ReasoningDelta(index, plain(block["thinking"]))
            case _:
                pass

    def _delta(self, index: int, delta: Any) -> Iterator[Delta]:
        match delta["type"]:
            case "text_delta":
                yield deltas.TextDelta(index, plain(delta["text"]))
            case "thinking_delta":
                yield deltas.ReasoningDelta(index, plain(delta["thinking"]))
            case "signature_delta":
                yield deltas.ReasoningSealed(index, signature=plain(delta["signature"]))
            case "input_json_delta" if delta["partial_json"]:
                yield deltas.ToolArgsDelta(index, plain(delta["partial_json"]))
            case _:
                pass

    def _report(self, reported: Any) -> Delta:
        """Anthropic's `input_tokens` excludes tokens read from and written to the cache: add them."""
        known = self._usage
        read = count_of(reported, "cache_read_input_tokens", known.cache_read)
        written = count_of(reported, "cache_creation_input_tokens", known.cache_write)
        split = part(reported, "cache_creation")
        hour = min(count_of(split, "ephemeral_1h_input_tokens", known.cache_write_1h), written)
        rest = count_of(reported, "input_tokens", known.fresh)
        details = part(reported, "output_tokens_details")
        self._usage = Usage(
            input=rest + read + written,
            cache_read=read,
            cache_write_5m=written - hour,
            cache_write_1h=hour,
            output=count_of(reported, "output_tokens", known.output),
            reasoning=count_of(details, "thinking_tokens", known.reasoning),
        )
        return deltas.UsageReported(self._usage)
