"""Turns from their first row to their last, and the packets of the running ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, RowMapping, case, func, insert, literal_column, select, update

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import HeadMoved, InvalidRequest, NotFound
from lamella.core.messages import Attachment, Turn, TurnStatus
from lamella.core.records import (
    BeginCondition,
    Caller,
    Conversation,
    File,
    JournalEntry,
    NewTurn,
    Page,
    PageQuery,
    Pinned,
    Place,
    QueuedMessage,
    RequestEnd,
    TurnEnd,
    TurnRecord,
    UnfinishedTurn,
    can_go_on,
    first_choice,
)
from lamella.core.tokens import Usage
from lamella.core.withheld_packets import packets_held_back
from lamella.storage.columns import fixed_offset
from lamella.storage.conversations.conversations import (
    ask_conversation,
    ask_conversation_of,
    find_conversation,
    turn_in_progress,
)
from lamella.storage.conversations.decisions import Moment, decide
from lamella.storage.conversations.messages import end_row, run_row, step_row, turn_row, user_message_row
from lamella.storage.conversations.packets import stored_lines
from lamella.storage.conversations.paths import ask_stored, find_path, find_records
from lamella.storage.conversations.queue import take_same, take_unchanged
from lamella.storage.conversations.requests import PinnedTo, ask_newest_pin, bill_row, find_pinned, pin, request_end_row
from lamella.storage.conversations.sessions import add_spent, ask_current_session, move_to_session
from lamella.storage.database import Rows, insert_missing, reads, upsert, writes
from lamella.storage.failures import damaged
from lamella.storage.files import find_files, numbered, numbers_of, store_numbers
from lamella.storage.grants import ask_bases_of_turn, bases_of_requests, closed_bases, records_held_back
from lamella.storage.rows import ask_row, owned_by, page_rows, values
from lamella.storage.tables import (
    attachments,
    conversations,
    decisions,
    journal,
    messages,
    notices,
    queued_messages,
    requests,
    runs,
    sessions,
    turns,
)

_TITLE_LENGTH = 60


IS_RUNNING = turns.c.status == literal_column(f"'{TurnStatus.RUNNING}'")
"""Written as the index of running turns says it: a parameter could be any status, and all turns would be read."""


def title_of(text: str) -> str:
    """A title for a conversation that begins with `text`: its first line, cut between words."""
    written = text.replace("\0", "")
    line = next((" ".join(line.split()) for line in written.splitlines() if line.strip()), "")
    if len(line) <= _TITLE_LENGTH:
        return line
    head = line[: _TITLE_LENGTH - 1]
    words = line[:_TITLE_LENGTH].rpartition(" ")[0]
    return f"{words if len(words) > _TITLE_LENGTH // 3 else head}…"


def attach(connection: Connection, caller: Caller, turn: NewTurn, wanted: Sequence[File]) -> tuple[Attachment, ...]:
    """Attach files to a turn's user message, each under its number in the conversation."""
    if not wanted:
        return ()
    numbers = numbers_of(connection, caller, turn.conversation_id, turn.file_ids)
    places = [numbers.attach(file.id) for file in wanted]
    store_numbers(connection, caller, turn.conversation_id, numbers)
    rows = [
        {
            "message_id": turn.user_message_id,
            "position": position,
            "owner": caller.user_id,
            "file_id": file.id,
            "document": document,
            "use": use,
        }
        for position, (file, (document, use)) in enumerate(zip(wanted, places, strict=True))
    ]
    connection.execute(insert(attachments), rows)
    return numbered(connection, caller, wanted, places)


def _ask_requests(connection: Connection, caller: Caller, turn_id: str) -> Callable[[], Sequence[RowMapping]]:
    """Asks for the requests of a turn, in order."""
    query = (
        select(requests.c.id, requests.c.run_id, requests.c.step, requests.c.purpose)
        .where(requests.c.turn_id == turn_id, requests.c.owner == caller.user_id)
        .order_by(requests.c.at, requests.c.id)
    )
    return connection.execute(query).mappings().all


