"""The only place where rows and canonical data meet: what a column holds of a dataclass, and back.

The stored form of parts has its own structs, so that renaming a field in `core` never changes what lies in a database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar, assert_never

import msgspec
from sqlalchemy import RowMapping

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import InvalidRequest, StoreFailed
from lamella.core.json import JsonObject
from lamella.core.messages import (
    AnswerPart,
    Attachment,
    Part,
    Reasoning,
    Step,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    TurnStatus,
    UserMessage,
)
from lamella.core.prompt import ToolSpec
from lamella.core.records import (
    Conversation,
    File,
    NewTurn,
    RequestRecord,
    StoredBlock,
    StoredDecision,
    StoredMarker,
    StoredSegment,
    TurnRecord,
)
from lamella.core.tokens import Usage

Row = dict[str, Any]
DataT = TypeVar("DataT")


class _TextJson(msgspec.Struct, tag="text", omit_defaults=True):
    text: str


class _ReasoningJson(msgspec.Struct, tag="reasoning", omit_defaults=True):
    text: str
    signature: str | None = None
    redacted: str | None = None


class _CallJson(msgspec.Struct, tag="tool_call", omit_defaults=True):
    id: str
    name: str
    arguments: str


class _ResultJson(msgspec.Struct, tag="tool_result", omit_defaults=True):
    call_id: str
    name: str
    content: str
    is_error: bool = False


_PartJson = _TextJson | _ReasoningJson | _CallJson | _ResultJson

_encoder = msgspec.json.Encoder()
_parts_decoder = msgspec.json.Decoder(list[_PartJson])
_tools_decoder = msgspec.json.Decoder(tuple[ToolSpec, ...])
_segments_decoder = msgspec.json.Decoder(tuple[StoredSegment, ...])
_zones_decoder = msgspec.json.Decoder(tuple[tuple[str, int], ...])
_markers_decoder = msgspec.json.Decoder(tuple[StoredMarker, ...])
_notes_decoder = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_object_decoder: msgspec.json.Decoder[JsonObject] = msgspec.json.Decoder(dict[str, Any])
_numbers_decoder: msgspec.json.Decoder[Mapping[str, float]] = msgspec.json.Decoder(dict[str, float])
_error_decoder = msgspec.json.Decoder(dict[str, str | None])


@contextmanager
def unicode_only() -> Iterator[None]:
    """Text that no database can hold is the caller's fault, said in words."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"The text holds half of a surrogate pair (U+{ord(error.object[error.start]):04X}), which is no character.",
            hint="Send valid Unicode text.",
        ) from error


def _encode(value: object) -> str:
    with unicode_only():
        return _encoder.encode(value).decode()


def _decode(decoder: msgspec.json.Decoder[DataT], value: str, what: str) -> DataT:
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreFailed(f"A stored row is damaged: {what} ({error}).", hint="Restore the data folder.") from error


def moment(value: datetime) -> str:
    """A moment in UTC, of fixed width."""
    if value.tzinfo is None:
        raise InvalidRequest("A moment without a time zone cannot be stored.")
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def local_moment(value: datetime) -> str:
    """A moment with the offset it was given in."""
    if value.tzinfo is None:
        raise InvalidRequest("A moment without a time zone cannot be stored.", param="sent_at")
    return value.isoformat()


def fixed_offset(value: datetime) -> datetime:
    """The moment as it comes back from the database: its offset without the zone's name."""
    return datetime.fromisoformat(local_moment(value))


# Parts


def _part_json(part: Part) -> _PartJson:
    match part:
        case Text(text):
            return _TextJson(text)
        case Reasoning(text, signature, redacted):
            return _ReasoningJson(text, signature, redacted)
        case ToolCall(call_id, name, arguments):
            return _CallJson(call_id, name, arguments)
        case ToolResult(call_id, name, content, is_error):
            return _ResultJson(call_id, name, content, is_error)
        case _:
            assert_never(part)


def _part_of(part: _PartJson) -> Part:
    match part:
        case _TextJson():
            return Text(part.text)
        case _ReasoningJson():
            return Reasoning(part.text, part.signature, part.redacted)
        case _CallJson():
            return ToolCall(part.id, part.name, part.arguments)
        case _ResultJson():
            return ToolResult(part.call_id, part.name, part.content, part.is_error)
        case _:
            assert_never(part)


def parts_text(parts: Sequence[Part]) -> str:
    """The column of a list of parts; raises `InvalidRequest` for text that is not Unicode."""
    return _encode([_part_json(part) for part in parts])


def parts_of(value: str, what: str = "a message") -> tuple[Part, ...]:
    """The parts of a column; raises `StoreFailed` naming `what` when it is damaged."""
    found = _decode(_parts_decoder, value, what)
    return tuple(map(_part_of, found))


# Usage and errors

_USAGE = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")


def usage_row(usage: Usage) -> Row:
    """The six columns of a usage."""
    return {f"{name}_tokens": getattr(usage, name) for name in _USAGE}


def _usage_of(row: RowMapping) -> Usage:
    return Usage(*(row[f"{name}_tokens"] for name in _USAGE))


