"""A sample of the schedules of `bench/schedules.py`, and proof that they can fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from lamella.storage.database import Rows
from scheduling.faulty import FAULTY
from scheduling.plan import Plan
from scheduling.suite import Suite, suite

pytestmark = pytest.mark.long

SAMPLE = range(10_000, 10_060)
SECONDS = 15.0
"""After this many a sample ends early, on a machine that is busy."""

PLANS: Sequence[Callable[[int], Plan]] = (Plan.of, Plan.of_queue)


@pytest.fixture(scope="module")
def schedules() -> Iterator[Suite]:
    with suite() as made:
        yield made


@pytest.mark.parametrize("plan", PLANS, ids=["sessions", "queue"])
def test_every_law_holds_in_a_sample(schedules: Suite, plan: Callable[[int], Plan]) -> None:
    ends = time.monotonic() + SECONDS
    for outcome in schedules.seeds(SAMPLE, plan=plan):
        queue = " --queue" if outcome.told.plan.queued else ""
        assert outcome.broken == [], f"python bench/schedules.py{queue} --seed {outcome.seed}"
        if time.monotonic() > ends:
            break


@pytest.mark.parametrize("fault", FAULTY, ids=lambda kind: kind.__name__)
def test_a_deliberate_fault_is_caught(schedules: Suite, fault: type[Rows]) -> None:
    assert any(schedules.run(plan, fault).broken for plan in FAULTY[fault])


def test_what_shows_a_fault_is_well_without_it(schedules: Suite) -> None:
    for plans in FAULTY.values():
        assert schedules.run(plans[0]).broken == []


def test_a_seed_is_the_same_schedule_every_time(schedules: Suite) -> None:
    """A plan with crash: what was done, in which order, and what came of it."""
    plan = Plan(3, (("message", "/compact"), ("/new", "/resume")), crash_at=75)
    one, other = schedules.run(plan), schedules.run(plan)
    assert one.told.crashes == 1
    assert one.told.operations == other.told.operations
