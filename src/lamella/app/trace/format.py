"""The format: what a trace consists of, as it stands in the file (DESIGN 7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from lamella.app.trace.settings import GivenSettings
from lamella.core.json import Json

Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Edge = Annotated[int, msgspec.Meta(ge=1, le=8000)]
"""The edge of a picture, in pixels."""

FileSize = Annotated[int, msgspec.Meta(ge=1, le=20_000_000)]


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    """A part of a trace; a name that is not in the format is an error."""


class TraceFile(_Part):
    """A file: its `text`; or a picture as `data` in base64; or one to be made of `size` bytes or `width` × `height`."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    text: str | None = None
    media_type: str | None = None
    data: str | None = None
    size: FileSize | None = None
    width: Edge | None = None
    height: Edge | None = None


class TraceTool(_Part):
    """A tool that the model of the trace may call."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    description: str = ""
    input_schema: dict[str, Any] = msgspec.field(default_factory=dict)
    when_old: Literal["prune", "summarize", "digest"] = "prune"
    kind: Literal["search", "other"] = "other"

    @property
    def schema(self) -> dict[str, Any]:
        """The schema with the type that every provider asks for."""
        return {"type": "object"} | self.input_schema


class TraceCall(_Part):
    """A call with what the tool gave back, after `ms` milliseconds. `expanded_queries` are all that a search ran."""

    id: Annotated[str, msgspec.Meta(min_length=1)]
    name: str
    arguments: dict[str, Any]
    result: str = ""
    error: str | None = None
    ms: Count = 0
    expanded_queries: list[str] = []


class TraceReasoning(_Part):
    """Thinking with its size."""

    text: str
    tokens: Count | None = None


class TraceFault(_Part):
    """A failure of the provider on the first `times` tries, before the answer or after `when` streamed characters."""

    kind: (
        Literal["429", "500", "504", "529", "stream_error", "drop_before", "drop_after", "truncated_tool_json", "slow"]
        | Literal["refusal", "content_filter", "max_tokens", "empty"]
        | Literal[429, 500, 504, 529]
    )
    when: Literal["before"] | Count = "before"
    times: Positive = 1


class TraceStep(_Part):
    """One inference: what the model said. It takes `ms` milliseconds, the first token `ttft_ms`."""

    text: str = ""
    reasoning: str | TraceReasoning = ""
    tool_calls: list[TraceCall] = []
    output_tokens: Count | None = None
    stop_reason: str | None = None
    ttft_ms: Count | None = None
    ms: Count = 0
    fault: TraceFault | None = None

    def reply(self) -> dict[str, Json]:
        """The script for the simulator."""
        reply: dict[str, Json] = {"text": self.text}
        if self.reasoning:
            reply["reasoning"] = msgspec.to_builtins(self.reasoning)
        if self.tool_calls:
            reply["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in self.tool_calls]
        for name in ("output_tokens", "stop_reason", "ttft_ms", "ms"):
            value = getattr(self, name)
            if value:
                reply[name] = value
        if self.fault is not None:
            reply["fault"] = msgspec.to_builtins(self.fault)
        else:
            reply["chunk"] = WHOLE_PIECES
        return reply


WHOLE_PIECES = 1_000
"""Characters of one streamed piece: how an answer is cut up changes no request, and fewer pieces are quicker."""


class TraceAgent(_Part):
    """A custom agent."""

    prompt: str = ""
    name: str = "agent"
    replaces_system: bool = False
    reminder: str = ""


class TraceProject(_Part):
    """A project with its files."""

    files: list[TraceFile] = []
    instructions: str = ""
    name: str = "project"


class TraceAccount(_Part):
    """The account at the provider: which one, and whether it enforces the prefix check of thinking."""

    prefix_check: bool = True
    provider: Literal["anthropic", "openai"] | None = None


class TraceSideFault(_Part):
    """A request beside the conversation that fails."""

    fault: TraceFault


class TraceSummary(_Part):
    """One answer of the summariser: a `text`, "keep_facts", or a `fault`; `late` turns go on before it comes."""

    text: str = ""
    late: Count = 0
    fault: TraceFault | None = None

    def reply(self) -> dict[str, Json]:
        """The script for the simulator."""
        if self.fault is not None:
            return {"text": "", "fault": msgspec.to_builtins(self.fault)}
        said: dict[str, Json] = {"rule": "keep_facts"} if self.text == "keep_facts" else {"text": self.text}
        return said | {"chunk": WHOLE_PIECES}


class TraceSide(_Part):
    """What is answered beside the conversation: `digest` of old results, a text, "keep_facts", or a fault; `summary` of
    what is old, once for all or for one request after another, the last one again and again."""

    digest: str | TraceSideFault = ""
    summary: str | TraceSummary | list[str | TraceSummary] = "keep_facts"

    def summary_at(self, index: int) -> TraceSummary:
        """What the summariser answers to its request number `index`, from 0."""
        given = self.summary if isinstance(self.summary, list) else [self.summary]
        said = given[min(index, len(given) - 1)] if given else ""
        return TraceSummary(said) if isinstance(said, str) else said

    def digest_reply(self) -> dict[str, Json]:
        """The script for the simulator."""
        if isinstance(self.digest, TraceSideFault):
            return {"text": "", "fault": msgspec.to_builtins(self.digest.fault)}
        return {"rule": "keep_facts"} if self.digest == "keep_facts" else {"text": self.digest}


class TraceHead(_Part):
    """What a trace says once, for the whole conversation."""

    lamella_trace: Literal[1]
    model: str = "claude-sonnet-5-5"
    layout: str = "lamella"
    marker_policy: str | None = None
    timezone: str = "UTC"
    settings: GivenSettings = {}
    system: str = ""
    tools: list[TraceTool] = []
    agent: TraceAgent | None = None
    project: TraceProject | None = None
    account: TraceAccount = msgspec.field(default_factory=TraceAccount)
    side: TraceSide = msgspec.field(default_factory=TraceSide)


class TraceTurn(_Part):
    """A user message and the steps of its answer. `timezone` overrides the trace's, `layout` the conversation's."""

    at: datetime
    user: Annotated[str, msgspec.Meta(min_length=1)]
    steps: Annotated[list[TraceStep], msgspec.Meta(min_length=1)]
    files: list[TraceFile] = []
    dynamic_context: list[str] = []
    timezone: str | None = None
    layout: str | None = None


class TraceCommand(_Part):
    """A user message that is a command, such as `/compact ships`: no model answers it."""

    at: datetime
    user: Annotated[str, msgspec.Meta(min_length=2)]


class SetChange(_Part, tag_field="do", tag="set"):
    """From now on: other settings, another model, layout or marker policy. What is not named stays."""

    at: datetime
    settings: GivenSettings = {}
    model: str | None = None
    layout: str | None = None
    marker_policy: str | None = None


class AgentChange(_Part, tag_field="do", tag="agent"):
    """From now on: this agent, or none."""

    at: datetime
    agent: TraceAgent | None


class ProjectChange(_Part, tag_field="do", tag="project"):
    """From now on: this project with these files, or none. A file that is the same keeps its number."""

    at: datetime
    project: TraceProject | None


class ToolsChange(_Part, tag_field="do", tag="tools"):
    """From now on: these tools."""

    at: datetime
    tools: list[TraceTool]


class RestartChange(_Part, tag_field="do", tag="restart"):
    """The server ends and starts again."""

    at: datetime


TraceChange: TypeAlias = SetChange | AgentChange | ProjectChange | ToolsChange | RestartChange
TraceEntry: TypeAlias = TraceTurn | TraceCommand | TraceChange


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace: what holds for the conversation, and its turns with what changes between them.

    `unused` are the settings that it names and that change nothing in this version.
    """

    head: TraceHead
    entries: tuple[TraceEntry, ...]
    unused: tuple[str, ...] = ()

    @property
    def turns(self) -> tuple[TraceTurn, ...]:
        """The turns alone; the first is turn 1."""
        return tuple(entry for entry in self.entries if isinstance(entry, TraceTurn))
