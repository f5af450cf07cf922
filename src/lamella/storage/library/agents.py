"""Custom agents (SPEC O2): their texts and settings, and how often they were edited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from lamella.core.agents import Agent
from lamella.core.errors import NotFound
from lamella.core.records import Caller, Page, PageQuery, StoredAgent
from lamella.storage.columns import moment_text
from lamella.storage.database import Verbs, uninterrupted
from lamella.storage.keys import forget_keys
from lamella.storage.mapping import agent_of, agent_row
from lamella.storage.pages import page
from lamella.storage.tables import agents


async def find_agent(connection: AsyncConnection, caller: Caller, agent_id: str) -> StoredAgent:
    """The caller's agent."""
    query = select(agents).where(agents.c.id == agent_id, agents.c.owner == caller.user_id)
    row = (await connection.execute(query)).mappings().first()
    if row is None:
        raise NotFound(f"There is no agent {agent_id}.", param="agent_id")
    return agent_of(row)


class AgentVerbs(Verbs):
    """The verbs of `Store` about agents."""

    @uninterrupted
    async def add_agent(self, caller: Caller, agent: Agent, at: datetime) -> StoredAgent:
        """Store a new agent of the caller."""
        moments = {"created_at": moment_text(at), "updated_at": moment_text(at)}
        row = {"owner": caller.user_id, **agent_row(agent), **moments}
        async with self._database.writing() as connection:
            await connection.execute(insert(agents), row)
            return await find_agent(connection, caller, agent.id)

    @uninterrupted
    async def agent(self, caller: Caller, agent_id: str) -> StoredAgent:
        """One agent."""
        async with self._database.reading() as connection:
            return await find_agent(connection, caller, agent_id)

    @uninterrupted
    async def agents(self, caller: Caller, query: PageQuery) -> Page[StoredAgent]:
        """The caller's agents."""
        mine = select(agents).where(agents.c.owner == caller.user_id)
        async with self._database.reading() as connection:
            rows, has_more = await page(connection, mine, agents.c.id, query)
        return Page(tuple(map(agent_of, rows)), has_more)

    @uninterrupted
    async def change_agent(
        self, caller: Caller, agent_id: str, edit: Callable[[Agent], Agent], at: datetime
    ) -> StoredAgent:
        """Store what `edit` makes of it; a difference is a new revision."""
        async with self._database.writing() as connection:
            before = (await find_agent(connection, caller, agent_id)).agent
            after = edit(before)
            if after != before:
                changed = agent_row(replace(after, id=before.id, revision=before.revision + 1))
                await connection.execute(
                    update(agents)
                    .where(agents.c.id == agent_id, agents.c.owner == caller.user_id)
                    .values(**changed, updated_at=moment_text(at))
                )
            return await find_agent(connection, caller, agent_id)

    @uninterrupted
    async def delete_agent(self, caller: Caller, agent_id: str) -> None:
        """Remove it; its conversations go on without it."""
        async with self._database.writing() as connection:
            await find_agent(connection, caller, agent_id)
            await forget_keys(connection, caller, agent_id)
            await connection.execute(delete(agents).where(agents.c.id == agent_id, agents.c.owner == caller.user_id))
