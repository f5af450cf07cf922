"""Custom agents (SPEC O2): their texts and settings, and how often they were edited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from lamella.core.agents import Agent
from lamella.core.errors import NotFound
from lamella.core.records import Caller, Page, PageQuery, StoredAgent
from lamella.storage.columns import moment_text
from lamella.storage.database import Verbs, reads, writes
from lamella.storage.keys import forget_keys
from lamella.storage.mapping import agent_of, agent_row
from lamella.storage.pages import page
from lamella.storage.tables import agents


def find_agent(connection: Connection, caller: Caller, agent_id: str) -> StoredAgent:
    """The caller's agent."""
    query = select(agents).where(agents.c.id == agent_id, agents.c.owner == caller.user_id)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"There is no agent {agent_id}.", param="agent_id")
    return agent_of(row)


class AgentVerbs(Verbs):
    """The verbs of `Store` about agents."""

    @writes
    def add_agent(self, connection: Connection, caller: Caller, agent: Agent, at: datetime) -> StoredAgent:
        """Store a new agent of the caller."""
        moments = {"created_at": moment_text(at), "updated_at": moment_text(at)}
        row = {"owner": caller.user_id, **agent_row(agent), **moments}
        connection.execute(insert(agents), row)
        return find_agent(connection, caller, agent.id)

    @reads
    def agent(self, connection: Connection, caller: Caller, agent_id: str) -> StoredAgent:
        """One agent."""
        return find_agent(connection, caller, agent_id)

    @reads
    def agents(self, connection: Connection, caller: Caller, query: PageQuery) -> Page[StoredAgent]:
        """The caller's agents."""
        mine = select(agents).where(agents.c.owner == caller.user_id)
        rows, has_more = page(connection, mine, agents.c.id, query)
        return Page(tuple(map(agent_of, rows)), has_more)

    @writes
    def change_agent(
        self, connection: Connection, caller: Caller, agent_id: str, edit: Callable[[Agent], Agent], at: datetime
    ) -> StoredAgent:
        """Store what `edit` makes of it; a difference is a new revision."""
        before = find_agent(connection, caller, agent_id).agent
        after = edit(before)
        if after != before:
            changed = agent_row(replace(after, id=before.id, revision=before.revision + 1))
            connection.execute(
                update(agents)
                .where(agents.c.id == agent_id, agents.c.owner == caller.user_id)
                .values(**changed, updated_at=moment_text(at))
            )
        return find_agent(connection, caller, agent_id)

    @writes
    def delete_agent(self, connection: Connection, caller: Caller, agent_id: str) -> None:
        """Remove it; its conversations go on without it."""
        find_agent(connection, caller, agent_id)
        forget_keys(connection, caller, agent_id)
        connection.execute(delete(agents).where(agents.c.id == agent_id, agents.c.owner == caller.user_id))