def _end_requests(
    connection: Connection,
    caller: Caller,
    turn_id: str,
    rows: Sequence[RowMapping],
    ended: Mapping[str, RequestEnd],
) -> tuple[Mapping[tuple[str, int], Mapping[str, Any]], Mapping[str, Usage]]:
    """Store what became of the requests in `rows`; gives usage and cost by run and place of the step that a chat
    request made, and what was spent by purpose.

    A step that was sent twice belongs to its last request.
    """
    if unknown := ended.keys() - {row["id"] for row in rows}:
        raise NotFound(f"There is no request {min(unknown)} in turn {turn_id}.", param="request_id")
    for one in ended.values():
        this = owned_by(requests, caller, one.request_id)
        connection.execute(update(requests).where(*this).values(**request_end_row(one)))
    spent: defaultdict[str, Usage] = defaultdict(Usage)
    for row in rows:
        if row["id"] in ended:
            spent[row["purpose"]] += ended[row["id"]].usage
    last_of: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for row in rows:
        if row["purpose"] == "chat":
            last_of[row["run_id"]][row["step"]] = row["id"]
    bills = {
        (run_id, place): bill_row(ended[sent[number]])
        for run_id, sent in last_of.items()
        for place, number in enumerate(sorted(sent))
        if sent[number] in ended
    }
    return bills, spent


def _check_runs(end: TurnEnd, run_ids: Collection[str]) -> None:
    """Raises `NotFound` for a run that is not the turn's."""
    for run in end.runs:
        if run.run_id not in run_ids:
            raise NotFound(f"There is no run {run.run_id} in turn {end.turn_id}.", param="run_id")


def _brought(caller: Caller, turn: NewTurn, footing: BeginCondition) -> tuple[Decision, ...]:
    """What a turn decides by beginning where it does, and what came with it."""
    if footing.parent == footing.head:
        return tuple(footing.decisions)
    where = f"behind turn {footing.parent.turn_id}" if footing.parent.turn_id else "at the beginning"
    why = f"the message was sent {where}"
    branch = Decision(DecisionKind.BRANCH, turn.id, footing.parent.turn_id or "", caller.user_id, why)
    return (branch, *footing.decisions)


def check_head(conversation: Conversation, expected: Place) -> None:
    """Raises `HeadMoved` when somebody else went on from another place first."""
    if conversation.place != expected:
        raise HeadMoved(
            "The conversation has gone on elsewhere meanwhile.",
            hint="Look at it as it is now, then try again.",
            param="parent_message_id",
        )


