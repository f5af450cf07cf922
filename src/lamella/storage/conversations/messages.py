"""Turns as rows: their runs, user messages and steps, and the turns that are made of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import RowMapping

from lamella.core.messages import Attachment, Step, Text, Turn, TurnStatus, UserMessage
from lamella.core.records import NewRun, NewTurn, Place, RunEnd, RunRecord, TurnEnd, TurnRecord
from lamella.core.tokens import Usage
from lamella.storage.failures import damaged
from lamella.storage.rows import USAGE_COLUMNS, Row, record, recorder, usage_of, usage_row, values
from lamella.storage.tables import messages, runs, turns

MESSAGE = (
    messages.c.id,
    messages.c.turn_id,
    messages.c.run_id,
    messages.c.model,
    messages.c.parts,
    messages.c.results,
    messages.c.stop_reason,
    messages.c.made_after,
    messages.c.reminder,
    messages.c.made_from,
    messages.c.tokens,
    messages.c.sent_at,
    messages.c.timezone,
    messages.c.dynamic,
    messages.c.dynamic_whys,
    messages.c.tools,
)
"""What is read of a message."""

step_of = recorder(Step, MESSAGE)
"""The step of such a row."""

_user_message_of = recorder(UserMessage, MESSAGE)

Attached = Mapping[str, tuple[Attachment, ...]]
"""Attachments by the id of their message."""


def turn_row(owner: str, turn: NewTurn, parent: Place, at: datetime) -> Row:
    """The row of a turn that begins."""
    place = {"parent_id": parent.turn_id, "parent_run_id": parent.run_id}
    return values(turns, turn, owner=owner, status=TurnStatus.RUNNING, started_at=at, **place)


def run_row(owner: str, turn_id: str, number: int, run: NewRun) -> Row:
    """The row of a run that begins."""
    return values(runs, run, owner=owner, turn_id=turn_id, number=number, status=TurnStatus.RUNNING)


def user_message_row(owner: str, turn: NewTurn) -> Row:
    """The row of a turn's user message, without its session."""
    parts = [Text(turn.text)] if turn.text else []
    said = {"parts": parts, "dynamic": turn.dynamic.text, "dynamic_whys": turn.dynamic.whys}
    this = {"id": turn.user_message_id, "turn_id": turn.id, "seq": 0, "role": "user"}
    return values(messages, turn, owner=owner, made_from=turn.dynamic.made_from, **this, **said)


def step_row(owner: str, turn_id: str, run_id: str, seq: int, step: Step) -> Row:
    """The row of a step, without its session, and with usage and cost still unknown."""
    place = {"turn_id": turn_id, "run_id": run_id, "seq": seq, "role": "assistant"}
    return values(messages, step, owner=owner, cost=None, **place, **dict.fromkeys(USAGE_COLUMNS))


def end_row(end: TurnEnd | RunEnd) -> Row:
    """What the end of a turn or a run changes in its row; a request that was told of twice counts once."""
    spent = list({one.request_id: one for one in end.requests}.values())
    usage = sum((one.usage for one in spent), Usage())
    return values(turns, end, cost=sum(one.cost for one in spent), **usage_row(usage))


def user_message_of(row: RowMapping, attachments: tuple[Attachment, ...]) -> UserMessage:
    """The user message of a row of `messages`."""
    text = "".join(part.text for part in row["parts"] if isinstance(part, Text))
    return _user_message_of(row, text=text, attachments=attachments, dynamic=row["dynamic"] or "")


def turn_of(turn_id: str, status: TurnStatus, rows: Sequence[RowMapping], attached: Attached) -> Turn:
    """The canonical turn of its message rows, the user message first."""
    if not rows:
        raise damaged(f"turn {turn_id}", "no messages")
    user, *steps = rows
    message = user_message_of(user, attached.get(user["id"], ()))
    return Turn(turn_id, message, tuple(map(step_of, steps)), status)


def run_record_of(row: RowMapping, steps: Iterable[RowMapping]) -> RunRecord:
    """The run as clients see it, of its row and the rows of its steps."""
    made = tuple(map(step_of, steps))
    return record(RunRecord, row, index=row["number"], steps=made, usage=usage_of(row))


def turn_record_of(
    row: RowMapping, runs: Sequence[RowMapping], rows: Sequence[RowMapping], attached: Attached
) -> TurnRecord:
    """The turn as clients see it, of its row, the rows of its runs in order, and its message rows."""
    if not runs:
        raise damaged(f"turn {row['id']}", "no runs")
    user = turn_of(row["id"], row["status"], rows[:1], attached).user
    return record(
        TurnRecord,
        row,
        parent=Place(row["parent_id"], row["parent_run_id"]),
        user_message_id=user.id,
        text=user.text,
        sent_at=user.sent_at,
        timezone=user.timezone,
        attachments=user.attachments,
        dynamic=user.dynamic,
        dynamic_from=user.made_from,
        tools=user.tools,
        results=user.results,
        runs=tuple(run_record_of(run, [step for step in rows if step["run_id"] == run["id"]]) for run in runs),
        usage=usage_of(row),
    )


PREVIEW = 120
"""Characters of a message in the tree."""


def beginning_of(row: RowMapping) -> str:
    """How a message begins, in one line."""
    text = " ".join("".join(part.text for part in row["parts"] if isinstance(part, Text)).split())
    return text if len(text) <= PREVIEW else f"{text[: PREVIEW - 1]}…"
