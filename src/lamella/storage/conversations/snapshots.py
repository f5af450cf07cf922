"""What a turn begins from, each read in one transaction: it stands between a message and its first token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from lamella.core.agents import Project, Summary
from lamella.core.decisions import DecisionKind
from lamella.core.errors import NotFound
from lamella.core.records import (
    AgentAndProject,
    Caller,
    Conversation,
    ConversationSnapshot,
    Place,
    StoredDecision,
    StoredProject,
)
from lamella.core.sessions import Session, SessionCause, summaries_in_window
from lamella.storage.conversations.conversations import ask_conversation, find_conversation
from lamella.storage.conversations.decisions import ask_decisions, find_decisions, find_tree, newest_session
from lamella.storage.conversations.documents import ask_documents
from lamella.storage.conversations.paths import ask_sent, ask_window, find_path, find_turn
from lamella.storage.conversations.requests import ask_last_bill, find_last_bill
from lamella.storage.conversations.sessions import ask_ancestry, find_sessions, followed_run
from lamella.storage.database import Rows, reads, writes
from lamella.storage.failures import damaged
from lamella.storage.files import Numbers, attachment_of, find_contents, numbers_of, store_numbers
from lamella.storage.library import find_agent, find_project
from lamella.storage.rows import owned_by
from lamella.storage.tables import conversations

RECENT = 40
"""Messages before the window of which it is read when they were sent: what is older says nothing of the next one."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A decision that holds on a path, for one model where `model` names it."""

    stored: StoredDecision
    model: str | None = None


def _held(
    connection: Connection, caller: Caller, conversation: Conversation, place: Place, known: Sequence[StoredDecision]
) -> tuple[_Held, ...]:
    """The known decisions that hold on the path to `place`; where nothing was ever forked, they all do."""
    if not conversation.forked and place == conversation.place:
        return tuple(map(_Held, known))
    tree = find_tree(connection, caller, conversation.id)
    return tuple(
        _Held(stored, None if for_all else tree.models.get(stored.run_id or "", ""))
        for stored, for_all in tree.holding(known, place)
    )


def _window(held: Sequence[_Held]) -> tuple[str | None, str | None]:
    """The session that the path stands in by its newest decision, and the turn that its window begins after."""
    opened = [one.stored.decision for one in held if one.stored.decision.kind is DecisionKind.SESSION]
    return (opened[-1].subject, opened[-1].outcome or None) if opened else (None, None)


def _session(conversation: Conversation, sessions: Sequence[Session], place: Place, named: str | None) -> Session:
    """The session that a path stands in: the one named; where none is, the current one of a single line, and of a path
    among others the first.
    """
    current = next((session for session in sessions if session.id == conversation.session_id), None)
    if current is None:
        raise damaged(f"conversation {conversation.id}", f"session {conversation.session_id} is missing")
    if not conversation.forked and place == conversation.place:
        return current
    if named is None:
        return sessions[0]
    return next((session for session in sessions if session.id == named), current)


def _summaries(sessions: Sequence[Session], session: Session) -> tuple[Summary, ...]:
    """The summaries before the turns of `session`: its ancestors', then its own from when it was closed.

    Its own is not there for who branches off from a session that is over: that was made of it when it ended.
    """
    found = summaries_in_window(sessions, session.id)
    is_open = session.closed_at is None or session.closed_by is SessionCause.BRANCH
    if session.summary is None or not is_open:
        return found
    return (*found, session.as_summary)


