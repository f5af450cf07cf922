"""A sample of the attacks of `bench/leaks.py`, and proof that the suite finds what leaves."""

from __future__ import annotations

import pytest

from lamella.core.access import GrantLevel
from leaking.suite import ROUND, play

pytestmark = [pytest.mark.anyio, pytest.mark.long]

SEED = 7


async def test_no_canary_leaves_and_harmless_summaries_pass() -> None:
    outcome = await play(SEED, 2 * ROUND, harmless=20)
    assert outcome.attacks == 2 * ROUND
    assert outcome.leaks == [], f"python bench/leaks.py --seed {SEED}"
    assert outcome.usefulness >= 0.95, outcome.changed


async def test_a_suite_over_a_base_that_may_be_read_finds_its_canaries() -> None:
    outcome = await play(SEED, ROUND, level=GrantLevel.FULL, harmless=0)
    found = " ".join(outcome.leaks)
    for where in ("a packet", "a request to the main model", "the view raw", "a row or a file"):
        assert where in found
