"""Traces: a conversation with everything needed to run it again without a model (DESIGN 7), as JSON."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from lamella.core.errors import InvalidRequest
from lamella.core.json import Json

_LATER = {
    "trace": {"users", "knowledge_bases", "fault_seed", "side"},
    "turn": {"id", "parent", "edit_of", "regenerate", "as", "models", "runs", "layout", "effort", "prefer", "stop"}
    | {"disconnect_after", "do"},
    "call": {"rich", "expanded_queries"},
}
"""Names of the format that this version does not replay; it says so instead of leaving them out."""


UNUSED_SETTINGS = frozenset(
    {
        "cache_enabled",
        "cache_ttl",
        "compaction_model",
        "compaction_notify",
        "compaction_provider",
        "compaction_threshold",
        "debounce_ms",
        "keep_recent_tokens",
        "resume_token_budget",
        "tool_keep_threshold",
        "tool_prune_threshold",
        "tool_summarization_policy",
    }
)
"""Settings of the format that change nothing here yet: a replay names them."""


_COMMAND = re.compile(r"/(status|new|clear|compact|prune|resume|abort|context|why|queue|help)\b")

Count = Annotated[int, msgspec.Meta(ge=0)]


class TraceFile(msgspec.Struct, forbid_unknown_fields=True):
    """A file of a turn, with its text."""

    name: str
    text: str
    media_type: str = "text/plain"


class TraceTool(msgspec.Struct, forbid_unknown_fields=True):
    """A tool that the model of the trace may call."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = msgspec.field(default_factory=dict)
    when_old: Literal["prune", "summarize", "digest"] = "prune"
    kind: Literal["search", "other"] = "other"

    @property
    def schema(self) -> dict[str, Any]:
        """The schema with the type that every provider asks for."""
        return {"type": "object"} | self.input_schema


class TraceCall(msgspec.Struct, forbid_unknown_fields=True):
    """A call with what the tool gave back, after `ms` milliseconds."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str = ""
    error: str | None = None
    ms: Count = 0


class TraceReasoning(msgspec.Struct, forbid_unknown_fields=True):
    """Thinking with its size."""

    text: str
    tokens: Count | None = None


class TraceFault(msgspec.Struct, forbid_unknown_fields=True):
    """A failure of the provider; see the simulator for kinds."""

    kind: str
    when: str | int = "before"
    times: int = 1


class TraceStep(msgspec.Struct, forbid_unknown_fields=True):
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
        return reply


class TraceTurn(msgspec.Struct, forbid_unknown_fields=True):
    """A user message and the steps of its answer. `timezone` overrides the trace's."""

    at: datetime
    user: str
    files: list[TraceFile] = []
    dynamic_context: list[str] = []
    steps: list[TraceStep] = []
    timezone: str | None = None


class TraceAgent(msgspec.Struct, forbid_unknown_fields=True):
    """A custom agent."""

    prompt: str
    name: str = "agent"
    replaces_system: bool = False
    reminder: str = ""


class TraceProject(msgspec.Struct, forbid_unknown_fields=True):
    """A project with its files."""

    files: list[TraceFile] = []
    instructions: str = ""
    name: str = "project"


class TraceAccount(msgspec.Struct, forbid_unknown_fields=True):
    """The account at the provider: which one, and whether it enforces the prefix check of thinking."""

    prefix_check: bool = True
    provider: Literal["anthropic", "openai"] | None = None


class TraceSettings(msgspec.Struct, forbid_unknown_fields=True):
    """Settings of the engine, by their lower-case names."""

    context_budget: Annotated[int, msgspec.Meta(ge=1000)] | None = None
    max_output: Annotated[int, msgspec.Meta(ge=16)] | None = None
    step_limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    thinking_effort: Literal["low", "medium", "high"] | None = None
    reminder: str | None = None
    unused: tuple[str, ...] = ()


class Trace(msgspec.Struct, forbid_unknown_fields=True):
    """A whole trace."""

    lamella_trace: int
    turns: list[TraceTurn]
    model: str = "claude-sonnet-5-5"
    layout: str = "lamella"
    marker_policy: str | None = None
    timezone: str = "UTC"
    settings: TraceSettings = msgspec.field(default_factory=TraceSettings)
    system: str = ""
    tools: list[TraceTool] = []
    agent: TraceAgent | None = None
    project: TraceProject | None = None
    account: TraceAccount = msgspec.field(default_factory=TraceAccount)


def read_trace(path: Path) -> Trace:
    """The trace in a file; raises `InvalidRequest` that says what is wrong and where."""
    try:
        return parse_trace(path.read_bytes())
    except OSError as error:
        raise InvalidRequest(f"{path} can't be read: {error.strerror}.", param=str(path)) from None
    except InvalidRequest as error:
        raise InvalidRequest(f"{path}: {error.message}", hint=error.hint, param=str(path)) from None


def parse_trace(data: bytes) -> Trace:
    """The trace in JSON bytes; raises `InvalidRequest`."""
    try:
        raw = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"This is not JSON: {error}.") from None
    if not isinstance(raw, dict) or raw.get("lamella_trace") != 1:
        raise InvalidRequest("This is not a trace: it does not begin with lamella_trace: 1.")
    missing = sorted(_later_names(raw))
    if missing:
        raise InvalidRequest(f"This version does not replay: {', '.join(missing)}.", hint="Take them out of the trace.")
    settings = raw.get("settings")
    if isinstance(settings, dict):
        unused = sorted(set(settings) & UNUSED_SETTINGS)
        raw["settings"] = {n: v for n, v in settings.items() if n not in unused} | {"unused": unused}
    try:
        trace = msgspec.convert(raw, Trace)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The trace is malformed: {error}.") from None
    _check(trace)
    return trace


def _later_names(raw: dict[str, Any]) -> set[str]:
    """The reserved names that a trace uses."""
    names = set(raw) & _LATER["trace"]
    for turn in _list(raw, "turns"):
        names |= set(turn) & _LATER["turn"]
        for call in (call for step in _list(turn, "steps") for call in _list(step, "tool_calls")):
            names |= set(call) & _LATER["call"]
    return names


def _list(raw: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = raw.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _check(trace: Trace) -> None:
    tools = {tool.name for tool in trace.tools}
    for number, turn in enumerate(trace.turns, 1):
        if turn.at.tzinfo is None:
            raise InvalidRequest(f"Turn {number}: `at` needs an offset, such as 2026-03-01T09:00:00+01:00.")
        if number > 1 and turn.at < trace.turns[number - 2].at:
            raise InvalidRequest(f"Turn {number} is earlier than the one before it.")
        if _COMMAND.match(turn.user):
            raise InvalidRequest(f"Turn {number} is a command; this version does not replay commands.")
        if not turn.steps:
            raise InvalidRequest(f"Turn {number} has no steps.")
        for call in (call for step in turn.steps for call in step.tool_calls):
            if call.name not in tools:
                raise InvalidRequest(f"Turn {number} calls {call.name}, which is not among the trace's tools.")
