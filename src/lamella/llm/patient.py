"""A model that asks its provider again: only while nothing came of the answer, within one bound for all attempts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import structlog

from lamella.core import deltas
from lamella.core.clock import Clock
from lamella.core.deltas import Delta
from lamella.core.errors import ProviderError, ProviderTimeout
from lamella.core.ports import ChatModel
from lamella.core.prompt import WireRequest
from lamella.llm.wrapped import WrappedModel

log = structlog.get_logger()

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
"""Seconds between two attempts where the provider does not say how long to wait; doubled each time."""


class PatientModel(WrappedModel):
    """A `ChatModel` around another, whose own client asks once.

    A request is sent again up to `retries` times when it was refused or failed before anything of an answer came, and
    when the same request may pass later. `patience` is how long all attempts together may take to begin to answer, in
    seconds; a provider that asks for a longer pause has failed. What began to be billed or shown is never asked again.
    """

    def __init__(self, model: ChatModel, clock: Clock, *, patience: float, retries: int) -> None:
        super().__init__(model)
        self._clock = clock
        self._patience = patience
        self._retries = retries

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        ends = self._clock.monotonic() + self._patience
        for attempt in range(self._retries + 1):
            opened: deltas.Opened | None = None
            spent = False
            try:
                async with aclosing(self._attempt(request, headers, ends)) as stream:
                    async for delta in stream:
                        if isinstance(delta, deltas.Opened):
                            opened = delta  # what breaks before its first event is as if it had not been accepted
                            continue
                        if opened is not None and not spent:
                            yield opened
                        spent = True
                        yield delta
                return
            except ProviderError as error:
                if spent or not error.retryable or not self._may_wait(error, attempt, ends):
                    if opened is not None and not spent:
                        yield opened
                    raise
                await self._wait(error, attempt)

    async def _attempt(self, request: WireRequest, headers: dict[str, str], ends: float) -> AsyncGenerator[Delta, None]:
        """One stream, whose first sign of an answer has to come before `ends`."""
        source = self._model.stream(request, headers)
        async with aclosing(source) as stream:  # type: ignore[type-var]  # every adapter's stream is a generator
            delta: Delta | None = None
            while delta is None or isinstance(delta, deltas.Opened):
                try:
                    async with asyncio.timeout(max(ends - self._clock.monotonic(), 0.0)):
                        delta = await anext(stream)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise self._too_late() from None
                yield delta
            async for delta in stream:
                yield delta

    def _too_late(self) -> ProviderError:
        return ProviderTimeout(
            f"{self.facts.name} did not begin to answer within {self._patience:g} s.",
            hint="Try again in a moment, or choose another model.",
        )

    def _may_wait(self, error: ProviderError, attempt: int, ends: float) -> bool:
        """Whether there is another attempt, and time left for it."""
        pause = error.retry_after if error.retry_after is not None else _usual_pause(attempt)
        return attempt < self._retries and self._clock.monotonic() + pause < ends

    async def _wait(self, error: ProviderError, attempt: int) -> None:
        """Pause before the next attempt; not all clients at the same moment."""
        pause = error.retry_after if error.retry_after is not None else _usual_pause(attempt) * random.uniform(0.75, 1)
        log.info("a provider is asked again", model=self.facts.name, error=error.message, seconds=round(pause, 2))
        await self._clock.sleep(pause)


def _usual_pause(attempt: int) -> float:
    """Seconds, at most."""
    return min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE)
