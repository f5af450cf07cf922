"""Notes that a provider seals into an answer and reads again when it comes back: nobody else can write one."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TypeVar

import msgspec

TAG = 16
Note = TypeVar("Note", bound=msgspec.Struct)


def seal(note: msgspec.Struct, seed: int) -> str:
    body = msgspec.json.encode(note)
    return base64.b64encode(body + _tag(body, seed)).decode()


def unseal(sealed: object, kind: type[Note], seed: int) -> Note | None:
    """The note in a seal, or None for anything that this simulator did not seal."""
    if not isinstance(sealed, str):
        return None
    try:
        data = base64.b64decode(sealed, validate=True)
        body, tag = data[:-TAG], data[-TAG:]
        return msgspec.json.decode(body, type=kind) if hmac.compare_digest(tag, _tag(body, seed)) else None
    except (ValueError, msgspec.MsgspecError):
        return None


def fingerprint(text: str) -> str:
    """What a note keeps of a text, to know it again."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _tag(body: bytes, seed: int) -> bytes:
    return hashlib.blake2b(body, digest_size=TAG, key=f"lamella simulator {seed}".encode()).digest()
