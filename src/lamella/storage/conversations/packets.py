"""The packets of turns as they are stored: lines of the journal at first, and packed some time after the end."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs
from sqlalchemy import Connection, RowMapping, delete, select, update

from lamella.core.packed_packets import RequestFigures, packed, packets_of, unpacked
from lamella.core.packets import Packet, encode_packet
from lamella.core.records import Caller
from lamella.storage.conversations.paths import stored_records
from lamella.storage.rows import USAGE_COLUMNS, record, usage_of
from lamella.storage.tables import journal, requests, turns

_REQUEST = (
    requests.c.id,
    requests.c.run_id,
    requests.c.step,
    requests.c.purpose,
    requests.c.letters,
    requests.c.estimate,
    requests.c.budget,
    requests.c.predicted_read,
    requests.c.cost,
    *(requests.c[column] for column in USAGE_COLUMNS),
)


def stored_lines(connection: Connection, caller: Caller, turn: RowMapping, after: int = 0) -> list[bytes]:
    """The packets of a turn as they were sent, at least those after number `after`.

    If its rows have changed since they were packed, they are made from the rows.
    """
    lines: list[bytes] = []
    if turn["packets"] is not None:
        told, after = _told(connection, caller, turn), 0
        try:
            lines = unpacked(turn["packets"], told)
        except ValueError:
            lines = [encode_packet(_numbered(packet, n, turn["id"])) for n, packet in enumerate(told, start=1)]
    query = (
        select(journal.c.data)
        .where(journal.c.turn_id == turn["id"], journal.c.owner == caller.user_id, journal.c.last > after)
        .order_by(journal.c.first)
    )
    return [*lines, *(line for data in connection.execute(query).scalars() for line in data.split(b"\n") if line)]


def pack_turn(connection: Connection, caller: Caller, turn: RowMapping) -> None:
    """Pack the packets of an ended turn with its row, and remove them from the journal."""
    lines = stored_lines(connection, caller, turn)
    if lines:
        data = packed(lines, _told(connection, caller, turn))
        connection.execute(update(turns).where(turns.c.id == turn["id"]).values(packets=data))
    connection.execute(delete(journal).where(journal.c.turn_id == turn["id"]))


def _told(connection: Connection, caller: Caller, turn: RowMapping) -> Sequence[Packet]:
    """The packets that the rows of a turn tell, whoever may read them."""
    [found] = stored_records(connection, caller, [turn])
    query = select(*_REQUEST).where(requests.c.turn_id == turn["id"], requests.c.owner == caller.user_id)
    rows = connection.execute(query.order_by(requests.c.at, requests.c.id)).mappings()
    billed = [record(RequestFigures, row, usage=None if row["input_tokens"] is None else usage_of(row)) for row in rows]
    return tuple(packets_of(found, billed))


def _numbered(packet: Packet, n: int, turn_id: str) -> Packet:
    return structs.replace(packet, n=n, turn_id=turn_id)
