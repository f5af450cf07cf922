"""When what a request left in its provider's cache ends, and what is worth being done until then. Pure.

PROVIDERS 5.5: a summary just before the end reads the window from the cache and saves writing it anew; after the end
what is taken out of the window costs nothing, for all of it is written anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from lamella.cache.economics import Compaction, Prospect
from lamella.cache.returns import Rhythm
from lamella.core.caching import Ttl
from lamella.core.models import Markers, ModelFacts
from lamella.core.records import StoredMarker


def ends_at(at: datetime, markers: Iterable[StoredMarker], model: ModelFacts) -> datetime | None:
    """When the last of what a request that began at `at` wrote or read ends; None where nothing was marked.

    A provider without markers keeps a prefix at least as long as its row in the model table says.
    """
    lives = [Ttl(marker.ttl).seconds for marker in markers]
    if model.markers is Markers.NONE:
        lives = [model.lives[0].seconds]
    return at + timedelta(seconds=max(lives)) if lives else None


class Act(StrEnum):
    """What is done with a conversation that is silent."""

    NOTHING = "nothing"
    COMPACT = "compact"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True)
class Move:
    """What is done, why, and what that was reckoned from."""

    act: Act
    why: str
    numbers: dict[str, float] = field(default_factory=dict)


def before_it_ends(compaction: Compaction, prospect: Prospect, rhythm: Rhythm, silent: float) -> Move:
    """Whether to compact just before the cache ends, `silent` seconds after it was used last: where somebody is likely
    enough to return later than that (5.5)."""
    late, needed = rhythm.later(silent), compaction.return_worth(prospect.rates)
    numbers = {"returns": late, "needed": needed, "removed": float(max(0, compaction.freed))}
    if late <= needed:
        return Move(Act.NOTHING, f"{_returns(late, 'a return after the cache has ended')}, {_needs(needed)}")
    return Move(
        Act.COMPACT,
        f"the cache is about to end, a return after that is {_percent(late)} likely, and a summary on what is still "
        f"cached pays from {_percent(needed)} on",
        numbers,
    )


def after_it_ended(compaction: Compaction, prospect: Prospect, rhythm: Rhythm, silent: float) -> Move:
    """Whether to compact after the cache has ended, with somebody silent for so many seconds (5.5)."""
    returns, needed = rhythm.later(silent), compaction.cold_worth(prospect.rates, prospect.calls)
    numbers = {"returns": returns, "needed": needed, "removed": float(max(0, compaction.freed))}
    if returns <= needed:
        return Move(Act.NOTHING, f"{_returns(returns, 'a return')}, {_needs(needed)}")
    return Move(
        Act.COMPACT,
        f"the cache has ended, a return is {_percent(returns)} likely, and a summary pays from {_percent(needed)} on",
        numbers,
    )


def _percent(chance: float) -> str:
    return f"{chance:.0%}"


def _returns(chance: float, what: str) -> str:
    return f"{what} is {_percent(chance)} likely" if chance else "nobody was away for as long here and came back"


def _needs(needed: float) -> str:
    if needed > 1:
        return "and a summary would cost more than it saves"
    return f"and a summary would pay where a return is {_percent(needed)} likely"
