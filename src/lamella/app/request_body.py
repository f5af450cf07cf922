"""A stored request's body, put together again from its blocks by the adapter's own pure half."""

from __future__ import annotations

from collections.abc import Sequence

from lamella.core.errors import StoreFailed
from lamella.core.json import decode_object, digest
from lamella.core.models import WireProtocol
from lamella.core.prompt import Marker, Ttl, WireBlock, WireRequest
from lamella.core.records import RequestRecord, StoredBlock
from lamella.llm import anthropic_wire, openai_wire, responses_wire


def stored_body(record: RequestRecord, blocks: Sequence[StoredBlock]) -> dict[str, object]:
    """The JSON body that was handed to the provider's SDK; raises `StoreFailed` for an unknown protocol."""
    wire = tuple(
        WireBlock(block.level, block.role, decode_object(block.data), block.data, block.digest, "", markable=True)
        for block in blocks
    )
    markers = tuple(Marker(marker.index, Ttl(marker.ttl), marker.why) for marker in record.markers)
    request = WireRequest(record.head, wire, markers)
    match record.protocol:
        case WireProtocol.MESSAGES:
            return anthropic_wire.body_of(request)
        case WireProtocol.CHAT:
            return openai_wire.body_of(request)
        case WireProtocol.RESPONSES:
            return responses_wire.body_of(request)
        case _:
            raise StoreFailed(f"Request {record.id} was sent on an unknown protocol: {record.protocol}.")


def sizes_of(record: RequestRecord) -> str:
    """A digest of the tokens of each segment of a request, in order."""
    return digest(*(str(segment.tokens).encode() for segment in record.segments))
