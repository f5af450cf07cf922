"""Packets as clients and journals have them: what is encoded, and what an earlier build encoded."""

from __future__ import annotations

import json

import msgspec
import pytest

from lamella.core.packets import ModelFallback, Packet, TurnQueued, decode_packet, encode_packet

ERROR: dict[str, str | None] = {"message": "Too many.", "type": "provider", "code": "rate_limited"}
FALLBACK = ModelFallback(n=3, turn_id="turn_1", requested_model="m-1", model="m-2", error=ERROR)
QUEUED = TurnQueued(message_id="queued_1", position=2, due_at=None)


@pytest.mark.parametrize("packet", [FALLBACK, QUEUED])
def test_a_packet_is_read_as_it_was_written(packet: Packet) -> None:
    assert decode_packet(encode_packet(packet)) == packet


@pytest.mark.parametrize(
    ("packet", "now", "then"), [(FALLBACK, "requested_model", "asked"), (QUEUED, "position", "place")]
)
def test_a_packet_with_the_field_names_of_an_earlier_build_is_read(packet: Packet, now: str, then: str) -> None:
    fields = json.loads(encode_packet(packet))
    fields[then] = fields.pop(now)
    assert decode_packet(json.dumps(fields).encode()) == packet


@pytest.mark.parametrize(
    "data",
    [b'{"type": "model.fallback", "asked": 1}', b'{"type": "new"}', b'{"type": []}', b'{"asked": "m-1"}', b"[]", b"{"],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_packet(data)
