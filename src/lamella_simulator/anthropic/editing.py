"""Context management by the API: clearing of old results and thinking, and compaction.

Clearing happens before the prompt is read. A compaction block stands for all messages before it, which the model is
not shown any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from lamella_simulator.anthropic.request import MessagesRequest, WireBlock
from lamella_simulator.blocks import Json, digest, rendered
from lamella_simulator.errors import invalid
from lamella_simulator.replies import Part
from lamella_simulator.sealing import fingerprint, seal, unseal

BETA = "context-management-2025-06-27"
TOOL_USES = "clear_tool_uses_20250919"
THINKING = "clear_thinking_20251015"
FIELDS = {
    TOOL_USES: {"type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"},
    THINKING: {"type", "keep"},
}
AMOUNTS = {
    "trigger": ("input_tokens", "tool_uses"),
    "keep": ("tool_uses", "thinking_turns"),
    "clear_at_least": ("input_tokens",),
}
DEFAULT_TRIGGER = 100_000
DEFAULT_KEEP = 3
CLEARED = "[This result was cleared to save context.]"
Size = Callable[[WireBlock], int]


@dataclass(frozen=True, slots=True)
class Edited:
    blocks: tuple[WireBlock, ...]
    applied: tuple[Json, ...]
    """As `context_management.applied_edits` tells it."""
    original: int
    """Tokens of the prompt before."""


def edits_of(request: MessagesRequest) -> list[Json]:
    return list((request.context_management or {}).get("edits") or ())


def threshold_of(request: MessagesRequest) -> Json | None:
    """The compaction that a request asks for, when its prompt has grown long enough."""
    return next((edit for edit in edits_of(request) if edit.get("type") == THRESHOLD), None)


def check(request: MessagesRequest, betas: frozenset[str], *, require_betas: bool) -> None:
    """Raises 400 for edits that the API would refuse."""
    management = request.context_management
    if management is None:
        return
    known = {BETA, THRESHOLD_BETA}
    if require_betas and not betas & known:
        raise invalid("context_management: Extra inputs are not permitted")
    if unknown := set(management) - {"edits"}:
        raise invalid(f"context_management.{min(unknown)}: Extra inputs are not permitted")
    edits = management.get("edits") or []
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        raise invalid("context_management.edits: Input should be a list of edits")
    for index, edit in enumerate(edits):
        path = f"context_management.edits.{index}"
        kind = edit.get("type")
        needed = THRESHOLD_BETA if kind == THRESHOLD else BETA
        if kind not in (*FIELDS, THRESHOLD) or (require_betas and needed not in betas):
            raise invalid(f"{path}.type: {kind!r} is not a known edit, or its beta header is missing")
        if kind == THRESHOLD:
            check_threshold(path, edit)
            continue
        if unknown := set(edit) - FIELDS[str(kind)]:
            raise invalid(f"{path}.{kind}.{min(unknown)}: Extra inputs are not permitted")
        if kind == THINKING and index > 0:
            raise invalid(f"{path}: {THINKING} must be the first edit")
        check_amounts(f"{path}.{kind}", edit)


def check_amounts(path: str, edit: Json) -> None:
    """The numbers of an edit are of a known type, and its lists hold names. Raises 400."""
    for name, kinds in AMOUNTS.items():
        amount = edit.get(name)
        if amount is None or (edit["type"] == THINKING and amount in ("all", {"type": "all"})):
            continue
        well = isinstance(amount, dict) and amount.get("type") in kinds and isinstance(amount.get("value"), int)
        if not well or amount["value"] < 0:
            raise invalid(f"{path}.{name}: Input should be a type of {', '.join(kinds)}, with a value")
    for name in ("exclude_tools", "clear_tool_inputs"):
        names = edit.get(name)
        if names is None or (name == "clear_tool_inputs" and isinstance(names, bool)):
            continue
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise invalid(f"{path}.{name}: Input should be a list of names")


def apply(request: MessagesRequest, blocks: Sequence[WireBlock], size: Size) -> Edited:
    """The blocks as the model is shown them, and what was cleared."""
    edits = edits_of(request)
    shown = tuple(blocks)
    if not edits:
        return Edited(shown, (), 0)
    original = sum(size(block) for block in blocks)
    applied: list[Json] = []
    for edit in edits:
        before = sum(size(block) for block in shown)
        if edit["type"] == THINKING:
            shown, turns = without_thinking(shown, edit)
            report = {"type": THINKING, "cleared_thinking_turns": turns}
        elif edit["type"] == TOOL_USES:
            shown, uses = without_results(shown, edit, size)
            report = {"type": TOOL_USES, "cleared_tool_uses": uses}
        else:
            continue
        after = sum(size(block) for block in shown)
        if after < before:
            applied.append({**report, "cleared_input_tokens": before - after})
    return Edited(shown, tuple(applied), original)


def without_thinking(blocks: tuple[WireBlock, ...], edit: Json) -> tuple[tuple[WireBlock, ...], int]:
    """Thinking stays in the last turns that have some; a turn ends where a person speaks again."""
    keep: Any = edit.get("keep") or {"type": "thinking_turns", "value": 1}
    if keep == "all" or keep.get("type") == "all":
        return blocks, 0
    turns: list[list[str]] = [[]]
    for block in blocks:
        if block.role == "user" and block.level == "messages" and block.kind != "tool_result":
            turns.append([])
        if block.thinking:
            turns[-1].append(block.path)
    thought = [paths for paths in turns if paths]
    old = thought[: max(0, len(thought) - int(keep["value"]))]
    cleared = {path for paths in old for path in paths}
    return tuple(block for block in blocks if block.path not in cleared), len(old)


def without_results(blocks: tuple[WireBlock, ...], edit: Json, size: Size) -> tuple[tuple[WireBlock, ...], int]:
    """Old results become a note; nothing happens below the trigger, or if less than asked for would be gained."""
    calls = {str(block.raw.get("id")): str(block.raw.get("name")) for block in blocks if block.kind == "tool_use"}
    trigger: Any = edit.get("trigger") or {"type": "input_tokens", "value": DEFAULT_TRIGGER}
    reached = len(calls) if trigger["type"] == "tool_uses" else sum(size(block) for block in blocks)
    keep = int((edit.get("keep") or {"value": DEFAULT_KEEP})["value"])
    excluded = set(edit.get("exclude_tools") or ())
    candidates = [call for call, name in calls.items() if name not in excluded]
    old = set(candidates[: max(0, len(candidates) - keep)])
    if reached < int(trigger["value"]) or not old:
        return blocks, 0
    inputs: Any = edit.get("clear_tool_inputs")
    edited = []
    for block in blocks:
        if block.kind == "tool_result" and str(block.raw.get("tool_use_id")) in old:
            block = changed(block, content=[{"type": "text", "text": CLEARED}])
        elif block.kind == "tool_use" and str(block.raw.get("id")) in old and clears(inputs, str(block.raw["name"])):
            block = changed(block, input={})
        edited.append(block)
    gained = sum(size(block) for block in blocks) - sum(size(block) for block in edited)
    least = int((edit.get("clear_at_least") or {"value": 0})["value"])
    return (blocks, 0) if gained < least else (tuple(edited), len(old))


def clears(inputs: bool | list[str] | None, name: str) -> bool:
    return name in inputs if isinstance(inputs, list) else bool(inputs)


def changed(block: WireBlock, **fields: Any) -> WireBlock:
    bare = {**block.bare, **fields}
    return replace(block, bare=bare, content=digest(block.role.encode(), rendered(bare)))


THRESHOLD_BETA = "compact-2026-01-12"
ON_DEMAND_BETA = "compact-2026-09-04"
THRESHOLD = "compact_20260112"
DEFAULT_SUMMARY_TRIGGER = 150_000
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
    """The chain after the last message that is summarised."""
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


def read_summary(raw: Json, seed: int) -> Summary | None:
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
        raise invalid(f"{path}.content: Input should be a non-empty string or null")
    if raw.get("signature") is None and raw.get("encrypted_content") is None:
        return
    summary = read_summary(raw, seed)
    if summary is None or (content is not None and summary.text != fingerprint(str(content))):
        raise invalid(f"{path}: Invalid `signature` in `compaction` block")


def check_compaction(request: MessagesRequest, betas: frozenset[str], *, require_betas: bool) -> None:
    """The on-demand parameter: its beta and its fields, without other edits. Raises 400."""
    asked = request.compaction
    if asked is None:
        return
    if require_betas and ON_DEMAND_BETA not in betas:
        raise invalid("compaction: Extra inputs are not permitted")
    if asked.get("type") != "summarize":
        raise invalid("type: Input should be 'summarize'")
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
    return int((edit.get("trigger") or {"value": DEFAULT_SUMMARY_TRIGGER})["value"])


def instructions_of(asked: Json) -> str:
    """The text that is appended to the conversation. Empty instructions count as none."""
    return str(asked.get("instructions") or "").strip() or INSTRUCTIONS


def part_of(summary: Summary, text: str, seed: int, *, on_demand: bool) -> Part:
    """The block as it is streamed; without a text the compaction has failed."""
    sealed = seal(msgspec.structs.replace(summary, text=fingerprint(text)), seed)
    return Part("compaction", text, signature=sealed if text else "", on_demand=on_demand)


def content_of(part: Part) -> Json:
    """A compaction block in a message."""
    sealed = {"signature" if part.on_demand else "encrypted_content": part.signature} if part.signature else {}
    return {"type": "compaction", "content": part.text or None, **sealed}
