"""Signatures of thinking blocks: sealed notes that bind a block to an account, a model and what stood before it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TypeVar

import msgspec

from lamella.simulator.blocks import Json


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


Note = TypeVar("Note", bound=msgspec.Struct)


def sign(note: msgspec.Struct, seed: int) -> str:
    body = msgspec.json.encode(note)
    return base64.b64encode(body + _tag(body, seed)).decode()


def read(raw: Json, seed: int) -> Seal | None:
    """The seal of a thinking block, or None where the signature is missing or was not made by this simulator."""
    return unsign(raw.get("signature"), Seal, seed)


def unsign(signature: object, kind: type[Note], seed: int) -> Note | None:
    """The note behind a signature, or None for anything that this simulator did not sign."""
    if not isinstance(signature, str):
        return None
    try:
        sealed = base64.b64decode(signature, validate=True)
        body, tag = sealed[:-16], sealed[-16:]
        if not hmac.compare_digest(tag, _tag(body, seed)):
            return None
        return msgspec.json.decode(body, type=kind)
    except (ValueError, msgspec.MsgspecError):
        return None


def fingerprint(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _tag(body: bytes, seed: int) -> bytes:
    return hashlib.blake2b(body, digest_size=16, key=f"lamella simulator {seed}".encode()).digest()
