"""A sample of the schedules of `bench/schedules.py`, and proof that they can fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from lamella.storage.database import Rows
from postgres import PostgresServer
from scheduling.faulty import FAULTY
from scheduling.plan import Plan
from scheduling.suite import Suite, postgres_suite, suite

pytestmark = pytest.mark.long

SAMPLE = range(10_000, 10_060)
SECONDS = 15.0
"""After this many a sample ends early, on a machine that is busy."""

POSTGRES_SECONDS = 60.0

PLANS: Sequence[Callable[[int], Plan]] = (Plan.of, Plan.of_queue, Plan.of_replicas)


@pytest.fixture(scope="module")
def schedules() -> Iterator[Suite]:
    with suite() as made:
        yield made


def hold(schedules: Suite, plan: Callable[[int], Plan], seconds: float, options: str) -> None:
    """Every law holds in a sample."""
    ends = time.monotonic() + seconds
    for outcome in schedules.seeds(SAMPLE, plan=plan):
        assert outcome.broken == [], f"python bench/schedules.py{options} --seed {outcome.seed}"
        if time.monotonic() > ends:
            break


@pytest.mark.parametrize(("plan", "options"), [*zip(PLANS, ("", " --queue", " --replicas 2"), strict=True)])
def test_every_law_holds_in_a_sample(schedules: Suite, plan: Callable[[int], Plan], options: str) -> None:
    hold(schedules, plan, SECONDS, options)


def test_every_law_holds_with_two_replicas_on_postgresql(postgres: PostgresServer) -> None:
    with postgres_suite(postgres.url(postgres.copied())) as schedules:
        hold(schedules, Plan.of_replicas, POSTGRES_SECONDS, " --replicas 2 --database postgresql")


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
