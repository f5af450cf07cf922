"""What a changed grant does to a window, as decisions: what came from a base is left out of it, or is there again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lamella.context.segments import dynamic_id
from lamella.core.agents import Summary
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.knowledge import bases_of_steps
from lamella.core.messages import Turn

GRANT = "grant"
"""The beginning of the decisions' subject, before the base's id, and whose doing it is."""

WITHHELD, FULL = "withheld", "full"


def grant_changes(
    turns: Sequence[Turn], summaries: Sequence[Summary], decisions: Sequence[Decision]
) -> tuple[Decision, ...]:
    """The decisions that say which bases are closed or open now, other than before, with the first segment of each."""
    closed = _first((segment, base) for segment, withheld, _ in _segments(turns, summaries) for base in withheld)
    opened = _first((segment, base) for segment, _, held in _segments(turns, summaries) for base in held)
    before = {one.subject: one.outcome for one in decisions if one.kind is DecisionKind.SETTING}
    made = []
    for base, segment in closed.items():
        if before.get(f"{GRANT} {base}") != WITHHELD:
            why = f"the grant on the knowledge base {base} is not full any more: what was made of it is left out"
            made.append(_decision(base, WITHHELD, why, segment))
    for base, segment in opened.items():
        if base not in closed and before.get(f"{GRANT} {base}") == WITHHELD:
            why = f"the grant on the knowledge base {base} is full again: what was made of it is there again"
            made.append(_decision(base, FULL, why, segment))
    return tuple(made)


def _segments(
    turns: Sequence[Turn], summaries: Sequence[Summary]
) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """The segments of a window in order, each with the bases that are withheld in it and those that it holds."""
    for summary in summaries:
        yield summary.id, summary.withheld, summary.made_from
    for turn in turns:
        yield dynamic_id(turn), turn.user.withheld, turn.user.made_from
        for step in turn.steps:
            yield step.id, step.withheld, sorted(bases_of_steps([step]))


def _first(found: Iterator[tuple[str, str]]) -> dict[str, str]:
    """The first segment of each base."""
    first: dict[str, str] = {}
    for segment, base in found:
        first.setdefault(base, segment)
    return first


def _decision(base: str, outcome: str, why: str, segment: str) -> Decision:
    return Decision(DecisionKind.SETTING, f"{GRANT} {base}", outcome, GRANT, why, first_changed=segment)