def error_text(error: Mapping[str, str | None] | None) -> str | None:
    """The column of an error object."""
    return None if error is None else _encode(error)


def _error_of(value: str | None, what: str) -> Mapping[str, str | None] | None:
    return None if value is None else _decode(_error_decoder, value, what)


# Conversations


def conversation_row(owner: str, conversation: Conversation) -> Row:
    """The row of a conversation."""
    return {
        "id": conversation.id,
        "owner": owner,
        "title": conversation.title,
        "model": conversation.model,
        "layout": conversation.layout,
        "marker_policy": conversation.marker_policy,
        "system_prompt": conversation.system_prompt,
        "tools": _encode(conversation.tools),
        "created_at": moment(conversation.created_at),
        "updated_at": moment(conversation.updated_at),
        "head": conversation.head,
        "running_turn": conversation.running_turn,
    }


def conversation_of(row: RowMapping) -> Conversation:
    """The conversation of a row."""
    return Conversation(
        id=row["id"],
        title=row["title"],
        model=row["model"],
        layout=row["layout"],
        marker_policy=row["marker_policy"],
        system_prompt=row["system_prompt"],
        tools=_decode(_tools_decoder, row["tools"], f"conversation {row['id']}"),
        created_at=datetime.fromisoformat(row["created_at"]),
        updated_at=datetime.fromisoformat(row["updated_at"]),
        head=row["head"],
        running_turn=row["running_turn"],
    )


# Files


def file_row(owner: str, file: File) -> Row:
    """The row of a file."""
    return {
        "id": file.id,
        "owner": owner,
        "name": file.name,
        "media_type": file.media_type,
        "size": file.size,
        "status": file.status,
        "tokens": file.tokens,
        "created_at": moment(file.created_at),
        "pages": file.pages,
        "code": file.code,
        "reason": file.reason,
    }


def file_of(row: RowMapping) -> File:
    """The file of a row."""
    return File(
        id=row["id"],
        name=row["name"],
        media_type=row["media_type"],
        size=row["size"],
        status=row["status"],
        tokens=row["tokens"],
        created_at=datetime.fromisoformat(row["created_at"]),
        pages=row["pages"],
        code=row["code"],
        reason=row["reason"],
    )


def file_text_row(owner: str, file_id: str, text: str) -> Row:
    """The row of a file's text."""
    with unicode_only():
        return {"file_id": file_id, "owner": owner, "data": text.encode()}


def file_text_of(row: RowMapping) -> str:
    """The text of a file."""
    try:
        return bytes(row["data"]).decode()
    except UnicodeDecodeError as error:
        raise StoreFailed(f"A stored row is damaged: the text of {row['file_id']}.") from error


def attachment_of(row: RowMapping, texts: Mapping[str, str]) -> Attachment:
    """The attachment of a joined row of `attachments` and `files`."""
    return Attachment(
        file_id=row["file_id"],
        document=row["document"],
        title=row["name"],
        media_type=row["media_type"],
        size=row["size"],
        tokens=row["tokens"],
        text=texts.get(row["file_id"]),
        reason=row["reason"],
    )


# Turns and messages


def turn_row(owner: str, turn: NewTurn, parent_id: str | None, at: datetime) -> Row:
    """The row of a turn that begins."""
    return {
        "id": turn.id,
        "owner": owner,
        "conversation_id": turn.conversation_id,
        "parent_id": parent_id,
        "run_id": turn.run_id,
        "model": turn.model,
        "status": TurnStatus.RUNNING.value,
        "started_at": moment(at),
    }


def user_message_row(owner: str, turn: NewTurn) -> Row:
    """The row of a turn's user message."""
    return {
        "id": turn.user_message_id,
        "owner": owner,
        "turn_id": turn.id,
        "seq": 0,
        "role": "user",
        "parts": parts_text([Text(turn.text)]),
        "tokens": turn.tokens,
        "sent_at": local_moment(turn.sent_at),
        "timezone": turn.timezone,
    }


def step_row(owner: str, turn_id: str, seq: int, step: Step) -> Row:
    """The row of a step, its usage still to come."""
    return {
        "id": step.id,
        "owner": owner,
        "turn_id": turn_id,
        "seq": seq,
        "role": "assistant",
        "model": step.model,
        "parts": parts_text(step.parts),
        "results": parts_text(step.results),
        "stop_reason": step.stop_reason.value,
        "made_after": step.made_after,
        "reminder": step.reminder,
        "tokens": step.tokens,
        "cost": None,
        **dict.fromkeys(f"{name}_tokens" for name in _USAGE),
    }


def _answer_parts(row: RowMapping) -> tuple[AnswerPart, ...]:
    parts = parts_of(row["parts"], f"message {row['id']}")
    answer = tuple(part for part in parts if not isinstance(part, ToolResult))
    if len(answer) != len(parts):
        raise StoreFailed(f"A stored row is damaged: message {row['id']} holds a tool result in its answer.")
    return answer


