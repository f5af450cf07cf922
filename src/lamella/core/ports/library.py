"""What conversations share: agents, projects, system prompts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from lamella.core.agents import Agent
from lamella.core.records import (
    AgentAndProject,
    Caller,
    Page,
    PageQuery,
    ProjectContent,
    StoredAgent,
    StoredProject,
    SystemPrompt,
)


class LibraryStore(Protocol):
    """What conversations share: agents, projects, system prompts."""

    async def add_agent(self, caller: Caller, agent: Agent, at: datetime) -> StoredAgent:
        """Store a new agent of the caller."""
        ...

    async def agent(self, caller: Caller, agent_id: str) -> StoredAgent:
        """One agent."""
        ...

    async def agents(self, caller: Caller, query: PageQuery) -> Page[StoredAgent]:
        """The caller's agents."""
        ...

    async def change_agent(
        self, caller: Caller, agent_id: str, edit: Callable[[Agent], Agent], at: datetime
    ) -> StoredAgent:
        """Store what `edit` makes of it, in one transaction; a difference is a new revision."""
        ...

    async def delete_agent(self, caller: Caller, agent_id: str) -> None:
        """Remove it; its conversations go on without it."""
        ...

    async def add_project(
        self, caller: Caller, project_id: str, content: ProjectContent, at: datetime
    ) -> StoredProject:
        """Store a new project of the caller; raises `InvalidRequest` for a file that has no text to give."""
        ...

    async def project(self, caller: Caller, project_id: str) -> StoredProject:
        """One project."""
        ...

    async def projects(self, caller: Caller, query: PageQuery) -> Page[StoredProject]:
        """The caller's projects."""
        ...

    async def change_project(
        self, caller: Caller, project_id: str, edit: Callable[[ProjectContent], ProjectContent], at: datetime
    ) -> StoredProject:
        """Store what `edit` makes of it, in one transaction; a difference is a new revision.

        Raises `InvalidRequest` for a file that has no text to give.
        """
        ...

    async def delete_project(self, caller: Caller, project_id: str) -> None:
        """Remove it; its files stay, and its conversations go on without it."""
        ...

    async def add_system_prompt(self, caller: Caller, text: str, note: str, at: datetime) -> SystemPrompt:
        """Store a new version: the one after the newest."""
        ...

    async def system_prompt(self, caller: Caller, version: int) -> SystemPrompt:
        """One stored version; the one that ships, 0, is not stored."""
        ...

    async def newest_system_prompt(self, caller: Caller) -> SystemPrompt | None:
        """The newest stored version, None when the caller wrote none."""
        ...

    async def system_prompts(self, caller: Caller, query: PageQuery) -> Page[SystemPrompt]:
        """The stored versions; `query.after` is a version."""
        ...

    async def surroundings(
        self, caller: Caller, conversation_id: str, agent_id: str | None, *, keep: bool = True
    ) -> AgentAndProject:
        """The agent `agent_id`, and the conversation's project with its numbered documents.

        A file of the project that has no number in this conversation gets one that was never used in it. Without
        `keep` the numbers are those it would get, and nothing is stored.
        """
        ...
