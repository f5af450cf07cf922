"""Pruning: old tool results become stubs once there are enough of them, by moving one boundary (SPEC L8). Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from lamella.context.choices import ALL, Known
from lamella.context.render import pruned_steps
from lamella.context.results import cut_results, stubs_of
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Step, Turn

PrunePolicy = Literal["auto", "keep_all", "keep_none"]


@dataclass(frozen=True, slots=True)
class PruneSettings:
    """Tokens of results behind the boundary that start a pruning, and of the newest that stay; and the policy.

    `auto`: results of tools that ask for it stay until a compaction. `keep_all`: all of them do, as long as they can.
    `keep_none`: none stays when its turn has ended (SPEC L9).
    """

    threshold: int = 8_000
    keep: int = 2_000
    policy: PrunePolicy = "auto"


@dataclass(frozen=True, slots=True)
class Pruning:
    """What a pruning does: `before` and `after` are the tokens of the results behind the old boundary."""

    decision: Decision
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """What is pruned: the turns of a window, what is known of it, and the tools whose results are kept."""

    conversation_id: str
    turns: Sequence[Turn]
    known: Known
    calibration: float
    kept: Collection[str] = ()
    readable: bool = False
    """Whether stubs name the id by which the model can read a result again."""


def prune(window: Pruned, settings: PruneSettings, *, who: str, asked: bool = False, full: str = "") -> Pruning | None:
    """Move the boundary behind the results that are older than the newest `keep` tokens; None where it does not pay.

    Only whole steps are pruned, so that parallel calls stay together; a result that is cut counts as what is shown of
    it. `asked` for, it is done below the threshold too; `full` says why nothing can be kept any longer.
    """
    if settings.policy == "keep_all" and not (asked or full):
        return None
    emptying = bool(full) or settings.policy == "keep_none"
    threshold, keep = (0, 0) if emptying else (settings.threshold, settings.keep)
    steps = _open_steps(window, emptying=emptying)
    kept = () if emptying else window.kept
    sizes = [int(_size(step, window, kept) * window.calibration) for step in steps]
    total = sum(sizes)
    if not steps or (total <= threshold and not asked):
        return None
    old, newest = len(steps), 0
    while old and newest + sizes[old - 1] <= keep:
        newest += sizes[old - 1]
        old -= 1
    pruned = steps[:old]
    if not pruned:
        return None
    after = newest + int(sum(_stubs(step, window, kept) for step in pruned) * window.calibration)
    if after >= total:
        return None
    why = full or f"the results of tools have {total} tokens, more than {threshold}"
    if asked and total <= threshold:
        why = "asked for"
    numbers: dict[str, float] = {"before": total, "after": after, "results": len(pruned)}
    decision = Decision(
        DecisionKind.PRUNE,
        window.conversation_id,
        pruned[-1].id,
        who,
        why,
        {**numbers, ALL: 1} if emptying else numbers,
        first_changed=pruned[0].id,
    )
    return Pruning(decision, total, after)


def _open_steps(window: Pruned, *, emptying: bool) -> list[Step]:
    """The steps that show results which a pruning may take."""
    turns = tuple(window.turns)
    behind = pruned_steps(turns, window.known.boundary(turns))
    if emptying:
        emptied = pruned_steps(turns, window.known.emptied(turns))
        behind = frozenset(
            step.id
            for turn in turns
            for step in turn.steps
            if step.id in emptied or (step.id in behind and not any(r.name in window.kept for r in step.results))
        )
    kept = () if emptying else window.kept
    steps = (step for turn in turns for step in turn.steps if step.id not in behind)
    return [step for step in steps if any(result.name not in kept for result in step.results)]


def _size(step: Step, window: Pruned, kept: Collection[str]) -> int:
    results = cut_results(step, window.known.cuts, readable=window.readable)
    return sum(count_tokens(result.content) for result in results if result.name not in kept)


def _stubs(step: Step, window: Pruned, kept: Collection[str]) -> int:
    stubs = stubs_of(step, readable=window.readable)
    return sum(count_tokens(result.content) for result in stubs if result.name not in kept)
