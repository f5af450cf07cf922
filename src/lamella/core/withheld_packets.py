"""The packets of a turn that may not be read any more: what happened stays, and what was said and found does not.

text.delta "It is 4,711."         ->  text.delta "What was said here was made with a knowledge base …", once a block
tool.result {"documents": […]}    ->  tool.result "This result came from a knowledge base …"
reasoning.delta, source, citation ->  nothing: numbers of packets have gaps
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from lamella.core.knowledge import WITHHELD, WITHHELD_ANSWER
from lamella.core.packets import (
    AnyPacket,
    CitationPacket,
    ContextDegraded,
    Packet,
    ReasoningPacket,
    SourcePacket,
    TextPacket,
    ToolApprovalPacket,
    ToolArgsPacket,
    ToolResultPacket,
    decode_packet,
    encode_packet,
)


def packets_held_back(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The packets as they may be given, in order; they have to begin with the first of their turn."""
    blocks: set[tuple[int, int | None]] = set()
    for line in lines:
        packet = decode_packet(line)
        block = packet.model_index, packet.block_index
        given = _held_back(packet, is_first=block not in blocks)
        blocks.add(block)
        if given is packet:
            yield line
        elif given is not None:
            yield encode_packet(given)


def _held_back(packet: AnyPacket, *, is_first: bool) -> Packet | None:
    """The packet without its text; None if nothing of it is given. `is_first`: its block had none before."""
    match packet:
        case TextPacket():
            return replace(packet, text=WITHHELD_ANSWER) if is_first else None
        case ToolApprovalPacket():
            return replace(packet, arguments="{}")
        case ToolResultPacket():
            return replace(packet, content=WITHHELD, queries=(), rich="")
        case ReasoningPacket() | ToolArgsPacket() | SourcePacket() | CitationPacket() | ContextDegraded():
            return None
        case _:
            return packet
