"""Pruning: old tool results become stubs when that pays, or once there are enough of them, by moving one boundary.

SPEC L8, X-ECON. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lamella.cache.economics import Prospect, prune_calls
from lamella.context.choices import ALL, EXTRACTS
from lamella.context.extracts import VERSION
from lamella.context.render import pruned_steps
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Step, Turn
from lamella.sessions.sizes import ShownWindow

PrunePolicy = Literal["auto", "keep_all", "keep_none"]


PruneWhen = Literal["full", "pays"]
"""When results are pruned that nobody asked for."""

THRESHOLD = 8_000
"""Tokens of results that start a pruning if it waits for a threshold and none is set (SPEC L8)."""

NEWEST_TURNS = 2
"""Turns whose results no price takes: the next question is mostly about them."""

LEAST_AT_ONCE = 4_000
"""Tokens that a pruning by price takes out at least."""

MARGIN = 1.5
"""How many times its cost a pruning by price is expected to save."""


@dataclass(frozen=True, slots=True)
class PruneSettings:
    """Tokens of results behind the boundary that start a pruning, and of the newest that stay; and the policy.

    `threshold` None: `THRESHOLD` if pruning waits for one, none if it goes by price. `when`: at the threshold alone, or
    already when it pays, which never takes the results of the newest turns.
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
    """Move the boundary past the results that are older than the newest `keep` tokens; None if nothing calls for it.

    Only whole steps are pruned, so that parallel calls stay together; a result that is cut counts as what is shown of
    it. `asked` for, it is done below the threshold too; `full` says why nothing can be kept any longer. `prospect` says
    what calls cost from now on: with it, it is done as soon as it pays; without, the threshold alone decides.
    """
    if settings.policy == "keep_all" and not (asked or full):
        return None
    emptying = bool(full) or settings.policy == "keep_none"
    found = _found(window, keep=0 if emptying else settings.keep, emptying=emptying)
    threshold = 0 if emptying else settings.threshold
    if threshold is None and prospect is None:
        threshold = THRESHOLD
    numbers: Mapping[str, float] = {}
    why = full or ("asked for" if asked else "")
    if found is not None and threshold is not None and found.total > threshold:
        why = why or f"the results of tools have {found.total} tokens, more than {threshold}"
    if not why and prospect is not None:
        found = _found(window, keep=settings.keep, newest=NEWEST_TURNS)
        why, numbers = _paying(window, found, prospect) if found is not None else ("", {})
    if not why or found is None:
        return None
    return _pruning(window, found, who, why, numbers, emptying=emptying)


@dataclass(frozen=True, slots=True)
class _Found:
    """What can be pruned: the steps, each with its turn, and the tokens of the results after the old boundary, of
    which the `newest` stay. `after` is what is left of them at most, stubs included."""

    steps: Sequence[tuple[Turn, Step]]
    total: int
    newest: int
    after: int


def _pruning(
    window: ShownWindow, found: _Found, who: str, why: str, numbers: Mapping[str, float], *, emptying: bool
) -> Pruning | None:
    """The pruning with its exact figures; None if the stubs would be no shorter than the results."""
    kept = () if emptying else window.kept
    extracting = window.extracting and not emptying
    stubs = sum(window.stubs(turn, step, kept, extracting=extracting) for turn, step in found.steps)
    after = found.newest + int(stubs * window.calibration)
    if after >= found.total:
        return None
    counted = {"before": found.total, "after": after, "results": len(found.steps), **numbers}
    counted |= {ALL: 1} if emptying else {}
    counted |= {EXTRACTS: VERSION} if extracting else {}
    (_, first), (_, last) = found.steps[0], found.steps[-1]
    kind, subject = DecisionKind.PRUNE, window.conversation_id
    decision = Decision(kind, subject, last.id, who, why, counted, first_changed=first.id)
    return Pruning(decision, found.total, after)


def _found(window: ShownWindow, *, keep: int, emptying: bool = False, newest: int = 0) -> _Found | None:
    """All but the newest `keep` tokens of results, and but those of the `newest` turns; None if nothing is left."""
    kept = () if emptying else window.kept
    steps = _open_steps(window, emptying=emptying)
    sizes = [int(window.results(step, kept) * window.calibration) for _, step in steps]
    safe = {turn.id for turn in window.turns[max(0, len(window.turns) - newest) :]}
    old = sum(turn.id not in safe for turn, _ in steps)
    stays = sum(sizes[old:])
    while old and stays + sizes[old - 1] <= keep:
        old -= 1
        stays += sizes[old]
    if not old:
        return None
    extracting = window.extracting and not emptying
    most = sum(window.longest_stubs(step, kept, extracting=extracting) for _, step in steps[:old])
    return _Found(steps[:old], sum(sizes), stays, stays + int(most * window.calibration))


def _paying(window: ShownWindow, found: _Found, prospect: Prospect) -> tuple[str, dict[str, float]]:
    """Why it pays, "" if it does not, with what that is reckoned from (PROVIDERS 5.5, 5.6)."""
    removed = found.total - found.after
    surviving = max(0, window.behind(found.steps[0][1]) - removed)
    calls = 0.0 if prospect.cold else MARGIN * prune_calls(removed, surviving, prospect.rates, prospect.again)
    numbers = {"removed": removed, "surviving": surviving, "pays_after": calls, "expected": prospect.calls}
    numbers["again"] = prospect.again
    if removed < LEAST_AT_ONCE or calls > prospect.calls:
        return "", numbers
    if prospect.cold:
        return f"the cache has ended, so {removed} tokens of results go without anything being written anew", numbers
    return (
        f"{removed} tokens of results go and {surviving} after them are written anew: at reads of "
        f"{prospect.rates.read:g} of the price of input {MARGIN:g} times of that is saved after {calls:.1f} calls, and "
        f"{prospect.calls:.1f} are expected until the next time"
    ), numbers


def _open_steps(window: ShownWindow, *, emptying: bool) -> list[tuple[Turn, Step]]:
    """The steps that show results which a pruning may take, each with its turn."""
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
    steps = ((turn, step) for turn in turns for step in turn.steps if step.id not in behind)
    return [(turn, step) for turn, step in steps if any(result.name not in kept for result in step.results)]
