"""Calls that wait for the user: in the memory of the process that runs the turn, and gone with it."""

from __future__ import annotations

import asyncio

from lamella.core.errors import InvalidRequest
from lamella.tooling.tool import Verdict


class Approvals:
    """The calls of all turns that wait."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], asyncio.Future[Verdict]] = {}

    async def wait(self, turn_id: str, call_id: str) -> Verdict:
        """What the user says to a call; a turn that is stopped stops waiting."""
        asked: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting[turn_id, call_id] = asked
        try:
            return await asked
        finally:
            del self._waiting[turn_id, call_id]

    def decide(self, turn_id: str, call_id: str, verdict: Verdict) -> None:
        """Let a call go on; raises `InvalidRequest` when it does not wait."""
        asked = self._waiting.get((turn_id, call_id))
        if asked is None or asked.done():
            raise InvalidRequest(
                "This call does not wait for an approval.",
                hint="It was answered already, or its turn has ended.",
                param="call_id",
            )
        asked.set_result(verdict)
