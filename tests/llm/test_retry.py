"""Asking again: only where nothing came of an answer, and all attempts together within one bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest

from lamella.core import deltas
from lamella.core.clock import SystemClock
from lamella.core.deltas import Delta
from lamella.core.errors import (
    ProviderError,
    ProviderOverloaded,
    ProviderRateLimited,
    ProviderRefusedRequest,
    ProviderStreamBroken,
    ProviderTimeout,
)
from lamella.core.messages import StopReason
from lamella.core.prompt import WireRequest
from lamella.core.tokens import Usage
from lamella.llm.retry import RetryingModel
from lamella.llm.scripted import ScriptedModel

pytestmark = pytest.mark.anyio
OPENED = deltas.Opened("req_1", b"{}")
SAID: tuple[Delta, ...] = (OPENED, deltas.TextDelta(0, "Hi."), deltas.Closed(StopReason.END_TURN))
REQUEST = WireRequest({}, ())


class Sleepless(SystemClock):
    """Notes the pauses instead of making them; they pass all the same."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return super().monotonic() + sum(self.pauses)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


class Moody(ScriptedModel):
    """Plays one script for each attempt: deltas, errors, and seconds of silence."""

    def __init__(self, *attempts: Sequence[Delta | ProviderError | float]) -> None:
        super().__init__()
        self.attempts = list(attempts)
        self.asked = 0
        self.closed = 0

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        self.asked += 1
        try:
            for happening in self.attempts.pop(0):
                if isinstance(happening, ProviderError):
                    raise happening
                if isinstance(happening, float):
                    await asyncio.sleep(happening)
                else:
                    yield happening
        finally:
            self.closed += 1


def rate_limited(seconds: float | None) -> ProviderError:
    error = ProviderRateLimited("wait")
    error.retry_after = seconds
    return error


async def heard(
    model: Moody, *, patience: float = 60.0, retries: int = 2
) -> tuple[list[Delta], ProviderError | None, list[float]]:
    clock = Sleepless()
    said: list[Delta] = []
    try:
        async with aclosing(
            RetryingModel(model, clock, patience=patience, retries=retries).stream(REQUEST, {})
        ) as stream:  # type: ignore[type-var]
            async for delta in stream:
                said.append(delta)  # noqa: PERF401  # what came before an error is looked at
    except ProviderError as error:
        return said, error, clock.pauses
    return said, None, clock.pauses


async def test_what_passes_is_asked_again_until_it_answers() -> None:
    model = Moody([ProviderOverloaded("no")], [OPENED, ProviderStreamBroken("dropped")], SAID)
    said, error, pauses = await heard(model)
    assert (said, error, model.asked, model.closed) == (list(SAID), None, 3, 3)
    assert 0.3 < pauses[0] <= 0.5 < pauses[1] <= 1.0


async def test_it_waits_as_long_as_the_provider_says() -> None:
    said, error, pauses = await heard(Moody([rate_limited(7.0)], SAID))
    assert (said, error, pauses) == (list(SAID), None, [7.0])


async def test_a_longer_pause_than_there_is_patience_is_the_end_at_once() -> None:
    model = Moody([rate_limited(90.0)], SAID)
    said, error, pauses = await heard(model, patience=60.0)
    assert (said, type(error), pauses, model.asked) == ([], ProviderRateLimited, [], 1)


@pytest.mark.parametrize(
    "spent",
    [
        deltas.TextDelta(0, "H"),
        deltas.ReasoningDelta(0, "H"),
        deltas.ToolCallOpened(0, "c", "n"),
        deltas.UsageReported(Usage(input=5)),
    ],
)
async def test_what_was_shown_or_billed_is_never_asked_again(spent: Delta) -> None:
    model = Moody([OPENED, spent, ProviderOverloaded("no")], SAID)
    said, error, pauses = await heard(model)
    assert (said, type(error), pauses, model.asked) == ([OPENED, spent], ProviderOverloaded, [], 1)


async def test_what_would_be_refused_again_is_not_asked_again() -> None:
    model = Moody([ProviderRefusedRequest("no")], SAID)
    assert (type((await heard(model))[1]), model.asked) == (ProviderRefusedRequest, 1)


async def test_a_request_that_was_accepted_is_told_of_where_it_was_the_last() -> None:
    said, error, _ = await heard(Moody([OPENED, ProviderStreamBroken("dropped")]), retries=0)
    assert (said, type(error)) == ([OPENED], ProviderStreamBroken)


async def test_the_last_refusal_is_told() -> None:
    model = Moody(*([ProviderOverloaded(f"no {n}")] for n in range(3)))
    said, error, pauses = await heard(model)
    assert (said, str(error), len(pauses), model.asked) == ([], "no 2", 2, 3)


@pytest.mark.parametrize("attempts", [[[9.0]], [[OPENED, 9.0]], [[ProviderOverloaded("no")], [9.0]]])
async def test_silence_ends_when_the_patience_for_all_attempts_does(attempts: list[list[object]]) -> None:
    """However many there were: `LAMELLA_PROVIDER_TIMEOUT` is not multiplied."""
    model = Moody(*attempts, SAID)  # type: ignore[arg-type]
    begun = time.monotonic()
    said, error, _ = await heard(model, patience=0.8)
    assert (said, type(error)) == ([OPENED] if OPENED in attempts[-1] else [], ProviderTimeout)
    assert time.monotonic() - begun < 5
    assert model.closed == model.asked == len(attempts)


async def test_an_answer_may_take_longer_than_its_beginning() -> None:
    said, error, _ = await heard(Moody([OPENED, deltas.TextDelta(0, "H"), 0.3, *SAID[1:]]), patience=0.2)
    assert error is None
    assert len(said) == 4
