"""Requests to models: what was sent, marked and billed; and the decisions about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lamella.core.caching import Diagnosis
from lamella.core.decisions import Decision
from lamella.core.json import JsonObject
from lamella.core.models import OFF
from lamella.core.prompt import Level
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
class Said:
    """What came back of a request beside a turn, whose answer is no message: its text, and how it ended.

    `called`: it called a tool, which is no answer to such a request.
    """

    text: str
    stop_reason: str | None = None
    called: bool = False


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request to a model: what was sent, what was predicted, what was billed.

    `zones` is the run-length list of zones over `segments`, as `(zone, count)`. `protocol` is the wire that it was
    sent on. `local_tokens` is the local count, `estimate` that count calibrated. `usage` and `cost` come with the end
    of the turn; `error` is the error object when it failed. `predicted_hit` is the index of the last block to be read.
    `absent` are the kinds of segment that are not in the window, each with the reason. `thinking_effort` is the one
    that held; `head` says what the model was asked of it. `run_id` is the run that made it, None beside a turn.
    `answer_id` is the provider's own name of the answer; `diagnosis` what it says of the cache that was missed, None
    where it was not asked or did not say. `said` is the answer to a request beside a turn.
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
    said: Said | None = None


@dataclass(frozen=True, slots=True)
class LastBill:
    """The newest bill of a path: what the provider counted for so many local tokens, for a request of this moment.

    `followed`: the path goes on from the run that made it, and not from another answer of the same turn. `answer_id`
    is the provider's own name of the answer.
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
    """The most `tokens` of a prompt that a model takes for an account,
    as its refusals taught. Believed `until` then."""

    account: str
    model: str
    tokens: int
    until: datetime


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request to store before it is sent.

    `record.segments` is whole; `base` is an earlier request of the conversation whose first `shared` segments are the
    same (zones apart), so that only the difference needs storing. `blocks` are those that may be new. `pinned` is what
    stands around it, of one beside the turns.
    """

    record: RequestRecord
    base: str | None
    shared: int
    blocks: Sequence[StoredBlock]
    decisions: Sequence[Decision] = ()
    pinned: Pinned | None = None


@dataclass(frozen=True, slots=True)
class RequestEnd:
    """What became of a request. `dropped_thinking`: blocks of earlier thinking that the provider left out."""

    request_id: str
    usage: Usage
    cost: float
    provider_request_id: str | None = None
    error: Mapping[str, str | None] | None = None
    dropped_thinking: int = 0
    answer_id: str | None = None
    diagnosis: Diagnosis | None = None
    said: Said | None = None


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision with its moment, and where the conversation stood then: at the turn `turn_id`, None for before the
    first; in its run `run_id` where it is about what that run sends.
    """

    id: str
    at: datetime
    decision: Decision
    turn_id: str | None = None
    run_id: str | None = None
