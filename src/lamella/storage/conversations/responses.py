"""Responses of the Responses API: what a response has besides its turn, and where those of upstreams came from."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, exists, insert, select, update

from lamella.core.records import Caller, StoredResponse
from lamella.storage.conversations.conversations import turn_in_progress
from lamella.storage.conversations.paths import find_turn
from lamella.storage.database import Rows, insert_missing, reads, rows_changed, writes
from lamella.storage.rows import owned_by, recorder, values
from lamella.storage.tables import responses, turns

FORWARDED_LAST = timedelta(days=30)
"""For so long it is known which upstream made a response: OpenAI keeps one for 30 days."""

_response_of = recorder(StoredResponse, responses.c)


class ResponseRows(Rows):
    """Responses of the Responses API."""

    @writes
    def add_response(self, connection: Connection, caller: Caller, response: StoredResponse) -> None:
        """Store a response; one that is stored already stays as it is. Raises `NotFound` for a foreign turn."""
        if response.turn_id is not None:
            find_turn(connection, caller, response.turn_id)
        insert_missing(connection, responses, [values(responses, response, owner=caller.user_id)])

    @reads
    def response(self, connection: Connection, caller: Caller, response_id: str) -> StoredResponse | None:
        """What is stored of a response besides its turn; None if that is nothing."""
        row = connection.execute(select(responses).where(*owned_by(responses, caller, response_id))).mappings().first()
        return _response_of(row) if row is not None else None

    @reads
    def is_known(self, connection: Connection, response_id: str) -> bool:
        """Whether a response of this id is stored, of any owner."""
        return connection.execute(select(responses.c.id).where(responses.c.id == response_id)).first() is not None

    @writes
    def delete_response(self, connection: Connection, caller: Caller, response: StoredResponse) -> str | None:
        """Delete a response of the engine; raises `TurnInProgress` while it is written.

        Returns its conversation if that began with a response and has only deleted ones, else None.
        """
        turn = find_turn(connection, caller, str(response.turn_id))
        if turn["finished_at"] is None:
            raise turn_in_progress(turn["id"])
        this = owned_by(responses, caller, response.id)
        if not rows_changed(connection, update(responses).where(*this).values(deleted=True)):
            row = values(responses, response, owner=caller.user_id) | {"deleted": True}
            connection.execute(insert(responses), row)
        of = turns.c.conversation_id == turn["conversation_id"]
        kept = select(turns.c.id).where(of, ~exists().where(*_of_turn(caller), responses.c.deleted))
        begun = select(turns.c.id).where(of, exists().where(*_of_turn(caller), responses.c.begins))
        if connection.execute(begun).first() is None or connection.execute(kept).first() is not None:
            return None
        return str(turn["conversation_id"])

    @writes
    def forget_forwarded(self, connection: Connection, now: datetime) -> int:
        """Forget which upstreams made responses a while ago; gives how many."""
        old = responses.c.account.is_not(None), responses.c.at < now - FORWARDED_LAST
        return rows_changed(connection, delete(responses).where(*old))


def _of_turn(caller: Caller) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return responses.c.turn_id == turns.c.id, responses.c.owner == caller.user_id
