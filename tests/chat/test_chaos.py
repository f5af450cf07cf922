"""A sample of the bad days of `bench/chaos.py`, and proof that they can fail."""

from __future__ import annotations

import pytest

from lamella.server.testing import Object
from storms.case import BREAKS, DISK, ENDS, PEOPLE, REFUSALS, RETRIES, Case
from storms.day import days, of_packets, play

pytestmark = [pytest.mark.anyio, pytest.mark.long]
SAMPLE = range(10_000, 10_012)


def test_a_seed_is_the_same_case_for_ever_and_all_kinds_come() -> None:
    cases = [Case.drawn(seed) for seed in range(400)]
    assert cases == [Case.drawn(seed) for seed in range(400)]
    assert {case.kind for case in cases} == {*REFUSALS, *BREAKS, *ENDS, *PEOPLE, *DISK}
    assert len({(case.kind, case.place, case.step, case.model) for case in cases}) > 100


async def test_every_law_holds_in_a_sample(provider: str) -> None:
    async with days(provider) as both:
        for seed in SAMPLE:
            outcome = await play(Case.drawn(seed), both)
            assert outcome.broken == (), f"python bench/chaos.py --seed {seed}"


async def test_a_deployment_that_does_not_ask_again_is_caught(provider: str) -> None:
    refused = (case for case in map(Case.drawn, range(200)) if case.kind == "529" and case.times <= RETRIES)
    async with days(provider, provider_retries=0) as both:
        outcome = await play(next(refused), both)
    assert outcome.broken == ("the turn is failed, not finished",)


STOPPED: list[Object] = [
    {"n": 1, "type": "turn.started"},
    {"n": 2, "type": "error", "error": {"message": "It broke.", "hint": "Try again."}},
    {"n": 3, "type": "turn.stopped"},
    {"n": 4, "type": "turn.finished", "status": "stopped"},
]


@pytest.mark.parametrize(
    ("packets", "status", "law"),
    [
        (STOPPED, "stopped", ""),
        (STOPPED, "failed", "the turn is failed"),
        (STOPPED[:3], "stopped", "the packets end with"),
        ([*STOPPED, STOPPED[3]], "stopped", "out of order or doubled"),
        ([STOPPED[1], STOPPED[0], *STOPPED[2:]], "stopped", "out of order or doubled"),
        (STOPPED, "finished", "the last packet says stopped, the row finished"),
        ([*STOPPED[:2], STOPPED[3]], "stopped", "a stopped turn ends with"),
        ([STOPPED[0], *STOPPED[2:]], "failed", "does not say what to do"),
    ],
)
def test_a_turn_that_ends_otherwise_is_caught(packets: list[Object], status: str, law: str) -> None:
    stop = next(case for case in map(Case.drawn, range(400)) if case.kind == "stop")
    broken = of_packets(stop, packets, status)
    assert any(law in said for said in broken) if law else broken == []
