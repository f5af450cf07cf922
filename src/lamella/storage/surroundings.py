"""What surrounds a conversation: its agent, and its project with documents numbered for this conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from lamella.core.agents import Project
from lamella.core.records import Caller, Conversation, File, StoredProject, Surroundings
from lamella.storage.agents import find_agent
from lamella.storage.conversations import find_conversation
from lamella.storage.database import Verbs, uninterrupted
from lamella.storage.files import find_contents
from lamella.storage.mapping import attachment_of
from lamella.storage.projects import find_project
from lamella.storage.schema import conversations, project_documents


async def _numbers(connection: AsyncConnection, caller: Caller, conversation_id: str) -> dict[str, int]:
    """The numbers that were given to project files in a conversation."""
    query = select(project_documents.c.file_id, project_documents.c.document).where(
        project_documents.c.conversation_id == conversation_id, project_documents.c.owner == caller.user_id
    )
    rows = (await connection.execute(query)).mappings()
    return {row["file_id"]: row["document"] for row in rows}


async def _next_document(connection: AsyncConnection, caller: Caller, conversation_id: str) -> int:
    query = select(conversations.c.next_document).where(
        conversations.c.id == conversation_id, conversations.c.owner == caller.user_id
    )
    number: int = (await connection.execute(query)).scalar_one()
    return number


async def _keep(connection: AsyncConnection, caller: Caller, conversation_id: str, new: Mapping[str, int]) -> None:
    """Store numbers that begin at the conversation's next unused one."""
    rows = [
        {"conversation_id": conversation_id, "file_id": file_id, "owner": caller.user_id, "document": document}
        for file_id, document in new.items()
    ]
    await connection.execute(insert(project_documents), rows)
    await connection.execute(
        update(conversations)
        .where(conversations.c.id == conversation_id, conversations.c.owner == caller.user_id)
        .values(next_document=max(new.values()) + 1)
    )


def _new_numbers(files: Sequence[File], known: Mapping[str, int], first: int) -> dict[str, int]:
    fresh = [file.id for file in files if file.id not in known]
    return dict(zip(fresh, range(first, first + len(fresh)), strict=True))


async def _numbered(
    connection: AsyncConnection, caller: Caller, project: StoredProject, numbers: Mapping[str, int]
) -> Project:
    contents = await find_contents(connection, caller, project.files)
    documents = tuple(attachment_of(file, numbers[file.id], contents) for file in project.files)
    return Project(project.id, project.name, project.instructions, documents, project.revision)


class SurroundingsVerbs(Verbs):
    """The verb of `Store` about what surrounds a conversation."""

    @uninterrupted
    async def surroundings(
        self, caller: Caller, conversation_id: str, agent_id: str | None, *, keep: bool = True
    ) -> Surroundings:
        """The agent `agent_id`, and the conversation's project with its numbered documents."""
        async with self._database.reading() as connection:
            conversation = await find_conversation(connection, caller, conversation_id)
            found, new = await self._find(connection, caller, conversation, agent_id)
        if not keep or not new:
            return found
        # Another turn can't begin meanwhile, but another process may have: number them again, where only one can.
        async with self._database.writing() as connection:
            conversation = await find_conversation(connection, caller, conversation_id, lock=True)
            found, new = await self._find(connection, caller, conversation, agent_id)
            if new:
                await _keep(connection, caller, conversation_id, new)
            return found

    async def _find(
        self, connection: AsyncConnection, caller: Caller, conversation: Conversation, agent_id: str | None
    ) -> tuple[Surroundings, Mapping[str, int]]:
        """The surroundings, with the numbers that project files get in them for the first time."""
        agent = (await find_agent(connection, caller, agent_id)).agent if agent_id is not None else None
        following = await _next_document(connection, caller, conversation.id)
        if conversation.project_id is None:
            return Surroundings(agent, None, following), {}
        stored = await find_project(connection, caller, conversation.project_id)
        known = await _numbers(connection, caller, conversation.id)
        new = _new_numbers(stored.files, known, following)
        project = await _numbered(connection, caller, stored, {**known, **new})
        return Surroundings(agent, project, following + len(new)), new
