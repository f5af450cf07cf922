"""Lines: conversations of other clients that went through the gateway, request by request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lamella.core.messages import Step, ToolResult
from lamella.core.records.library import Place
from lamella.core.records.requests import NewRequest
from lamella.core.records.turns import NewTurn
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
    `conversation`, or says what a side call makes (`title`, `summary`). `opening` is the number of messages of its
    first request. `keys` name the messages of the newest request, `tip` is the last of them, `system` names its tools
    and system prompt, `answer` the text that it was answered with, or "" if it was not. `breaks` are the requests that
    did not read what was cached; `lost` and `lost_cost` are the tokens and US dollars of that. `saved` is what
    markers that were added here saved, in US dollars. `alarm` is its newest loop.
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


@dataclass(frozen=True, slots=True)
class ObservedRequest:
    """A request to store on its line, after it was answered.

    `line` is the line as it is after this request; `begins` is the user's message if a turn begins with it, None for
    another step of the newest turn. `title` is what a new line is called after. `step` is the answer, None if nothing
    came. `results` are those of the calls of the step before. `request` has its bill.
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
