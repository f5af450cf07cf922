"""A command: what it is called, what it answers, and when it may run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lamella.core.clock import Clock
from lamella.core.json import JsonObject
from lamella.core.records import Caller, Conversation, QueuedMessage
from lamella.sessions.sessions import Sessions
from lamella.storage import Store


@dataclass(frozen=True, slots=True)
class Asked:
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


class Mailboxes(Protocol):
    """What runs and what waits in conversations (`chat`)."""

    async def abort(self, caller: Caller, conversation: Conversation) -> Stopped | None:
        """Stop the turn that runs, else the messages that are about to be answered; None when there is nothing."""
        ...

    async def waiting(self, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        """What waits, in order."""
        ...

    async def drop(self, caller: Caller, conversation_id: str, message_ids: Sequence[str]) -> tuple[QueuedMessage, ...]:
        """Take some of it out, unless it was begun meanwhile; gives what was taken out."""
        ...

    async def flush(self, caller: Caller, conversation_id: str) -> None:
        """Answer what waits as soon as it is free, without waiting for more."""
        ...


@dataclass(frozen=True, slots=True)
class Reach:
    """What commands work on."""

    store: Store
    sessions: Sessions
    mailboxes: Mailboxes
    clock: Clock


class Command(Protocol):
    """One command. `usage` is how it is typed, `summary` what it does, in a few words."""

    name: str
    usage: str
    summary: str
    at_once: bool
    """Whether it runs beside an answer: it does not touch that answer's context (SPEC L12)."""

    async def run(self, asked: Asked) -> Answer:
        """Do it. Raises a `LamellaError`; then nothing has changed."""
        ...
