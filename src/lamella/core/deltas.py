"""A provider's stream as small events in arrival order, the same for every vendor."""

from __future__ import annotations

from dataclasses import dataclass

from lamella.core.caching import Diagnosis
from lamella.core.messages import StopReason
from lamella.core.tokens import Usage


@dataclass(frozen=True, slots=True)
class Opened:
    """The provider accepted the request. `body` is the JSON that was sent, byte for byte."""

    provider_request_id: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class AnswerNamed:
    """The provider's id of the answer that follows."""

    id: str


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The provider's diagnosis of a cache miss, if one was requested."""

    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of thinking of block `block`."""

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningSealed:
    """The provider's seal on thinking block `block`, or the encrypted thinking itself."""

    block: int
    signature: str | None = None
    redacted: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallOpened:
    """A tool call began."""

    block: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolArgsDelta:
    """A piece of the JSON text of a call's arguments."""

    block: int
    json: str


@dataclass(frozen=True, slots=True)
class UsageReported:
    """The usage that the provider reported so far. The last report counts."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Closed:
    """The provider ended the answer. `why` is its explanation of a refusal, or ""; `stopped_at` the text of the request
    before which the answer ended, if it tells.
    """

    stop_reason: StopReason
    why: str = ""
    stopped_at: str = ""


@dataclass(frozen=True, slots=True)
class ThinkingDropped:
    """The provider dropped `count` blocks of earlier thinking, because content before them changed.

    The last one counts.
    """

    count: int


Delta = (
    Opened
    | AnswerNamed
    | Diagnosed
    | ReasoningDelta
    | ReasoningSealed
    | TextDelta
    | ToolCallOpened
    | ToolArgsDelta
    | ThinkingDropped
    | UsageReported
    | Closed
)
