"""The packets of an ended turn, made from what is stored of it, and packed as the difference to these.

A turn's rows hold what its packets said: texts, calls, results, bills. `packets_of` makes packets from them, each text
whole. `packed` keeps of the packets that were sent only what these don't tell: their order, in which pieces a text
came, and what no row has, such as how long a tool ran. `unpacked` gives the packets that were sent, byte for byte.

Example: a turn whose answer came in four pieces. Each entry names the next packet that is made from the rows; a number
is a piece of its text, of so many characters.

    turn.started, run.started, request.started, "We bu", "ild ", "mil", "ls.", usage, run.finished, turn.finished
    [0], [0], [0], [0, 5], 4, 3, 3, [0], [0], [0]

The packed bytes begin with their form and a checksum of the packets. If a row has changed since, the checksum tells.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import structs

from lamella.core.handover import pending
from lamella.core.messages import AnswerPart, Reasoning, Text, ToolCall, ToolResult, TurnStatus
from lamella.core.packets import (
    AnyPacket,
    Packet,
    ReasoningPacket,
    RequestStarted,
    RunFinished,
    RunStarted,
    StartedDocument,
    TextPacket,
    ToolArgsPacket,
    ToolCallPacket,
    ToolHandedOut,
    ToolResultPacket,
    TurnFinished,
    TurnStarted,
    TurnStopped,
    UsageBody,
    UsagePacket,
    decode_packet,
    encode_packet,
)
from lamella.core.records import RunRecord, TurnRecord
from lamella.core.tokens import Usage

_WHOLE, _DIFFERENCE = b"\0", b"\1"
"""Forms of what is packed: the packets themselves, or what the rows don't tell."""

_PIECES: Mapping[type[Packet], str] = {TextPacket: "text", ReasoningPacket: "text", ToolArgsPacket: "json"}
"""Packets that are pieces of a text, and the field that has it."""

_IDS = ("call_id", "request_id", "run_id")
"""Fields by which a packet is known."""

_PLACED = ("n", "turn_id", "type")


@dataclass(frozen=True, slots=True)
class RequestFigures:
    """What the packets of a turn tell of one of its requests. `usage` None: it has no bill."""

    id: str
    run_id: str | None
    step: int
    purpose: str
    letters: str
    estimate: int
    budget: int
    predicted_read: int
    usage: Usage | None
    cost: float | None


# Made from rows


def packets_of(turn: TurnRecord, requests: Sequence[RequestFigures] = ()) -> Iterator[Packet]:
    """The packets of an ended turn as its rows tell them, without numbers."""
    yield TurnStarted(
        conversation_id=turn.conversation_id,
        user_message_id=turn.user_message_id,
        sent_at=turn.sent_at.isoformat(),
        documents=[
            StartedDocument(document=a.document, file_id=a.file_id, title=a.title, reason=a.reason)
            for a in turn.attachments
        ],
    )
    for run in turn.runs:
        yield from _of_run(run, [one for one in requests if one.run_id == run.id])
    if turn.status is TurnStatus.STOPPED:
        yield TurnStopped(reason="user_cancelled")
    elif turn.status is TurnStatus.INTERRUPTED:
        yield TurnStopped(reason="interrupted")
    yield TurnFinished(status=turn.status.value, usage=UsageBody.of(turn.usage), cost=turn.cost)


def _of_run(run: RunRecord, requests: Sequence[RequestFigures]) -> Iterator[Packet]:
    """What a run said and called, step by step, each block whole."""
    yield RunStarted(model_index=run.index, run_id=run.id, model=run.model)
    block = 0
    for number, step in enumerate(run.steps):
        sent = [one for one in requests if one.step == number]
        yield from (_started(one, run.index) for one in sent)
        results = {result.call_id: result for result in step.results}
        handed = {call.id for call in pending(run.steps)} if step is run.steps[-1] else set()
        for part in step.parts:
            for packet in _of_part(part, results):
                yield structs.replace(packet, model_index=run.index, block_index=block)
            if isinstance(part, ToolCall) and part.id in handed:
                handed_out = ToolHandedOut(call_id=part.id, name=part.name, arguments=part.arguments)
                yield structs.replace(handed_out, model_index=run.index, block_index=block)
            block += 1
        yield from (_bill(one, one.usage, run.index) for one in sent if one.usage is not None)
    status = run.steps[-1].stop_reason.value if run.steps and run.error is None else "error"
    error, usage = dict(run.error) if run.error is not None else None, UsageBody.of(run.usage)
    yield RunFinished(model_index=run.index, run_id=run.id, status=status, error=error, usage=usage, cost=run.cost)


def _started(request: RequestFigures, run: int) -> RequestStarted:
    return RequestStarted(
        model_index=run,
        request_id=request.id,
        step=request.step,
        purpose=request.purpose,
        letters=request.letters,
        estimate=request.estimate,
        budget=request.budget,
        predicted_read=request.predicted_read,
    )


