"""Context editing by the API: old results and old thinking are cleared before the prompt is read (PROVIDERS 1.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lamella_simulator.anthropic import compaction
from lamella_simulator.anthropic.request import MessagesRequest, WireBlock
from lamella_simulator.blocks import Json, digest, encode
from lamella_simulator.errors import invalid

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
    return next((edit for edit in edits_of(request) if edit.get("type") == compaction.THRESHOLD), None)


def check(request: MessagesRequest, betas: frozenset[str], *, require_betas: bool) -> None:
    """Raises 400 for edits that the API would refuse."""
    management = request.context_management
    if management is None:
        return
    known = {BETA, compaction.THRESHOLD_BETA}
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
        needed = compaction.THRESHOLD_BETA if kind == compaction.THRESHOLD else BETA
        if kind not in (*FIELDS, compaction.THRESHOLD) or (require_betas and needed not in betas):
            raise invalid(f"{path}.type: {kind!r} is not a known edit, or its beta header is missing")
        if kind == compaction.THRESHOLD:
            compaction.check_threshold(path, edit)
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
    return replace(block, bare=bare, content=digest(block.role.encode(), encode(bare)))
