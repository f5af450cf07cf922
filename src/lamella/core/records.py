"""Rows as the store gives and takes them: what is kept about conversations, files, turns and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Literal, TypeVar

from lamella.core.decisions import Decision
from lamella.core.json import JsonObject
from lamella.core.messages import Attachment, Step, Turn, TurnStatus
from lamella.core.prompt import Level, ToolSpec
from lamella.core.tokens import Usage


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Every row has an owner and every store verb takes the caller; a foreign id is "not found"."""

    user_id: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation. System prompt and tools are pinned when it begins, so that its window never changes silently.

    `head` is the last turn of its current path.
    """

    id: str
    title: str
    model: str
    layout: str
    marker_policy: str
    system_prompt: str
    tools: tuple[ToolSpec, ...]
    created_at: datetime
    updated_at: datetime
    head: str | None = None
    running_turn: str | None = None


FileStatus = Literal["ready", "failed"]


@dataclass(frozen=True, slots=True)
class File:
    """An uploaded file. `tokens` is the local count of its text; `code` and `reason` say why an extraction failed."""

    id: str
    name: str
    media_type: str
    size: int
    status: FileStatus
    tokens: int
    created_at: datetime
    pages: int | None = None
    code: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn to begin: the user's message as it arrived. `sent_at` carries the offset of `timezone`.

    `dynamic` is the dynamic context that goes with it, its blocks joined.
    """

    id: str
    conversation_id: str
    user_message_id: str
    run_id: str
    model: str
    text: str
    sent_at: datetime
    timezone: str
    tokens: int
    file_ids: tuple[str, ...] = ()
    dynamic: str = ""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn as clients see it."""

    id: str
    conversation_id: str
    parent_id: str | None
    run_id: str
    model: str
    status: TurnStatus
    user_message_id: str
    text: str
    sent_at: datetime
    timezone: str
    attachments: tuple[Attachment, ...]
    steps: tuple[Step, ...]
    started_at: datetime
    finished_at: datetime | None
    error: Mapping[str, str | None] | None
    usage: Usage
    cost: float


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
class RequestRecord:
    """A request to a model: what was sent, what was predicted, what was billed.

    `zones` is the run-length list of zones over `segments`, as `(zone, count)`. `protocol` is the wire that it was
    sent on. `local_tokens` is the local count, `estimate` that count calibrated. `usage` and `cost` come with the end
    of the turn; `error` is the error object when it failed. `predicted_hit` is the index of the last block to be read.
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
    usage: Usage | None = None
    cost: float | None = None
    error: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class LastBill:
    """The newest bill of a line: what the provider counted for so many local tokens."""

    request_id: str
    local_tokens: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request to store before it is sent.

    `record.segments` is whole; `base` is an earlier request of the conversation whose first `shared` segments are the
    same (zones apart), so that only the difference needs storing. `blocks` are those that may be new.
    """

    record: RequestRecord
    base: str | None
    shared: int
    blocks: Sequence[StoredBlock]
    decisions: Sequence[Decision] = ()


@dataclass(frozen=True, slots=True)
class RequestEnd:
    """What became of a request."""

    request_id: str
    usage: Usage
    cost: float
    provider_request_id: str | None = None
    error: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The whole end of a turn, stored in one transaction on success, stop, failure or recovery."""

    turn_id: str
    status: TurnStatus
    steps: Sequence[Step]
    requests: Sequence[RequestEnd]
    finished_at: datetime
    error: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Consecutive packets of one turn, as JSON lines; the crash copy and the source for resuming."""

    owner: str
    turn_id: str
    first: int
    last: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision with its moment."""

    id: str
    at: datetime
    decision: Decision


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a turn begins from: its conversation, the path so far, the decisions and the newest bill, of one moment."""

    conversation: Conversation
    path: tuple[Turn, ...]
    decisions: tuple[StoredDecision, ...]
    last_bill: LastBill | None


@dataclass(frozen=True, slots=True)
class UnfinishedTurn:
    """A turn that was running when a process ended."""

    caller: Caller
    turn_id: str
    conversation_id: str


ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """One page of a list. `has_more` says whether another follows in the same order."""

    data: tuple[ItemT, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which page: at most `limit` items behind the id `after`, by id, newest first unless `order` is `asc`."""

    limit: int = 20
    after: str | None = None
    order: Literal["asc", "desc"] = "desc"


@dataclass(frozen=True, slots=True)
class ConversationChange:
    """What to change of a conversation; None leaves it. A decision is stored with a change of the window."""

    title: str | None = None
    model: str | None = None
    decisions: Sequence[Decision] = field(default_factory=tuple)
