"""What the simulated model says: scripted replies with their faults, and the parts they are streamed as."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

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
