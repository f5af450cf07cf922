"""The blocks of an answer in order, and what a writer of an answer does in every API.

Every API sees whole blocks one after the other, also if the deltas of parallel calls alternate: those of a later call
wait until the arguments of the one before are whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import LamellaError
from lamella.core.messages import StopReason
from lamella.core.tokens import Usage
from lamella.gateway.canonical import ToolForm, is_object

NO_FORMS: Mapping[str, ToolForm] = {}
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Citation:
    """Characters `start` to `end` of text block `block` cite document number `document`, which has an address or a
    file's id, or neither. `quote` is the passage.
    """

    block: int
    start: int
    end: int
    document: int
    title: str
    url: str | None = None
    file_id: str | None = None
    quote: str = ""

    @property
    def source(self) -> str:
        """Where the document is. An address that begins with `/` is one of this server."""
        return self.url or (f"/api/v1/files/{self.file_id}/content" if self.file_id else f"document_{self.document}")

    def annotation(self) -> Object:
        """The annotation of OpenAI's Responses API: a page or a document has its address, a file its id."""
        if self.url is not None:
            place = {"start_index": self.start, "end_index": self.end}
            return {"type": "url_citation", "url": self.url, "title": self.title, **place}
        file_id = self.file_id or f"document_{self.document}"
        return {"type": "file_citation", "file_id": file_id, "filename": self.title, "index": self.start}


@dataclass(slots=True)
class AnswerBlock:
    """A block of the answer so far: thinking, a text, or a call with its arguments as text. `index` is its place."""

    index: int
    kind: Literal["reasoning", "text", "call"]
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    signature: str | None = None
    redacted: str | None = None
    citations: list[Citation] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its thinking, text or arguments."""
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        """Whether another block may begin: the arguments of a call are a JSON object."""
        return self.kind != "call" or (self._may_end and is_object(self.text))

    @property
    def _may_end(self) -> bool:
        """Whether the last piece can end an object: looking at all of them for each piece would take long."""
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith(("}", '"'))


BlockDelta = (
    deltas.TextDelta | deltas.ReasoningDelta | deltas.ReasoningSealed | deltas.ToolCallOpened | deltas.ToolArgsDelta
)


Written = tuple[BlockDelta, AnswerBlock, bool]
"""A delta to write, its block, and whether the block begins with it."""


class BlockOrder:
    """The blocks of an answer, one after the other: what may not be written yet waits for the block before."""

    def __init__(self) -> None:
        self.blocks: list[AnswerBlock] = []
        self._number: int | None = None
        """The open block's number in the deltas."""
        self._waiting: list[BlockDelta] = []

    def add(self, delta: BlockDelta) -> Iterator[Written]:
        """What may be written after this delta."""
        if self._begins(delta) and self.blocks and (self._waiting or not self.blocks[-1].is_whole):
            self._waiting.append(delta)
            return
        yield from self._written(delta)
        while self._waiting and self.blocks[-1].is_whole:
            yield from self._next()

    def end(self) -> Iterator[Written]:
        """All that waits."""
        while self._waiting:
            yield from self._next()

    def _next(self) -> Iterator[Written]:
        """The block that waits first."""
        number = self._waiting[0].block
        mine = [delta for delta in self._waiting if delta.block == number]
        self._waiting = [delta for delta in self._waiting if delta.block != number]
        for delta in mine:
            yield from self._written(delta)

    def _begins(self, delta: BlockDelta) -> bool:
        return not self.blocks or delta.block != self._number or self.blocks[-1].kind != _kind(delta)

    def _written(self, delta: BlockDelta) -> Iterator[Written]:
        begins = self._begins(delta)
        if begins and isinstance(delta, deltas.ToolArgsDelta):
            return  # what follows arguments that were whole means nothing
        if begins:
            self._number = delta.block
            self.blocks.append(AnswerBlock(len(self.blocks), _kind(delta)))
        _take(self.blocks[-1], delta)
        yield delta, self.blocks[-1], begins


