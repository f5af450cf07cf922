"""The model-facing form: a `Prompt` of segments, and the wire blocks an adapter makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from lamella.core.caching import Ttl as Ttl
from lamella.core.json import JsonObject, digest, encode
from lamella.core.messages import Part
from lamella.core.messages import ToolSpec as ToolSpec
from lamella.core.messages import WhenOld as WhenOld
from lamella.core.models import OFF


class Kind(StrEnum):
    """The kinds of segment."""

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
    """The zones of the window, from the longest-lived to the shortest-lived."""

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


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of the window."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """One element of the window.

    `id` is stable across requests. `source` is the row that it came from, `owner` who put it there (`deployment`,
    `user`, `model:NAME`, `tool:NAME`), `letters` its name in layouts (`U1`, `TC TR`). Tools and system text are `tools`
    and messages of role `system`. `digest` is the fingerprint of its content without thinking. `made_from` are the
    knowledge bases whose text it contains.
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
    """The parameters of a prompt outside its blocks. All are part of the cache key (a *salt*).

    `thinking_effort` is in its canonical form (`core.models`). `drop_unbound_thinking` asks the provider to drop
    thinking whose prefix changed instead of refusing the request. `images`: the window has a picture. `compared_with`
    is the provider's id of an earlier answer, for a cache diagnosis; it does not affect the cache. `tool_choice` is
    `auto`, `none`, `required`, or `function NAME`. `schema` is the JSON text of `{name, schema, strict}` that the
    answer follows, "" for none. `temperature` and `top_p` None are the provider's defaults. `stop` are texts before
    which an answer ends; they do not affect the cache.
    """

    max_output: int
    thinking_effort: str = OFF
    drop_unbound_thinking: bool = False
    tool_choice: str = "auto"
    images: bool = False
    compared_with: str | None = None
    parallel_calls: bool = True
    temperature: float | None = None
    top_p: float | None = None
    schema: str = ""
    stop: tuple[str, ...] = ()

    @property
    def forced(self) -> bool:
        """Whether the model must call a tool."""
        return self.tool_choice not in ("auto", "none")

    @property
    def forced_tool(self) -> str | None:
        """The one tool that the model must call."""
        kind, _, name = self.tool_choice.partition(" ")
        return name if kind == "function" else None


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
    """The unit of caching: role and block as serialised, without cache markers.

    `value` is the provider's JSON object, `digest` the fingerprint of level, role and bytes. `markable`: the provider
    accepts a cache marker on it.
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
    """A request as an adapter sends it: `head` holds everything outside of the blocks; `made_from` is that of its
    prompt.
    """

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
class AbsentSegment:
    """A kind of segment that the layout has a place for and the window has not, and why."""

    kind: Kind
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of an assembly: the local count, the estimate that was compared with the budget, notes, and absent
    kinds.

    `durable` is the fingerprint of everything that stays in the window; the coming answer stores it as `made_after`.
    """

    local: int
    estimate: int
    budget: int
    durable: str
    notes: tuple[SegmentNote, ...] = ()
    absent: tuple[AbsentSegment, ...] = ()
