"""What is left out of an answer and of the thinking before it, while both stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lamella.agent.inference import without_kept_back
from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.messages import StopReason
from lamella.guard.kept_back import LEFT_OUT, KeptBack

pytestmark = pytest.mark.anyio

HINT = "Ask for clauses about the rent of mills, and who repairs the roof of the northern barn."


async def _passed(*given: Delta) -> list[Delta]:
    async def stream() -> AsyncIterator[Delta]:
        for delta in given:
            yield delta

    return [delta async for delta in without_kept_back(stream(), KeptBack([HINT]))]


async def test_thinking_that_repeats_a_hint_loses_it_and_its_seal() -> None:
    passed = await _passed(
        deltas.ReasoningDelta(0, f"I was told: {HINT[:30]}"),
        deltas.ReasoningDelta(0, f"{HINT[30:]} So I search."),
        deltas.ReasoningSealed(0, "seal"),
        deltas.ReasoningDelta(1, "Nothing else."),
        deltas.ReasoningSealed(1, "another seal"),
        deltas.TextDelta(2, HINT),
        deltas.Closed(StopReason.END_TURN),
    )
    thought = "".join(one.text for one in passed if isinstance(one, deltas.ReasoningDelta) and one.block == 0)
    assert thought == f"I was told: {LEFT_OUT}. So I search."
    assert [one for one in passed if isinstance(one, deltas.ReasoningSealed)] == [
        deltas.ReasoningSealed(1, "another seal")
    ], "what was changed can't be sent back"
    assert [one.text for one in passed if isinstance(one, deltas.TextDelta)] == [LEFT_OUT, "."]
    assert passed[-1] == deltas.Closed(StopReason.END_TURN)


async def test_blocks_end_before_what_follows_them() -> None:
    passed = await _passed(
        deltas.TextDelta(0, "Ask for cla"), deltas.ToolCallOpened(1, "call_1", "search"), deltas.TextDelta(2, "uses.")
    )
    assert passed[:2] == [deltas.TextDelta(0, "Ask for cla"), deltas.ToolCallOpened(1, "call_1", "search")]
    assert "".join(one.text for one in passed[2:] if isinstance(one, deltas.TextDelta)) == "uses."
