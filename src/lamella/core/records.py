"""Rows as the store gives and takes them: what is kept about conversations, files, turns and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from typing import Generic, Literal, TypeVar

from lamella.core.agents import Agent, Project, Summary
from lamella.core.decisions import Decision
from lamella.core.effort import OFF
from lamella.core.json import JsonObject
from lamella.core.messages import Attachment, Step, Turn, TurnStatus, UserMessage
from lamella.core.prompt import Level, ToolSpec
from lamella.core.sessions import Session, SessionReturn, SessionStep
from lamella.core.tokens import Usage


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Every row has an owner and every store verb takes the caller; a foreign id is "not found"."""

    user_id: str


@dataclass(frozen=True, slots=True)
class Place:
    """A point in the tree of a conversation's turns: behind the answer of the run `run_id` of the turn `turn_id`.

    Without a turn it is the place before the first. The way from a place back to the first turn is a path: each turn
    says which run of which turn it follows, and that never changes.
    """

    turn_id: str | None = None
    run_id: str | None = None


TitledBy = Literal["nobody", "words", "model", "user"]
"""Whose a title is: `nobody` has begun to speak; `words` are the first of the conversation; a `model` was asked."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation. System prompt and tools are pinned when it begins, so that its window never changes silently.

    `forked`: its turns are more than one line of single answers.
    `head` is the last turn of its current path, and `head_run_id` the run whose answer is continued there; None while
    nobody chose and the turn runs. `system_prompt` is the text of version `system_prompt_version` of the
    owner's system prompts. `session_id` is the session that it is in: the store makes the first one with it.
    `thinking_effort` None leaves it to the agent, then to the deployment.
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
    head_run_id: str | None = None
    running_turn: str | None = None
    agent_id: str | None = None
    project_id: str | None = None
    system_prompt_version: int = 0
    session_id: str = ""
    thinking_effort: str | None = None
    forked: bool = False
    titled_by: TitledBy = "nobody"

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.head, self.head_run_id)


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """A version of an owner's system prompt, counted from 1. Version 0 ships and has no `created_at`."""

    version: int
    text: str
    note: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """An agent with its moments."""

    agent: Agent
    created_at: datetime
    updated_at: datetime


FileStatus = Literal["ready", "failed"]


