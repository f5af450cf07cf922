"""Token figures as people read them, and the notifications of the sessions seed (SPEC L16). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.core.json import JsonObject
from lamella.core.messages import Turn
from lamella.core.prompt import Kind, Segment
from lamella.core.tokens import percent, short


@dataclass(frozen=True, slots=True)
class Breakdown:
    """What a window is made of, in tokens."""

    system: int
    summary: int
    kept: int
    definitions: int
    calls: int

    @property
    def tools(self) -> int:
        """Definitions of tools, calls and results."""
        return self.definitions + self.calls

    @property
    def total(self) -> int:
        """Everything."""
        return self.system + self.summary + self.kept + self.tools


def breakdown(segments: Sequence[Segment], turns: Sequence[Turn], calibration: float) -> Breakdown:
    """The parts of a window: `turns` are those that stand in it."""
    sums = dict.fromkeys(("system", "summary", "kept", "definitions", "calls"), 0)
    calling = {step.id for turn in turns for step in turn.steps if step.calls}
    for segment in segments:
        if segment.kind is Kind.TOOLS:
            sums["definitions"] += segment.tokens
        elif segment.kind is Kind.SUMMARY:
            sums["summary"] += segment.tokens
        elif segment.kind in (Kind.FILES, Kind.USER, Kind.DYNAMIC):
            sums["kept"] += segment.tokens
        elif segment.kind is Kind.STEP:
            sums["calls" if segment.id in calling else "kept"] += segment.tokens
        else:
            sums["system"] += segment.tokens
    return Breakdown(**{name: int(tokens * calibration) for name, tokens in sums.items()})


def compacted_line(before: int, after: int, number: int) -> str:
    """The notification of a compaction that ended session `number`, which keeps its summary."""
    return f"Compacted ({short(before)} → {short(after)} tokens). Summary: session {number}."


def compacted_text(before: int, parts: Breakdown, budget: int) -> str:
    """The notification of a compaction with its breakdown (SPEC L16)."""
    tools = f"{short(parts.tools)} tokens ({short(parts.definitions)} defs + {short(parts.calls)} calls)"
    return "\n".join(
        [
            f"⚙️ Compacted ({short(before)} → {short(parts.total)})",
            f"  🔧 System: {short(parts.system)} tokens",
            f"  📝 Summary: {short(parts.summary)} tokens",
            f"  💬 Kept context: {short(parts.kept)} tokens",
            f"  🛠️ Tools: {tools}",
            f"  📊 Total: {short(parts.total)}/{short(budget)} ({percent(parts.total, budget)})",
        ]
    )


def check_text(check: JsonObject) -> str:
    """What a check found, as a line of a notification; "" where nothing is missing or made up."""
    kept, missing, invented = (_listed(check, name) for name in ("kept_literally", "missing", "invented"))
    if not (kept or missing or invented):
        return ""
    found = [f"{check.get('found')} of {check.get('items')} found"]
    found += [f"{len(kept)} kept literally"] if kept else []
    found += [f"missing: {_some(missing)}"] if missing else []
    found += [f"not in the conversation: {_some(invented)}"] if invented else []
    return f"  🔎 Check: {', '.join(found)}"


def _listed(check: JsonObject, name: str) -> list[str]:
    found = check.get(name)
    return [str(text) for text in found] if isinstance(found, list) else []


def _some(texts: Sequence[str]) -> str:
    return ", ".join(f"“{text}”" for text in texts[:5]) + (" …" if len(texts) > 5 else "")


def pruned_text(before: int, after: int, context: int, budget: int) -> str:
    """The notification of a pruning."""
    less = f"-{percent(before - after, before)}"
    return (
        f"🔧 Tool outputs pruned ({short(before)} → {short(after)}, {less})\n"
        f"  📊 Context: {short(context)}/{short(budget)} ({percent(context, budget)})"
    )
