"""What the terminal asks of Lamella."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from lamella.core.errors import InvalidRequest
from lamella.core.packets import AnyPacket

NOTICES = 100
"""How many notices are asked for at once."""


@dataclass(frozen=True, slots=True)
class Sending:
    """A message as it is typed; `at_once` waits for no more of them.

    `effort` is the thinking effort of this turn, in its one spelling; None leaves it to the conversation.
    """

    text: str
    file_ids: tuple[str, ...]
    zone: str
    at_once: bool
    effort: str | None = None
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file as the terminal needs it; `problem` says why it can't be sent or is only listed."""

    id: str
    name: str
    ready: bool
    problem: str | None


class Door(Protocol):
    """What the terminal asks of Lamella."""

    notice: str | None
    model: str

    async def conversation(self, id: str | None, model: str | None) -> str:
        """The id of a known conversation, or of a new one."""
        ...

    async def forget(self, conversation_id: str) -> None:
        """Remove a conversation."""
        ...

    async def upload(self, path: Path) -> Uploaded:
        """Take a file in."""
        ...

    def send(self, conversation_id: str, sending: Sending) -> AsyncIterator[AnyPacket]:
        """Send a message and follow its turn, or a command and hear its answer."""
        ...

    async def flush(self, conversation_id: str) -> None:
        """Wait no longer for more messages: answer those that wait."""
        ...

    async def settle(self, conversation_id: str) -> None:
        """Before the end: wait for what runs in the background of this process."""
        ...

    async def notifications(self, conversation_id: str, after: str | None) -> tuple[str | None, list[str]]:
        """The texts of the notifications behind the notice `after`, and the id of the newest notice."""
        ...

    async def usages(self) -> Mapping[str, str]:
        """How each command is typed, by its name."""
        ...

    async def abort(self, conversation_id: str) -> None:
        """Stop what is answered, or about to be."""
        ...

    async def stop(self, turn_id: str) -> None:
        """Ask a turn to stop."""
        ...

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str) -> None:
        """Let a call that waits run, or not; the reason is told to the model."""
        ...

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """A piece of a file's text."""
        ...


def opened(path: Path) -> BinaryIO:
    """A file to send; raises `InvalidRequest`."""
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidRequest(f"{path} can't be read: {error.strerror}.", param=str(path)) from None