def _kind(delta: BlockDelta) -> Literal["reasoning", "text", "call"]:
    match delta:
        case deltas.TextDelta():
            return "text"
        case deltas.ReasoningDelta() | deltas.ReasoningSealed():
            return "reasoning"
        case deltas.ToolCallOpened() | deltas.ToolArgsDelta():
            return "call"
        case _:
            assert_never(delta)


def _take(block: AnswerBlock, delta: BlockDelta) -> None:
    match delta:
        case deltas.TextDelta(_, text) | deltas.ReasoningDelta(_, text) | deltas.ToolArgsDelta(_, text):
            block.pieces.append(text)
        case deltas.ReasoningSealed(_, signature, redacted):
            block.signature, block.redacted = signature, redacted
        case deltas.ToolCallOpened(_, id, name):
            block.id, block.name = id, name
        case _:
            assert_never(delta)


class AnswerWriter(ABC):
    """One answer in one API."""

    def __init__(self, model: str, id: str, forms: Mapping[str, ToolForm] = NO_FORMS) -> None:
        self._model, self._id, self._forms = model, id, forms
        self._order = BlockOrder()
        self._usage = Usage()
        self._closed: deltas.Closed | None = None
        self._open: AnswerBlock | None = None
        self._has_begun = False

    @abstractmethod
    def _start(self) -> bytes:
        """The first events."""

    @abstractmethod
    def _begin(self, block: AnswerBlock, delta: BlockDelta) -> bytes:
        """The events with which a block begins; `delta` is its first."""

    @abstractmethod
    def _go_on(self, block: AnswerBlock, delta: BlockDelta) -> bytes:
        """The events of a delta, the first of its block too."""

    @abstractmethod
    def _close(self, block: AnswerBlock) -> bytes:
        """The events with which a block ends."""

    @abstractmethod
    def _cite(self, block: AnswerBlock, citation: Citation) -> bytes:
        """The events of the newest citation in the open block."""

    @abstractmethod
    def _finish(self) -> bytes:
        """The last events."""

    @abstractmethod
    def _failed(self, error: LamellaError) -> bytes:
        """The events of an answer that broke off."""

    @abstractmethod
    def whole(self) -> Object:
        """The answer as one object, after `end`."""

    def feed(self, delta: Delta | Citation) -> bytes:
        """The events of a delta. A citation in a block that has ended is in the whole answer alone."""
        match delta:
            case Citation(number):
                block = self._order.blocks[number]
                block.citations.append(delta)
                return self._cite(block, delta) if block is self._open else b""
            case (
                deltas.TextDelta()
                | deltas.ReasoningDelta()
                | deltas.ReasoningSealed()
                | deltas.ToolCallOpened()
                | deltas.ToolArgsDelta()
            ):
                return b"".join([self._begun(), *self._written(self._order.add(delta))])
            case deltas.UsageReported(usage):
                self._usage = usage
                return self._begun()
            case deltas.Closed():
                self._closed = delta
            case _:
                pass
        return b""

    def end(self) -> bytes:
        """The last events, after the last delta."""
        return b"".join([self._begun(), *self._written(self._order.end()), self._ended(), self._finish()])

    def fail(self, error: LamellaError) -> bytes:
        """The last events of an answer that broke off."""
        return self._begun() + self._failed(error)

    def _begun(self) -> bytes:
        if self._has_begun:
            return b""
        self._has_begun = True
        return self._start()

    def _written(self, steps: Iterator[Written]) -> Iterator[bytes]:
        for delta, block, begins in steps:
            if begins:
                yield self._ended()
                self._open = block
                yield self._begin(block, delta)
            yield self._go_on(block, delta)

    def _ended(self) -> bytes:
        """The end of the open block."""
        block, self._open = self._open, None
        return self._close(block) if block is not None else b""

    @property
    def _stop(self) -> StopReason:
        """How the answer ended. Some servers say of one with calls that it ended."""
        stop = self._closed.stop_reason if self._closed is not None else StopReason.END_TURN
        calls = any(block.kind == "call" for block in self._order.blocks)
        return StopReason.TOOL_CALLS if stop is StopReason.END_TURN and calls else stop

    def _form(self, block: AnswerBlock) -> ToolForm:
        return self._forms.get(block.name) or ToolForm(block.name)
