"""What a client gets of a turn of the engine: thinking, texts with citations, and calls of the client's own tools.

    answer = EngineAnswer()
    for packet in packets:
        for delta in answer.take(packet):     # TextDelta(0, "At noon.") … UsageReported, Closed
            writer.feed(delta)
    answer.error                              # why it failed, if it did

Searches on the server and their results stay here. Thinking is sealed as ours: no vendor made it for this client's
history, so it goes back to none. Texts of several steps are one text unless thinking stands between them; a blank line
separates them in any case, since some APIs join them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import LamellaError, ServerStopping, error_of_fields
from lamella.core.messages import AnswerPart, Reasoning, StopReason, Text, ToolCall
from lamella.core.packets import (
    AnyPacket,
    CitationPacket,
    PartialPacket,
    ReasoningPacket,
    RunFinished,
    SourcePacket,
    TextPacket,
    ToolHandedOut,
    TurnFinished,
    TurnStopped,
)
from lamella.gateway.answer_blocks import Citation
from lamella.gateway.canonical import OWN_SEAL

_PARTIAL = {"max_tokens": StopReason.MAX_TOKENS, "refusal": StopReason.REFUSAL, "step_limit": StopReason.MAX_TOKENS}
BETWEEN_BLOCKS = "\n\n"


class EngineAnswer:
    """One answer. `seen` are the parts that its client has, without thinking if that is not shown."""

    def __init__(self, *, shows_thinking: bool = True) -> None:
        self.seen: list[AnswerPart] = []
        self.error: LamellaError | None = None
        self._shows_thinking = shows_thinking
        self._stop, self._stopped_at = StopReason.END_TURN, ""
        self._shown: int | None = None
        """The block of the turn that is being shown."""
        self._places: dict[int | None, tuple[int, int]] = {}
        """Where the texts of the turn begin: in which block of the answer, after how many characters."""
        self._sources: dict[int, SourcePacket] = {}

    def take(self, packet: AnyPacket) -> Iterator[Delta | Citation]:
        """What the client gets of a packet."""
        match packet:
            case TextPacket():
                yield from self._said(packet)
            case ReasoningPacket() if self._shows_thinking:
                yield from self._said(packet)
            case SourcePacket():
                self._sources[packet.document] = packet
            case CitationPacket():
                yield from self._cited(packet)
            case ToolHandedOut():
                yield from self._handed_out(packet)
            case PartialPacket():
                self._stop = _PARTIAL[packet.reason]
            case RunFinished() if packet.error is not None:
                self.error = error_of_fields(packet.error)
            case RunFinished():
                self._stopped_at = packet.stopped_at
            case TurnStopped() if packet.reason == "interrupted":
                self.error = ServerStopping("The server is stopping.", hint="Send the request again when it is back.")
            case TurnFinished():
                yield from self._sealed()
                yield deltas.UsageReported(packet.usage.usage())
                yield deltas.Closed(self._stop, stopped_at=self._stopped_at)
            case _:
                pass

    def _said(self, packet: TextPacket | ReasoningPacket) -> Iterator[Delta]:
        kind = Text if isinstance(packet, TextPacket) else Reasoning
        text, begins = packet.text, packet.block_index != self._shown
        self._shown = packet.block_index
        if begins and any(isinstance(part, kind) for part in self.seen):
            text = BETWEEN_BLOCKS + text
        last = self.seen[-1] if self.seen else None
        if isinstance(last, kind):
            before = last.text
            self.seen[-1] = kind(before + text)
        else:
            yield from self._sealed()
            before = ""
            self.seen.append(kind(text))
        block = len(self.seen) - 1
        if kind is Text:
            self._places.setdefault(packet.block_index, (block, len(before) + len(text) - len(packet.text)))
        yield deltas.TextDelta(block, text) if kind is Text else deltas.ReasoningDelta(block, text)

    def _cited(self, packet: CitationPacket) -> Iterator[Citation]:
        source = self._sources.get(packet.document)
        if source is not None and packet.block_index in self._places:
            block, first = self._places[packet.block_index]
            place = (block, first + packet.start, first + packet.end)
            yield Citation(*place, packet.document, source.title, source.url, source.file_id, packet.quote)

    def _handed_out(self, packet: ToolHandedOut) -> Iterator[Delta]:
        yield from self._sealed()
        block = len(self.seen)
        self.seen.append(ToolCall(packet.call_id, packet.name, packet.arguments))
        self._stop = StopReason.TOOL_CALLS
        yield deltas.ToolCallOpened(block, packet.call_id, packet.name)
        yield deltas.ToolArgsDelta(block, packet.arguments)

    def _sealed(self) -> Iterator[Delta]:
        """The seal of thinking that is whole."""
        if self.seen and isinstance(self.seen[-1], Reasoning):
            yield deltas.ReasoningSealed(len(self.seen) - 1, OWN_SEAL)