class SnapshotRows(Rows):
    """What a turn begins from, and the agent and project that surround it."""

    @reads
    def snapshot(
        self,
        connection: Connection,
        caller: Caller,
        conversation_id: str,
        model: str,
        session_id: str | None = None,
        place: Place | None = None,
    ) -> ConversationSnapshot:
        """What a turn of `model` begins from at `place`: conversation, window, decisions, last bill, of one moment.

        With the id of a closed session, the window is the one that it had when it was closed.
        """
        if session_id is None:
            [found] = _snapshots(connection, caller, conversation_id, [model], place)
            return found
        conversation = find_conversation(connection, caller, conversation_id)
        sessions = find_sessions(connection, caller, conversation_id)
        session = next((session for session in sessions if session.id == session_id), None)
        if session is None:
            raise NotFound(f"This conversation has no session {session_id}.", param="session_id")
        place, start = conversation.place, session.begins_after
        if session.closed_at is not None:
            place = Place(session.ends_with, followed_run(connection, caller, conversation, session.ends_with))
        known = find_decisions(connection, caller, conversation_id)
        held = _held(connection, caller, conversation, place, known)
        return ConversationSnapshot(
            conversation=conversation,
            path=find_path(connection, caller, conversation_id, place, start),
            decisions=tuple(one.stored for one in held if one.model in (None, model)),
            last_bill=find_last_bill(connection, caller, conversation, place, model),
            session=session,
            summaries=_summaries(sessions, session),
            place=place,
            documents=ask_documents(connection, caller, conversation_id)(),
            session_changes=_session_changes(known),
            sent_before=ask_sent(connection, caller, start, RECENT)(),
        )

    @reads
    def snapshots(
        self,
        connection: Connection,
        caller: Caller,
        conversation_id: str,
        models: Sequence[str],
        place: Place | None = None,
        *,
        with_last: bool = False,
    ) -> tuple[ConversationSnapshot, ...]:
        """As `snapshot`, for each of the models and at `place`, None for where the conversation stands.

        `with_last`: the turn at the place is read although its session ended with it, since it is to be continued.
        """
        return _snapshots(connection, caller, conversation_id, models, place, with_last=with_last)

    async def agent_and_project(
        self, caller: Caller, conversation_id: str, agent_id: str | None, *, keep: bool = True
    ) -> AgentAndProject:
        """The agent `agent_id`, and the conversation's project with its numbered documents.

        A file of the project that has no number in this conversation gets one that was never used in it. Without
        `keep` the numbers are those it would get, and nothing is stored.
        """
        found, is_new = await self._agent_and_project(caller, conversation_id, agent_id)
        # Another turn can't begin meanwhile, but another process may have: number them again, where only one can.
        return await self._number(caller, conversation_id, agent_id) if keep and is_new else found

    @reads
    def _agent_and_project(
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


def _snapshots(
    connection: Connection,
    caller: Caller,
    conversation_id: str,
    models: Sequence[str],
    place: Place | None = None,
    *,
    with_last: bool = False,
) -> tuple[ConversationSnapshot, ...]:
    """Most conversations are a single line that goes on at its end: all of such a one is asked for at once."""
    conversation_of = ask_conversation(connection, caller, conversation_id)
    decisions_of = ask_decisions(connection, caller, conversation_id)
    documents_of = ask_documents(connection, caller, conversation_id)
    current = select(conversations.c.session_id).where(*owned_by(conversations, caller, conversation_id))
    sessions_of = ask_ancestry(connection, caller, current.scalar_subquery())
    newest = newest_session(caller, conversation_id)
    path_of = ask_window(connection, caller, conversation_id, newest)
    sent_of = ask_sent(connection, caller, newest, RECENT)
    bills_of = [ask_last_bill(connection, caller, conversation_id, model) for model in models]
    conversation, known, documents = conversation_of(), decisions_of(), documents_of()
    place = place or conversation.place
    is_line = not conversation.forked and place == conversation.place
    held = _held(connection, caller, conversation, place, known)
    sessions = sessions_of() if is_line else find_sessions(connection, caller, conversation_id)
    named, start = _window(held)
    session = _session(conversation, sessions, place, named)
    if is_line and not with_last:
        path, sent, bills = path_of(conversation, start), sent_of(), [bill_of(place) for bill_of in bills_of]
    else:
        after = start
        if with_last and place.turn_id is not None and place.turn_id == start:
            after = find_turn(connection, caller, start)["parent_id"]
        path = find_path(connection, caller, conversation_id, place, after)
        sent = ask_sent(connection, caller, start, RECENT)()
        bills = [find_last_bill(connection, caller, conversation, place, model) for model in models]
    return tuple(
        ConversationSnapshot(
            conversation=conversation,
            path=path,
            decisions=tuple(one.stored for one in held if one.model in (None, model)),
            last_bill=bill,
            session=session,
            summaries=_summaries(sessions, session),
            place=place,
            documents=documents,
            session_changes=_session_changes(known),
            sent_before=sent,
        )
        for model, bill in zip(models, bills, strict=True)
    )


def _session_changes(known: Sequence[StoredDecision]) -> int:
    """How often the conversation went from one session to another, in whatever branch."""
    return sum(stored.decision.kind is DecisionKind.SESSION for stored in known)


def _numbered(connection: Connection, caller: Caller, project: StoredProject, numbers: Numbers) -> Project:
    contents = find_contents(connection, caller, project.files)
    documents = tuple(attachment_of(file, *numbers.project(file.id), contents) for file in project.files)
    return Project(project.id, project.name, project.instructions, documents, project.revision)
