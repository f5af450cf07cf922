"""Thinking that comes back: genuine or not, whose, and whether all before it is as it was.

Words and outcomes follow the vendor's pages "Preserved thinking" and "Fix a thinking block bound to a different
conversation".

A signature is a sealed note. It binds a block to an account, a model and all that stood before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from lamella_simulator.anthropic.editing import read_summary
from lamella_simulator.anthropic.request import WireBlock
from lamella_simulator.blocks import Json, digest, link
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model
from lamella_simulator.sealing import fingerprint, unseal
from lamella_simulator.settings import Settings


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


def read_seal(raw: Json, seed: int) -> Seal | None:
    """The seal of a thinking block. None if the signature is missing or was not made by this simulator."""
    return unseal(raw.get("signature"), Seal, seed)


BETA = "thinking-binding-controls-2026-08-01"
START = digest(b"what stood before")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads the thinking: the account and model of the request, and what it asked for."""

    account: str
    model: Model
    thinks: bool
    on_mismatch: str | None
    """`thinking.block_binding.prefix_mismatch_behavior` of the request."""
    settings: Settings

    @property
    def enforces(self) -> bool:
        return self.settings.prefix_check_enforced or self.on_mismatch is not None


@dataclass(frozen=True, slots=True)
class Admitted:
    """The blocks the model is shown, what happened to others, and what new thinking is to be bound to."""

    blocks: tuple[WireBlock, ...]
    transformations: tuple[Json, ...]
    prefix: bytes
    previous: str


def on_mismatch(thinking: dict[str, Any] | None) -> str | None:
    binding = (thinking or {}).get("block_binding")
    return binding.get("prefix_mismatch_behavior") if isinstance(binding, dict) else None


def admit(blocks: Sequence[WireBlock], reader: Reader) -> Admitted:
    """Drops, keeps or refuses each thinking block, in request order. Raises 400."""
    kept: list[WireBlock] = []
    reported: list[Json] = []
    chain, previous, broken = START, "", False
    forgotten = last_plain_user(blocks) if not reader.model.keeps_thinking else -1
    for block in blocks:
        if block.kind == "compaction":
            chain, previous = bridged(block, chain, previous, reader)
            kept.append(block)
            continue
        if not block.thinking:
            if bound(block, reader.settings):
                chain = link(chain, block.content)
            if not block.hidden:
                kept.append(block)
            continue
        seal = genuine(block, reader.settings.seed)
        if not reader.thinks or block.message < forgotten:
            continue
        if (reason := foreign(seal, reader)) is not None:
            reported.append(entry("thinking_dropped", block, reason))
            continue
        broken = broken or not fits(seal, chain, previous, reader.model)
        previous = seal.id
        if broken and not tolerated(block, reader, reported):
            continue
        kept.append(block)
    return Admitted(tuple(kept), tuple(reported), chain, previous)


def bridged(block: WireBlock, chain: bytes, previous: str, reader: Reader) -> tuple[bytes, str]:
    """Behind a summary that the API wrote, thinking is bound to the messages that it stands for."""
    summary = read_summary(block.raw, reader.settings.seed)
    if summary is None or summary.account != reader.account or summary.start != chain.hex():
        return link(chain, block.content), previous
    return bytes.fromhex(summary.end), summary.previous


def opening(blocks: Sequence[WireBlock]) -> bytes:
    """The chain of tools and system, where a conversation begins."""
    chain = START
    for block in blocks:
        if block.level != "messages":
            chain = link(chain, block.content)
    return chain


def genuine(block: WireBlock, seed: int) -> Seal:
    seal = read_seal(block.raw, seed)
    if seal is None:
        raise invalid(f"{block.path}: Invalid `signature` in `thinking` block")
    text = str(block.raw.get("thinking", ""))
    if text and fingerprint(text) != seal.text:
        raise invalid(
            f"{block.path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
            "modified. These blocks must remain as they were in the original response."
        )
    return seal


def foreign(seal: Seal, reader: Reader) -> str | None:
    """Why this reader is never shown the block: another organisation's, or another model's."""
    if seal.account != reader.account:
        return "organization_binding_mismatch"
    return "model_binding_mismatch" if seal.model != reader.model.id else None


def fits(seal: Seal, chain: bytes, previous: str, model: Model) -> bool:
    """Whether all content before the block is unchanged and no thinking is missing but from the front."""
    if not model.prefix_check:
        return True
    return seal.prefix == chain.hex() and previous in ("", seal.previous)


def tolerated(block: WireBlock, reader: Reader, reported: list[Json]) -> bool:
    """The result of a failed prefix check: refused, dropped, or shown if nothing enforces it."""
    if not reader.enforces:
        reported.append(entry("thinking_mismatch_allowed", block, "prefix_binding_mismatch"))
        return True
    if reader.on_mismatch != "drop_block":
        raise invalid(
            f"{block.path}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
            'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
        )
    reported.append(entry("thinking_dropped", block, "prefix_binding_mismatch"))
    return False


def entry(kind: str, block: WireBlock, reason: str) -> Json:
    return {"type": kind, "path": block.path, "reason": reason}


def last_plain_user(blocks: Sequence[WireBlock]) -> int:
    """The message index of the last user text: the turn that an older model still keeps thinking of starts there."""
    plain = [b.message for b in blocks if b.role == "user" and b.level == "messages" and b.kind != "tool_result"]
    return max(plain, default=-1)


def check_complete(blocks: Sequence[WireBlock], thought_calls: Collection[bytes], settings: Settings) -> None:
    """Inside a tool loop every thinking block of the running turn must come back. Raises 400.

    `thought_calls` are the calls that this simulator made after thinking, as `call_key`s: an answer that had none is
    not missed, and neither is one whose past has been edited, for which the prefix check speaks.
    """
    if not thought_calls:
        return
    start = last_plain_user(blocks)
    chain = before = START
    message, thought = -1, False
    for block in blocks:
        if block.message != message:
            message, thought, before = block.message, False, chain
        thought = thought or block.thinking
        running = block.role == "assistant" and block.message > start
        unthought = running and block.kind == "tool_use" and not thought
        if unthought and call_key(before, str(block.raw.get("id"))) in thought_calls:
            raise invalid(
                f"{block.path}.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When thinking "
                "is on, the thinking blocks of the latest assistant turn must be passed back."
            )
        if bound(block, settings):
            chain = link(chain, block.content)


def call_key(before: bytes, call_id: str) -> bytes:
    return digest(before, call_id.encode())


def bound(block: WireBlock, settings: Settings) -> bool:
    """Whether thinking made later is bound to this block."""
    return not block.thinking and not (block.turn_scoped and settings.clear_at_may_vanish)
