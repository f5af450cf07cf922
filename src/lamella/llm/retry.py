"""Models around another model: `RetryingModel` retries its requests, `LoggedModel` logs requests and answers.

A request is retried only while nothing of the answer came, within one time limit for all attempts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

import msgspec
import structlog

from lamella.core import deltas
from lamella.core.clock import Clock, SystemClock
from lamella.core.deltas import Delta
from lamella.core.errors import ProviderError, ProviderTimeout
from lamella.core.json import Json, encode_text
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest

log = structlog.get_logger()
AnswerT = TypeVar("AnswerT")


class WrappedModel:
    """A `ChatModel` that hands everything on."""

    def __init__(self, model: ChatModel) -> None:
        self.facts: ModelFacts = model.facts
        self._model = model

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """See `ChatModel.wire`."""
        return self._model.wire(prompt, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """See `ChatModel.request`."""
        return self._model.request(prompt, blocks, markers)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """See `ChatModel.salts`."""
        return self._model.salts(sampling)

    def body(self, request: WireRequest) -> dict[str, object]:
        """See `ChatModel.body`."""
        return self._model.body(request)

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        return self._model.stream(request, headers)

    async def count(self, request: WireRequest) -> int:
        """See `ChatModel.count`."""
        return await self._model.count(request)

    async def close(self) -> None:
        """See `ChatModel.close`."""
        await self._model.close()


FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
"""The longest pause in seconds between two attempts, if the provider gives none; pauses double."""


class RetryingModel(WrappedModel):
    """A `ChatModel` around another, whose client does not retry.

    A request is sent again up to `retries` times if it failed before any of the answer came, and if the same request
    may succeed. `patience` is the time in seconds for all attempts until an answer begins; a provider that asks for a
    longer pause has failed. A request whose answer began, or may be billed, is never retried.
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
                if spent or attempt >= self._retries or not _may_wait(error, attempt, self._clock, ends):
                    if opened is not None and not spent:
                        yield opened
                    raise
                log.info("a provider is asked again", model=self.facts.name, error=error.message)
                await _wait(error, attempt, self._clock)

    async def _attempt(self, request: WireRequest, headers: dict[str, str], ends: float) -> AsyncGenerator[Delta, None]:
        """One stream whose answer must begin before `ends`."""
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


async def retried(ask: Callable[[], Awaitable[AnswerT]], clock: Clock, *, patience: float, retries: int) -> AnswerT:
    """The answer of `ask`, which is called up to `retries` more times, under the same rules as `RetryingModel`."""
    ends = clock.monotonic() + patience
    for attempt in range(retries):
        try:
            return await ask()
        except ProviderError as error:
            if not _may_wait(error, attempt, clock, ends):
                raise
            log.info("a provider is asked again", error=error.message)
            await _wait(error, attempt, clock)
    return await ask()


def _may_wait(error: ProviderError, attempt: int, clock: Clock, ends: float) -> bool:
    """Whether the same request may succeed later, and time is left for it."""
    pause = error.retry_after if error.retry_after is not None else _usual_pause(attempt)
    return error.retryable and clock.monotonic() + pause < ends


async def _wait(error: ProviderError, attempt: int, clock: Clock) -> None:
    """Pause before the next attempt; not all clients at the same moment."""
    pause = error.retry_after if error.retry_after is not None else _usual_pause(attempt) * random.uniform(0.75, 1)
    await clock.sleep(pause)


def _usual_pause(attempt: int) -> float:
    """Seconds, at most."""
    return min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE)


def retrying(model: ChatModel, patience: float, retries: int) -> ChatModel:
    """The model, with retries if there shall be any; see `RetryingModel`."""
    return RetryingModel(model, SystemClock(), patience=patience, retries=retries) if retries else model


ProtectedBases = Callable[[frozenset[str]], Awaitable[frozenset[str]]]
"""Of these knowledge bases, those that somebody may use and not read."""


async def all_protected(bases: frozenset[str]) -> frozenset[str]:
    """Takes every knowledge base for one that somebody may not read."""
    return bases


class LoggedModel(WrappedModel):
    """A `ChatModel` around another: each body is logged as it is sent, and each answer as one line; no header is.

    A segment of a knowledge base that has restricted readers is logged by its id and length, and so is the answer of a
    model that was shown one. A passage, the answer that quotes it, and a summary of both are such segments:

        {"type": "tool_result", "content": "[step_7: 1532 characters]"}
    """

    def __init__(self, model: ChatModel, base_url: str, protected: ProtectedBases) -> None:
        super().__init__(model)
        self._base_url = base_url
        self._protected = protected

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        hidden = await self._log(request)
        heard = _Heard()
        try:
            async with aclosing(self._model.stream(request, headers)) as stream:  # type: ignore[type-var]  # a generator
                async for delta in stream:
                    heard.hear(delta)
                    yield delta
        finally:
            log.info("LLM_RESPONSE", model=self.facts.name, **heard.line(is_hidden=bool(hidden)))

    async def count(self, request: WireRequest) -> int:
        """See `ChatModel.count`."""
        await self._log(request)
        return await super().count(request)

    async def _log(self, request: WireRequest) -> frozenset[str]:
        """Log a request; gives the ids of the segments that are logged by their length."""
        bases = frozenset(base for made_from in request.made_from.values() for base in made_from)
        protected = await self._protected(bases) if bases else bases
        hidden = frozenset(id for id, made_from in request.made_from.items() if made_from & protected)
        body = self.body(_without_texts(request, hidden) if hidden else request)
        log.info("LLM_REQUEST", model=self.facts.name, url=self._base_url, body=encode_text(body))
        return hidden


def _without_texts(request: WireRequest, hidden: frozenset[str]) -> WireRequest:
    blocks = [
        replace(block, value={key: _measured(value, block.segment, key) for key, value in block.value.items()})
        if block.segment in hidden
        else block
        for block in request.blocks
    ]
    return replace(request, blocks=tuple(blocks))


_STRUCTURE = frozenset({"type", "role"})
"""Fields of a wire block that say of what kind it is."""


def _measured(value: Json, segment: str, key: str = "") -> Json:
    """A field of a block with the length of each text in place of it."""
    match value:
        case str() if key not in _STRUCTURE:
            return f"[{segment}: {len(value)} characters]"
        case dict():
            return {name: _measured(one, segment, name) for name, one in value.items()}
        case list() | tuple():
            return [_measured(one, segment) for one in value]
        case int() | float() if not isinstance(value, bool):
            return 0
        case _:
            return value


class _Heard:
    """The collected answer."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._text: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self._usage: object = None
        self._stop: str | None = None

    def hear(self, delta: Delta) -> None:
        match delta:
            case deltas.Opened(provider_request_id, _):
                self._id = provider_request_id
            case deltas.TextDelta(_, text):
                self._text.append(text)
            case deltas.ToolCallOpened(block, _, name):
                self._calls[block] = [f"{name} "]
            case deltas.ToolArgsDelta(block, json):
                self._calls.setdefault(block, []).append(json)
            case deltas.UsageReported(usage):
                self._usage = msgspec.to_builtins(usage)
            case deltas.Closed(stop_reason):
                self._stop = stop_reason.value
            case _:
                pass

    def line(self, *, is_hidden: bool) -> dict[str, object]:
        """What is logged of the answer: its text and calls, or their lengths."""
        told = ["".join(self._text), *("".join(pieces) for pieces in self._calls.values())]
        text, *calls = [f"[{len(one)} characters]" for one in told] if is_hidden else told
        ended = self._stop or "it did not come to its end"
        return {"id": self._id, "text": text, "calls": calls, "usage": self._usage, "stop_reason": ended}
