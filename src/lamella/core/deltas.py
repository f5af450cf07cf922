"""What a provider's stream is turned into: small facts in arrival order, the same for every vendor."""

from __future__ import annotations

from dataclasses import dataclass

from lamella.core.caching import Diagnosis
from lamella.core.messages import StopReason
from lamella.core.tokens import Usage


@dataclass(frozen=True, slots=True)
class Opened:
    """The provider accepted the request; `body` is what went over the wire, byte for byte."""

    provider_request_id: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class AnswerNamed:
    """The provider's own name of the answer that comes."""

    id: str


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """What the provider says of the cache that was missed, where it was asked."""

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
    """What the provider has billed so far; the last one counts."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Closed:
    """The inference ended by itself; `why` is what the provider says of a refusal, "" where it says nothing."""

    stop_reason: StopReason
    why: str = ""


@dataclass(frozen=True, slots=True)
class ThinkingDropped:
    """The provider left out `count` blocks of earlier thinking, because what stood before them changed.

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
