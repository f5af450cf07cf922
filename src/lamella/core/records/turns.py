"""Turns and their runs: begun, running, ended, left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from lamella.core.agents import DynamicContext
from lamella.core.decisions import Decision
from lamella.core.json import JsonObject
from lamella.core.messages import Attachment, Step, Text, ToolResult, ToolSpec, TurnStatus, UserMessage
from lamella.core.prompt import Sampling
from lamella.core.records.library import Caller, Pinned, Place
from lamella.core.records.requests import Expired, RequestEnd
from lamella.core.sessions import SessionReturn, SessionStep
from lamella.core.tokens import Usage


class Unchanged(Enum):
    """Marks a field that a change leaves as it is, if None is a value of that field."""

    UNCHANGED = "leave"


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True, slots=True)
class AnswerChoices:
    """How the model is to answer one request, see `Sampling`; None is the deployment's.

    `tool_choice` holds for the first step: else a model that must call a tool would never answer; `none` holds for all.
    `max_calls` is the most calls of the server's tools. The answer ends before the first of the texts `stop`.
    """

    max_output: int | None = None
    tool_choice: str = "auto"
    parallel_calls: bool = True
    temperature: float | None = None
    top_p: float | None = None
    schema: str = ""
    max_calls: int | None = None
    stop: tuple[str, ...] = ()

    def of(self, sampling: Sampling) -> Sampling:
        """The sampling as this request wants it."""
        most = sampling.max_output if self.max_output is None else min(sampling.max_output, self.max_output)
        return replace(
            sampling,
            max_output=most,
            tool_choice=self.tool_choice,
            parallel_calls=self.parallel_calls,
            temperature=self.temperature,
            top_p=self.top_p,
            schema=self.schema,
            stop=self.stop,
        )


@dataclass(frozen=True, slots=True)
class Choices:
    """Settings of one turn that override the conversation's. `agent_id` None: no agent in this turn."""

    layout: str | None = None
    marker_policy: str | None = None
    agent_id: str | Unchanged | None = UNCHANGED
    thinking_effort: str | None = None
    knowledge_base_ids: tuple[str, ...] = ()
    """Searched in addition to the bases of the conversation and the agent."""
    answer: AnswerChoices = field(default_factory=AnswerChoices)


@dataclass(frozen=True, slots=True)
class NewRun:
    """One model that is to answer a turn."""

    id: str
    model: str


@dataclass(frozen=True, slots=True)
class BeginCondition:
    """The state that a turn expects when it begins. If the conversation's current position is no longer `head`, nothing
    is stored. `parent` is the turn that it follows. `session` changes the session first, if the conversation is in
    another one. `decisions` are new in this turn; `pinned` are agent, project and tools.
    """

    head: Place
    parent: Place
    session: SessionStep | SessionReturn | None = None
    decisions: Sequence[Decision] = ()
    pinned: Pinned | None = None


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn to begin, with the user's message. `sent_at` carries the offset of `timezone`.

    `runs` are the models that answer, in the order of the request. `dynamic` is the dynamic context. `choices` are not
    stored: requests store the effective settings. `parent` is the turn that it follows, None for the conversation's
    current position. `tools` and `results`: see `UserMessage`.
    """

    id: str
    conversation_id: str
    user_message_id: str
    runs: tuple[NewRun, ...]
    text: str
    sent_at: datetime
    timezone: str
    tokens: int
    file_ids: tuple[str, ...] = ()
    dynamic: DynamicContext = field(default_factory=DynamicContext)
    choices: Choices = Choices()
    parent: Place | None = None
    tools: tuple[ToolSpec, ...] | None = None
    results: tuple[ToolResult, ...] = ()

    @property
    def continues(self) -> bool:
        """Whether it continues the turn before, see `UserMessage.continues`."""
        return bool(self.results) and not self.text

    def message(self, attachments: tuple[Attachment, ...] = ()) -> UserMessage:
        """The user message of the turn."""
        return UserMessage(
            self.user_message_id,
            self.text,
            self.sent_at,
            self.timezone,
            self.tokens,
            attachments,
            self.dynamic.text,
            self.dynamic.whys,
            self.dynamic.made_from,
            tools=self.tools,
            results=self.results,
        )


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One model's answer to a turn, as clients see it."""

    id: str
    index: int
    model: str
    status: TurnStatus
    steps: tuple[Step, ...]
    finished_at: datetime | None
    error: Mapping[str, str | None] | None
    usage: Usage
    cost: float

    @property
    def answer(self) -> str:
        """The answer: the texts of its steps, separated by blank lines."""
        texts = ("".join(part.text for part in step.parts if isinstance(part, Text)) for step in self.steps)
        return "\n\n".join(text for text in texts if text)


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn as clients see it. `parent` is the turn that it follows; usage and cost are sums over its `runs`.

    `tools` and `results`: see `UserMessage`. A turn of results without a text continues its parent's.
    `expired`: its packets are not kept any more; None while they are.
    """

    id: str
    conversation_id: str
    parent: Place
    status: TurnStatus
    user_message_id: str
    text: str
    sent_at: datetime
    timezone: str
    attachments: tuple[Attachment, ...]
    dynamic: str
    dynamic_from: tuple[str, ...]
    runs: tuple[RunRecord, ...]
    started_at: datetime
    finished_at: datetime | None
    error: Mapping[str, str | None] | None
    usage: Usage
    cost: float
    expired: Expired | None = None
    tools: tuple[ToolSpec, ...] | None = None
    results: tuple[ToolResult, ...] = ()

    @property
    def model(self) -> str:
        """The first model of the turn."""
        return self.runs[0].model

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the answer that is shown by default."""
        return self.run.steps

    @property
    def run(self) -> RunRecord:
        """The run whose answer is shown by default: see `first_choice`."""
        return self.runs[first_choice([run.status for run in self.runs])]


