"""What surrounds a conversation: its agent, and its project with documents numbered for this conversation."""

from __future__ import annotations

from sqlalchemy import Connection

from lamella.core.agents import Project
from lamella.core.records import AgentAndProject, Caller, Conversation, StoredProject
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.conversations.numbers import Numbers, numbers_of, store_numbers
from lamella.storage.database import Verbs, reads, writes
from lamella.storage.library.agents import find_agent
from lamella.storage.library.files import find_contents
from lamella.storage.library.projects import find_project
from lamella.storage.mapping import attachment_of


def _numbered(connection: Connection, caller: Caller, project: StoredProject, numbers: Numbers) -> Project:
    contents = find_contents(connection, caller, project.files)
    documents = tuple(attachment_of(file, *numbers.project(file.id), contents) for file in project.files)
    return Project(project.id, project.name, project.instructions, documents, project.revision)


class SurroundingsVerbs(Verbs):
    """The verb of `Store` about what surrounds a conversation."""

    async def surroundings(
        self, caller: Caller, conversation_id: str, agent_id: str | None, *, keep: bool = True
    ) -> AgentAndProject:
        """The agent `agent_id`, and the conversation's project with its numbered documents."""
        found, is_new = await self._surroundings(caller, conversation_id, agent_id)
        # Another turn can't begin meanwhile, but another process may have: number them again, where only one can.
        return await self._number(caller, conversation_id, agent_id) if keep and is_new else found

    @reads
    def _surroundings(
        self, connection: Connection, caller: Caller, conversation_id: str, agent_id: str | None
    ) -> tuple[AgentAndProject, bool]:
        """The surroundings, and whether files of the project have no number yet."""
        conversation = find_conversation(connection, caller, conversation_id)
        found, numbers = self._find(connection, caller, conversation, agent_id)
        return found, numbers is not None and bool(numbers.changed)

    @writes
    def _number(
        self, connection: Connection, caller: Caller, conversation_id: str, agent_id: str | None
    ) -> AgentAndProject:
        conversation = find_conversation(connection, caller, conversation_id, lock=True)
        found, new = self._find(connection, caller, conversation, agent_id)
        if new is not None:
            store_numbers(connection, caller, conversation_id, new)
        return found

    def _find(
        self, connection: Connection, caller: Caller, conversation: Conversation, agent_id: str | None
    ) -> tuple[AgentAndProject, Numbers | None]:
        """The surroundings, with the numbers of the project's files, those among them that are given for the first
        time; None where there is no project.
        """
        agent = find_agent(connection, caller, agent_id).agent if agent_id is not None else None
        if conversation.project_id is None:
            return AgentAndProject(agent), None
        stored = find_project(connection, caller, conversation.project_id)
        numbers = numbers_of(connection, caller, conversation.id, [file.id for file in stored.files])
        return AgentAndProject(agent, _numbered(connection, caller, stored, numbers)), numbers
