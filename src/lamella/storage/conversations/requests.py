"""Requests to models: their segments as a difference to an earlier request, their blocks' bytes once.

What stands around a conversation (tools, settings) is stored with a request only if it changed since the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, insert, select, update

from lamella.core.errors import NotFound, StoreFailed
from lamella.core.ids import Ids
from lamella.core.json import digest, encode
from lamella.core.knowledge import WITHHELD_REQUEST
from lamella.core.records import (
    Caller,
    Conversation,
    LastBill,
    NewRequest,
    Pinned,
    Place,
    ProviderLimit,
    RequestEnd,
    RequestRecord,
    StoredBlock,
    StoredSegment,
)
from lamella.storage.columns import json_text
from lamella.storage.conversations.conversations import ask_conversation, find_conversation
from lamella.storage.conversations.decisions import Moment, decide
from lamella.storage.conversations.paths import find_turn, line_of
from lamella.storage.database import Rows, insert_missing, reads, rows_changed, writes
from lamella.storage.failures import damaged
from lamella.storage.grants import requests_held_back
from lamella.storage.rows import USAGE_COLUMNS, Row, ask_row, owned_by, record, usage_of, usage_row, values
from lamella.storage.tables import blocks, pinned, provider_limits, requests, turns


@dataclass(frozen=True, slots=True)
class PinnedTo:
    """What it is pinned to: a turn that begins, or a side request."""

    id: str
    conversation_id: str
    at: datetime


def ask_newest_pin(connection: Connection, caller: Caller, conversation_id: str) -> Callable[[], str | None]:
    """Asks for the fingerprint of what stood around a conversation the last time that it was stored."""
    newest = (
        select(pinned.c.digest)
        .where(pinned.c.conversation_id == conversation_id, pinned.c.owner == caller.user_id)
        .order_by(pinned.c.at.desc())
        .limit(1)
    )
    return connection.execute(newest).scalar_one_or_none


def pin(connection: Connection, caller: Caller, to: PinnedTo, what: Pinned, newest: str | None) -> None:
    """Store what stands around a conversation, unless its fingerprint is `newest`."""
    mark = digest(json_text(what).encode())
    if newest != mark:
        connection.execute(insert(pinned), values(pinned, to, owner=caller.user_id, digest=mark, data=what))


def find_pinned(connection: Connection, caller: Caller, conversation_id: str) -> tuple[tuple[datetime, Pinned], ...]:
    """What stood around a conversation from which moment on, the oldest first."""
    query = (
        select(pinned.c.at, pinned.c.data)
        .where(pinned.c.conversation_id == conversation_id, pinned.c.owner == caller.user_id)
        .order_by(pinned.c.at)
    )
    return tuple((at, data) for at, data in connection.execute(query))


_LONGEST_CHAIN = 64
"""So many bases are followed; then a request is stored whole: reading one stays quick in a long conversation."""

_CHUNK = 500

Found = Mapping[str, RowMapping]


def _with_bases(connection: Connection, caller: Caller, *which: ColumnElement[bool]) -> Found:
    """What is needed to put together the segments of some requests: theirs, and those of their bases."""
    own = select(requests.c.id, requests.c.base).where(requests.c.owner == caller.user_id)
    chain = own.where(*which).cte("chain", recursive=True)
    chain = chain.union(own.where(requests.c.id == chain.c.base))
    query = select(requests).where(requests.c.id.in_(select(chain.c.id)), requests.c.owner == caller.user_id)
    return {row["id"]: row for row in connection.execute(query).mappings()}


def _segments(found: Found, request_id: str) -> tuple[StoredSegment, ...]:
    """All segments of a request: its own, and of each base as many as its successor shares."""
    pieces: list[tuple[StoredSegment, ...]] = []
    current, wanted = request_id, found[request_id]["length"]
    while wanted:
        row = found.get(current)
        if row is None:
            raise damaged(f"request {request_id}", "a base is missing")
        if wanted > row["shared"]:
            pieces.append(row["segments"][: wanted - row["shared"]])
            wanted = row["shared"]
        current = row["base"]
    return tuple(segment for piece in reversed(pieces) for segment in piece)


def _find_request(connection: Connection, caller: Caller, request_id: str) -> RequestRecord:
    found = _with_bases(connection, caller, requests.c.id == request_id)
    if request_id not in found:
        raise NotFound(f"There is no request {request_id}.", param="request_id")
    return _request_of(found, request_id)


def _request_of(found: Found, request_id: str) -> RequestRecord:
    row = found[request_id]
    usage = None if row["input_tokens"] is None else usage_of(row)
    return record(RequestRecord, row, segments=_segments(found, request_id), usage=usage)


def all_requests(connection: Connection, caller: Caller, conversation_id: str) -> tuple[RequestRecord, ...]:
    """Every request of a conversation, as it is stored."""
    found = _with_bases(connection, caller, requests.c.conversation_id == conversation_id)
    return tuple(_request_of(found, request_id) for request_id in found)


def bill_row(end: RequestEnd) -> Row:
    """What a request was billed."""
    return {**usage_row(end.usage), "cost": end.cost}


def request_end_row(end: RequestEnd) -> Row:
    """What the end of a request changes in its row."""
    changed = values(requests, end, **usage_row(end.usage))
    if end.provider_request_id is None:
        del changed["provider_request_id"]
    return changed


def _ask_starting_point(
    connection: Connection, caller: Caller, request: NewRequest
) -> Callable[[], tuple[str | None, int, int]]:
    """Asks for the base to store a request on, how many segments it shares with it, and how many bases that makes."""
    if request.base is None or request.shared == 0:
        return lambda: (None, 0, 0)
    query = select(requests.c.depth, requests.c.length).where(
        requests.c.id == request.base,
        requests.c.owner == caller.user_id,
        requests.c.conversation_id == request.record.conversation_id,
    )
    asked = connection.execute(query).mappings()

    def found() -> tuple[str | None, int, int]:
        row = asked.first()
        if row is None:
            raise NotFound(f"There is no request {request.base}.", param="base")
        if not 0 < request.shared <= min(row["length"], len(request.record.segments)):
            wrong = f"Request {request.record.id} cannot share {request.shared} segments with {request.base}."
            raise StoreFailed(wrong)
        if row["depth"] >= _LONGEST_CHAIN:
            return None, 0, 0
        return request.base, request.shared, row["depth"] + 1

    return found


def find_last_bill(
    connection: Connection, caller: Caller, conversation: Conversation, place: Place, model: str
) -> LastBill | None:
    """What the newest billed request to a model was billed on the path to `place`, digests and the like left out."""
    is_line = not conversation.forked and place == conversation.place
    return ask_last_bill(connection, caller, conversation.id, model, None if is_line else place)(place)


def _with_last_bill(
    connection: Connection, caller: Caller, conversation_id: str, model: str
) -> tuple[Conversation, LastBill | None]:
    conversation_of = ask_conversation(connection, caller, conversation_id)
    bill_of = ask_last_bill(connection, caller, conversation_id, model)
    conversation = conversation_of()
    if conversation.forked:
        return conversation, find_last_bill(connection, caller, conversation, conversation.place, model)
    return conversation, bill_of(conversation.place)


def ask_last_bill(
    connection: Connection, caller: Caller, conversation_id: str, model: str, on: Place | None = None
) -> Callable[[Place], LastBill | None]:
    """Asks for it; the answer needs the place. `on` is the place of one path among several."""
    query = (
        select(
            requests.c.id,
            requests.c.turn_id,
            requests.c.run_id,
            requests.c.at,
            requests.c.local_tokens,
            requests.c.answer_id,
            *(requests.c[column] for column in USAGE_COLUMNS),
        )
        .where(
            requests.c.conversation_id == conversation_id,
            requests.c.owner == caller.user_id,
            requests.c.model == model,
            requests.c.purpose == "chat",
            requests.c.input_tokens > 0,
            requests.c.input_estimated.is_not(True),
        )
        .order_by(requests.c.at.desc(), requests.c.id.desc())
        .limit(1)
    )
    if on is not None:
        line = line_of(caller, on, None)
        query = query.join(line, line.c.id == requests.c.turn_id)
    asked = connection.execute(query).mappings()

    def found(place: Place) -> LastBill | None:
        if (row := asked.one_or_none()) is None:
            return None
        followed = _is_followed(connection, caller, place, row)
        return record(LastBill, row, request_id=row["id"], usage=usage_of(row), followed=followed)

    return found


def _is_followed(connection: Connection, caller: Caller, place: Place, request: RowMapping) -> bool:
    """Whether the path to `place`, on which the turn of a request lies, goes on from the run that made it."""
    if request["turn_id"] == place.turn_id:
        return place.run_id in (None, request["run_id"])
    line = line_of(caller, place, request["turn_id"])
    query = select(turns.c.id).where(
        turns.c.id.in_(select(line.c.id)), turns.c.parent_run_id == request["run_id"], turns.c.owner == caller.user_id
    )
    return connection.execute(query).first() is not None


_WITHHELD = encode({"type": "text", "text": WITHHELD_REQUEST})


def insert_request(connection: Connection, ids: Ids, caller: Caller, request: NewRequest) -> None:
    """Store a request, its new blocks and its decisions."""
    new, owner = request.record, {"owner": caller.user_id}
    of = {**owner, "conversation_id": new.conversation_id}
    turn_of = ask_row(connection, turns, caller, new.turn_id, "turn")
    start_of = _ask_starting_point(connection, caller, request)
    pinned_of = ask_newest_pin(connection, caller, new.conversation_id) if request.pinned is not None else None
    if turn_of()["conversation_id"] != new.conversation_id:
        raise NotFound(f"There is no turn {new.turn_id} in {new.conversation_id}.", param="turn_id")
    base, shared, depth = start_of()
    newest = pinned_of() if pinned_of is not None else None
    stored_on = {"base": base, "shared": shared, "depth": depth, "length": len(new.segments)}
    billed = {} if new.usage is None else usage_row(new.usage)
    row = values(requests, new, **owner, **stored_on, **billed, segments=new.segments[shared:])
    connection.execute(insert(requests), row)
    insert_missing(connection, blocks, [values(blocks, block, **of) for block in request.blocks])
    moment = Moment(new.conversation_id, new.at, new.turn_id, new.run_id)
    decide(connection, ids, caller, moment, request.decisions)
    if request.pinned is not None:
        pin(connection, caller, PinnedTo(new.id, new.conversation_id, new.at), request.pinned, newest)


class RequestRows(Rows):
    """Requests to models."""

    @writes
    def record_request(self, connection: Connection, caller: Caller, request: NewRequest) -> None:
        """Store a request, its new blocks and its decisions, before it is sent."""
        insert_request(connection, self._ids, caller, request)

    @writes
    def end_request(self, connection: Connection, caller: Caller, end: RequestEnd) -> None:
        """Store the end of a side request that a turn does not wait for."""
        this = owned_by(requests, caller, end.request_id)
        if not rows_changed(connection, update(requests).where(*this).values(**request_end_row(end))):
            raise NotFound(f"There is no request {end.request_id}.", param="request_id")

    @reads
    def request(self, connection: Connection, caller: Caller, request_id: str) -> RequestRecord:
        """One request, with all its segments."""
        [found] = requests_held_back(connection, caller, [_find_request(connection, caller, request_id)])
        return found

    @reads
    def billed_request(
        self, connection: Connection, caller: Caller, conversation_id: str, before: datetime | None = None
    ) -> RequestRecord | None:
        """The newest billed request of a conversation, or the newest before a moment; None if there is none."""
        find_conversation(connection, caller, conversation_id)
        which = [requests.c.owner == caller.user_id, requests.c.conversation_id == conversation_id]
        which += [requests.c.purpose == "chat"] + ([] if before is None else [requests.c.at < before])
        query = select(requests.c.id).where(*which, requests.c.input_tokens > 0).order_by(requests.c.at.desc()).limit(1)
        request_id = connection.execute(query).scalar()
        return None if request_id is None else _find_request(connection, caller, request_id)

    @reads
    def requests(self, connection: Connection, caller: Caller, turn_id: str) -> tuple[RequestRecord, ...]:
        """The requests of a turn, in order."""
        find_turn(connection, caller, turn_id)
        found = _with_bases(connection, caller, requests.c.turn_id == turn_id)
        its = sorted((row["at"], request_id) for request_id, row in found.items() if row["turn_id"] == turn_id)
        return requests_held_back(connection, caller, [_request_of(found, request_id) for _, request_id in its])

    @reads
    def last_bill(self, connection: Connection, caller: Caller, conversation_id: str, model: str) -> LastBill | None:
        """What the newest billed request to a model was billed on the path that the conversation stands at."""
        return _with_last_bill(connection, caller, conversation_id, model)[1]

    @reads
    def with_last_bill(
        self, connection: Connection, caller: Caller, conversation_id: str, model: str
    ) -> tuple[Conversation, LastBill | None]:
        """A conversation, and what the newest billed request to a model was billed on the path that it stands at."""
        return _with_last_bill(connection, caller, conversation_id, model)

    @reads
    def provider_limit(self, connection: Connection, account: str, model: str, now: datetime) -> ProviderLimit | None:
        """The limit that a model's refusals taught, while it is believed; shared by all that use the account."""
        limits = provider_limits.c
        query = select(provider_limits).where(limits.account == account, limits.model == model)
        row = connection.execute(query.where(limits.until > now)).mappings().first()
        return record(ProviderLimit, row) if row else None

    @writes
    def keep_provider_limit(self, connection: Connection, limit: ProviderLimit) -> None:
        """Store a limit in place of the one before; one that is believed until the past is as good as none."""
        this = (provider_limits.c.account == limit.account, provider_limits.c.model == limit.model)
        connection.execute(delete(provider_limits).where(*this))
        connection.execute(insert(provider_limits), values(provider_limits, limit))

    @reads
    def blocks(self, connection: Connection, caller: Caller, request_id: str) -> tuple[StoredBlock, ...]:
        """The wire blocks of a request, in order; fixed ones in place of those that may not be read any more, and none
        of a request whose body has expired.
        """
        found: dict[str, StoredBlock] = {}
        [request] = requests_held_back(connection, caller, [_find_request(connection, caller, request_id)])
        if request.expired is not None:
            return ()
        digests = [digest for segment in request.segments for digest in segment.blocks]
        distinct = list(dict.fromkeys(digests))
        for i in range(0, len(distinct), _CHUNK):
            query = select(blocks).where(
                blocks.c.conversation_id == request.conversation_id,
                blocks.c.owner == caller.user_id,
                blocks.c.digest.in_(distinct[i : i + _CHUNK]),
            )
            found.update((row["digest"], record(StoredBlock, row)) for row in connection.execute(query).mappings())
        if len(found) < len(distinct):
            raise damaged(f"request {request_id}", "blocks are missing")
        given = tuple(found[digest] for digest in digests)
        return tuple(replace(block, data=_WITHHELD) for block in given) if request.withheld else given
