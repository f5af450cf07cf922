"""The format: what a trace consists of, as it stands in the file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from lamella.core.json import Json
from lamella_lab.trace.parts import (
    Count,
    Name,
    Positive,
    TraceAnswer,
    TraceFault,
    TraceFile,
    TraceFound,
    TraceResult,
    TraceRun,
    TraceStep,
    TraceStop,
    TraceStruct,
    TraceTool,
)
from lamella_lab.trace.settings import GivenSettings


class TraceAgent(TraceStruct):
    """A custom agent. `tools` are the names of those that it may use, null for all."""

    prompt: str = ""
    name: str = "agent"
    replaces_system: bool = False
    reminder: str = ""
    tools: list[str] | None = None
    fallback_model: str | None = None


class TraceProject(TraceStruct):
    """A project with its files."""

    files: list[TraceFile] = msgspec.field(default_factory=list)
    instructions: str = ""
    name: str = "project"


Grant = Literal["full", "restricted", "none"]


class TraceBase(TraceStruct):
    """A knowledge base, by the id that results and dynamic context name, and how much of it may be read at first."""

    id: Name
    grant: Grant = "full"


class TraceAccount(TraceStruct):
    """The account at the provider: which one, and whether it enforces the prefix check of thinking."""

    prefix_check: bool = True
    provider: Literal["anthropic", "openai"] | None = None


class TraceSideFault(TraceStruct):
    """A side request that fails."""

    fault: TraceFault


class TraceSide(TraceStruct):
    """Answers to side requests: `digest` of old results, a text, "keep_facts", or a fault; `summary` of
    what is old and `title`, once for all or for one request after another, the last one again and again."""

    digest: str | TraceSideFault = ""
    summary: str | TraceAnswer | list[str | TraceAnswer] = "keep_facts"
    title: str | TraceAnswer | list[str | TraceAnswer] = ""

    def summary_at(self, index: int) -> TraceAnswer:
        """What the summariser answers to its request number `index`, from 0."""
        return _answer_at(self.summary, index)

    def title_at(self, index: int) -> TraceAnswer:
        """What is answered to the request number `index`, from 0, for a title."""
        return _answer_at(self.title, index)

    def digest_reply(self) -> dict[str, Json]:
        """The script for the simulator."""
        if isinstance(self.digest, TraceSideFault):
            return {"text": "", "fault": msgspec.to_builtins(self.digest.fault)}
        return {"rule": "keep_facts"} if self.digest == "keep_facts" else {"text": self.digest}


def _answer_at(given: str | TraceAnswer | list[str | TraceAnswer], index: int) -> TraceAnswer:
    answers = given if isinstance(given, list) else [given]
    said = answers[min(index, len(answers) - 1)] if answers else ""
    return TraceAnswer(said) if isinstance(said, str) else said


class TraceExported(TraceStruct, omit_defaults=False):
    """Where a trace comes from that was carried away from a server: when, by which version, with what people and models
    wrote or without (`content`), and what of the conversation is not in it.
    """

    at: datetime
    version: str
    content: bool = True
    not_carried: list[str] = msgspec.field(default_factory=list)


class TraceHead(TraceStruct):
    """What a trace says once for its conversation. `models` are rows of the model table (docs/reference/models.md)."""

    lamella_trace: Literal[1]
    model: str = "claude-sonnet-5-5"
    layout: str = "lamella"
    marker_policy: str | None = None
    timezone: str = "UTC"
    settings: GivenSettings = msgspec.field(default_factory=dict)
    system: str = ""
    tools: list[TraceTool] = msgspec.field(default_factory=list)
    agent: TraceAgent | None = None
    project: TraceProject | None = None
    knowledge_bases: list[TraceBase] = msgspec.field(default_factory=list)
    account: TraceAccount = msgspec.field(default_factory=TraceAccount)
    side: TraceSide = msgspec.field(default_factory=TraceSide)
    models: list[dict[str, Any]] = msgspec.field(default_factory=list)
    exported: TraceExported | None = None


class TraceTurn(TraceStruct):
    """A user message and its answer: `steps`, or where several `models` answer the `runs` of each, by number from "0".

    `timezone` overrides the trace's; `layout`, `marker_policy` and `effort` the conversation's. It follows `parent`
    (`ID`, `ID/RUN`, or null for the beginning), or the same answer as the turn that it is an `edit_of`, or asks a turn
    again (`regenerate`); else it follows the current place of the conversation. `sent` is when it was sent, if it
    waited. `stop` says where it was stopped, `prefer` which run the conversation continues from. `knowledge` is the
    text about knowledge bases that its dynamic context needs, `made_from` are the bases of which that says what only
    full readers may know, `found` is what its tools brought into the conversation. `own_tools` are the caller's, and
    `results` those of calls that were handed to it: without `user`, the turn before goes on with them. `told`: a client
    sent the turn with its answer, or it was copied, so that no model was asked.
    """

    at: datetime
    user: str = ""
    steps: list[TraceStep] = msgspec.field(default_factory=list)
    runs: dict[str, TraceRun] = msgspec.field(default_factory=dict)
    models: list[str] = msgspec.field(default_factory=list)
    id: Name | None = None
    parent: str | msgspec.UnsetType | None = msgspec.UNSET
    edit_of: Name | None = None
    regenerate: Name | None = None
    sent: datetime | None = None
    files: list[TraceFile] = msgspec.field(default_factory=list)
    dynamic_context: list[str] = msgspec.field(default_factory=list)
    knowledge: Literal["normal", "restricted"] | None = None
    made_from: list[Name] = msgspec.field(default_factory=list)
    timezone: str | None = None
    layout: str | None = None
    marker_policy: str | None = None
    effort: str | None = None
    stop: TraceStop | list[TraceStop] | None = None
    prefer: Count | None = None
    found: list[TraceFound] = msgspec.field(default_factory=list)
    own_tools: list[TraceTool] | None = None
    results: list[TraceResult] = msgspec.field(default_factory=list)
    told: bool = False

    @property
    def answers(self) -> tuple[TraceRun, ...]:
        """What each model said, in the order of `models`."""
        if self.runs:
            return tuple(self.runs[number] for number in sorted(self.runs, key=int))
        return (TraceRun(self.steps),)

    @property
    def all_steps(self) -> tuple[TraceStep, ...]:
        """The steps of all its runs."""
        return tuple(step for run in self.answers for step in run.steps)

    @property
    def stops(self) -> tuple[TraceStop, ...]:
        """Where its runs were stopped."""
        if self.stop is None:
            return ()
        return tuple(self.stop) if isinstance(self.stop, list) else (self.stop,)


class TraceCommand(TraceStruct):
    """A user message that is a command, such as `/compact ships`: no model answers it."""

    at: datetime
    user: Annotated[str, msgspec.Meta(min_length=2)]


class SetChange(TraceStruct, tag_field="do", tag="set"):
    """From now on: other settings, another model, layout, marker policy or effort. What is not named stays."""

    at: datetime
    settings: GivenSettings = msgspec.field(default_factory=dict)
    model: str | None = None
    layout: str | None = None
    marker_policy: str | None = None
    effort: str | None = None


class AgentChange(TraceStruct, tag_field="do", tag="agent"):
    """From now on: this agent, or none."""

    at: datetime
    agent: TraceAgent | None


class ProjectChange(TraceStruct, tag_field="do", tag="project"):
    """From now on: this project with these files, or none. A file that is the same keeps its number."""

    at: datetime
    project: TraceProject | None


class ToolsChange(TraceStruct, tag_field="do", tag="tools"):
    """From now on: these tools."""

    at: datetime
    tools: list[TraceTool]


class SystemChange(TraceStruct, tag_field="do", tag="system"):
    """From now on: this system prompt."""

    at: datetime
    system: str


class BaseChange(TraceStruct, tag_field="do", tag="grant"):
    """From now on: so much of a knowledge base may be read. Below `full` nothing that was made of it is given."""

    at: datetime
    base: Name
    grant: Grant


class RestartChange(TraceStruct, tag_field="do", tag="restart"):
    """The server ends and starts again."""

    at: datetime


class PreferChange(TraceStruct, tag_field="do", tag="prefer"):
    """The conversation continues from this answer of a turn; with `latest` from the newest turn after it."""

    at: datetime
    turn: Name
    run: Count | None = None
    latest: bool = False


class ResumeChange(TraceStruct, tag_field="do", tag="resume"):
    """The conversation continues from an earlier session. Sessions are numbered from 1."""

    at: datetime
    session: Positive


class CompactChange(TraceStruct, tag_field="do", tag="compact"):
    """The engine compacted by itself. `request` is the number of the summary's request, from 0: where a replay has made
    it already, nothing is done."""

    at: datetime
    request: Count


class PruneChange(TraceStruct, tag_field="do", tag="prune"):
    """The engine pruned by itself: old results up to this step are stubs from now on."""

    at: datetime
    turn: Name
    step: Count
    run: Count = 0
    numbers: dict[str, float] = msgspec.field(default_factory=dict)


TraceChange: TypeAlias = (
    SetChange
    | AgentChange
    | ProjectChange
    | ToolsChange
    | SystemChange
    | BaseChange
    | RestartChange
    | PreferChange
    | ResumeChange
    | CompactChange
    | PruneChange
)
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
    def is_played(self) -> bool:
        """Whether it was carried away from a conversation, and is played as that was."""
        return self.head.exported is not None

    @property
    def turns(self) -> tuple[TraceTurn, ...]:
        """The turns alone; the first is turn 1."""
        return tuple(entry for entry in self.entries if isinstance(entry, TraceTurn))
