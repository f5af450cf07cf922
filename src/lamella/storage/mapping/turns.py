"""Between rows and the records of turns, messages, requests and decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import RowMapping

from lamella.core.caching import Diagnosis
from lamella.core.decisions import Decision, DecisionKind
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
    RequestEnd,
    RequestRecord,
    RunEnd,
    RunRecord,
    Said,
    StoredBlock,
    StoredDecision,
    StoredSegment,
    TurnEnd,
    TurnRecord,
)
from lamella.core.tokens import Usage
from lamella.storage.columns import (
    ABSENT,
    DIAGNOSIS,
    HEAD,
    MARKERS,
    NAMES,
    NOTES,
    NUMBERS,
    SAID,
    SEGMENTS,
    ZONES,
    json_of,
    json_text,
    local_moment_text,
    moment_text,
    parts_of,
    parts_text,
    word_of,
)
from lamella.storage.failures import damaged
from lamella.storage.mapping.library import USAGE_COLUMNS, Attached, Row, error_of, error_text, usage_of, usage_row


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


def request_row(owner: str, record: RequestRecord, base: str | None, shared: int, depth: int) -> Row:
    """The row of a request that is about to be sent: its segments behind the first `shared`."""
    return {
        "id": record.id,
        "owner": owner,
        "conversation_id": record.conversation_id,
        "turn_id": record.turn_id,
        "run_id": record.run_id,
        "step": record.step,
        "purpose": record.purpose,
        "model": record.model,
        "layout": record.layout,
        "marker_policy": record.marker_policy,
        "thinking_effort": record.thinking_effort,
        "at": moment_text(record.at),
        "head": json_text(record.head),
        "letters": record.letters,
        "base": base,
        "shared": shared,
        "depth": depth,
        "length": len(record.segments),
        "segments": json_text(record.segments[shared:]),
        "zones": json_text(record.zones),
        "markers": json_text(record.markers),
        "notes": json_text(record.notes),
        "protocol": record.protocol,
        "local_tokens": record.local_tokens,
        "estimate": record.estimate,
        "budget": record.budget,
        "predicted_read": record.predicted_read,
        "predicted_written": record.predicted_written,
        "predicted_hit": record.predicted_hit,
        "provider_request_id": record.provider_request_id,
        "dropped_thinking": record.dropped_thinking,
        "answer_id": record.answer_id,
        "diagnosis": diagnosis_text(record.diagnosis),
        "said": said_text(record.said),
        "cost": record.cost,
        "error": error_text(record.error),
        "absent": json_text(record.absent),
        **({} if record.usage is None else usage_row(record.usage)),
    }


def segments_of(value: str, what: str) -> tuple[StoredSegment, ...]:
    """The segments of a column; raises `StoreFailed` naming `what` when it is damaged."""
    return json_of(SEGMENTS, value, what)


def request_of(row: RowMapping, segments: tuple[StoredSegment, ...]) -> RequestRecord:
    """The request of a row and all its segments."""
    what = f"request {row['id']}"
    return RequestRecord(
        id=row["id"],
        conversation_id=row["conversation_id"],
        turn_id=row["turn_id"],
        step=row["step"],
        purpose=row["purpose"],
        model=row["model"],
        layout=row["layout"],
        marker_policy=row["marker_policy"],
        at=datetime.fromisoformat(row["at"]),
        head=json_of(HEAD, row["head"], what),
        letters=row["letters"],
        segments=segments,
        zones=json_of(ZONES, row["zones"], what),
        markers=json_of(MARKERS, row["markers"], what),
        notes=json_of(NOTES, row["notes"], what),
        protocol=row["protocol"],
        local_tokens=row["local_tokens"],
        estimate=row["estimate"],
        budget=row["budget"],
        predicted_read=row["predicted_read"],
        predicted_written=row["predicted_written"],
        predicted_hit=row["predicted_hit"],
        provider_request_id=row["provider_request_id"],
        dropped_thinking=row["dropped_thinking"],
        answer_id=row["answer_id"],
        diagnosis=None if row["diagnosis"] is None else json_of(DIAGNOSIS, row["diagnosis"], what),
        said=None if row["said"] is None else json_of(SAID, row["said"], what),
        usage=None if row["input_tokens"] is None else usage_of(row),
        cost=row["cost"],
        error=error_of(row["error"], what),
        absent=json_of(ABSENT, row["absent"], what),
        thinking_effort=row["thinking_effort"],
        run_id=row["run_id"],
    )


def bill_row(end: RequestEnd) -> Row:
    """What a request was billed."""
    return {**usage_row(end.usage), "cost": end.cost}


def request_end_row(end: RequestEnd) -> Row:
    """What the end of a request changes in its row."""
    named = {} if end.provider_request_id is None else {"provider_request_id": end.provider_request_id}
    return {
        **bill_row(end),
        **named,
        "error": error_text(end.error),
        "dropped_thinking": end.dropped_thinking,
        "answer_id": end.answer_id,
        "diagnosis": diagnosis_text(end.diagnosis),
        "said": said_text(end.said),
    }


def diagnosis_text(diagnosis: Diagnosis | None) -> str | None:
    """The column of what a provider says of a miss."""
    return None if diagnosis is None else json_text(diagnosis)


def said_text(said: Said | None) -> str | None:
    """The column of an answer beside a turn."""
    return None if said is None else json_text(said)


def block_row(owner: str, conversation_id: str, block: StoredBlock) -> Row:
    """The row of a wire block."""
    return {
        "conversation_id": conversation_id,
        "digest": block.digest,
        "owner": owner,
        "level": block.level,
        "role": block.role,
        "data": block.data,
    }


def block_of(row: RowMapping) -> StoredBlock:
    """The wire block of a row."""
    return StoredBlock(row["digest"], row["level"], row["role"], bytes(row["data"]))


def decision_row(
    owner: str,
    conversation_id: str,
    decision_id: str,
    at: datetime,
    decision: Decision,
    turn_id: str | None,
    run_id: str | None = None,
) -> Row:
    """The row of a decision that was made while the conversation stood at the turn `turn_id`."""
    return {
        "turn_id": turn_id,
        "run_id": run_id,
        "id": decision_id,
        "owner": owner,
        "conversation_id": conversation_id,
        "at": moment_text(at),
        "kind": decision.kind.value,
        "subject": decision.subject,
        "outcome": decision.outcome,
        "who": decision.who,
        "why": decision.why,
        "numbers": json_text(decision.numbers),
        "first_changed": decision.first_changed,
    }


def decision_of(row: RowMapping) -> StoredDecision:
    """The decision of a row."""
    decision = Decision(
        kind=word_of(DecisionKind, row["kind"], f"decision {row['id']}"),
        subject=row["subject"],
        outcome=row["outcome"],
        who=row["who"],
        why=row["why"],
        numbers=json_of(NUMBERS, row["numbers"], f"decision {row['id']}"),
        first_changed=row["first_changed"],
    )
    at = datetime.fromisoformat(row["at"])
    return StoredDecision(row["id"], at, decision, row["turn_id"], row["run_id"])


PREVIEW = 120
"""Characters of a message in the tree."""


def beginning_of(row: RowMapping) -> str:
    """How a message begins, in one line."""
    parts = parts_of(row["parts"], f"message of {row['id']}")
    text = " ".join("".join(part.text for part in parts if isinstance(part, Text)).split())
    return text if len(text) <= PREVIEW else f"{text[: PREVIEW - 1]}…"