def first_choice(statuses: Sequence[TurnStatus]) -> int:
    """The run that a turn continues from by default: the first that finished, else the first that was stopped, else the
    first.
    """
    for wanted in ((TurnStatus.FINISHED,), (TurnStatus.STOPPED, TurnStatus.INTERRUPTED)):
        for index, status in enumerate(statuses):
            if status in wanted:
                return index
    return 0


def can_go_on(statuses: Sequence[TurnStatus], index: int) -> bool:
    """Whether a conversation can continue from this run. A failed run qualifies only if all runs failed."""
    return statuses[index] is not TurnStatus.FAILED or set(statuses) == {TurnStatus.FAILED}


@dataclass(frozen=True, slots=True)
class TurnOnPath:
    """A turn of the current path. `run_id` is the run that is followed, None while it runs and none is chosen.

    `siblings` are the turns that follow the same answer, including itself, oldest first.
    """

    turn: TurnRecord
    run_id: str | None
    siblings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A turn as a node of its conversation's tree: its parent, the beginning of its message, and its runs."""

    id: str
    parent: Place
    text: str
    status: TurnStatus
    started_at: datetime
    runs: tuple[tuple[NewRun, TurnStatus], ...]


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run: its status and its messages."""

    run_id: str
    status: TurnStatus
    steps: Sequence[Step]
    requests: Sequence[RequestEnd]
    finished_at: datetime
    error: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The whole end of a turn, stored in one transaction on success, stop, failure or recovery."""

    turn_id: str
    status: TurnStatus
    runs: Sequence[RunEnd]
    finished_at: datetime
    error: Mapping[str, str | None] | None = None

    @property
    def requests(self) -> tuple[RequestEnd, ...]:
        """The ends of the requests of all its runs."""
        return tuple(request for run in self.runs for request in run.requests)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Consecutive packets of one turn, as JSON lines; the crash copy and the source for resuming."""

    owner: str
    turn_id: str
    first: int
    last: int
    data: bytes


@dataclass(frozen=True, slots=True)
class UnfinishedTurn:
    """A turn that was running when a process ended, with its runs in order."""

    caller: Caller
    turn_id: str
    conversation_id: str
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response of the Responses API. `turn_id` is its turn; one that an upstream made has the upstream's `account`.

    `fields` are those of the request that the response repeats, such as `metadata`. `begins`: its conversation began
    with it. `deleted`: its owner deleted it, and the turn stays until its conversation is removed.
    """

    id: str
    at: datetime
    turn_id: str | None = None
    account: str | None = None
    fields: JsonObject = field(default_factory=dict)
    begins: bool = False
    deleted: bool = False
