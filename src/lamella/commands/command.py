"""A command: what it is called, what it answers, and when it may run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lamella.core.clock import Clock
from lamella.core.json import JsonObject
from lamella.core.records import Caller, Conversation, QueuedMessage
from lamella.sessions.sessions import Sessions
from lamella.storage import Store


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A command that was given: by whom, where, and what followed its name."""

    caller: Caller
    conversation: Conversation
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What people read, and the same for programs."""

    text: str
    data: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What an `/abort` stopped. `turn_id` is None for a message whose turn has no id yet; `began`: the turn is stored,
    and a model may have been asked.
    """

    turn_id: str | None
    began: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """What commands work on."""

    store: Store
    sessions: Sessions
    clock: Clock
    abort: Callable[[Caller, Conversation], Awaitable[Stopped | None]]
    """Stops the turn that runs, else the messages that are about to be answered; None if there is nothing to stop."""
    waiting: Callable[[Caller, str], Awaitable[tuple[QueuedMessage, ...]]]
    """What waits in a conversation, in order."""
    drop: Callable[[Caller, str, Sequence[str]], Awaitable[tuple[QueuedMessage, ...]]]
    """Takes some of it out, unless it was begun meanwhile; gives what was taken out."""
    flush: Callable[[Caller, str], Awaitable[None]]
    """Answers what waits as soon as the conversation is free, without waiting for more."""


class Command(Protocol):
    """One command. `usage` is how it is typed, `summary` what it does, in a few words."""

    name: str
    usage: str
    summary: str
    at_once: bool
    """Whether it runs beside an answer: it does not touch that answer's context."""

    async def run(self, asked: CommandCall) -> Answer:
        """Do it. Raises a `LamellaError`; then nothing has changed."""
        ...
