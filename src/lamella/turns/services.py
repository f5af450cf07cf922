"""Services of turns: the store, a conversation's agent and project, and calls that wait for the user.

Waiting calls are in the memory of the process that runs the turn, and lost with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lamella.agent.inputs import AgentServices
from lamella.core.errors import InvalidRequest
from lamella.core.records import AgentAndProject, Caller, Conversation
from lamella.storage import Store
from lamella.tooling.tool import Verdict


class Approvals:
    """The calls of all turns that wait."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], asyncio.Future[Verdict]] = {}

    async def wait(self, turn_id: str, call_id: str) -> Verdict:
        """Wait for the user's decision on a call. Stopping the turn ends the wait."""
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


class AgentAndProjectSource(Protocol):
    """Loads the agent and the project of a conversation (`app`)."""

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> AgentAndProject:
        """Agent and project of the conversation now; without `keep`, as a look ahead that changes nothing.

        Raises `NotFound` for an agent that is gone.
        """
        ...


RequestHeaders = Callable[[str, str, int], Mapping[str, str]]
"""Headers for a request, by turn id, purpose (`chat`, `digest`) and number from 0."""


def no_headers(turn_id: str, purpose: str, number: int) -> Mapping[str, str]:
    """No header of our own."""
    return {}


@dataclass(frozen=True, slots=True)
class Services(AgentServices):
    """The store, the source of a conversation's agent and project, and a deployment's headers for requests."""

    store: Store
    agent_and_project: AgentAndProjectSource
    headers: RequestHeaders = no_headers
    approvals: Approvals = field(default_factory=Approvals)


class StoredAgentAndProject:
    """An `AgentAndProjectSource` over a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, caller: Caller, conversation: Conversation, *, keep: bool = True) -> AgentAndProject:
        """See `AgentAndProjectSource.of`. A turn that has neither agent nor project costs no query."""
        if keep and conversation.agent_id is None and conversation.project_id is None:
            return AgentAndProject()
        return await self._store.snapshots.agent_and_project(caller, conversation.id, conversation.agent_id, keep=keep)
