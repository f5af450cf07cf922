"""Packets that no turn made: a command's answer, the place of a queued message, the end that a journal lacks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from msgspec import structs

from lamella.chat.queued import QueuedContent, sent_of
from lamella.core.errors import ServerStopping
from lamella.core.packed_packets import packets_of
from lamella.core.packets import (
    CommandPacket,
    ErrorPacket,
    Packet,
    PacketsExpired,
    TurnFinished,
    TurnQueued,
    TurnStopped,
    UsageBody,
    decode_packet,
    encode_packet,
)
from lamella.core.ports import Batch
from lamella.core.records import Expired, Notice, QueuedMessage, TurnRecord


@dataclass(frozen=True, slots=True)
class Queued:
    """A row of the queue and its `place` in it, from 1; 0 after it left the queue.

    `only_debounced`: it waits only for its own debounce. `begins`: its turn is about to be stored, and it can't be
    changed any more.
    """

    row: QueuedMessage
    place: int
    only_debounced: bool = False
    begins: bool = False


async def one_batch(packets: Batch) -> AsyncIterator[Batch]:
    """The packets, at once."""
    if packets:
        yield packets


def command_answer(notice: Notice) -> Batch:
    """The packet that answers a command."""
    packet = CommandPacket(
        n=1,
        id=notice.id,
        name=notice.name,
        argument=notice.argument,
        answer=notice.text,
        data=dict(notice.data),
        at=notice.at.isoformat(),
    )
    return [(1, encode_packet(packet))]


def queued_answer(queued: Queued) -> Batch:
    """The first packet for the sender of a queued message or command."""
    sent = sent_of(queued.row)
    due = sent.due.isoformat() if isinstance(sent, QueuedContent) else None
    return _unnumbered(TurnQueued(message_id=queued.row.id, position=queued.place, due_at=due))


def cancelled_answer() -> Batch:
    """The last packet for followers of a message that was removed from the queue."""
    return _unnumbered(TurnStopped(reason="user_cancelled"))


def failed_answer(notice: Notice) -> Batch:
    """The last packet for followers of a message that could not be answered, or a refused command."""
    error = notice.data["error"]
    assert isinstance(error, dict)
    return _unnumbered(ErrorPacket(error=error))


def stopping_answer() -> Batch:
    """The last packet for followers of a queued message when this process ends: the message stays in the queue."""
    error = ServerStopping(
        "The server is stopping.", hint="The message stays in the queue, and is answered when the server is back."
    )
    return _unnumbered(ErrorPacket(error=error.as_dict()))


def _unnumbered(packet: Packet) -> Batch:
    """A packet before those of the turn, whose numbers begin at 1."""
    return [(0, encode_packet(packet))]


def ends(data: bytes) -> bool:
    """Whether a packet is the last of its turn."""
    return isinstance(decode_packet(data), TurnFinished)


def expired_packets(turn: TurnRecord, expired: Expired, after: int) -> Batch:
    """The packets of a turn whose own ones have expired, made from its messages.

    A follower that has got some of them (`after`) gets a packet that says that the others expired, and the turn's end.
    """
    said = PacketsExpired(expired_at=expired.at.isoformat(), kept_days=expired.kept_days)
    first, *rest = packets_of(turn)
    ends_with = [packet for packet in rest if isinstance(packet, (TurnStopped, TurnFinished))]
    given: list[Packet] = [said, *ends_with] if after else [first, said, *rest]
    numbered = enumerate(given, start=after + 1)
    return [(n, encode_packet(structs.replace(packet, n=n, turn_id=turn.id))) for n, packet in numbered]


def missing_end(turn: TurnRecord, n: int) -> tuple[int, bytes]:
    """The last packet of a turn, made from its rows: the journal lacks it."""
    usage = UsageBody.of(turn.usage)
    packet = TurnFinished(n=n, turn_id=turn.id, status=turn.status.value, usage=usage, cost=turn.cost)
    return n, encode_packet(packet)
