"""What the planner pays where people write at many paces, against the best in hindsight.

    python bench/gaps.py [--each 20] [--reads 0.1 0.05 0.025] [--seed 1] [--json]

Conversations of 12, 30 and 60 requests on claude-opus-5, one for each turn, the first of 2,000 tokens and each 200
longer than the one before. How long somebody is away between two of them is drawn by each pace. The planner knows the
gaps so far; *never*, *5m* and *1h* always do the same; *counts* takes the share of the gaps so far for the chance of
the next one, and looks one request ahead. Each figure is the cost of all input as a multiple of the least that was
possible for somebody who knew all gaps beforehand, the mean of all conversations of a pace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from random import Random
from statistics import mean

from lamella.cache.forecast import RequestForecast, Tail, life_worth
from lamella.core.caching import Ttl
from lamella.core.models import ModelFacts
from lamella.llm.model_table import ModelTable
from tables import arguments, emit, show

FIRST, GROWTH = 2_000, 200
REQUESTS = (12, 30, 60)

Gaps = tuple[float, ...]
Rule = Callable[[Tail, Gaps, ModelFacts], Ttl | None]
Pace = Callable[[Random, int], Gaps]


def around(median: float, spread: float, draw: Random, count: int) -> Gaps:
    """Log-normal gaps: `spread` is the standard deviation of their logarithm."""
    return tuple(exp(draw.gauss(log(median), spread)) for _ in range(count))


def every(seconds: float, draw: Random, count: int) -> Gaps:
    """The same gap each time."""
    return (seconds,) * count


def mixed(draw: Random, count: int) -> Gaps:
    """A fifth of 8 minutes, a tenth of 2 hours, the others quick."""
    kinds = draw.choices(("quick", "pause", "away"), (0.7, 0.2, 0.1), k=count)
    return tuple({"quick": draw.uniform(20, 120), "pause": 480.0, "away": 7_200.0}[kind] for kind in kinds)


def bursts(draw: Random, count: int) -> Gaps:
    """Some quick messages, then hours of nothing."""
    gaps: list[float] = []
    while len(gaps) < count:
        gaps += [draw.uniform(30, 180) for _ in range(draw.randint(2, 8))] + [exp(draw.gauss(log(7_200), 1))]
    return tuple(gaps[:count])


def days(draw: Random, count: int) -> Gaps:
    """Some messages with about ten minutes between them, then the next day."""
    gaps: list[float] = []
    while len(gaps) < count:
        gaps += [*around(600, 1, draw, draw.randint(3, 9)), 50_000.0]
    return tuple(gaps[:count])


PACES: Mapping[str, Pace] = {
    "every 30 s": partial(every, 30),
    "every 20 min": partial(every, 1_200),
    "every 3 h": partial(every, 10_800),
    "quick, 20 % 8 min, 10 % 2 h": mixed,
    "about 3 min": partial(around, 180, 1.5),
    "about 10 min": partial(around, 600, 1.5),
    "about 30 min": partial(around, 1_800, 1.5),
    "about 1 h": partial(around, 3_600, 2),
    "about 3 h": partial(around, 10_800, 1.5),
    "bursts": bursts,
    "working days": days,
}


def planner(tail: Tail, gaps: Gaps, model: ModelFacts) -> Ttl | None:
    """The rule of the planner."""
    return life_worth(tail, RequestForecast(0.0, gaps), model)


def counts(tail: Tail, gaps: Gaps, model: ModelFacts) -> Ttl | None:
    """The share of the gaps so far, newer ones weighing more, and the cost until the next request has been paid."""
    read, write = model.price.read, model.write
    weights = [0.75**age for age in range(len(gaps))]

    def within(life: Ttl) -> float:
        soon = sum(weight for weight, gap in zip(weights, reversed(gaps), strict=True) if gap < life.seconds)
        return (0.5 + soon) / (1 + sum(weights))

    kept = within(tail.life) if tail.life is not None else 0.0
    costs: dict[Ttl | None, float] = {
        None: tail.fresh + kept * (tail.cached * read + tail.fresh * write) + (1 - kept) * tail.whole * write
    }
    for life in model.lives:
        chance = within(life)
        costs[life] = tail.fresh * model.write_price(life) + tail.whole * (chance * read + (1 - chance) * write)
    return min(reversed(costs), key=lambda life: costs[life])


def always(life: Ttl | None, tail: Tail, gaps: Gaps, model: ModelFacts) -> Ttl | None:
    """The same whatever happens."""
    return life


RULES: Mapping[str, Rule] = {
    "planner": planner,
    "counts": counts,
    "never": partial(always, None),
    "5m": partial(always, Ttl.FIVE_MINUTES),
    "1h": partial(always, Ttl.ONE_HOUR),
}


def _cost(tail: Tail, life: Ttl | None, model: ModelFacts) -> float:
    return model.price.read * tail.cached + (1 if life is None else model.write_price(life)) * tail.fresh


def _next(tail: Tail, life: Ttl | None, gap: float) -> Tail:
    """The tail of the next request, `gap` seconds later."""
    cached, lives = (tail.cached, tail.life) if life is None else (tail.whole, life)
    if lives is None or gap >= lives.seconds:
        cached, lives = 0, None
    return Tail(tail.whole + GROWTH, cached, lives)


def paid(gaps: Gaps, rule: Rule, model: ModelFacts) -> float:
    """What a conversation costs by a rule, in prices of an input token."""
    tail, cost = Tail(FIRST, 0, None), 0.0
    for number in range(len(gaps) + 1):
        life = rule(tail, gaps[:number], model)
        cost += _cost(tail, life, model)
        if number < len(gaps):
            tail = _next(tail, life, gaps[number])
    return cost


def least(gaps: Gaps, model: ModelFacts) -> float:
    """The least that it can cost: over all choices of a life or none before each request."""
    states = {Tail(FIRST, 0, None): 0.0}
    for gap in (*gaps, 0.0):
        after: dict[Tail, float] = {}
        for tail, cost in states.items():
            for life in (None, *model.lives):
                reached, total = _next(tail, life, gap), cost + _cost(tail, life, model)
                after[reached] = min(total, after.get(reached, total))
        states = after
    return min(states.values())


@dataclass(frozen=True, slots=True)
class Figure:
    """A pace at one price of reads: what each rule paid as a multiple of the least."""

    read: float
    pace: str
    ratios: dict[str, float]


def measure(read: float, each: int, seed: int) -> list[Figure]:
    """All paces at one price of reads."""
    model = ModelTable.read(None).facts("claude-opus-5", "anthropic")
    model = replace(model, price=replace(model.price, read=read))
    found = []
    for name, pace in PACES.items():
        draw = Random(f"{seed} {name}")
        told = sorted({pace(draw, requests - 1) for requests in REQUESTS for _ in range(each)})
        bounds = [least(gaps, model) for gaps in told]
        ratios = {
            rule: mean(paid(gaps, choose, model) / bound for gaps, bound in zip(told, bounds, strict=True))
            for rule, choose in RULES.items()
        }
        found.append(Figure(read, name, ratios))
    return found


def rows(found: Sequence[Figure]) -> list[list[str]]:
    """A line for each pace, and the mean of all of them."""
    made = [["reads at", "pace", *RULES]]
    for read in sorted({one.read for one in found}, reverse=True):
        here = [one for one in found if one.read == read]
        made += [[f"{read:g}", one.pace, *(f"{one.ratios[rule]:.2f}" for rule in RULES)] for one in here]
        made.append([f"{read:g}", "mean", *(f"{mean(one.ratios[rule] for one in here):.2f}" for rule in RULES)])
    return made


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--reads", type=float, nargs="+", default=[0.1, 0.05, 0.025], help="default: %(default)s")
    parser.add_argument("--each", type=int, default=20, help="conversations of each length (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    options = parser.parse_args()
    found = [one for read in options.reads for one in measure(read, options.each, options.seed)]
    if options.json:
        emit([{"read": one.read, "pace": one.pace, **one.ratios} for one in found])
        return
    show(rows(found))


if __name__ == "__main__":
    main()