@dataclass(frozen=True, slots=True)
class File:
    """An uploaded file. `tokens` is the local count of its text; `code` and `reason` say why an extraction failed.

    `width` and `height` are the size in pixels of a picture, which has no text.
    """

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
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class ProjectContent:
    """What a user says of a project; `file_ids` in the order of its documents."""

    name: str
    instructions: str = ""
    file_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredProject:
    """A project with its files and moments. `revision` counts its edits from 1."""

    id: str
    name: str
    instructions: str
    files: tuple[File, ...]
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def content(self) -> ProjectContent:
        """What its user said of it."""
        return ProjectContent(self.name, self.instructions, tuple(file.id for file in self.files))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a conversation is surrounded by when a turn begins: its agent, and its project with numbered documents.

    `next_document` is the number that the next document of the conversation gets.
    """

    agent: Agent | None = None
    project: Project | None = None
    next_document: int = 1


class Leave(Enum):
    """Stands for a value that is not asked to change, where None means something."""

    LEAVE = "leave"


LEAVE = Leave.LEAVE


@dataclass(frozen=True, slots=True)
class Choices:
    """What one turn chooses in place of what its conversation says. `agent_id` None: no agent for this turn."""

    layout: str | None = None
    marker_policy: str | None = None
    agent_id: str | Leave | None = LEAVE
    thinking_effort: str | None = None
    knowledge_base_ids: tuple[str, ...] = ()
    """Those that are searched beside the ones of the conversation and the agent."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """One model that is to answer a turn."""

    id: str
    model: str


@dataclass(frozen=True, slots=True)
class Footing:
    """What a turn begins on. `head` is where the conversation stood when that was read: if it stands elsewhere when the
    turn is stored, nothing is. `parent` is what the turn follows, `session` the way to the session of that place where
    the conversation is in another one. `decisions` are what the turn brought.
    """

    head: Place
    parent: Place
    session: SessionStep | SessionReturn | None = None
    decisions: Sequence[Decision] = ()


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn to begin: the user's message as it arrived. `sent_at` carries the offset of `timezone`.

    `runs` are the models that answer it, in the order that they were named in. `dynamic` is the dynamic context that
    goes with it, its blocks joined. `choices` are not stored: its requests say what they came to. `parent` is what it
    follows, None for where the conversation stands.
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
    dynamic: str = ""
    choices: Choices = Choices()
    parent: Place | None = None

    def message(self, attachments: tuple[Attachment, ...] = ()) -> UserMessage:
        """The user message of the turn."""
        return UserMessage(
            self.user_message_id, self.text, self.sent_at, self.timezone, self.tokens, attachments, self.dynamic
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
        """The text of its last step."""
        return self.steps[-1].text if self.steps else ""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn as clients see it. `parent` is what it follows; usage and cost are those of all its `runs`."""

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
    runs: tuple[RunRecord, ...]
    started_at: datetime
    finished_at: datetime | None
    error: Mapping[str, str | None] | None
    usage: Usage
    cost: float

    @property
    def model(self) -> str:
        """The first model that was asked."""
        return self.runs[0].model

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the answer that is shown where nobody chose."""
        return self.run.steps

    @property
    def run(self) -> RunRecord:
        """The run whose answer is shown where nobody chose: see `first_choice`."""
        return self.runs[first_choice([run.status for run in self.runs])]


def first_choice(statuses: Sequence[TurnStatus]) -> int:
    """Which of a turn's runs is continued where nobody chose: the first that finished, else the first that was stopped
    on the way, else the first.
    """
    for wanted in ((TurnStatus.FINISHED,), (TurnStatus.STOPPED, TurnStatus.INTERRUPTED)):
        for index, status in enumerate(statuses):
            if status in wanted:
                return index
    return 0


@dataclass(frozen=True, slots=True)
class TurnOnPath:
    """A turn of the current path: `run_id` is the run that is followed, None while nobody chose and it runs.

    `siblings` are the turns that follow the same answer, itself among them, the oldest first.
    """

    turn: TurnRecord
    run_id: str | None
    siblings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A turn as a node of its conversation's tree: what it follows, how its message begins, and its runs."""

    id: str
    parent: Place
    text: str
    status: TurnStatus
    started_at: datetime
    runs: tuple[tuple[NewRun, TurnStatus], ...]


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
    `absent` are the kinds of segment that are not in the window, each with the reason. `thinking_effort` is the one
    that held; `head` says what the model was asked of it. `run_id` is the run that made it, None beside a turn.
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
    usage: Usage | None = None
    cost: float | None = None
    error: Mapping[str, str | None] | None = None
    absent: tuple[tuple[str, str], ...] = ()
    thinking_effort: str = OFF
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class LastBill:
    """The newest bill of a path: what the provider counted for so many local tokens, for a request of this moment.

    `followed`: the path goes on from the run that made it, and not from another answer of the same turn.
    """

    request_id: str
    turn_id: str
    at: datetime
    local_tokens: int
    usage: Usage
    followed: bool = True


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
    """What became of a request. `dropped_thinking`: blocks of earlier thinking that the provider left out."""

    request_id: str
    usage: Usage
    cost: float
    provider_request_id: str | None = None
    error: Mapping[str, str | None] | None = None
    dropped_thinking: int = 0


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How one run of a turn ended, and what it made."""

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
        """What became of the requests of all its runs."""
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
class StoredDecision:
    """A decision with its moment, and where the conversation stood then: at the turn `turn_id`, None for before the
    first; in its run `run_id` where it is about what that run sends.
    """

    id: str
    at: datetime
    decision: Decision
    turn_id: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """Something to read that a tool brought into a conversation; `url` is where it came from, if anywhere.

    `size` is in bytes: of what was fetched, of which `text` is what can be read.
    """

    title: str
    media_type: str
    text: str
    size: int
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a turn of one model begins from at `place`: its conversation, the window's part of the path that leads
    there, the decisions that hold on it and the newest bill, of one moment.

    `session` is the one that the path stands in; the conversation may be in another. `summaries` stand before the turns
    of it: those of the sessions that it continues, the oldest first, and its own when it was closed once and is open
    again (SPEC L4). `documents` are those that tools brought into the conversation, without their texts.
    `session_changes` counts the decisions that moved the conversation from one session to another, of every branch.
    """

    conversation: Conversation
    path: tuple[Turn, ...]
    decisions: tuple[StoredDecision, ...]
    last_bill: LastBill | None
    session: Session
    summaries: tuple[Summary, ...]
    place: Place
    documents: tuple[Attachment, ...] = ()
    session_changes: int = 0


