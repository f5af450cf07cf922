"""A model whose answers are logged as its requests are: once each has ended, however it did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec
import structlog

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.prompt import WireRequest
from lamella.llm.wrapped import WrappedModel

log = structlog.get_logger()


class LoggedModel(WrappedModel):
    """A `ChatModel` around another: its text and its calls are logged as one line."""

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel.stream`."""
        heard = _Heard()
        try:
            async with aclosing(self._model.stream(request, headers)) as stream:  # type: ignore[type-var]  # a generator
                async for delta in stream:
                    heard.hear(delta)
                    yield delta
        finally:
            log.info("LLM_RESPONSE", model=self.facts.name, **heard.line())


class _Heard:
    """What came of an answer."""

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

    def line(self) -> dict[str, object]:
        calls = ["".join(pieces) for pieces in self._calls.values()]
        ended = self._stop or "it did not come to its end"
        return {"id": self._id, "text": "".join(self._text), "calls": calls, "usage": self._usage, "stop_reason": ended}
