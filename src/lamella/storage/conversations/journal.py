"""The journal: packets of running turns as they were sent, to resume from and to recover with."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, select

from lamella.core.errors import NotFound
from lamella.core.records import Caller, JournalEntry
from lamella.storage.conversations.paths import find_turn
from lamella.storage.database import Verbs, insert_missing, reads, writes
from lamella.storage.failures import damaged
from lamella.storage.tables import journal, turns


class _Numbered(msgspec.Struct):
    """What the journal needs to know of a packet."""

    n: int


_numbers = msgspec.json.Decoder(_Numbered)


def _owners(connection: Connection, entries: Sequence[JournalEntry]) -> dict[str, str]:
    wanted = sorted({entry.turn_id for entry in entries})
    rows = connection.execute(select(turns.c.id, turns.c.owner).where(turns.c.id.in_(wanted)))
    return {row.id: row.owner for row in rows}


class JournalVerbs(Verbs):
    """The verbs of `Store` about the journal."""

    @writes
    def append_journal(self, connection: Connection, entries: Sequence[JournalEntry]) -> None:
        """Store packets of any number of turns in one transaction.

        An entry that is there already stays as it is: appending again after a failure is safe. Packets of a turn that
        was deleted meanwhile have nowhere to go and are left out; those of a foreign turn raise `NotFound`.
        """
        if not entries:
            return
        owners = _owners(connection, entries)
        for entry in entries:
            if owners.get(entry.turn_id, entry.owner) != entry.owner:
                raise NotFound(f"There is no turn {entry.turn_id}.", param="turn_id")
        rows = [
            {
                "turn_id": entry.turn_id,
                "first": entry.first,
                "last": entry.last,
                "owner": entry.owner,
                "data": entry.data,
            }
            for entry in entries
            if entry.turn_id in owners
        ]
        insert_missing(connection, journal, rows)

    @reads
    def journal(
        self, connection: Connection, caller: Caller, turn_id: str, after: int
    ) -> tuple[tuple[int, bytes], ...]:
        """The stored packets of a turn behind number `after`, each with its number."""
        query = (
            select(journal.c.data)
            .where(journal.c.turn_id == turn_id, journal.c.owner == caller.user_id, journal.c.last > after)
            .order_by(journal.c.first)
        )
        find_turn(connection, caller, turn_id)
        entries = connection.execute(query).scalars().all()
        lines = (line for data in entries for line in bytes(data).split(b"\n") if line)
        try:
            packets = tuple((_numbers.decode(line).n, line) for line in lines)
        except msgspec.DecodeError as error:
            raise damaged(f"the journal of turn {turn_id}", error) from error
        return tuple((n, line) for n, line in packets if n > after)
