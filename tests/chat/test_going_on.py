"""The law that every conversation goes on, over some generated cases; `bench/goes_on.py` has thousands of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from going_on.cases import cases, judged, smallest_window

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.mark.parametrize("first", [1_000, 2_000])
async def test_hi_is_answered_from_any_path_by_any_model(tmp_path: Path, first: int) -> None:
    fixed = await smallest_window(tmp_path / "empty")
    broken, tally = await judged(tmp_path, list(cases(first, 15, fixed)))
    assert broken == []
    assert tally.cases == 15
    assert min(tally.refused, tally.left_out, tally.summaries) > 0
