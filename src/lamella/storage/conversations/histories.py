"""Histories of clients: the answers that they got of agents, found by keys, and turns that they sent along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import HeadMoved, InvalidRequest
from lamella.core.messages import Step, TurnStatus
from lamella.core.records import AnswerPlace, Caller, Conversation, ImportedTurn, Place, TurnRecord
from lamella.storage.conversations.conversations import find_conversation, turn_in_progress
from lamella.storage.conversations.copies import copied_path
from lamella.storage.conversations.decisions import Moment, decide
from lamella.storage.conversations.messages import run_row, step_row, turn_row, user_message_row
from lamella.storage.conversations.paths import find_turn
from lamella.storage.conversations.turns import attach
from lamella.storage.database import Rows, reads, writes
from lamella.storage.files import find_files
from lamella.storage.library import find_agent
from lamella.storage.rows import Row, owned_by
from lamella.storage.tables import client_answers, conversations, messages, requests, runs, turns

LOOKED_UP = 500
"""So many of the newest answers of a history are looked up."""


def _place_of(row: RowMapping) -> AnswerPlace:
    return AnswerPlace(row["conversation_id"], Place(row["turn_id"], row["run_id"]), row["at"])


def _keep(
    connection: Connection, caller: Caller, agent_id: str, key: str, conversation_id: str, place: Place, at: datetime
) -> None:
    named = {"owner": caller.user_id, "agent_id": agent_id, "key": key}
    connection.execute(delete(client_answers).where(*(client_answers.c[name] == named[name] for name in named)))
    where = {"conversation_id": conversation_id, "turn_id": place.turn_id, "run_id": place.run_id, "at": at}
    connection.execute(insert(client_answers), named | where)


class HistoryRows(Rows):
    """What clients saw of agents, and what they sent of other histories."""

    @reads
    def answers(
        self, connection: Connection, caller: Caller, agent_id: str, keys: Sequence[str]
    ) -> Mapping[str, AnswerPlace]:
        """Where the answers with these keys are. Those that are not known are left out."""
        query = select(client_answers).where(
            client_answers.c.owner == caller.user_id,
            client_answers.c.agent_id == agent_id,
            client_answers.c.key.in_(keys[-LOOKED_UP:]),
        )
        return {row["key"]: _place_of(row) for row in connection.execute(query).mappings()}

    @writes
    def keep_answer(
        self,
        connection: Connection,
        caller: Caller,
        agent_id: str,
        key: str,
        conversation_id: str,
        place: Place,
        at: datetime,
    ) -> None:
        """Remember where an answer is. Of two with one key the newer one counts."""
        find_agent(connection, caller, agent_id)
        find_conversation(connection, caller, conversation_id)
        _keep(connection, caller, agent_id, key, conversation_id, place, at)

    @writes
    def copy_path(
        self, connection: Connection, caller: Caller, conversation_id: str, place: Place, into: str
    ) -> Place | None:
        """Copy the turns up to a place into an empty conversation: see `copied_path`."""
        source, target = (find_conversation(connection, caller, id) for id in (conversation_id, into))
        return copied_path(connection, caller, self._ids, source, place, target)

    @writes
    def import_turns(
        self,
        connection: Connection,
        caller: Caller,
        agent_id: str | None,
        parent: Place,
        imported: Sequence[ImportedTurn],
        at: datetime,
    ) -> Place:
        """Store turns that a client sent, one after the other, after `parent`. Returns the place after the last.

        The conversation goes on there. Without an agent no answer is found by its key, and `parent` has to be where the
        conversation stands. Raises `TurnInProgress` while it answers, and `HeadMoved` if it stands elsewhere.
        """
        conversation_id = imported[0].turn.conversation_id
        conversation = find_conversation(connection, caller, conversation_id, lock=True)
        if conversation.running_turn is not None:
            raise turn_in_progress(conversation.running_turn)
        if agent_id is not None:
            find_agent(connection, caller, agent_id)
        elif parent != conversation.place:
            raise HeadMoved("The conversation went on meanwhile.")
        place = parent
        for one in imported:
            place = _import_turn(connection, caller, one, place, conversation.session_id, at)
            if one.key and agent_id is not None:
                _keep(connection, caller, agent_id, one.key, conversation_id, place, at)
        connection.execute(
            update(conversations)
            .where(*owned_by(conversations, caller, conversation_id))
            .values(
                head=place.turn_id,
                head_run_id=place.run_id,
                forked=conversation.forked or parent != conversation.place,
                updated_at=at,
            )
        )
        if parent != conversation.place:
            first = imported[0].turn.id
            why = "the client sent a history that differs from here on"
            branch = Decision(DecisionKind.BRANCH, first, parent.turn_id or "", caller.user_id, why)
            decide(connection, self._ids, caller, Moment(conversation_id, at, first), (branch,))
        return place

    @writes
    def change_imported(
        self,
        connection: Connection,
        caller: Caller,
        was: TurnRecord,
        steps: Sequence[Step] | None,
        at: datetime,
        adds: bool = False,
    ) -> None:
        """Replace the steps of a conversation's newest turn, which a client sent; None removes the turn.

        Raises `TurnInProgress` while the conversation answers, `HeadMoved` if the turn is not as it `was`,
        `InvalidRequest` for any other turn, or `HeadMoved` if the caller `adds` to what was the newest one.
        """
        turn_id = was.id
        turn = find_turn(connection, caller, turn_id)
        conversation = find_conversation(connection, caller, turn["conversation_id"], lock=True)
        if adds and conversation.running_turn is None and conversation.head != turn_id:
            raise HeadMoved("The conversation went on meanwhile.")
        _must_be_newest(connection, caller, conversation, turn_id)
        its = messages.c.turn_id == turn_id, messages.c.owner == caller.user_id, messages.c.seq > 0
        stored = connection.execute(select(messages.c.id).where(*its).order_by(messages.c.seq)).scalars().all()
        if tuple(stored) != tuple(step.id for step in was.steps):
            raise HeadMoved("The conversation's newest turn was changed meanwhile.")
        connection.execute(delete(messages).where(*its))
        moved: Row = {"updated_at": at}
        for seq, step in enumerate(steps or (), start=1):
            row = step_row(caller.user_id, turn_id, str(conversation.head_run_id), seq, step)
            connection.execute(insert(messages), {**row, "session_id": conversation.session_id})
        if steps is None:
            moved |= {"head": turn["parent_id"], "head_run_id": turn["parent_run_id"]}
            connection.execute(delete(turns).where(*owned_by(turns, caller, turn_id)))
        this = owned_by(conversations, caller, conversation.id)
        connection.execute(update(conversations).where(*this).values(**moved))


def _must_be_newest(connection: Connection, caller: Caller, conversation: Conversation, turn_id: str) -> None:
    """Raises `TurnInProgress`, and `InvalidRequest` for a turn that others follow, or that a model answered here."""
    if conversation.running_turn is not None:
        raise turn_in_progress(conversation.running_turn)
    of = requests.c.owner == caller.user_id, requests.c.turn_id == turn_id
    answered = connection.execute(select(requests.c.id).where(*of).limit(1)).first()
    followed = connection.execute(select(turns.c.id).where(turns.c.parent_id == turn_id).limit(1)).first()
    if conversation.head != turn_id or answered is not None or followed is not None:
        raise InvalidRequest(
            "Only the newest item of a conversation can be deleted, and only one that was added to it: what a model "
            "answered, and what it answered to, belongs together.",
            hint="Delete the conversation, or begin another one with the items that you want.",
        )


def _import_turn(
    connection: Connection, caller: Caller, one: ImportedTurn, parent: Place, session_id: str, at: datetime
) -> Place:
    turn, owner = one.turn, caller.user_id
    [run] = turn.runs
    ended = {"status": TurnStatus.FINISHED, "finished_at": at}
    wanted = find_files(connection, caller, turn.file_ids)
    connection.execute(insert(turns), turn_row(owner, turn, parent, at) | ended)
    connection.execute(insert(runs), run_row(owner, turn.id, 0, run) | ended)
    connection.execute(insert(messages), {**user_message_row(owner, turn), "session_id": session_id})
    attach(connection, caller, turn, wanted)
    for seq, step in enumerate(one.steps, start=1):
        row = step_row(owner, turn.id, run.id, seq, step)
        connection.execute(insert(messages), {**row, "session_id": session_id})
    return Place(turn.id, run.id)
