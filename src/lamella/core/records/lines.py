"""Lines: conversations of other clients that went through the gateway, request by request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lamella.core.json import JsonObject
from lamella.core.messages import Step, ToolResult
from lamella.core.records.library import Place
from lamella.core.records.requests import NewRequest
from lamella.core.records.turns import NewTurn
from lamella.core.sessions import CarriedSummary
from lamella.core.tokens import Usage


class LoopKind(StrEnum):
    """How a client loops."""

    COMPACTED = "compacted"
    """It compacts again and again."""

    REPEATED = "repeated"
    """It sends the same messages again and again."""


@dataclass(frozen=True, slots=True)
class LoopAlarm:
    """A client loops: how often it did the same (`times`), the `requests` and US dollars of that, the tokens of its
    tools and system prompt, since when, until when, and how many requests were `refused` for it.
    """

    kind: LoopKind
    times: int
    requests: int
    cost: float
    fixed_tokens: int
    since: datetime
    at: datetime
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A client's conversation. `id` is its conversation's.

    `session` is the id by which the client names its work: it groups lines, and names no conversation. `label` is
    `conversation`, says what a side call makes (`title`, `summary`), or is `refused` if no request was taken yet.
    `opening` is the number of messages of its first request. `keys` name the messages of the newest request, `tip` is
    the last of them, `system` names its tools and system prompt, `answer` the text that it was answered with, or "" if
    it was not. `breaks` are the requests that did not read what was cached; `lost` and `lost_cost` are the tokens and
    US dollars of that. `saved` is what markers that were added here saved, in US dollars. `alarm` is its newest loop.
    `compactions` are the summaries that were made for it here, and `context_saved` is about what shorter windows saved,
    less what the summaries cost.
    """

    id: str
    client: str
    session: str | None
    dialect: str
    label: str
    model: str
    opening: int
    keys: tuple[str, ...]
    tip: str
    system: str
    answer: str
    request_id: str
    turn_id: str
    run_id: str
    begun_at: datetime
    at: datetime
    requests: int = 0
    turns: int = 0
    breaks: int = 0
    lost: int = 0
    lost_cost: float = 0.0
    saved: float = 0.0
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    title: str = ""
    alarm: LoopAlarm | None = None
    compactions: int = 0
    context_saved: float = 0.0


@dataclass(frozen=True, slots=True)
class ObservedRequest:
    """A request to store on its line, after it was answered.

    `line` is the line as it is after this request; `begins` is the user's message if a turn begins with it, None for
    another step of the newest turn. `title` is what a new line is called after. `step` is the answer, None if nothing
    came. `results` are those of the calls of the step before. `request` has its bill. `again` is the turn whose answer
    was asked for once more: its message and its steps before this one are those of the new turn too. `was` is the line
    that the request was found to go on.
    """

    line: Line
    is_new: bool
    begins: str | None
    title: str
    step: Step | None
    results: Sequence[ToolResult]
    request: NewRequest
    finished_at: datetime
    layout: str
    """That of the conversation, whose requests have the caller's own."""

    again: str | None = None
    was: Line | None = None


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Where the answer is that a client saw: the place of the run that wrote it; that before the first turn for a
    history without an answer.
    """

    conversation_id: str
    place: Place
    at: datetime


@dataclass(frozen=True, slots=True)
class ImportedTurn:
    """A turn that a client sent as part of its history, with the steps that it knows of. It has one run.

    `key` names the history up to its answer; "" if it has none.
    """

    turn: NewTurn
    steps: tuple[Step, ...]
    key: str = ""


class ReplacementKind(StrEnum):
    """What stands upstream in the place of a client's messages."""

    SUMMARY = "summary"
    """All messages up to the key, and the answer after it if there is an `answer`, are a summary."""

    PRUNE = "prune"
    """Results of tools up to the step of the key are stubs."""

    UNDONE = "undone"
    """A summary was taken back: no other is made by itself."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands upstream in the place of the messages that a client sends again, for all requests that begin alike.

    `key` names the messages up to the last that is replaced (`ObservedWindow.keys`). `texts` are the summaries as they
    stand there, the oldest first; `summary` is the newest, with its local `tokens`, its `check`, and the earlier ones
    that it `carries`. `skipped` are the keys of turns that had begun before this was made, and go on without it.
    `conversation_id` and `request_id` are the line and the first request that it was used for.
    """

    id: str
    dialect: str
    key: str
    kind: ReplacementKind
    made_at: datetime
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    answer: str = ""
    texts: tuple[str, ...] = ()
    summary: str = ""
    tokens: int = 0
    check: JsonObject = field(default_factory=dict)
    carries: tuple[CarriedSummary, ...] = ()
    skipped: tuple[str, ...] = ()
    conversation_id: str | None = None
    request_id: str | None = None