class TurnRows(Rows):
    """Turns with their messages, and the packets of the running ones."""

    @writes
    def begin_turn(
        self,
        connection: Connection,
        caller: Caller,
        turn: NewTurn,
        at: datetime,
        queued: Sequence[QueuedMessage] = (),
        footing: BeginCondition | None = None,
    ) -> Turn:
        """Store the user message and mark the turn as running; without a `footing` it follows where the conversation
        stands.

        Gives each file a document number that the conversation has never used. The waiting messages `queued` go
        into this turn, as they were read. Raises `TurnInProgress` when a turn is running, `HeadMoved` when the
        conversation does not stand where the footing says, `SessionMoved` when it is in another session, `NotFound` for
        a foreign conversation, file or waiting message, `NotWaiting` for one that waits no more or was changed; then
        nothing is stored.
        """
        message, owner = user_message_row(caller.user_id, turn), caller.user_id
        conversation_of = ask_conversation(connection, caller, turn.conversation_id, lock=True)
        pinned_of = ask_newest_pin(connection, caller, turn.conversation_id)
        conversation, pinned_before = conversation_of(), pinned_of()
        if conversation.running_turn is not None:
            raise turn_in_progress(conversation.running_turn)
        if conversation.observed:
            raise InvalidRequest(
                "This conversation is a client's: it is recorded here, and goes on there.",
                hint="Send the message with the client.",
                param="conversation_id",
            )
        footing = footing or BeginCondition(conversation.place, conversation.place)
        check_head(conversation, footing.head)
        wanted = find_files(connection, caller, turn.file_ids)
        session_id = conversation.session_id
        if footing.session is not None:
            session_id = move_to_session(connection, caller, conversation, footing.session).id
        self._take_head(connection, caller, conversation, turn, footing, at)
        connection.execute(insert(turns), turn_row(owner, turn, footing.parent, at))
        connection.execute(insert(runs), [run_row(owner, turn.id, i, run) for i, run in enumerate(turn.runs)])
        connection.execute(insert(messages), {**message, "session_id": session_id})
        brought = _brought(caller, turn, footing)
        decide(connection, self._ids, caller, Moment(conversation.id, at, turn.id), brought)
        attached = attach(connection, caller, turn, wanted)
        take_unchanged(connection, caller, conversation.id, queued, turn.id)
        take_same(connection, caller, turn.id)
        if footing.pinned is not None:
            pin(connection, caller, PinnedTo(turn.id, conversation.id, at), footing.pinned, pinned_before)
        sent_at = fixed_offset(turn.sent_at)
        return Turn(turn.id, replace(turn, sent_at=sent_at).message(attached))

    def _take_head(
        self,
        connection: Connection,
        caller: Caller,
        conversation: Conversation,
        turn: NewTurn,
        footing: BeginCondition,
        at: datetime,
    ) -> None:
        """Make the turn the conversation's head."""
        connection.execute(
            update(conversations)
            .where(*owned_by(conversations, caller, conversation.id))
            .values(
                head=turn.id,
                head_run_id=None,
                forked=conversation.forked or footing.parent != conversation.place or len(turn.runs) > 1,
                running_turn=turn.id,
                title=conversation.title or title_of(turn.text),
                titled_by=conversation.titled_by if conversation.title else "words",
                updated_at=at,
            )
        )

    @reads
    def pinned(
        self, connection: Connection, caller: Caller, conversation_id: str
    ) -> tuple[tuple[datetime, Pinned], ...]:
        """What stood around the turns of a conversation and the requests for its summaries from which moment on, the
        oldest first. What was before this was kept is not in it.
        """
        find_conversation(connection, caller, conversation_id)
        return find_pinned(connection, caller, conversation_id)

    @reads
    def path(self, connection: Connection, caller: Caller, conversation_id: str) -> tuple[Turn, ...]:
        """The turns from the first to the head, canonical, the running one included, each with the answer that is
        followed.
        """
        conversation = find_conversation(connection, caller, conversation_id)
        return find_path(connection, caller, conversation_id, conversation.place)

    @reads
    def turn(self, connection: Connection, caller: Caller, turn_id: str) -> TurnRecord:
        """One turn."""
        row_of = ask_row(connection, turns, caller, turn_id, "turn")
        records_of = ask_stored(connection, caller, select(turns.c.id).where(turns.c.id == turn_id))
        [record] = records_held_back(connection, caller, records_of([row_of()]))
        return record

    @reads
    def attached(self, connection: Connection, caller: Caller, conversation_id: str, file_id: str) -> Attachment:
        """A file of any message of a conversation, wherever its window begins; raises `NotFound`."""
        query = (
            select(attachments.c.document, attachments.c.use)
            .join(messages, messages.c.id == attachments.c.message_id)
            .join(turns, turns.c.id == messages.c.turn_id)
            .where(attachments.c.file_id == file_id, attachments.c.owner == caller.user_id)
            .where(turns.c.conversation_id == conversation_id)
            .order_by(attachments.c.document.desc(), attachments.c.use.desc())
            .limit(1)
        )
        place = connection.execute(query).one_or_none()
        if place is None:
            raise NotFound(f"There is no file {file_id} in this conversation.", param="file_id")
        wanted = find_files(connection, caller, [file_id])
        [found] = numbered(connection, caller, wanted, [(place.document, place.use)])
        return found

    @reads
    def turns(self, connection: Connection, caller: Caller, conversation_id: str, query: PageQuery) -> Page[TurnRecord]:
        """The turns of a conversation, of every branch, by id."""
        own = select(turns).where(turns.c.conversation_id == conversation_id, turns.c.owner == caller.user_id)
        find_conversation(connection, caller, conversation_id)
        rows = page_rows(connection, own, turns.c.id, query)
        return Page(find_records(connection, caller, rows.data), rows.has_more)

    @writes
    def finish_turn(
        self, connection: Connection, caller: Caller, end: TurnEnd, closing: JournalEntry | None = None
    ) -> None:
        """Store steps, results, usage and status. A turn that has ended already stays as it is.

        `closing` are its last packets: who sees that it has ended sees them too.
        Its messages belong to the session that is current now, whatever it was when the turn began.
        """
        made = [(run.run_id, place, step) for run in end.runs for place, step in enumerate(run.steps)]
        ended = {one.request_id: one for one in end.requests}
        conversation_of = ask_conversation_of(connection, caller, end.turn_id)
        session_of = ask_current_session(connection, caller, end.turn_id)
        turn_of = ask_row(connection, turns, caller, end.turn_id, "turn")
        requests_of = _ask_requests(connection, caller, end.turn_id)
        runs_of = connection.execute(select(runs.c.id).where(runs.c.turn_id == end.turn_id)).scalars()
        turn, conversation, session = turn_of(), conversation_of(), session_of()
        sent, run_ids = requests_of(), set(runs_of)
        if turn["status"] is not TurnStatus.RUNNING:
            return
        if closing is not None:
            insert_missing(connection, journal, [values(journal, closing)])
        label = {"session_id": conversation.session_id}
        connection.execute(update(turns).where(*owned_by(turns, caller, end.turn_id)).values(**end_row(end)))
        _check_runs(end, run_ids)
        for run in end.runs:
            connection.execute(update(runs).where(*owned_by(runs, caller, run.run_id)).values(**end_row(run)))
        bills, spent = _end_requests(connection, caller, end.turn_id, sent, ended)
        add_spent(connection, caller, session, spent)
        its = (messages.c.turn_id == end.turn_id, messages.c.owner == caller.user_id)
        connection.execute(update(messages).where(*its).values(label))
        if made:
            steps = [
                {**step_row(caller.user_id, end.turn_id, run_id, seq, step), **label, **bills.get((run_id, place), {})}
                for seq, (run_id, place, step) in enumerate(made, start=1)
            ]
            connection.execute(insert(messages), steps)
        statuses = [run.status for run in end.runs]
        chosen = end.runs[first_choice(statuses)].run_id if end.runs else None
        others = [run.run_id for n, run in enumerate(end.runs) if can_go_on(statuses, n)]
        connection.execute(
            update(conversations)
            .where(*owned_by(conversations, caller, conversation.id), conversations.c.running_turn == end.turn_id)
            .values(
                running_turn=None,
                head_run_id=case((conversations.c.head_run_id.in_(others), conversations.c.head_run_id), else_=chosen),
                updated_at=end.finished_at,
            )
        )

    @reads
    def newest_ids(self, connection: Connection) -> tuple[str, ...]:
        """The newest id of each table whose rows are read in the order of their ids."""
        tables = (conversations, sessions, turns, runs, messages, requests, decisions, notices, queued_messages)
        found = [connection.execute(select(func.max(table.c.id))).scalar_one() for table in tables]
        return tuple(id for id in found if id is not None)

    @reads
    def unfinished_turns(
        self, connection: Connection, conversation_id: str | None = None
    ) -> tuple[UnfinishedTurn, ...]:
        """The turns of every owner that are marked as running, or those of one conversation: for recovery."""
        query = (
            select(turns.c.id, runs.c.number, turns.c.owner, turns.c.conversation_id, runs.c.id)
            .join(runs, runs.c.turn_id == turns.c.id)
            .where(IS_RUNNING)
        )
        if conversation_id is not None:
            query = query.where(turns.c.conversation_id == conversation_id)
        found: dict[str, UnfinishedTurn] = {}
        # Sorted here: to have them sorted, SQLite would go through all turns by their ids.
        for turn_id, _, owner, conversation_id, run_id in sorted(map(tuple, connection.execute(query))):
            turn = found.get(turn_id) or UnfinishedTurn(Caller(owner), turn_id, conversation_id)
            found[turn_id] = replace(turn, run_ids=(*turn.run_ids, run_id))
        return tuple(found.values())

    @writes
    def append_journal(self, connection: Connection, entries: Sequence[JournalEntry]) -> None:
        """Store packets of any number of turns in one transaction.

        Appending again after a failure is safe: an entry that is there already stays as it is, or grows by the packets
        that came meanwhile. Packets of a turn that was deleted meanwhile have nowhere to go and are left out; those of
        a foreign turn raise `NotFound`.
        """
        if not entries:
            return
        owners = _owners(connection, entries)
        for entry in entries:
            if owners.get(entry.turn_id, entry.owner) != entry.owner:
                raise NotFound(f"There is no turn {entry.turn_id}.", param="turn_id")
        upsert(
            connection,
            journal,
            [values(journal, entry) for entry in entries if entry.turn_id in owners],
            journal.c.last,
        )

    @reads
    def progress(self, connection: Connection, turn_ids: Sequence[str]) -> Mapping[str, tuple[int, bool]]:
        """How far turns came, by their ids: the last number of their stored packets, and whether they run. Deleted ones
        are not in it. For any owner: nothing of what they say is given.
        """
        last = func.coalesce(func.max(journal.c.last), 0)
        query = (
            select(turns.c.id, turns.c.status == TurnStatus.RUNNING, last)
            .outerjoin(journal, journal.c.turn_id == turns.c.id)
            .where(turns.c.id.in_(turn_ids))
            .group_by(turns.c.id, turns.c.status)
        )
        return {id: (stored, bool(runs)) for id, runs, stored in connection.execute(query).all()}

    @reads
    def is_closed(self, connection: Connection, caller: Caller, turn_id: str) -> bool:
        """Whether a turn was made from what its reader may not read in full any more; raises `NotFound`."""
        turn_of = ask_row(connection, turns, caller, turn_id, "turn")
        bases_of = ask_bases_of_turn(connection, caller, turn_id)
        turn_of()
        return bool(closed_bases(connection, caller, bases_of()))

    @reads
    def journal(
        self, connection: Connection, caller: Caller, turn_id: str, after: int
    ) -> tuple[tuple[int, bytes], ...]:
        """The stored packets of a turn after number `after`, each with its number; fixed sentences stand in those of
        steps that may not be read any more.
        """
        turn_of = ask_row(connection, turns, caller, turn_id, "turn")
        bases_of = ask_bases_of_turn(connection, caller, turn_id)
        turn = turn_of()
        closed = closed_bases(connection, caller, bases_of())
        lines = stored_lines(connection, caller, turn, 0 if closed else after)
        try:
            made_from = bases_of_requests(connection, caller, turn_id) if closed else {}
            given = packets_held_back(lines, closed, made_from) if closed else lines
            packets = tuple((_numbers.decode(line).n, line) for line in given)
        except msgspec.DecodeError as error:
            raise damaged(f"the journal of turn {turn_id}", error) from error
        return tuple((n, line) for n, line in packets if n > after)


class _Numbered(msgspec.Struct):
    """What the journal needs to know of a packet."""

    n: int


_numbers = msgspec.json.Decoder(_Numbered)


def _owners(connection: Connection, entries: Sequence[JournalEntry]) -> dict[str, str]:
    wanted = sorted({entry.turn_id for entry in entries})
    rows = connection.execute(select(turns.c.id, turns.c.owner).where(turns.c.id.in_(wanted)))
    return {row.id: row.owner for row in rows}
