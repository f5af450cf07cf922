"""Calls that wait for the user: in the memory of the process that runs the turn, and gone with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from lamella.core.errors import InvalidRequest
from lamella.core.json import encode_text
from lamella.core.packets import ToolApprovalPacket, ToolVerdictPacket
from lamella.engine.emitter import Emitter
from lamella.tooling.tool import Invocation, Verdict


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


class TurnApprovals:
    """The `ApprovalAsker` of a step's calls."""

    def __init__(self, approvals: Approvals, turn_id: str, emitter: Emitter, block_of: Mapping[str, int]) -> None:
        self._approvals = approvals
        self._turn_id = turn_id
        self._emitter = emitter
        self._block_of = block_of

    async def ask(self, call: Invocation, name: str) -> Verdict:
        """See `ApprovalAsker.ask`."""
        packet = ToolApprovalPacket(call_id=call.id, name=name, arguments=encode_text(call.arguments))
        self._emitter.emit(packet, self._block_of[call.id])
        verdict = await self._approvals.wait(self._turn_id, call.id)
        said = ToolVerdictPacket(call_id=call.id, approved=verdict.approved)
        self._emitter.emit(said, self._block_of[call.id])
        return verdict
