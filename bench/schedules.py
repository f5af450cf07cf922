"""Messages, commands, stops and crashes at every await of a compaction, in orders that seeds choose.

    python bench/schedules.py [--schedules 2000] [--first 0] [--seed N] [--queue] [--faulty NAME]
    python bench/schedules.py --replicas 2 [--database postgresql] …

Runs the real chat, engine, sessions and storage over a database on an event loop whose outside is chosen step by step
(`scheduling/loop.py`), and checks after each schedule that nothing was lost, doubled, misplaced or left stuck
(`scheduling/laws.py`). With --queue clients send through the queue, with debounce, and change, take out and flush what
waits there. With --replicas several processes serve the database: each request goes to any of them, and they die, end,
start and stand still (`scheduling/replicas.py`). --seed runs one schedule alone and prints its operations; --faulty
runs over a store with a deliberate fault, and some of its schedules have to break a law. The exit code says whether
every law held.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from lamella.storage.database import Rows
from postgres import running
from scheduling.faulty import FAULTY
from scheduling.plan import Plan
from scheduling.suite import Outcome, Suite, postgres_suite, suite

PlanOf = Callable[[int], Plan]


def show(outcome: Outcome) -> None:
    """A schedule that broke a law."""
    plan = outcome.told.plan
    print(f"seed {outcome.seed}: {plan}")
    for law in outcome.broken:
        print(f"  {law}")


def alone(schedules: Suite, seed: int, fault: type[Rows] | None, plan: PlanOf) -> bool:
    """One schedule with all its operations; gives whether every law held."""
    [outcome] = schedules.seeds([seed], fault, plan)
    print("\n".join(outcome.told.operations))
    show(outcome)
    return not outcome.broken


def many(schedules: Suite, seeds: range, fault: type[Rows] | None, plan: PlanOf) -> bool:
    """Many schedules; gives whether every law held."""
    begun, operations, crashes, broken = time.monotonic(), 0, 0, 0
    for outcome in schedules.seeds(seeds, fault, plan):
        operations += len(outcome.told.operations)
        crashes += outcome.told.crashes
        if outcome.broken:
            broken += 1
            show(outcome)
    print(
        f"{len(seeds)} schedules, seeds {seeds.start} to {seeds.stop - 1}: {operations} operations, {crashes} crashes."
    )
    print(f"{broken} broke a law. {time.monotonic() - begun:.0f} s")
    return not broken


@contextmanager
def on_postgres() -> Iterator[Suite]:
    """A suite over a server of its own."""
    with running() as server, postgres_suite(server.url(server.copied())) as made:
        yield made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    faults = {kind.__name__: kind for kind in FAULTY}
    parser.add_argument("--schedules", type=int, default=2_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone, with all its operations")
    parser.add_argument("--queue", action="store_true", help="clients send through the queue")
    parser.add_argument("--replicas", type=int, default=1, help="how many processes serve the database")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--faulty", choices=faults, help="over a store with this fault")
    options = parser.parse_args()
    fault = faults.get(options.faulty)
    plan = Plan.of_queue if options.queue else Plan.of
    if options.replicas > 1:
        plan = partial(Plan.of_replicas, replicas=options.replicas)
    with on_postgres() if options.database == "postgresql" else suite() as schedules:
        if options.seed is not None:
            held = alone(schedules, options.seed, fault, plan)
        else:
            held = many(schedules, range(options.first, options.first + options.schedules), fault, plan)
    sys.exit(not held)


if __name__ == "__main__":
    main()
