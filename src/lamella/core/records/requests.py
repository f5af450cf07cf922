"""Requests to models: what was sent, marked and billed, and the decisions about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lamella.core.caching import Diagnosis
from lamella.core.decisions import Decision
from lamella.core.json import JsonObject
from lamella.core.models import OFF, Price
from lamella.core.prompt import Level, Segment, WireBlock
from lamella.core.records.library import Pinned
from lamella.core.tokens import Usage


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment of a stored request: its labels, and the digests of its wire blocks."""

    id: str
    kind: str
    lifetime: str
    source: str
    owner: str
    label: str
    letters: str
    tokens: int
    blocks: tuple[str, ...]

    @classmethod
    def of(cls, segment: Segment, blocks: Sequence[WireBlock]) -> StoredSegment:
        """A segment with its wire blocks, as a request is stored with it."""
        return cls(
            id=segment.id,
            kind=segment.kind.value,
            lifetime=segment.lifetime.value,
            source=segment.source,
            owner=segment.owner,
            label=segment.label,
            letters=segment.letters,
            tokens=segment.tokens,
            blocks=tuple(block.digest for block in blocks),
        )


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A wire block's bytes, stored once per conversation under its digest."""

    digest: str
    level: Level
    role: str
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredMarker:
    """A cache marker as it was sent."""

    index: int
    ttl: str
    why: str


@dataclass(frozen=True, slots=True)
class SideResponse:
    """The answer to a side request, such as a summary: its text and how it ended.

    `called`: the model called a tool, which is not a valid answer to a side request.
    """

    text: str
    stop_reason: str | None = None
    called: bool = False


@dataclass(frozen=True, slots=True)
class Retention:
    """For how many days the packets of turns and the bodies of requests are kept; None: for good. `journal_minutes`:
    after how many minutes packets are packed."""

    packets_days: int | None = None
    requests_days: int | None = None
    journal_minutes: int = 60


@dataclass(frozen=True, slots=True)
class Expired:
    """When packets or a request body were removed, and for how many days they had been kept."""

    at: datetime
    kept_days: int

    def say(self, what: str) -> str:
        """`The body of this request expired on 2026-03-01, after 30 days.`"""
        days = "1 day" if self.kept_days == 1 else f"{self.kept_days} days"
        return f"{what} expired on {self.at:%Y-%m-%d}, after {days}."


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request to a model: what was sent, predicted and billed.

    `zones` is the run-length list of zones over `segments`, as `(zone, count)`. `protocol` is its wire. `local_tokens`
    is the local count, `estimate` that count calibrated. `usage` and `cost` are set when the turn ends; `error` is the
    error object if it failed. `predicted_hit` is the index of the last block that should be read from the cache.
    `absent` are the kinds of segment that the window lacks, each with a reason. `thinking_effort` is the effective
    effort; `head` has the parameters that were sent for it. `run_id` is None for a side request. `answer_id` is the
    provider's id of the answer; `diagnosis` is its explanation of a cache miss, or None. `said` is the answer to a side
    request. `made_from` are the knowledge bases of which something stood in the window; `withheld` those because of
    which its contents are not returned any more. `expired`: its body is not kept any more; None while it is.
    """

    id: str
    conversation_id: str
    turn_id: str
    step: int
    purpose: str
    model: str
    layout: str
    marker_policy: str
    at: datetime
    head: JsonObject
    letters: str
    segments: tuple[StoredSegment, ...]
    zones: tuple[tuple[str, int], ...]
    markers: tuple[StoredMarker, ...]
    notes: tuple[tuple[str, str], ...]
    protocol: str
    local_tokens: int
    estimate: int
    budget: int
    predicted_read: int
    predicted_written: int
    predicted_hit: int | None
    provider_request_id: str | None = None
    dropped_thinking: int = 0
    answer_id: str | None = None
    diagnosis: Diagnosis | None = None
    usage: Usage | None = None
    cost: float | None = None
    error: Mapping[str, str | None] | None = None
    absent: tuple[tuple[str, str], ...] = ()
    thinking_effort: str = OFF
    run_id: str | None = None
    said: SideResponse | None = None
    made_from: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    expired: Expired | None = None
    price: Price | None = None
    """The price of the model at an upstream of the file; None at a provider, whose price is in the model table."""


@dataclass(frozen=True, slots=True)
class LastBill:
    """The newest bill of a path: the provider's token count for a known number of local tokens.

    `followed`: the path continues from the run that was billed, not from another answer of the same turn. `answer_id`
    is the provider's id of the answer.
    """

    request_id: str
    turn_id: str
    at: datetime
    local_tokens: int
    usage: Usage
    followed: bool = True
    answer_id: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderLimit:
    """The largest prompt in `tokens` that a model accepts for an account, learned from its refusals. Valid until
    `until`.
    """

    account: str
    model: str
    tokens: int
    until: datetime


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request to store before it is sent.

    `record.segments` is complete. `base` is an earlier request of the conversation whose first `shared` segments are
    equal (except for zones), so only the difference is stored. `blocks` are those that may be new. `pinned` is set for
    side requests: agent, project and tools at that time.
    """

    record: RequestRecord
    base: str | None
    shared: int
    blocks: Sequence[StoredBlock]
    decisions: Sequence[Decision] = ()
    pinned: Pinned | None = None


@dataclass(frozen=True, slots=True)
class RequestEnd:
    """The end of a request. `dropped_thinking` counts blocks of earlier thinking that the provider dropped."""

    request_id: str
    usage: Usage
    cost: float
    provider_request_id: str | None = None
    error: Mapping[str, str | None] | None = None
    dropped_thinking: int = 0
    answer_id: str | None = None
    diagnosis: Diagnosis | None = None
    said: SideResponse | None = None


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision, when it was made, and the conversation's position: after turn `turn_id`, None for before the first.
    `run_id` is set if it concerns one run.
    """

    id: str
    at: datetime
    decision: Decision
    turn_id: str | None = None
    run_id: str | None = None
