"""Temporary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lamella.core.deltas import Delta
from lamella.llm import anthropic, openai, responses
from lamella.llm.event_stream import StreamEvent


class Loose:
    def __init__(self, value: dict[str, Any]) -> None:
        self.__dict__.update(value)

    def __getattr__(self, name: str) -> Any:
        return None


class _E:
    def __init__(self, event: StreamEvent) -> None:
        self.event, self.data = event.name, event.data.decode()

    def json(self) -> Any:
        return json.loads(self.data)


class _Reader:
    def __init__(self, inner: Any, sdk: bool) -> None:
        self._inner, self._sdk = inner, sdk

    @property
    def ended(self) -> bool:
        return bool(self._inner.ended)

    def of(self, event: StreamEvent) -> Iterator[Delta]:
        if not self._sdk:
            yield from self._inner.of(_E(event))
        elif event.data != b"[DONE]":
            yield from self._inner.of(json.loads(event.data, object_hook=Loose))


def reader_of(dialect: str) -> Any:
    if dialect == "anthropic":
        return _Reader(anthropic._Events(), False)
    return _Reader(openai._Chunks() if dialect == "openai" else responses._Events(), True)
