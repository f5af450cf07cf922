"""Slash commands: name, answer, and when a command may run."""

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
    """A command to run: by whom, in which conversation, with its argument."""

    caller: Caller
    conversation: Conversation
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer as text for people and as data for programs."""

    text: str
    data: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What `/abort` stopped. `turn_id` is None if the turn has no id yet. `began`: the turn is stored, and a model may
    have been asked.
    """

    turn_id: str | None
    began: bool


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What commands can use."""

    store: Store
    sessions: Sessions
    clock: Clock
    abort: Callable[[Caller, Conversation], Awaitable[Stopped | None]]
    """Stops the running turn, else the messages that are about to be answered. Returns None if there is nothing to
    stop.
    """
    waiting: Callable[[Caller, str], Awaitable[tuple[QueuedMessage, ...]]]
    """The queue of a conversation, in order."""
    drop: Callable[[Caller, str, Sequence[str]], Awaitable[tuple[QueuedMessage, ...]]]
    """Removes messages from the queue that did not begin; returns them."""
    flush: Callable[[Caller, str], Awaitable[None]]
    """Answers the queue as soon as the conversation is free, without waiting for more messages."""


class Command(Protocol):
    """One command. `usage` is its syntax, `summary` a short description."""

    name: str
    usage: str
    summary: str
    at_once: bool
    """Whether it runs during an answer, because it does not change that answer's context."""

    async def run(self, call: CommandCall) -> Answer:
        """Do it. Raises a `LamellaError`; then nothing has changed."""
        ...
