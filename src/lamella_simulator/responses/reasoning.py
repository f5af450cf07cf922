"""Encrypted reasoning and compactions: sealed notes that only the account that they were made for may send back."""

from __future__ import annotations

import msgspec

from lamella_simulator import sealing
from lamella_simulator.blocks import Json
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.sealing import Note


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
    note = sealing.unseal(item.get("encrypted_content"), kind, seed)
    if note is None:
        raise unverified(item, "Encrypted content could not be decrypted or parsed.")
    return note


def unverified(item: Json, reason: str) -> ProviderError:
    message = f"The encrypted content for item {item.get('id')} could not be verified. Reason: {reason}"
    return invalid(message, code="invalid_encrypted_content")
