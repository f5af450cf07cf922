"""One trace in every layout: what each makes of it, under its own marker policy and under the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.context.layouts import LAYOUTS
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.options import ReplayOptions
from lamella_lab.replay.report import ReplayReport
from lamella_lab.replay.run import replay
from lamella_lab.trace.format import Trace

USUAL = ("lamella", "planner")


@dataclass(frozen=True, slots=True)
class LayoutReplay:
    """A trace in one layout under one policy."""

    layout: str
    policy: str
    report: ReplayReport


def pairs() -> list[tuple[str, str]]:
    """Each layout with its own policy and with the planner; the usual pair first."""
    own = {(name, layout.markers) for name, layout in LAYOUTS.items()}
    planned = {(name, "planner") for name in LAYOUTS}
    return [USUAL, *sorted((own | planned) - {USUAL})]


async def in_all_layouts(trace: Trace, options: ReplayOptions, environment: ReplayEnvironment) -> list[LayoutReplay]:
    """Replay the trace in every layout; what else `options` say holds for each."""
    return [
        LayoutReplay(
            layout, policy, await replay(trace, replace(options, layout=layout, marker_policy=policy), environment)
        )
        for layout, policy in pairs()
    ]


def cost_vs_best_layout(cost: float, found: Sequence[LayoutReplay]) -> float | None:
    """A cost as a multiple of the cheapest layout's: 1.25 is 25 % more. None if nothing costs anything."""
    least = min(one.report.cost for one in found)
    return cost / least if least else None
