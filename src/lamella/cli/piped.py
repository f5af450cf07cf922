"""An argument and a pipe as messages: the commands at their beginning one by one, then the rest as one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lamella.commands.parse import TypedCommand, parse
from lamella.core.errors import InvalidRequest

SHOWN = 60
"""Characters of a text that is named in an error."""


@dataclass(frozen=True, slots=True)
class TypedInput:
    """The argument of `lamella chat`, and what came through the pipe."""

    text: str = ""
    piped: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not (self.text.strip() or self.piped.strip())

    @property
    def may_be_command(self) -> bool:
        """Whether the first character is that of a command."""
        return (self.text.strip() or self.piped.strip())[:1] == "/"

    @property
    def whole(self) -> str:
        """All of it as one message."""
        return "\n\n".join(part for part in (self.text, self.piped.strip()) if part)

    def in_order(self, usages: Mapping[str, str], *, files: bool) -> tuple[str, ...]:
        """The messages to send, in order.

        The lines at the beginning of a pipe that are commands are messages of their own, and so is an argument that is
        a command. Raises `InvalidRequest` for a line that looks like a command and is none, before anything is sent,
        and for `files` if no message is left to take them.
        """
        if not self.may_be_command or (self.text and not isinstance(parse(self.text, usages), TypedCommand)):
            return (self.whole,)
        commands = [self.text] if self.text else []
        lines = self.piped.splitlines(keepends=True)
        for at, line in enumerate(lines):
            if line.strip() and not isinstance(parse(line, usages), TypedCommand):
                rest = "".join(lines[at:]).strip()
                return (*commands, rest)
            if line.strip():
                commands.append(line.strip())
        if files:
            raise InvalidRequest(
                f"{commands[-1][:SHOWN]} takes no files.", hint="Add a message for the files.", param="--file"
            )
        return tuple(commands)


def unsent(messages: tuple[str, ...]) -> str:
    """What is told of messages that were not sent because one before them failed."""
    first = messages[0].splitlines()[0]
    shown = f"“{first[:SHOWN]}{'…' if len(first) > SHOWN else ''}”"
    more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
    return f"Not sent, because an earlier message failed: {shown}{more}"
