"""Small conversations to store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from sqlalchemy import Table

from lamella.core.agents import Agent
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.json import JsonObject
from lamella.core.messages import Image, Reasoning, Step, StopReason, Text, ToolCall, ToolResult, TurnStatus
from lamella.core.packets import TextPacket, encode_packet
from lamella.core.prompt import ToolSpec
from lamella.core.records import (
    Caller,
    Conversation,
    File,
    FoundDocument,
    ImportedTurn,
    JournalEntry,
    Line,
    NewJob,
    NewRequest,
    NewRun,
    NewTurn,
    Notice,
    NoticeKind,
    ObservedRequest,
    Place,
    QueuedMessage,
    Replacement,
    ReplacementKind,
    RequestEnd,
    RequestRecord,
    RunEnd,
    RunRecord,
    StoredBlock,
    StoredMarker,
    StoredSegment,
    TurnEnd,
    TurnRecord,
)
from lamella.core.sessions import CarriedSummary, Session, SessionCause, SessionReturn, SessionStep, SessionSummary
from lamella.core.tokens import Usage
from lamella.storage import Store
from lamella.storage.conversations.messages import run_row, step_row, turn_row, user_message_row
from lamella.storage.files import file_text_row
from lamella.storage.rows import values
from lamella.storage.tables import attachments, conversations, file_texts, files, messages, runs, sessions, turns

ANN = Caller("user_ann")
BOB = Caller("user_bob")
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))
SEARCH = ToolSpec("search", "Looks things up.", '{"type":"object"}')
USAGE = Usage(input=100, cache_read=60, cache_write_5m=20, cache_write_1h=10, output=7, reasoning=3)


def found_document(text: str = "A page.", url: str | None = "https://example.org/a") -> FoundDocument:
    """A page that a tool read."""
    return FoundDocument("A page", "text/html", text, 100, url)


def minutes(count: float) -> datetime:
    """So many minutes after noon."""
    return NOON + timedelta(minutes=count)


def conversation(id: str = "conv_1", title: str = "") -> Conversation:
    return Conversation(id, title, "m-1", "lamella", "planner", "You are helpful.", (SEARCH,), NOON, NOON)


def session(id: str = "sess_1", number: int = 1, **more: Any) -> Session:
    return replace(Session(id, "conv_1", number, NOON, SessionCause.CREATED), **more)


def began(session_id: str, after: str | None) -> Decision:
    """The decision that a session began behind a turn."""
    return Decision(DecisionKind.SESSION, session_id, after or "", "user", "asked for", first_changed="all")


def session_step(
    expected: str, id: str, after: str | None = None, *, summary: str | None = None, at: datetime = NOON
) -> SessionStep:
    """A compaction from one session to another that begins behind the turn `after`."""
    opened = Session(id, "conv_1", 0, at, SessionCause.COMPACTION, expected, after, inherits=True)
    made = None if summary is None else session_summary(summary)
    return SessionStep(expected, opened, "full", at, made, [began(id, after)])


def session_summary(text: str) -> SessionSummary:
    """A summary with what it cost."""
    return SessionSummary(text, len(text), USAGE, {"missing": ["42"]})


def session_return(expected: str, id: str, head: str | None, after: str | None = None) -> SessionReturn:
    """The way back to a session that begins behind the turn `after`."""
    return SessionReturn(expected, id, head, SessionCause.RESUME, "asked for", minutes(9), [began(id, after)])


def file(id: str = "file_1", reason: str | None = None) -> File:
    status, code = ("ready", None) if reason is None else ("failed", "unreadable")
    return File(id, f"{id}.pdf", "application/pdf", 5_000_000_000, status, 12, NOON, 3, code, reason)  # type: ignore[arg-type]


def picture(id: str = "file_1") -> tuple[File, Image]:
    """A picture's row, and the picture."""
    row = File(id, f"{id}.png", "image/png", 9, "ready", 0, NOON, width=640, height=480)
    return row, Image(id, "image/png", 640, 480, "0123", b"\x89PNG\x00data")


def agent(id: str = "agent_1", name: str = "Editor") -> Agent:
    return Agent(id, name, "You edit texts.", "Be kind.", True, ("search",), "m-1", "onyx")


def new_turn(
    id: str = "turn_1", conversation_id: str = "conv_1", text: str = "Hello?", files: tuple[str, ...] = ()
) -> NewTurn:
    sent_at = NOON.astimezone(BERLIN)
    return NewTurn(
        id, conversation_id, f"msg_{id}", (NewRun(f"run_{id}", "m-1"),), text, sent_at, "Europe/Berlin", 4, files
    )


