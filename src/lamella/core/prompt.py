"""The model-facing form: a `Prompt` of segments, and the wire blocks an adapter makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from lamella.core.caching import Ttl as Ttl
from lamella.core.json import JsonObject, digest, encode
from lamella.core.messages import Part
from lamella.core.models import OFF


class Kind(StrEnum):
    """What a segment is."""

    TOOLS = "tools"
    SYSTEM = "system"
    SECTIONS = "sections"
    AGENT = "agent"
    PROJECT = "project"
    SUMMARY = "summary"
    FILES = "files"
    DYNAMIC = "dynamic"
    USER = "user"
    STEP = "step"
    REMINDER = "reminder"


class Zone(StrEnum):
    """Where a segment stands in the window, from the steadiest to the most fleeting."""

    FIXED = "fixed"
    HISTORY = "history"
    TRAVELLING = "travelling"
    TURN = "turn"
    TRAILING = "trailing"


class Lifetime(StrEnum):
    """How long a segment keeps its place and its bytes."""

    SESSION = "session"
    TURN = "turn"
    STEP = "step"


class SeedMarker(StrEnum):
    """A place of a cache marker that a seed's layout names."""

    SYSTEM = "system"
    SUMMARY = "summary"
    PRUNE = "prune"
    TAIL = "tail"


Role = Literal["system", "user", "assistant", "tool"]


WhenOld = Literal["prune", "summarize", "digest"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it. `input_schema` is the JSON text of its schema, in a fixed key order.

    `when_old` is what becomes of its results once they are old; models are not told.
    """

    name: str
    description: str
    input_schema: str
    when_old: WhenOld = "prune"


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of the window."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """One thing in the window.

    `id` is stable over requests. `source` is the row it came from, `owner` who put it there (`deployment`, `user`,
    `model:NAME`, `tool:NAME`), `letters` how layouts write it (`U1`, `TC TR`). Tools and system text are `tools` and
    messages of role `system`. `digest` is the fingerprint of what it holds, thinking left out. `made_from` are the
    knowledge bases of which it holds something.
    """

    id: str
    kind: Kind
    zone: Zone
    lifetime: Lifetime
    source: str
    owner: str
    label: str
    letters: str
    tokens: int
    digest: str
    messages: tuple[PromptMessage, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    made_from: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Sampling:
    """What goes with a prompt outside its blocks. All of it is part of the cache key (a *salt*).

    `thinking_effort` is in its one spelling (`core.models`). `drop_unbound_thinking` asks the provider to drop thinking
    whose prefix changed instead of refusing the request.
    `images`: there is a picture in the window. `compared_with` is the provider's name of an earlier answer: it is asked
    to compare the prompts, which the cache does not see.
    """

    max_output: int
    thinking_effort: str = OFF
    drop_unbound_thinking: bool = False
    tool_choice: Literal["auto", "none"] = "auto"
    images: bool = False
    compared_with: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """The whole window of one request, in order."""

    model: str
    segments: tuple[Segment, ...]
    sampling: Sampling

    @property
    def made_from(self) -> Mapping[str, frozenset[str]]:
        """The knowledge bases that segments hold something of, by the segment's id."""
        return {segment.id: segment.made_from for segment in self.segments if segment.made_from}


Level = Literal["tools", "system", "messages"]


@dataclass(frozen=True, slots=True)
class WireBlock:
    """The unit of caching: role and block as serialised, cache markers left out.

    `value` is the provider's JSON object, `digest` the fingerprint of level, role and bytes. `markable` says whether
    the provider takes a cache marker on it.
    """

    level: Level
    role: str
    value: JsonObject
    data: bytes
    digest: str
    segment: str
    markable: bool

    @classmethod
    def of(cls, level: Level, role: str, value: JsonObject, segment: str, *, markable: bool) -> WireBlock:
        """A block with its bytes and fingerprint."""
        data = encode(value)
        return cls(level, role, value, data, digest(level.encode(), role.encode(), data), segment, markable)


@dataclass(frozen=True, slots=True)
class Wired:
    """A prompt's segments with the wire blocks of each; `blocks` are all of them in cache order."""

    segments: tuple[Segment, ...]
    groups: tuple[tuple[WireBlock, ...], ...]
    blocks: tuple[WireBlock, ...]


@dataclass(frozen=True, slots=True)
class Marker:
    """A cache breakpoint on the block at `index` of the request's blocks."""

    index: int
    ttl: Ttl
    why: str


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request as an adapter sends it: `head` holds what is not a block; `made_from` is that of its prompt."""

    head: JsonObject
    blocks: tuple[WireBlock, ...]
    markers: tuple[Marker, ...] = ()
    made_from: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SegmentNote:
    """Something that the reader of a request's map should know about a segment."""

    segment: str
    text: str


@dataclass(frozen=True, slots=True)
class Absence:
    """A kind of segment that the layout has a place for and the window has not, and why."""

    kind: Kind
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """What an assembly did: the local count, the estimate it admitted by, its notes, and what is not there.

    `durable` is the fingerprint of everything in the window that stays: what the coming answer is made after.
    """

    local: int
    estimate: int
    budget: int
    durable: str
    notes: tuple[SegmentNote, ...] = ()
    absent: tuple[Absence, ...] = ()
