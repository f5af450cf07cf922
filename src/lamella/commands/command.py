"""A command: what it is called, what it answers, and when it may run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from lamella.core.json import JsonObject
from lamella.core.ports import Store
from lamella.core.records import Caller, Conversation, TurnRecord
from lamella.sessions.sessions import Sessions


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
class Reach:
    """What commands work on. `stop` asks a turn to stop."""

    store: Store
    sessions: Sessions
    stop: Callable[[Caller, str], Awaitable[TurnRecord]]


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
