"""The packets of a turn that may not be read in full any more: what happened stays, what was said and found does not.

A step is withheld if it was made from a closed base. Steps before it, and other models' answers, stay, as messages do:

    request.started step 0     ->  the same: nothing of the base had been found
    tool.result {"documents"}  ->  tool.result "This result came from a knowledge base …": it brought the base in
    request.started step 1     ->  the same, and from here on, until the run's next request:
    text.delta "It is 4,711."  ->  text.delta "What was said here was made with a knowledge base …", once a block
    reasoning.delta, citation  ->  nothing: numbers of packets have gaps
    error, run.finished        ->  the type of an error stays, its text does not: providers quote requests in it
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from lamella.core.knowledge import WITHHELD, WITHHELD_ANSWER, bases_of, error_held_back
from lamella.core.messages import ToolResult
from lamella.core.packets import (
    AnyPacket,
    CitationPacket,
    ContextDegraded,
    ErrorPacket,
    ModelFallback,
    Packet,
    ReasoningPacket,
    RequestStarted,
    RunFinished,
    SourcePacket,
    TextPacket,
    ToolApprovalPacket,
    ToolArgsPacket,
    ToolHandedOut,
    ToolResultPacket,
    decode_packet,
    encode_packet,
)

CHAT = "chat"


@dataclass(frozen=True, slots=True)
class RequestBases:
    """The knowledge bases that the step of a request was made from, and those of which anything stood in its window.

    A window that only names a base makes no step of the base, but a provider's error may quote it.
    """

    step: frozenset[str]
    window: frozenset[str]


@dataclass(slots=True)
class _Run:
    """Where a run is in its packets: whether its step is withheld, and whether an error may quote a closed base."""

    is_closed: bool = False
    is_told: bool = False
    blocks: set[int | None] = field(default_factory=set)


def packets_held_back(
    lines: Iterable[bytes], closed: Collection[str], made_from: Mapping[str, RequestBases]
) -> Iterator[bytes]:
    """The packets as they may be given to a reader to whom these bases are closed, in order.

    They have to begin with the first of their turn. `made_from` are the bases of each chat request of the turn, by id;
    a request that is not there counts as closed.
    """
    runs: dict[int, _Run] = {}
    for line in lines:
        packet = decode_packet(line)
        run = runs.setdefault(packet.model_index, _Run())
        if isinstance(packet, RequestStarted) and packet.purpose == CHAT:
            bases = made_from.get(packet.request_id)
            run.is_closed = bases is None or not bases.step.isdisjoint(closed)
            run.is_told |= bases is None or not (bases.step | bases.window).isdisjoint(closed)
        given = _held_back(packet, run, closed)
        run.blocks.add(packet.block_index)
        if given is packet:
            yield line
        elif given is not None:
            yield encode_packet(given)


def _held_back(packet: AnyPacket, run: _Run, closed: Collection[str]) -> Packet | None:
    """The packet without its text; None if nothing of it is given."""
    match packet:
        case ContextDegraded():
            return None
        case ErrorPacket() | ModelFallback() | RunFinished():
            return _failure(packet, run)
        case ToolResultPacket():
            return _result(packet, run, closed)
        case _ if not run.is_closed:
            return packet
        case TextPacket():
            return replace(packet, text=WITHHELD_ANSWER) if packet.block_index not in run.blocks else None
        case ToolApprovalPacket() | ToolHandedOut():
            return replace(packet, arguments="{}")
        case ReasoningPacket() | ToolArgsPacket() | SourcePacket() | CitationPacket():
            return None
        case _:
            return packet


def _failure(packet: ErrorPacket | ModelFallback | RunFinished, run: _Run) -> Packet:
    if packet.error is None or not run.is_told:
        return packet
    return replace(packet, error=dict(error_held_back(packet.error)))


def _result(packet: ToolResultPacket, run: _Run, closed: Collection[str]) -> Packet:
    held = bases_of(ToolResult(packet.call_id, packet.name, packet.content, rich=packet.rich))
    if not run.is_closed and held.isdisjoint(closed):
        return packet
    return replace(packet, content=WITHHELD, queries=(), rich="")
