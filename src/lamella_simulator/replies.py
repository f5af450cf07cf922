"""What the simulated model says: scripted replies with their faults, and drafts.

A draft is a whole answer, decided before its first byte: the parts of a reply with their tokens counted, changed by
the faults of content, and cut at max_tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from lamella_simulator.blocks import encode
from lamella_simulator.tokens import count_text, scaled

FaultKind = Literal[
    "429", "500", "504", "529", "stream_error", "drop_before", "drop_after", "truncated_tool_json", "slow",
    "refusal", "content_filter", "max_tokens", "empty", "cold_cache", "unknown_event", "compaction_failed",
]  # fmt: skip
Number: TypeAlias = Annotated[int, Meta(ge=0)]
HTTP_FAULTS = ("429", "500", "504", "529")
CONTENT_FAULTS = ("refusal", "content_filter", "max_tokens", "empty", "truncated_tool_json")


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fires on the first `times` uses of its reply; `when` is "before" or a number of streamed characters.

    `cold_cache` finds nothing in the cache; `unknown_event` puts an event of no known type into the stream.
    """

    kind: FaultKind | Literal[429, 500, 504, 529]
    when: Literal["before"] | Number | None = None
    times: Annotated[int, Meta(ge=1)] = 1
    retry_after: Annotated[float, Meta(ge=0)] | bool | None = None
    """Seconds, or false for an error without the header; unset, a 429 says one second."""
    ms: Number = 30_000
    """How long `slow` holds back the first token."""

    @property
    def name(self) -> str:
        return str(self.kind)


class Reasoning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""
    tokens: Number | None = None


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    id: str = ""
    arguments: dict[str, Any] = {}


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model, as POST /_sim/replies takes it; absent numbers are counted or taken from settings."""

    text: str = ""
    match: str | None = None
    """A regular expression, looked for in what people and tools said last, where a request names no reply."""
    summary: str | None = None
    """What a compaction by the provider says; unset, it keeps the facts, or quotes the conversation."""
    rule: Literal["answer", "keep_facts"] | None = None
    """Instead of a text: what the answerer says, or every sentence of the request that holds a FACT-… word."""
    reasoning: str | Reasoning | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    output_tokens: Number | None = None
    stop_reason: str | None = None
    ttft_ms: Number | None = None
    ms: Number | None = None
    chunk: Annotated[int, Meta(ge=1)] | None = None
    fault: Fault | None = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.match or "")
        except re.error as error:
            raise ValueError(f"match: {self.match!r} is not a regular expression: {error}") from error

    @property
    def thought(self) -> Reasoning | None:
        return Reasoning(self.reasoning) if isinstance(self.reasoning, str) else self.reasoning


@dataclass(frozen=True, slots=True)
class Part:
    """One content block of the answer; `text` is what is streamed (for a call its JSON arguments)."""

    kind: Literal["thinking", "text", "tool", "compaction"]
    text: str
    call: ToolCall | None = None
    signature: str = ""
    on_demand: bool = False
    """Of a compaction that was asked for, not one that a long prompt has triggered."""

    def pieces(self, chunk: int) -> Iterator[str]:
        if self.kind == "compaction":
            # A summary comes in one delta, and so does a failed one.
            yield self.text
            return
        for start in range(0, len(self.text), max(1, chunk)):
            yield self.text[start : start + max(1, chunk)]


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole answer, decided before its first byte: parts, why it stops, and what it costs in output tokens."""

    parts: tuple[Part, ...]
    stop: str
    output_tokens: int
    thinking_tokens: int = 0
    refusal: str = ""
    stop_sequence: str | None = None
    """The sequence of the request at which it stops."""


REFUSAL = "This request was declined by the simulator's scripted safety classifier."


@dataclass(frozen=True, slots=True)
class Limits:
    """What the request and the model impose on any answer."""

    factor: float
    max_tokens: int | None
    thinking: bool
    """False: reasoning in the script is not shown, as the request has thinking off."""
    call_prefix: str
    serial: str
    """Makes ids of calls that the script left unnamed."""
    room: int | None = None
    """Tokens that the window has left after the prompt. None if the vendor limits the prompt alone."""
    stops: tuple[str, ...] = ()
    """Sequences of the request at which an answer ends; they are not said."""

    @property
    def least(self) -> int | None:
        given = [limit for limit in (self.max_tokens, self.room) if limit is not None]
        return min(given, default=None)

    @property
    def cut_by(self) -> str:
        """Why an answer of more than the least stops."""
        return "max_tokens" if self.least == self.max_tokens else "model_context_window_exceeded"


Sign = Callable[[str, int], str]
"""Signs a thinking text and its token count."""


