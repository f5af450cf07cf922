"""Removes packets and request bodies that were kept long enough: a batch is one transaction, and is found once.

    packets of a turn     its rows of the journal, or what was packed of them; the turn says when they expired, its
                          messages stay
    body of a request     blocks that no younger request of the conversation has; the request says when it expired,
                          its segments, figures and fingerprints stay, and so does what was answered

A conversation in which a turn runs is left for the next time. What is left is found in the rows themselves, so a run
that was cut off goes on where it ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, RowMapping, delete, func, or_, select, update

from lamella.core.messages import TurnStatus
from lamella.core.records import Caller, Expired
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.conversations.packets import pack_turn
from lamella.storage.database import Rows, reads, writes
from lamella.storage.passages import take_over_words
from lamella.storage.tables import blocks, journal, requests, turns

_CHUNK = 500
"""Blocks that one statement removes."""

_IN_JOURNAL = select(journal.c.turn_id).where(journal.c.turn_id == turns.c.id).exists()


@dataclass(frozen=True, slots=True)
class ExpiredCounts:
    """How many turns of a conversation have lost their packets, and how many requests their bodies."""

    turns: int
    requests: int


class RetentionRows(Rows):
    """What is older than it is kept."""

    @reads
    def turns_to_expire(self, connection: Connection, before: datetime, most: int) -> tuple[str, ...]:
        """Turns of every owner that ended before a moment and still have packets, at most so many."""
        ended = (
            select(turns.c.id)
            .where(turns.c.status != TurnStatus.RUNNING, turns.c.finished_at < before)
            .where(or_(turns.c.packets.is_not(None), _IN_JOURNAL))
            .order_by(turns.c.id)
            .limit(most)
        )
        return tuple(connection.execute(ended).scalars())

    @writes
    def expire_packets(self, connection: Connection, turn_ids: Sequence[str], expired: Expired) -> None:
        """Remove the packets of these turns."""
        connection.execute(delete(journal).where(journal.c.turn_id.in_(turn_ids)))
        connection.execute(update(turns).where(turns.c.id.in_(turn_ids)).values(expired=expired, packets=None))

    @writes
    def pack_packets(self, connection: Connection, before: datetime, most: int) -> int:
        """Pack the packets of turns of every owner that ended before a moment, at most so many turns; gives how many.

        Only the journal is looked through, which has the newest turns.
        """
        in_journal = select(journal.c.turn_id).distinct().subquery()
        ended = (
            select(turns)
            .join(in_journal, in_journal.c.turn_id == turns.c.id)
            .where(turns.c.status != TurnStatus.RUNNING, turns.c.finished_at < before)
            .order_by(turns.c.id)
            .limit(most)
        )
        found = connection.execute(ended).mappings().all()
        for turn in found:
            pack_turn(connection, Caller(turn["owner"]), turn)
        return len(found)

    @reads
    def conversations_to_expire(self, connection: Connection, before: datetime) -> tuple[tuple[Caller, str], ...]:
        """Conversations with requests that were made before a moment and still have their bodies."""
        old = select(requests.c.owner, requests.c.conversation_id).where(
            requests.c.at < before, requests.c.expired.is_(None)
        )
        rows = connection.execute(old.distinct().order_by(requests.c.conversation_id)).all()
        return tuple((Caller(owner), conversation_id) for owner, conversation_id in rows)

    @writes
    def expire_requests(
        self, connection: Connection, caller: Caller, conversation_id: str, before: datetime, expired: Expired
    ) -> int:
        """Remove the bodies of a conversation's requests from before a moment; gives their number, 0 while a turn runs.

        A block stays as long as a younger request has it.
        """
        its = (turns.c.conversation_id == conversation_id, turns.c.owner == caller.user_id)
        if connection.execute(select(turns.c.id).where(*its, turns.c.status == TurnStatus.RUNNING)).first():
            return 0
        of = (requests.c.conversation_id == conversation_id, requests.c.owner == caller.user_id)
        columns = (requests.c.id, requests.c.base, requests.c.shared, requests.c.length, requests.c.segments)
        query = select(*columns, requests.c.at, requests.c.expired).where(*of).order_by(requests.c.depth.desc())
        rows = connection.execute(query).mappings().all()
        old = [row["id"] for row in rows if row["at"] < before and row["expired"] is None]
        kept = _blocks_of([row for row in rows if row["at"] >= before], rows)
        here = (blocks.c.conversation_id == conversation_id, blocks.c.owner == caller.user_id)
        gone = sorted(set(connection.execute(select(blocks.c.digest).where(*here)).scalars()) - kept)
        for i in range(0, len(gone), _CHUNK):
            connection.execute(delete(blocks).where(*here, blocks.c.digest.in_(gone[i : i + _CHUNK])))
        for i in range(0, len(old), _CHUNK):
            these = (*of, requests.c.id.in_(old[i : i + _CHUNK]))
            connection.execute(update(requests).where(*these).values(expired=expired))
        return len(old)

    @writes
    def take_over_words(self, connection: Connection) -> None:
        """Take over the words of passages that processes of an earlier version have stored meanwhile."""
        take_over_words(connection)

    @reads
    def expired(self, connection: Connection, caller: Caller, conversation_id: str) -> ExpiredCounts:
        """What of a conversation has expired."""
        find_conversation(connection, caller, conversation_id)
        counts = [
            connection.execute(
                select(func.count()).where(
                    table.c.conversation_id == conversation_id,
                    table.c.owner == caller.user_id,
                    table.c.expired.is_not(None),
                )
            ).scalar_one()
            for table in (turns, requests)
        ]
        return ExpiredCounts(*counts)


def _blocks_of(young: Sequence[RowMapping], rows: Sequence[RowMapping]) -> set[str]:
    """The blocks of some requests, given all rows of their conversation, those that build on most others first.

    A row has the segments behind those that it shares with its base, so each base is asked for as many as any needs.
    """
    needed: defaultdict[str, int] = defaultdict(int)
    needed |= {row["id"]: row["length"] for row in young}
    found: set[str] = set()
    for row in rows:
        count = needed[row["id"]]
        own = row["segments"][: max(0, count - row["shared"])]
        found.update(mark for segment in own for mark in segment.blocks)
        if row["base"] is not None:
            needed[row["base"]] = max(needed[row["base"]], min(count, row["shared"]))
    return found
