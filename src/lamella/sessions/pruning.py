"""Pruning: old tool results become stubs when that pays, or once there are enough of them, by moving one boundary.

SPEC L8, X-ECON. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from lamella.cache.economics import Prospect, prune_calls
from lamella.context.choices import ALL
from lamella.context.render import pruned_steps
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Step
from lamella.sessions.sizes import ShownWindow

PrunePolicy = Literal["auto", "keep_all", "keep_none"]


PruneWhen = Literal["full", "pays"]
"""When results are pruned that nobody asked for."""

THRESHOLD = 8_000
"""Tokens of results that start a pruning where it waits for a threshold and none is set (SPEC L8)."""


@dataclass(frozen=True, slots=True)
class PruneSettings:
    """Tokens of results behind the boundary that start a pruning, and of the newest that stay; and the policy.

    `threshold` None: `THRESHOLD` where pruning waits for one, none where it goes by price. `when`: at the threshold
    alone, or already when it pays.
    `auto`: results of tools that ask for it stay until a compaction. `keep_all`: all of them do, as long as they can.
    `keep_none`: none stays when its turn has ended (SPEC L9).
    """

    threshold: int | None = None
    keep: int = 2_000
    policy: PrunePolicy = "auto"
    when: PruneWhen = "pays"


@dataclass(frozen=True, slots=True)
class Pruning:
    """What a pruning does: `before` and `after` are the tokens of the results behind the old boundary."""

    decision: Decision
    before: int
    after: int

    @property
    def freed(self) -> int:
        """How much shorter the window is."""
        return self.before - self.after


def prune(
    window: ShownWindow,
    settings: PruneSettings,
    *,
    who: str,
    asked: bool = False,
    full: str = "",
    prospect: Prospect | None = None,
) -> Pruning | None:
    """Move the boundary behind the results that are older than the newest `keep` tokens; None where it does not pay.

    Only whole steps are pruned, so that parallel calls stay together; a result that is cut counts as what is shown of
    it. `asked` for, it is done below the threshold too; `full` says why nothing can be kept any longer. `prospect` says
    what calls cost from now on: with it, it is done as soon as it pays; without, the threshold alone decides.
    """
    if settings.policy == "keep_all" and not (asked or full):
        return None
    emptying = bool(full) or settings.policy == "keep_none"
    found = _found(window, keep=0 if emptying else settings.keep, emptying=emptying)
    if found is None:
        return None
    why = full or ("asked for" if asked else "")
    threshold = 0 if emptying else settings.threshold
    if threshold is None and prospect is None:
        threshold = THRESHOLD
    if threshold is not None and found.total > threshold:
        why = full or f"the results of tools have {found.total} tokens, more than {threshold}"
    numbers = found.numbers
    if not why and prospect is not None:
        why, more = _paying(window, found, prospect)
        numbers |= more
    if not why:
        return None
    decision = Decision(
        DecisionKind.PRUNE,
        window.conversation_id,
        found.steps[-1].id,
        who,
        why,
        {**numbers, ALL: 1} if emptying else numbers,
        first_changed=found.steps[0].id,
    )
    return Pruning(decision, found.total, found.after)


@dataclass(frozen=True, slots=True)
class _Found:
    """What can be pruned: `total` and `after` are the tokens of the results behind the old boundary."""

    steps: Sequence[Step]
    total: int
    after: int

    @property
    def numbers(self) -> dict[str, float]:
        return {"before": self.total, "after": self.after, "results": len(self.steps)}


def _found(window: ShownWindow, *, keep: int, emptying: bool) -> _Found | None:
    """All but the newest `keep` tokens of results; None where stubs would be no shorter."""
    steps = _open_steps(window, emptying=emptying)
    kept = () if emptying else window.kept
    sizes = [int(window.results(step, kept) * window.calibration) for step in steps]
    old, newest = len(steps), 0
    while old and newest + sizes[old - 1] <= keep:
        newest += sizes[old - 1]
        old -= 1
    pruned = steps[:old]
    after = newest + int(sum(window.stubs(step, kept) for step in pruned) * window.calibration)
    return _Found(pruned, sum(sizes), after) if pruned and after < sum(sizes) else None


def _paying(window: ShownWindow, found: _Found, prospect: Prospect) -> tuple[str, dict[str, float]]:
    """Why it pays, "" where it does not, with what that is reckoned from (PROVIDERS 5.5, 5.6)."""
    removed = found.total - found.after
    surviving = max(0, window.behind(found.steps[0]) - removed)
    calls = 0.0 if prospect.cold else prune_calls(removed, surviving, prospect.rates, prospect.again)
    numbers = {"removed": removed, "surviving": surviving, "pays_after": calls, "expected": prospect.calls}
    numbers["again"] = prospect.again
    if prospect.cold:
        return f"the cache has ended, so {removed} tokens of results go without anything being written anew", numbers
    if calls > prospect.calls:
        return "", numbers
    return (
        f"{removed} tokens of results go and {surviving} behind them are written anew: at reads of "
        f"{prospect.rates.read:g} of the price of input that is repaid after {calls:.1f} calls, and "
        f"{prospect.calls:.1f} are expected until the next time"
    ), numbers


def _open_steps(window: ShownWindow, *, emptying: bool) -> list[Step]:
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
    kept: Collection[str] = () if emptying else window.kept
    steps = (step for turn in turns for step in turn.steps if step.id not in behind)
    return [step for step in steps if any(result.name not in kept for result in step.results)]