def compose(reply: Reply, fault: str | None, when: int | None, limits: Limits, sign: Sign) -> Draft:
    """The whole answer to stream; `fault` is the content fault in force and `when` its place in characters."""
    if fault == "empty":
        return Draft((), "end_turn", reply.output_tokens or 1)
    sized = list(sized_parts(reply, limits, sign))
    stop = reply.stop_reason or ("tool_use" if reply.tool_calls else "end_turn")
    if fault in ("refusal", "content_filter"):
        return refused(sized, when or 0, fault)
    if fault == "max_tokens":
        sized, stop = keep_characters(sized, when if when is not None else shown(sized) // 2), "max_tokens"
    if fault == "truncated_tool_json":
        sized, stop = truncate_call(sized, when), reply.stop_reason or "max_tokens"
    met = first_stop(sized, limits.stops)
    if met is not None:
        sized, stop = keep_characters(sized, met[0]), "stop_sequence"
    total = sum(tokens for _, tokens in sized) or 1
    if fault is None and met is None and reply.output_tokens is not None:
        total = reply.output_tokens
    if (limit := limits.least) is not None and total > limit:
        sized, stop = keep_share(sized, limit / total), limits.cut_by
        total = limit
    thinking = sum(tokens for part, tokens in sized if part.kind == "thinking")
    sequence = met[1] if met is not None and stop == "stop_sequence" else None
    return Draft(tuple(part for part, _ in sized), stop, total, min(thinking, total), stop_sequence=sequence)


def first_stop(sized: list[tuple[Part, int]], stops: tuple[str, ...]) -> tuple[int, str] | None:
    """Characters before the first sequence in a text, and that sequence."""
    start = 0
    for part, _ in sized:
        if part.kind == "text":
            places = [(part.text.find(stop), stop) for stop in stops if stop in part.text]
            if places:
                place, stop = min(places)
                return start + place, stop
        start += len(part.text)
    return None


def sized_parts(reply: Reply, limits: Limits, sign: Sign) -> Iterator[tuple[Part, int]]:
    """The reply's parts in streaming order, each with its output tokens."""
    thought = reply.thought
    if thought is not None and limits.thinking:
        tokens = thinking_tokens(thought, limits.factor)
        yield Part("thinking", thought.text, signature=sign(thought.text, tokens)), tokens
    if reply.text:
        yield Part("text", reply.text), scaled(count_text(reply.text), limits.factor)
    for index, call in enumerate(reply.tool_calls):
        named = call if call.id else ToolCall(call.name, f"{limits.call_prefix}{limits.serial}{index}", call.arguments)
        arguments = encode(call.arguments).decode()
        yield Part("tool", arguments, named), scaled(count_text(call.name + arguments), limits.factor) + 4


def thinking_tokens(thought: Reasoning, factor: float) -> int:
    return thought.tokens if thought.tokens is not None else scaled(count_text(thought.text), factor)


def shown(sized: list[tuple[Part, int]]) -> int:
    return sum(len(part.text) for part, _ in sized)


def keep_characters(sized: list[tuple[Part, int]], characters: int) -> list[tuple[Part, int]]:
    """The parts up to a number of characters; the part it falls into keeps its share of tokens."""
    kept: list[tuple[Part, int]] = []
    for part, tokens in sized:
        if characters <= 0:
            break
        text = part.text[:characters]
        share = len(text) / len(part.text) if part.text else 1.0
        kept.append((replace(part, text=text), round(tokens * share)))
        characters -= len(part.text)
    return kept


def keep_share(sized: list[tuple[Part, int]], share: float) -> list[tuple[Part, int]]:
    return keep_characters(sized, int(shown(sized) * share))


def truncate_call(sized: list[tuple[Part, int]], when: int | None) -> list[tuple[Part, int]]:
    """Cuts the first call's JSON in two, or at `when` of its characters; what follows it is lost."""
    for index, (part, tokens) in enumerate(sized):
        if part.kind == "tool":
            cut = min(when if when is not None else len(part.text) // 2, max(0, len(part.text) - 1))
            return [*sized[:index], (replace(part, text=part.text[:cut]), max(1, tokens // 2))]
    return sized


def refused(sized: list[tuple[Part, int]], when: int, fault: str) -> Draft:
    """What was said before a model refused, with its reason, or before a filter cut it off, which gives none."""
    kept = [(part, tokens) for part, tokens in keep_characters(sized, when) if part.kind == "text"]
    reason = REFUSAL if fault == "refusal" else ""
    return Draft(tuple(part for part, _ in kept), fault, sum(t for _, t in kept) or 1, refusal=reason)
