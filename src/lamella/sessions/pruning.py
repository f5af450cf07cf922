"""Pruning: old tool results become stubs once there are enough of them, by moving one boundary (SPEC L8). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.context.choices import Known
from lamella.context.render import pruned_steps
from lamella.context.results import cut_results, stubs_of
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Step, Turn


@dataclass(frozen=True, slots=True)
class PruneSettings:
    """Tokens of results behind the boundary that start a pruning, and of the newest that stay."""

    threshold: int = 8_000
    keep: int = 2_000


@dataclass(frozen=True, slots=True)
class Pruning:
    """What a pruning does: `before` and `after` are the tokens of the results behind the old boundary."""

    decision: Decision
    before: int
    after: int


def prune(
    turns: Sequence[Turn],
    known: Known,
    calibration: float,
    settings: PruneSettings,
    *,
    conversation_id: str,
    who: str,
    forced: bool = False,
) -> Pruning | None:
    """Move the boundary behind the results that are older than the newest `keep` tokens; None where it does not pay.

    Only whole steps are pruned, so that parallel calls stay together; a result that is cut counts as what is shown of
    it. `forced` does it below the threshold too.
    """
    behind = pruned_steps(tuple(turns), known.boundary(turns))
    steps = [step for turn in turns for step in turn.steps if step.id not in behind and step.results]
    sizes = [int(_results(step, known) * calibration) for step in steps]
    total = sum(sizes)
    if not steps or (total <= settings.threshold and not forced):
        return None
    old, newest = len(steps), 0
    while old and newest + sizes[old - 1] <= settings.keep:
        newest += sizes[old - 1]
        old -= 1
    pruned = steps[:old]
    if not pruned:
        return None
    after = newest + int(sum(_stubs(step) for step in pruned) * calibration)
    if after >= total:
        return None
    why = f"the results of tools have {total} tokens, more than {settings.threshold}"
    if forced and total <= settings.threshold:
        why = "asked for"
    decision = Decision(
        DecisionKind.PRUNE,
        conversation_id,
        pruned[-1].id,
        who,
        why,
        {"before": total, "after": after, "results": len(pruned)},
        first_changed=pruned[0].id,
    )
    return Pruning(decision, total, after)


def _results(step: Step, known: Known) -> int:
    return sum(count_tokens(result.content) for result in cut_results(step, known.cuts))


def _stubs(step: Step) -> int:
    return sum(count_tokens(result.content) for result in stubs_of(step))
