"""Signatures of thinking blocks: sealed notes that bind a block to an account, a model and what stood before it."""

from __future__ import annotations

import msgspec

from lamella_simulator.blocks import Json
from lamella_simulator.sealing import unseal


class Seal(msgspec.Struct, frozen=True):
    """What a signature says. `prefix` hashes all content before the block except thinking; `previous` is the id of
    the thinking block before it, which makes a chain that can only be shortened at the front."""

    account: str
    model: str
    prefix: str
    previous: str
    id: str
    tokens: int
    text: str


def read(raw: Json, seed: int) -> Seal | None:
    """The seal of a thinking block, or None where the signature is missing or was not made by this simulator."""
    return unseal(raw.get("signature"), Seal, seed)
