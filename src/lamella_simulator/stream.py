"""Plays a draft as a stream: paced, cut by faults, written in a wire's own events by its encoder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from lamella_simulator.clock import Clock
from lamella_simulator.errors import ProviderError
from lamella_simulator.replies import Draft, Fault, Part
from lamella_simulator.state import Record


class Encoder(Protocol):
    """One wire's stream events, as bytes ready for the socket, and the whole answer if it is not streamed."""

    @property
    def usage(self) -> dict[str, Any]:
        """The bill, as the answer tells it."""
        ...

    def start(self) -> bytes: ...

    def open(self, index: int, part: Part) -> bytes: ...

    def delta(self, index: int, part: Part, piece: str) -> bytes: ...

    def close(self, index: int, part: Part) -> bytes: ...

    def end(self) -> bytes: ...

    def error(self, error: ProviderError) -> bytes: ...

    def unknown(self) -> bytes:
        """An event of a type that no client knows, with nothing of the answer in it."""
        ...

    def whole(self) -> dict[str, Any]: ...


class Unstreamed:
    """The base of encoders of answers that only come whole."""

    def start(self) -> bytes:
        raise TypeError("this answer does not stream")

    def open(self, index: int, part: Part) -> bytes:
        raise TypeError("this answer does not stream")

    def delta(self, index: int, part: Part, piece: str) -> bytes:
        raise TypeError("this answer does not stream")

    def close(self, index: int, part: Part) -> bytes:
        raise TypeError("this answer does not stream")

    def end(self) -> bytes:
        raise TypeError("this answer does not stream")

    def error(self, error: ProviderError) -> bytes:
        raise TypeError("this answer does not stream")

    def unknown(self) -> bytes:
        raise TypeError("this answer does not stream")


@dataclass(frozen=True, slots=True)
class Pace:
    """`first` seconds to the first token; then `total` seconds spread over the text, or `rate` characters a second.

    The rate is asked for at every delta: 0 lets the rest of an answer come at once.
    """

    first: float
    total: float | None
    rate: Callable[[], float]

    def seconds(self, characters: int, all_characters: int) -> float:
        if self.total is not None and all_characters:
            return max(0.0, self.total - self.first) * characters / all_characters
        rate = self.rate()
        return characters / rate if rate else 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """A stream that ends early: after `characters`, with an error event, or with a dropped connection."""

    characters: int
    error: ProviderError | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A decided answer: everything that is left to do is to write it out, as a stream or whole."""

    draft: Draft
    encoder: Encoder
    pace: Pace
    chunk: int
    cut: Cut | None
    fault: Fault | None
    streams: bool


class ConnectionDropped(Exception):
    """The stream must end without its end: the server closes the socket."""


async def play(answer: Answer, clock: Clock, record: Record) -> AsyncIterator[bytes]:
    """The events of a whole answer. Raises ConnectionDropped where a fault wants the socket closed."""
    draft, encoder, pace, cut = answer.draft, answer.encoder, answer.pace, answer.cut
    length = sum(len(part.text) for part in draft.parts)
    await clock.sleep(pace.first)
    yield encoder.start()
    if answer.fault is not None and answer.fault.name == "unknown_event":
        yield encoder.unknown()
    for index, part in enumerate(draft.parts):
        yield encoder.open(index, part)
        for piece in part.pieces(answer.chunk):
            if cut is not None and record.streamed + len(piece) > cut.characters:
                rest = piece[: cut.characters - record.streamed]
                if rest:
                    record.streamed += len(rest)
                    yield encoder.delta(index, part, rest)
                yield interrupted(cut, encoder)
                return
            if (seconds := pace.seconds(len(piece), length)) > 0:
                await clock.sleep(seconds)
            record.streamed += len(piece)
            yield encoder.delta(index, part, piece)
        yield encoder.close(index, part)
    if cut is not None:
        yield interrupted(cut, encoder)
        return
    yield encoder.end()
    record.finished = True


def interrupted(cut: Cut, encoder: Encoder) -> bytes:
    if cut.error is None:
        raise ConnectionDropped
    return encoder.error(cut.error)
