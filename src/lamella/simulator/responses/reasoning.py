"""Encrypted reasoning and compactions: sealed notes that only the account that they were made for may send back."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TypeVar

import msgspec

from lamella.simulator.blocks import Json
from lamella.simulator.errors import ProviderError, invalid


class Sealed(msgspec.Struct, frozen=True):
    """What is encrypted: whose it is, and how many tokens the reasoning has when the model reads it again."""

    account: str
    model: str
    id: str
    tokens: int
    text: str


class Compacted(msgspec.Struct, frozen=True):
    """What is encrypted in a compaction item: a summary, and whether it stands for the items before it."""

    account: str
    summary: str
    tokens: int
    drops: bool
    """Of an in-line compaction; the output of `/responses/compact` has the user's messages beside it."""


Note = TypeVar("Note", bound=msgspec.Struct)


def seal(sealed: msgspec.Struct, seed: int) -> str:
    body = msgspec.json.encode(sealed)
    return base64.b64encode(body + _tag(body, seed)).decode()


def unseal(item: Json, account: str, model: str, seed: int) -> Sealed:
    """The reasoning of an item. Raises 400 for one that was changed, or was made for somebody else."""
    sealed = opened(item, Sealed, seed)
    if sealed.id != item.get("id"):
        raise unverified(item, "Encrypted content item_id did not match the target item id.")
    if (sealed.account, sealed.model) != (account, model):
        raise unverified(item, "Encrypted content organization_id or model did not match.")
    return sealed


def uncompact(item: Json, account: str, seed: int) -> Compacted:
    """The summary of a compaction item. Raises 400 for one that was changed, or was made for somebody else."""
    compacted = opened(item, Compacted, seed)
    if compacted.account != account:
        raise unverified(item, "Encrypted content organization_id did not match.")
    return compacted


def opened(item: Json, kind: type[Note], seed: int) -> Note:
    """What an item has encrypted. Raises 400 for anything that this simulator did not encrypt."""
    try:
        data = base64.b64decode(str(item.get("encrypted_content")), validate=True)
        body, tag = data[:-16], data[-16:]
        if not hmac.compare_digest(tag, _tag(body, seed)):
            raise unverified(item, "Encrypted content could not be decrypted or parsed.")
        return msgspec.json.decode(body, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise unverified(item, "Encrypted content could not be decrypted or parsed.") from error


def unverified(item: Json, reason: str) -> ProviderError:
    message = f"The encrypted content for item {item.get('id')} could not be verified. Reason: {reason}"
    return invalid(message, code="invalid_encrypted_content")


def fingerprint(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _tag(body: bytes, seed: int) -> bytes:
    return hashlib.blake2b(body, digest_size=16, key=f"lamella simulator {seed}".encode()).digest()