def queued_message(id: str = "queued_m1", text: str = "And now?", conversation_id: str = "conv_1") -> QueuedMessage:
    sent_at = NOON.astimezone(BERLIN)
    payload: JsonObject = {"file_ids": ["file_1"], "choices": {"layout": None}}
    return QueuedMessage(id, conversation_id, ANN.user_id, text, sent_at, "Europe/Berlin", payload)


def notice(id: str = "notice_1", turn_id: str | None = "turn_1") -> Notice:
    data: JsonObject = {"context": {"input": 12_400}}
    return Notice(id, "conv_1", turn_id, NoticeKind.COMMAND, NOON, "12.4k tokens", "status", "", data)


def new_job(kind: str = "compact", subject: str = "conv_1", not_before: datetime = NOON) -> NewJob:
    return NewJob(kind, subject, "the window is full", not_before, {"focus": "names"})


def step(id: str = "step_1", text: str = "Found it.") -> Step:
    call = ToolCall("call_1", "search", '{"b": 1, "a": 2}')
    return Step(
        id=id,
        model="m-1",
        parts=(Reasoning("Hm.", signature="sealed"), Text(text), call),
        stop_reason=StopReason.TOOL_CALLS,
        made_after="00ff",
        tokens=9,
        reminder="Cite.",
        results=(ToolResult("call_1", "search", "a result", is_error=True),),
    )


def segment(number: int) -> StoredSegment:
    digests = (f"{number:032x}", f"{number:031x}b")
    return StoredSegment(
        f"s{number}", "step", "session", f"step_{number}", "model:m-1", f"Step {number}", "A1", 5, digests
    )


def blocks(numbers: Sequence[int]) -> tuple[StoredBlock, ...]:
    """The wire blocks of the segments of these numbers."""
    return tuple(
        StoredBlock(digest, "messages", "assistant", f'{{"text":"{digest}"}}'.encode())
        for number in numbers
        for digest in segment(number).blocks
    )


def record(
    id: str = "req_1",
    turn_id: str = "turn_1",
    *,
    numbers: Sequence[int] = (1, 2),
    step: int = 0,
    purpose: str = "chat",
    model: str = "m-1",
    at: datetime = NOON,
    conversation_id: str = "conv_1",
) -> RequestRecord:
    return RequestRecord(
        id=id,
        conversation_id=conversation_id,
        turn_id=turn_id,
        step=step,
        purpose=purpose,
        model=model,
        layout="lamella",
        marker_policy="planner",
        at=at,
        head={"model": model, "max_tokens": 10, "stream": True},
        letters="S U1",
        segments=tuple(map(segment, numbers)),
        zones=(("fixed", 1), ("turn", len(numbers) - 1)),
        markers=(StoredMarker(0, "5m", "end of fixed"),),
        notes=(("s1", "listed"),),
        protocol="anthropic",
        local_tokens=80,
        estimate=100,
        budget=1000,
        predicted_read=60,
        predicted_written=30,
        predicted_hit=2,
        absent=(("project", "it does not fit"),),
        run_id=f"run_{turn_id}",
    )


def new_request(whole: RequestRecord, base: str | None = None, shared: int = 0) -> NewRequest:
    fresh = [int(segment.id.removeprefix("s")) for segment in whole.segments[shared:]]
    return NewRequest(whole, base, shared, blocks(fresh))


def line(id: str = "conv_line", request_id: str = "req_line") -> Line:
    return Line(
        id=id,
        client="a client 1.0",
        session="a session",
        dialect="openai",
        label="conversation",
        model="m-1",
        opening=1,
        keys=("k1", "k2"),
        tip="k2",
        system="s1",
        answer="a1",
        request_id=request_id,
        turn_id="turn_line",
        run_id="run_line",
        begun_at=NOON,
        at=NOON,
        requests=1,
        turns=1,
        usage=USAGE,
        cost=0.5,
    )


def observed(line: Line) -> ObservedRequest:
    """The first request of a line."""
    whole = replace(record(line.request_id, line.turn_id, conversation_id=line.id), run_id=line.run_id, usage=USAGE)
    whole = replace(whole, cost=0.5)
    return ObservedRequest(line, True, "Hello", "Hello", step("step_line"), (), new_request(whole), NOON, "lamella")


def imported_turn() -> ImportedTurn:
    """A turn that a client sent as part of its history."""
    return ImportedTurn(new_turn("turn_told"), (step("step_told"),), "key_told")


