"""Requests, their blocks and decisions."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import RowMapping

from lamella.core.caching import Diagnosis
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.records import (
    RequestEnd,
    RequestRecord,
    Said,
    StoredBlock,
    StoredDecision,
    StoredSegment,
)
from lamella.storage.columns import (
    ABSENT,
    DIAGNOSIS,
    HEAD,
    MARKERS,
    NOTES,
    NUMBERS,
    SAID,
    SEGMENTS,
    ZONES,
    json_of,
    json_text,
    moment_text,
    word_of,
)
from lamella.storage.mapping.values import Row, error_of, error_text, usage_of, usage_row


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
