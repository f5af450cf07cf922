"""The packets that are no turn's own: a command's answer, a message that waits, the end that a journal is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

from msgspec import structs

from lamella.chat.queued import QueuedContent, sent_of
from lamella.core.errors import ServerStopping
from lamella.core.handover import pending
from lamella.core.messages import AnswerPart, Reasoning, Text, ToolCall, ToolResult, TurnStatus
from lamella.core.packets import (
    CommandPacket,
    ErrorPacket,
    Packet,
    PacketsExpired,
    ReasoningPacket,
    RunFinished,
    RunStarted,
    StartedDocument,
    TextPacket,
    ToolArgsPacket,
    ToolCallPacket,
    ToolHandedOut,
    ToolResultPacket,
    TurnFinished,
    TurnQueued,
    TurnStarted,
    TurnStopped,
    UsageBody,
    decode_packet,
    encode_packet,
)
from lamella.core.ports import Batch
from lamella.core.records import Expired, Notice, QueuedMessage, RunRecord, TurnRecord


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
    """The last packet for followers of a message that outlives this process."""
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

    A follower that has seen some (`after`) is told that the others expired, and how the turn ended.
    """
    said = PacketsExpired(expired_at=expired.at.isoformat(), kept_days=expired.kept_days)
    first = [] if after else [_turn_started(turn), *(packet for run in turn.runs for packet in _of_run(run))]
    usage = UsageBody.of(turn.usage)
    ended = TurnFinished(status=turn.status.value, usage=usage, cost=turn.cost)
    given: list[Packet] = [*first[:1], said, *first[1:], *_cut_off(turn), ended]
    numbered = enumerate(given, start=after + 1)
    return [(n, encode_packet(structs.replace(packet, n=n, turn_id=turn.id))) for n, packet in numbered]


def _turn_started(turn: TurnRecord) -> TurnStarted:
    return TurnStarted(
        conversation_id=turn.conversation_id,
        user_message_id=turn.user_message_id,
        sent_at=turn.sent_at.isoformat(),
        documents=[
            StartedDocument(document=a.document, file_id=a.file_id, title=a.title, reason=a.reason)
            for a in turn.attachments
        ],
    )


def _of_run(run: RunRecord) -> Iterator[Packet]:
    """What a run said and called, step by step, each block whole."""
    yield RunStarted(model_index=run.index, run_id=run.id, model=run.model)
    block = 0
    for step in run.steps:
        results = {result.call_id: result for result in step.results}
        handed = {call.id for call in pending(run.steps)} if step is run.steps[-1] else set()
        for part in step.parts:
            for packet in _of_part(part, results):
                yield structs.replace(packet, model_index=run.index, block_index=block)
            if isinstance(part, ToolCall) and part.id in handed:
                handed_out = ToolHandedOut(call_id=part.id, name=part.name, arguments=part.arguments)
                yield structs.replace(handed_out, model_index=run.index, block_index=block)
            block += 1
    status = run.steps[-1].stop_reason.value if run.steps and run.error is None else "error"
    error, usage = dict(run.error) if run.error is not None else None, UsageBody.of(run.usage)
    yield RunFinished(model_index=run.index, run_id=run.id, status=status, error=error, usage=usage, cost=run.cost)


def _of_part(part: AnswerPart, results: Mapping[str, ToolResult]) -> Iterator[Packet]:
    match part:
        case Text(text):
            yield TextPacket(text=text)
        case Reasoning(text) if text:
            yield ReasoningPacket(text=text)
        case ToolCall(id, name, arguments):
            yield ToolCallPacket(call_id=id, name=name)
            yield ToolArgsPacket(call_id=id, json=arguments)
            if (found := results.get(id)) is not None:
                yield ToolResultPacket(
                    call_id=id,
                    name=name,
                    content=found.content,
                    is_error=found.is_error,
                    queries=found.queries,
                    rich=found.rich,
                )


def _cut_off(turn: TurnRecord) -> Iterator[Packet]:
    if turn.status is TurnStatus.STOPPED:
        yield TurnStopped(reason="user_cancelled")
    elif turn.status is TurnStatus.INTERRUPTED:
        yield TurnStopped(reason="interrupted")


def missing_end(turn: TurnRecord, n: int) -> tuple[int, bytes]:
    """The last packet of a turn whose rows were saved and whose journal was not."""
    usage = UsageBody.of(turn.usage)
    packet = TurnFinished(n=n, turn_id=turn.id, status=turn.status.value, usage=usage, cost=turn.cost)
    return n, encode_packet(packet)
