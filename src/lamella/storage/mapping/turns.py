"""Turns, runs, steps and user messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import RowMapping

from lamella.core.messages import (
    AnswerPart,
    Attachment,
    Step,
    StopReason,
    Text,
    ToolResult,
    Turn,
    TurnStatus,
    UserMessage,
)
from lamella.core.records import (
    NewRun,
    NewTurn,
    Place,
    RunEnd,
    RunRecord,
    TurnEnd,
    TurnRecord,
)
from lamella.core.tokens import Usage
from lamella.storage.columns import (
    NAMES,
    json_of,
    json_text,
    local_moment_text,
    moment_text,
    parts_of,
    parts_text,
    word_of,
)
from lamella.storage.failures import damaged
from lamella.storage.mapping.files import Attached
from lamella.storage.mapping.values import USAGE_COLUMNS, Row, error_of, error_text, usage_of, usage_row


def turn_row(owner: str, turn: NewTurn, parent: Place, at: datetime) -> Row:
    """The row of a turn that begins."""
    return {
        "id": turn.id,
        "owner": owner,
        "conversation_id": turn.conversation_id,
        "parent_id": parent.turn_id,
        "parent_run_id": parent.run_id,
        "status": TurnStatus.RUNNING.value,
        "started_at": moment_text(at),
    }


def run_row(owner: str, turn_id: str, number: int, run: NewRun) -> Row:
    """The row of a run that begins."""
    return {
        "id": run.id,
        "owner": owner,
        "turn_id": turn_id,
        "number": number,
        "model": run.model,
        "status": TurnStatus.RUNNING.value,
    }


def user_message_row(owner: str, turn: NewTurn) -> Row:
    """The row of a turn's user message, its session still to come."""
    return {
        "id": turn.user_message_id,
        "owner": owner,
        "turn_id": turn.id,
        "seq": 0,
        "role": "user",
        "parts": parts_text([Text(turn.text)]),
        "tokens": turn.tokens,
        "sent_at": local_moment_text(turn.sent_at),
        "timezone": turn.timezone,
        "dynamic": turn.dynamic.text,
        "dynamic_whys": json_text(turn.dynamic.whys),
        "made_from": json_text(turn.dynamic.made_from),
    }


def end_row(end: TurnEnd | RunEnd) -> Row:
    """What the end of a turn or a run changes in its row; a request that was told of twice counts once."""
    spent = list({one.request_id: one for one in end.requests}.values())
    return {
        "status": end.status.value,
        "finished_at": moment_text(end.finished_at),
        "error": error_text(end.error),
        "cost": sum(one.cost for one in spent),
        **usage_row(sum((one.usage for one in spent), Usage())),
    }


def step_row(owner: str, turn_id: str, run_id: str, seq: int, step: Step) -> Row:
    """The row of a step, its session and usage still to come."""
    return {
        "id": step.id,
        "owner": owner,
        "turn_id": turn_id,
        "run_id": run_id,
        "seq": seq,
        "role": "assistant",
        "model": step.model,
        "parts": parts_text(step.parts),
        "results": parts_text(step.results),
        "stop_reason": step.stop_reason.value,
        "made_after": step.made_after,
        "reminder": step.reminder,
        "made_from": json_text(step.made_from),
        "tokens": step.tokens,
        "cost": None,
        **dict.fromkeys(USAGE_COLUMNS),
    }


def _answer_parts(row: RowMapping) -> tuple[AnswerPart, ...]:
    parts = parts_of(row["parts"], f"message {row['id']}")
    answer = tuple(part for part in parts if not isinstance(part, ToolResult))
    if len(answer) != len(parts):
        raise damaged(f"message {row['id']}", "a tool result in an answer")
    return answer


def step_of(row: RowMapping) -> Step:
    """The step of a message row."""
    results = parts_of(row["results"], f"message {row['id']}") if row["results"] != "[]" else ()
    return Step(
        id=row["id"],
        model=row["model"],
        parts=_answer_parts(row),
        stop_reason=word_of(StopReason, row["stop_reason"], f"message {row['id']}"),
        made_after=row["made_after"],
        tokens=row["tokens"],
        reminder=row["reminder"],
        results=tuple(part for part in results if isinstance(part, ToolResult)),
        made_from=json_of(NAMES, row["made_from"], f"message {row['id']}") if row["made_from"] != "[]" else (),
    )


def user_message_of(row: RowMapping, attachments: tuple[Attachment, ...]) -> UserMessage:
    """The user message of a message row."""
    text = "".join(part.text for part in _answer_parts(row) if isinstance(part, Text))
    sent_at = datetime.fromisoformat(row["sent_at"])
    whys = json_of(NAMES, row["dynamic_whys"], f"message {row['id']}")
    dynamic = row["dynamic"] or ""
    made_from = json_of(NAMES, row["made_from"], f"message {row['id']}")
    return UserMessage(row["id"], text, sent_at, row["timezone"], row["tokens"], attachments, dynamic, whys, made_from)


def turn_of(turn_id: str, status: str, rows: Sequence[RowMapping], attached: Attached) -> Turn:
    """The canonical turn of its message rows, the user message first."""
    if not rows:
        raise damaged(f"turn {turn_id}", "no messages")
    user, *steps = rows
    return Turn(
        turn_id,
        user_message_of(user, attached.get(user["id"], ())),
        tuple(map(step_of, steps)),
        word_of(TurnStatus, status, f"turn {turn_id}"),
    )


def run_record_of(row: RowMapping, steps: Iterable[RowMapping]) -> RunRecord:
    """The run as clients see it, of its row and the rows of its steps."""
    what = f"run {row['id']}"
    return RunRecord(
        id=row["id"],
        index=row["number"],
        model=row["model"],
        status=word_of(TurnStatus, row["status"], what),
        steps=tuple(map(step_of, steps)),
        finished_at=None if row["finished_at"] is None else datetime.fromisoformat(row["finished_at"]),
        error=error_of(row["error"], what),
        usage=usage_of(row),
        cost=row["cost"],
    )


def turn_record_of(
    row: RowMapping, runs: Sequence[RowMapping], rows: Sequence[RowMapping], attached: Attached
) -> TurnRecord:
    """The turn as clients see it, of its row, the rows of its runs in order, and its message rows."""
    if not runs:
        raise damaged(f"turn {row['id']}", "no runs")
    turn = turn_of(row["id"], row["status"], rows[:1], attached)
    return TurnRecord(
        id=turn.id,
        conversation_id=row["conversation_id"],
        parent=Place(row["parent_id"], row["parent_run_id"]),
        status=turn.status,
        user_message_id=turn.user.id,
        text=turn.user.text,
        sent_at=turn.user.sent_at,
        timezone=turn.user.timezone,
        attachments=turn.user.attachments,
        dynamic=turn.user.dynamic,
        dynamic_from=turn.user.made_from,
        runs=tuple(run_record_of(run, [step for step in rows if step["run_id"] == run["id"]]) for run in runs),
        started_at=datetime.fromisoformat(row["started_at"]),
        finished_at=None if row["finished_at"] is None else datetime.fromisoformat(row["finished_at"]),
        error=error_of(row["error"], f"turn {turn.id}"),
        usage=usage_of(row),
        cost=row["cost"],
    )