@dataclass(frozen=True, slots=True)
class UnfinishedTurn:
    """A turn that was running when a process ended, with its runs in order."""

    caller: Caller
    turn_id: str
    conversation_id: str
    run_ids: tuple[str, ...] = ()


class JobStatus(StrEnum):
    """How far a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class NewJob:
    """Work to do in the background: what (`kind`), for whom (`subject`, an id), why, and from when on.

    `follows`: a job for the same that runs already may have looked too early, so it is due once more when it has ended.
    `takes_over`: one that waits is done as this one says instead, from `not_before` on and as if it were new.
    """

    kind: str
    subject: str
    cause: str
    not_before: datetime
    payload: JsonObject = field(default_factory=dict)
    follows: bool = False
    takes_over: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """Background work. Whoever runs it does so as `caller`, and holds it as long as its `token` is the newest.

    `due_at` is when it may be claimed: its time to begin, or the end of the lease while it runs. `attempts` counts how
    often it was claimed; `error` is the error object of its last failure.
    """

    id: str
    caller: Caller
    kind: str
    subject: str
    cause: str
    payload: JsonObject
    status: JobStatus
    due_at: datetime
    created_at: datetime
    attempts: int = 0
    token: int = 0
    error: Mapping[str, str | None] | None = None
    ended_at: datetime | None = None


class QueueStatus(StrEnum):
    """Whether a message still waits for its turn."""

    QUEUED = "queued"
    BEGUN = "begun"
    """It is in a turn, or as a command it ran."""

    CANCELLED = "cancelled"
    FAILED = "failed"
    """It could not be answered, or as a command it was refused: a notice says why."""


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message or a command that waits for its turn, with the sender whose rights it has.

    `sent_at` carries the offset of `timezone`; `seq` is its place in its conversation, counted by the store from 1.
    `payload` is what else was sent with it. `turn_id` is the turn that it went into; of a command, and of a message
    that could not be answered, `notice_id` is the notice that tells of it.
    """

    id: str
    conversation_id: str
    sender: str
    text: str
    sent_at: datetime
    timezone: str
    payload: JsonObject = field(default_factory=dict)
    seq: int = 0
    status: QueueStatus = QueueStatus.QUEUED
    turn_id: str | None = None

    @property
    def notice_id(self) -> str:
        """The id of the notice that tells what became of it, if one does."""
        return f"note_{self.id.partition('_')[2]}"


class NoticeKind(StrEnum):
    """What a notice tells."""

    COMMAND = "command"
    """A command of the user, with its answer."""

    NOT_ANSWERED = "not_answered"
    """A message of the queue whose turn could not begin."""

    PRUNED = "pruned"
    COMPACTED = "compacted"
    NOT_COMPACTED = "not_compacted"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a conversation shows and no model reads: a command with its answer, or what was done to its past.

    It stands behind the turn `turn_id`, None for before the first. `name` and `argument` are those of a command.
    `text` is what people read, `data` the same for programs.
    """

    id: str
    conversation_id: str
    turn_id: str | None
    kind: NoticeKind
    at: datetime
    text: str
    name: str = ""
    argument: str = ""
    data: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Totals:
    """What a conversation came to: its cost in US dollars, and its stored messages by session id.

    `estimated`: the providers did not say what some of its requests were billed.
    """

    cost: float
    messages: Mapping[str, int]
    estimated: bool = False


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
    layout: str | None = None
    marker_policy: str | None = None
    system_prompt: SystemPrompt | None = None
    tools: tuple[ToolSpec, ...] | None = None
    agent_id: str | Leave | None = LEAVE
    project_id: str | Leave | None = LEAVE
    thinking_effort: str | Leave | None = LEAVE
    decisions: Sequence[Decision] = field(default_factory=tuple)