def _bill(request: RequestFigures, usage: Usage, run: int) -> UsagePacket:
    return UsagePacket(
        model_index=run,
        request_id=request.id,
        usage=UsageBody.of(usage),
        cost=request.cost or 0.0,
        budget=request.budget,
    )


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


# Packed


def packed(lines: Sequence[bytes], told: Sequence[Packet]) -> bytes:
    """Packets that were sent, without what `told` tells, which was made from the rows of their turn."""
    sent = b"\n".join(lines)
    with suppress(ValueError):
        entries = _Packing(told).entries(lines)
        difference = _DIFFERENCE + _sum(sent) + _deflated(msgspec.json.encode(entries))
        if unpacked(difference, told) == list(lines):
            return difference
    return _WHOLE + _sum(sent) + _deflated(sent)


def unpacked(data: bytes, told: Sequence[Packet]) -> list[bytes]:
    """The packets that were packed. Raises `ValueError` if the rows tell something else now."""
    try:
        inflated = zlib.decompress(data[5:], wbits=-zlib.MAX_WBITS)
        if data[:1] == _WHOLE:
            lines = inflated.split(b"\n")
        else:
            lines = [encode_packet(packet) for packet in _sent(msgspec.json.decode(inflated), told)]
    except (zlib.error, msgspec.MsgspecError, LookupError, TypeError) as error:
        raise ValueError("the packed packets can't be read") from error
    if _sum(b"\n".join(lines)) != data[1:5]:
        raise ValueError("the rows of the turn are not those that its packets were packed with")
    return lines


def _sum(sent: bytes) -> bytes:
    return zlib.crc32(sent).to_bytes(4, "big")


def _deflated(data: bytes) -> bytes:
    deflating = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflating.compress(data) + deflating.flush()


@dataclass(slots=True)
class _Packing:
    """Finds for each packet the one that the rows tell. `used` has how much of each was said already."""

    told: Sequence[Packet]
    used: dict[int, int] = field(default_factory=dict)
    last: int = -1
    n: int = 0

    def entries(self, lines: Sequence[bytes]) -> list[Any]:
        """An entry for each packet, after the id of their turn."""
        packets = [decode_packet(line) for line in lines]
        return [packets[0].turn_id if packets else "", *map(self._entry, packets)]

    def _entry(self, packet: AnyPacket) -> Any:
        at, step = self._find(packet), packet.n - self.n
        self.n = packet.n
        if at is None:
            return {"": step, **_fields(packet)}
        told, skipped = self.told[at], at - self.last - 1
        name = _PIECES.get(type(packet))
        piece = None if name is None else len(getattr(packet, name))
        self.used[at] = self.used.get(at, 0) + (1 if piece is None else piece)
        differs = {key: value for key, value in _fields(packet).items() if key != name and value != _fields(told)[key]}
        if piece is not None and skipped == -1 and step == 1 and not differs:
            return piece
        self.last = at
        entry = [skipped, piece, step, differs or None]
        while len(entry) > 1 and entry[-1] == (None, None, 1, None)[len(entry) - 1]:
            entry.pop()
        return entry

    def _find(self, packet: AnyPacket) -> int | None:
        """The packet of the rows that is this one, or that this one is a piece of: the next one, if several are."""
        kind, name = type(packet), _PIECES.get(type(packet))
        around: tuple[int, ...] = (self.last, *range(self.last + 1, len(self.told)), *range(self.last))
        for at in around:
            told: Any = self.told[at] if at >= 0 else None
            if type(told) is not kind or told.model_index != packet.model_index:
                continue
            if any(getattr(told, id, None) != getattr(packet, id, None) for id in _IDS):
                continue
            if name is None:
                if at not in self.used:
                    return at
                continue
            piece: str = getattr(packet, name)
            if piece and getattr(told, name).startswith(piece, self.used.get(at, 0)):
                return at
        return None


def _fields(packet: Packet) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(packet)
    return {name: value for name, value in found.items() if name != "n" and name != "turn_id"}


def _sent(entries: list[Any], told: Sequence[Packet]) -> Iterator[Packet]:
    """The packets that these entries stand for."""
    turn_id, *rest = entries
    used: dict[int, int] = {}
    last, n = -1, 0
    for entry in rest:
        if isinstance(entry, dict):
            n += entry.pop("")
            yield msgspec.convert({**entry, "n": n, "turn_id": turn_id}, AnyPacket)
            continue
        skipped, piece, step, differs = (
            (-1, entry, 1, None) if isinstance(entry, int) else (*entry, *(None, 1, None)[len(entry) - 1 :])
        )
        last, n = last + skipped + 1, n + step
        packet = told[last]
        changes: dict[str, Any] = {"n": n, "turn_id": turn_id}
        if piece is not None:
            name, begins = _PIECES[type(packet)], used.get(last, 0)
            changes[name] = getattr(packet, name)[begins : begins + piece]
            used[last] = begins + piece
        if differs:
            packet = msgspec.convert({**msgspec.to_builtins(packet), **differs}, AnyPacket)
        yield structs.replace(packet, **changes)
