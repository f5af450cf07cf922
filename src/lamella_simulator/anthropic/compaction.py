"""Compaction by the API: a block that stands for all that came before it (PROVIDERS 1.6, 1.5 "accepted swap")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from lamella_simulator.anthropic.request import MessagesRequest, WireBlock
from lamella_simulator.blocks import Json
from lamella_simulator.errors import invalid
from lamella_simulator.replies import Part
from lamella_simulator.sealing import fingerprint, seal, unseal

THRESHOLD_BETA = "compact-2026-01-12"
ON_DEMAND_BETA = "compact-2026-09-04"
THRESHOLD = "compact_20260112"
DEFAULT_TRIGGER = 150_000
LEAST_TRIGGER = 50_000
INSTRUCTIONS = (
    "Write down what is needed to carry on from here without the messages above: what was asked, what was found and "
    "decided, with names and numbers as they were said, and what is left to do."
)
"""Stands for the vendor's own prompt: it is counted and billed, and read by nobody."""


class Summary(msgspec.Struct, frozen=True):
    """What the API seals into a block: whose it is, and the history it stands for, as `thinking` chains it."""

    account: str
    model: str
    text: str
    start: str
    """The chain of tools and system."""
    end: str
    """The chain behind the last message that is summarised."""
    previous: str
    """The id of the last thinking block before."""


def stands(raw: Json) -> bool:
    """Whether a block replaces what came before it: one whose compaction failed does not."""
    return raw.get("type") == "compaction" and raw.get("content") is not None


def forget(blocks: Sequence[WireBlock]) -> list[WireBlock]:
    """The blocks that the model is shown: messages before the last summary, and failed compactions, are ignored."""
    last = max((index for index, block in enumerate(blocks) if stands(block.raw)), default=-1)
    return [
        block
        for index, block in enumerate(blocks)
        if block.level != "messages" or (index >= last and (block.kind != "compaction" or index == last))
    ]


def read(raw: Json, seed: int) -> Summary | None:
    """The seal of a block, which is in its `signature` or, of a threshold's, in `encrypted_content`."""
    sealed = raw.get("signature") or raw.get("encrypted_content")
    return unseal(sealed, Summary, seed)


def check_block(path: str, raw: Json, betas: frozenset[str], *, require_betas: bool, seed: int) -> None:
    """Raises 400 for a block that the API would refuse."""
    if require_betas and not betas & {THRESHOLD_BETA, ON_DEMAND_BETA}:
        raise invalid(f"{path}.type: 'compaction' is not allowed without its beta header")
    if unknown := set(raw) - {"type", "content", "encrypted_content", "signature", "cache_control", "tool_changes"}:
        raise invalid(f"{path}.compaction.{min(unknown)}: Extra inputs are not permitted")
    content = raw.get("content")
    if content is not None and not (isinstance(content, str) and content):
        raise invalid(f"{path}.compaction.content: Input should be a non-empty string or null")
    if raw.get("signature") is None and raw.get("encrypted_content") is None:
        return
    summary = read(raw, seed)
    if summary is None or (content is not None and summary.text != fingerprint(str(content))):
        raise invalid(f"{path}: Invalid `signature` in `compaction` block")


def check_request(request: MessagesRequest, betas: frozenset[str], *, require_betas: bool) -> None:
    """The on-demand parameter: its beta, its fields, and nothing beside it. Raises 400."""
    asked = request.compaction
    if asked is None:
        return
    if require_betas and ON_DEMAND_BETA not in betas:
        raise invalid("compaction: Extra inputs are not permitted")
    if asked.get("type") != "summarize":
        raise invalid("compaction.type: Input should be 'summarize'")
    if unknown := set(asked) - {"type", "instructions"}:
        raise invalid(f"compaction.{min(unknown)}: Extra inputs are not permitted")
    if request.context_management:
        raise invalid("compaction: cannot be combined with context_management")


def check_threshold(path: str, edit: Json) -> None:
    if unknown := set(edit) - {"type", "trigger", "instructions", "pause_after_compaction"}:
        raise invalid(f"{path}.{THRESHOLD}.{min(unknown)}: Extra inputs are not permitted")
    trigger = edit.get("trigger")
    if trigger is None:
        return
    if not isinstance(trigger, dict) or trigger.get("type") != "input_tokens":
        raise invalid(f"{path}.{THRESHOLD}.trigger.type: Input should be 'input_tokens'")
    value: Any = trigger.get("value")
    if not isinstance(value, int) or value < LEAST_TRIGGER:
        raise invalid(f"{path}.{THRESHOLD}.trigger.value: Input should be greater than or equal to {LEAST_TRIGGER}")


def trigger_of(edit: Json) -> int:
    return int((edit.get("trigger") or {"value": DEFAULT_TRIGGER})["value"])


def instructions_of(asked: Json) -> str:
    """What is put behind the conversation; empty instructions count as none."""
    return str(asked.get("instructions") or "").strip() or INSTRUCTIONS


def part_of(summary: Summary, text: str, seed: int, *, on_demand: bool) -> Part:
    """The block as it is streamed; without a text the compaction has failed."""
    sealed = seal(msgspec.structs.replace(summary, text=fingerprint(text)), seed)
    return Part("compaction", text, signature=sealed if text else "", on_demand=on_demand)


def content_of(part: Part) -> Json:
    """A compaction block in a message."""
    sealed = {"signature" if part.on_demand else "encrypted_content": part.signature} if part.signature else {}
    return {"type": "compaction", "content": part.text or None, **sealed}