def stored_import() -> TurnRecord:
    """The same turn as it is stored."""
    told, made = imported_turn(), turn_of_line()
    return replace(made, id=told.turn.id, runs=(replace(made.run, steps=tuple(told.steps)),))


def replacement(id: str = "rep_1") -> Replacement:
    """A summary in the place of a line's first messages."""
    return Replacement(
        id=id,
        dialect="openai",
        key="k1",
        kind=ReplacementKind.SUMMARY,
        made_at=NOON,
        why="it pays",
        numbers={"before": 9.0},
        answer="a1",
        texts=("Earlier.", "It was short."),
        summary="It was short.",
        tokens=4,
        check={"missing": ["42"]},
        carries=(CarriedSummary("rep_0", (1,)), CarriedSummary("rep_1")),
        skipped=("k2",),
    )


def turn_of_line() -> TurnRecord:
    """A turn of the line, as it ended."""
    run = RunRecord("run_line", 0, "m-1", TurnStatus.FINISHED, (), NOON, None, USAGE, 0.5)
    return TurnRecord(
        "turn_line",
        "conv_line",
        Place(),
        TurnStatus.FINISHED,
        "turn_line_user",
        "Hello",
        NOON,
        "UTC",
        (),
        "",
        (),
        (run,),
        NOON,
        NOON,
        None,
        USAGE,
        0.5,
    )


def admission(subject: str = "file_1@m-1") -> Decision:
    return Decision(DecisionKind.ADMISSION, subject, "listed", "engine", "too large", {"tokens": 5.0}, "s1")


def turn_end(
    turn_id: str = "turn_1",
    steps: Sequence[Step] = (),
    requests: Sequence[RequestEnd] = (),
    status: TurnStatus = TurnStatus.FINISHED,
) -> TurnEnd:
    return TurnEnd(turn_id, status, [RunEnd(f"run_{turn_id}", status, steps, requests, minutes(1))], minutes(1))


def packet(n: int, text: str = "x") -> bytes:
    return encode_packet(TextPacket(n=n, turn_id="turn_1", text=text))


def entry(*numbers: int, turn_id: str = "turn_1", owner: Caller = ANN) -> JournalEntry:
    """A journal entry of packets with these numbers."""
    data = b"\n".join(packet(n) for n in numbers) + b"\n"
    return JournalEntry(owner.user_id, turn_id, numbers[0], numbers[-1], data)


async def finished_turn(store: Store, turn: NewTurn, steps: Sequence[Step] = (), caller: Caller = ANN) -> None:
    """A turn from beginning to end."""
    await store.turns.begin_turn(caller, turn, minutes(0))
    await store.turns.finish_turn(caller, turn_end(turn.id, steps))


def long_conversation(count: int) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    """The rows of a conversation of so many finished turns, the same file in every tenth."""
    owner = ANN.user_id
    begun = [new_turn(f"turn_{number:05}", text="What does it say about this? " * 10) for number in range(count)]
    parents = [Place(), *(Place(turn.id, turn.runs[0].id) for turn in begun)]
    text = "It says a good deal about that, and about this too. " * 30
    first = session()
    held = replace(conversation(), head=begun[-1].id, head_run_id=begun[-1].runs[0].id, session_id=first.id)
    yield conversations, [values(conversations, held, owner=owner)]
    yield sessions, [values(sessions, first, owner=owner)]
    yield files, [values(files, file(), owner=owner)]
    yield file_texts, [file_text_row(owner, "file_1", "A long report. " * 10_000)]
    yield (
        turns,
        [
            {**turn_row(owner, turn, parent, NOON), "status": TurnStatus.FINISHED}
            for turn, parent in zip(begun, parents, strict=False)
        ],
    )
    yield runs, [{**run_row(owner, turn.id, 0, turn.runs[0]), "status": TurnStatus.FINISHED} for turn in begun]
    label = {"session_id": first.id}
    yield messages, [{**user_message_row(owner, turn), **label} for turn in begun]
    yield (
        messages,
        [{**step_row(owner, turn.id, turn.runs[0].id, 1, step(f"step_{turn.id}", text)), **label} for turn in begun],
    )
    yield (
        attachments,
        [
            {
                "message_id": turn.user_message_id,
                "position": 0,
                "owner": owner,
                "file_id": "file_1",
                "document": number,
            }
            for number, turn in enumerate(begun[::10], start=1)
        ],
    )
