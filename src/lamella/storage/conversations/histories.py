"""Histories of clients: the answers that they got of agents, found by keys, and turns that they sent along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import TurnStatus
from lamella.core.records import AnswerPlace, Caller, ImportedTurn, Place
from lamella.storage.conversations.conversations import find_conversation, turn_in_progress
from lamella.storage.conversations.decisions import Moment, decide
from lamella.storage.conversations.messages import run_row, step_row, turn_row, user_message_row
from lamella.storage.conversations.turns import attach
from lamella.storage.database import Rows, reads, writes
from lamella.storage.files import find_files
from lamella.storage.library import find_agent
from lamella.storage.rows import owned_by
from lamella.storage.tables import client_answers, conversations, messages, runs, turns

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
    def import_turns(
        self,
        connection: Connection,
        caller: Caller,
        agent_id: str,
        parent: Place,
        imported: Sequence[ImportedTurn],
        at: datetime,
    ) -> Place:
        """Store turns that a client sent, one after the other, after `parent`. Returns the place after the last.

        The conversation goes on there. Raises `TurnInProgress` while it answers.
        """
        conversation_id = imported[0].turn.conversation_id
        conversation = find_conversation(connection, caller, conversation_id, lock=True)
        if conversation.running_turn is not None:
            raise turn_in_progress(conversation.running_turn)
        find_agent(connection, caller, agent_id)
        place = parent
        for one in imported:
            place = _import_turn(connection, caller, one, place, conversation.session_id, at)
            if one.key:
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
