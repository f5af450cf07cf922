"""Encrypted reasoning: sealed notes that only the account and model that they were made for may send back."""

from __future__ import annotations

import base64
import hashlib
import hmac

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


def seal(sealed: Sealed, seed: int) -> str:
    body = msgspec.json.encode(sealed)
    return base64.b64encode(body + _tag(body, seed)).decode()


def unseal(item: Json, account: str, model: str, seed: int) -> Sealed:
    """The reasoning of an item. Raises 400 for one that was changed, or was made for somebody else."""
    try:
        data = base64.b64decode(str(item.get("encrypted_content")), validate=True)
        body, tag = data[:-16], data[-16:]
        if not hmac.compare_digest(tag, _tag(body, seed)):
            raise unverified(item, "Encrypted content could not be decrypted or parsed.")
        sealed = msgspec.json.decode(body, type=Sealed)
    except (ValueError, msgspec.MsgspecError) as error:
        raise unverified(item, "Encrypted content could not be decrypted or parsed.") from error
    if sealed.id != item.get("id"):
        raise unverified(item, "Encrypted content item_id did not match the target item id.")
    if (sealed.account, sealed.model) != (account, model):
        raise unverified(item, "Encrypted content organization_id or model did not match.")
    return sealed


def unverified(item: Json, reason: str) -> ProviderError:
    message = f"The encrypted content for item {item.get('id')} could not be verified. Reason: {reason}"
    return invalid(message, code="invalid_encrypted_content")


def fingerprint(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _tag(body: bytes, seed: int) -> bytes:
    return hashlib.blake2b(body, digest_size=16, key=f"lamella simulator {seed}".encode()).digest()
