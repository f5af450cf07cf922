"""Asks the user at the terminal about tool calls that need approval: shows their arguments and reads y or n."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from typing import Protocol

from lamella.cli.failures import report
from lamella.core.errors import LamellaError
from lamella.core.packets import AnyPacket, ToolApprovalPacket, ToolVerdictPacket, TurnFinished

NOBODY = "Nobody could be asked: the message came from a script. Go on without this call."
"""What a model reads of a call that is refused because nobody sits at the terminal."""

_YES = re.compile(r"\s*(?:y|yes)\s*", re.IGNORECASE)
_NO = re.compile(r"\s*(?:n|no)(?:[\s,:.]+(?P<reason>.*?))?\s*", re.IGNORECASE | re.DOTALL)


class Approver(Protocol):
    """Who is told what was said to a call (an `Api`)."""

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str) -> None:
        """Let a call that waits run, or not; the reason is told to the model."""
        ...


class CallQuestions:
    """The calls that wait, the oldest first. Where nobody sits at the terminal they are refused, and that is told."""

    def __init__(self, api: Approver, tell: Callable[[str], None], *, somebody: bool) -> None:
        self._api = api
        self._tell = tell
        self._somebody = somebody
        self._waiting: dict[tuple[str, str], ToolApprovalPacket] = {}

    @property
    def waits(self) -> bool:
        """Whether a call waits for an answer."""
        return bool(self._waiting)

    async def hear(self, packet: AnyPacket) -> None:
        """Take note of a packet: a call that waits, one that was answered here or elsewhere, the end of a turn."""
        match packet:
            case ToolApprovalPacket() if not self._somebody:
                self._tell(f"Refused, because the input is no terminal where you could be asked: {_shown(packet)}")
                await self._decide(packet, approved=False, reason=NOBODY)
            case ToolApprovalPacket():
                self._waiting[packet.turn_id, packet.call_id] = packet
                if len(self._waiting) == 1:
                    self._ask()
            case ToolVerdictPacket():
                self._forget((packet.turn_id, packet.call_id))
            case TurnFinished():
                for key in [key for key in self._waiting if key[0] == packet.turn_id]:
                    self._forget(key)
            case _:
                pass

    async def answer(self, line: str) -> bool:
        """Whether a line was for a call that waits; a command never is, so that `/abort` ends the wait."""
        first = next(iter(self._waiting.values()), None)
        if first is None or line.lstrip().startswith("/"):
            return False
        no = _NO.fullmatch(line)
        if no is None and not _YES.fullmatch(line):
            self._ask()
        else:
            await self._decide(first, approved=no is None, reason=(no["reason"] or "") if no else "")
            self._forget((first.turn_id, first.call_id))
        return True

    def _forget(self, key: tuple[str, str]) -> None:
        """Ask for the next call after the first was answered."""
        was_first = next(iter(self._waiting), None) == key
        if self._waiting.pop(key, None) is not None and was_first:
            self._ask()

    def _ask(self) -> None:
        for first in list(self._waiting.values())[:1]:
            self._tell(f"{_shown(first)}\nMay this run? y, or n and a reason:")

    async def _decide(self, call: ToolApprovalPacket, *, approved: bool, reason: str) -> None:
        try:
            await self._api.approve(call.turn_id, call.call_id, approved=approved, reason=reason)
        except LamellaError as error:
            report(error)


class Keyboard:
    """Answers calls from the terminal while one message is answered."""

    def __init__(self, asking: CallQuestions) -> None:
        self._asking = asking
        self._at_work: set[asyncio.Task[bool]] = set()

    def open(self) -> None:
        """Listen, from now on; the event loop reads, so that nothing keeps the process from ending."""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def close(self) -> None:
        """Listen no more."""
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    def _read(self) -> None:
        line = sys.stdin.readline()
        if not line:
            self.close()
            line = "n, the terminal was closed"
        if self._asking.waits:
            task = asyncio.create_task(self._asking.answer(line))
            self._at_work.add(task)
            task.add_done_callback(self._at_work.discard)


def _shown(call: ToolApprovalPacket) -> str:
    """`delete_file {"path": "a"}`, with nothing in it that a terminal would obey."""
    text = f"{call.name} {call.arguments}"
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)