def step_of(row: RowMapping) -> Step:
    """The step of a message row."""
    results = parts_of(row["results"], f"message {row['id']}") if row["results"] != "[]" else ()
    return Step(
        id=row["id"],
        model=row["model"],
        parts=_answer_parts(row),
        stop_reason=StopReason(row["stop_reason"]),
        made_after=row["made_after"],
        tokens=row["tokens"],
        reminder=row["reminder"],
        results=tuple(part for part in results if isinstance(part, ToolResult)),
    )


def user_message_of(row: RowMapping, attachments: tuple[Attachment, ...]) -> UserMessage:
    """The user message of a message row."""
    text = "".join(part.text for part in _answer_parts(row) if isinstance(part, Text))
    sent_at = datetime.fromisoformat(row["sent_at"])
    return UserMessage(row["id"], text, sent_at, row["timezone"], row["tokens"], attachments)


def turn_of(turn_id: str, status: str, rows: Sequence[RowMapping], attachments: tuple[Attachment, ...]) -> Turn:
    """The canonical turn of its message rows, the user message first."""
    user, *steps = rows
    return Turn(turn_id, user_message_of(user, attachments), tuple(map(step_of, steps)), TurnStatus(status))


def turn_record_of(row: RowMapping, rows: Sequence[RowMapping], attachments: tuple[Attachment, ...]) -> TurnRecord:
    """The turn as clients see it, of its row and its message rows."""
    turn = turn_of(row["id"], row["status"], rows, attachments)
    return TurnRecord(
        id=turn.id,
        conversation_id=row["conversation_id"],
        parent_id=row["parent_id"],
        run_id=row["run_id"],
        model=row["model"],
        status=turn.status,
        user_message_id=turn.user.id,
        text=turn.user.text,
        sent_at=turn.user.sent_at,
        timezone=turn.user.timezone,
        attachments=turn.user.attachments,
        steps=turn.steps,
        started_at=datetime.fromisoformat(row["started_at"]),
        finished_at=None if row["finished_at"] is None else datetime.fromisoformat(row["finished_at"]),
        error=_error_of(row["error"], f"turn {turn.id}"),
        usage=_usage_of(row),
        cost=row["cost"],
    )


# Requests


def request_row(owner: str, record: RequestRecord, base: str | None, shared: int, depth: int) -> Row:
    """The row of a request that is about to be sent: its segments behind the first `shared`."""
    return {
        "id": record.id,
        "owner": owner,
        "conversation_id": record.conversation_id,
        "turn_id": record.turn_id,
        "step": record.step,
        "purpose": record.purpose,
        "model": record.model,
        "layout": record.layout,
        "marker_policy": record.marker_policy,
        "at": moment(record.at),
        "head": _encode(record.head),
        "letters": record.letters,
        "base": base,
        "shared": shared,
        "depth": depth,
        "length": len(record.segments),
        "segments": _encode(record.segments[shared:]),
        "zones": _encode(record.zones),
        "markers": _encode(record.markers),
        "notes": _encode(record.notes),
        "estimate": record.estimate,
        "budget": record.budget,
        "predicted_read": record.predicted_read,
        "predicted_written": record.predicted_written,
        "provider_request_id": record.provider_request_id,
        "cost": record.cost,
        "error": error_text(record.error),
        **({} if record.usage is None else usage_row(record.usage)),
    }


def segments_of(value: str, what: str) -> tuple[StoredSegment, ...]:
    """The segments of a column; raises `StoreFailed` naming `what` when it is damaged."""
    return _decode(_segments_decoder, value, what)


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
        head=_decode(_object_decoder, row["head"], what),
        letters=row["letters"],
        segments=segments,
        zones=_decode(_zones_decoder, row["zones"], what),
        markers=_decode(_markers_decoder, row["markers"], what),
        notes=_decode(_notes_decoder, row["notes"], what),
        estimate=row["estimate"],
        budget=row["budget"],
        predicted_read=row["predicted_read"],
        predicted_written=row["predicted_written"],
        provider_request_id=row["provider_request_id"],
        usage=None if row["input_tokens"] is None else _usage_of(row),
        cost=row["cost"],
        error=_error_of(row["error"], what),
    )


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


# Decisions


def decision_row(owner: str, conversation_id: str, decision_id: str, at: datetime, decision: Decision) -> Row:
    """The row of a decision."""
    return {
        "id": decision_id,
        "owner": owner,
        "conversation_id": conversation_id,
        "at": moment(at),
        "kind": decision.kind.value,
        "subject": decision.subject,
        "outcome": decision.outcome,
        "who": decision.who,
        "why": decision.why,
        "numbers": _encode(decision.numbers),
        "first_changed": decision.first_changed,
    }


def decision_of(row: RowMapping) -> StoredDecision:
    """The decision of a row."""
    decision = Decision(
        kind=DecisionKind(row["kind"]),
        subject=row["subject"],
        outcome=row["outcome"],
        who=row["who"],
        why=row["why"],
        numbers=_decode(_numbers_decoder, row["numbers"], f"decision {row['id']}"),
        first_changed=row["first_changed"],
    )
    return StoredDecision(row["id"], datetime.fromisoformat(row["at"]), decision)
