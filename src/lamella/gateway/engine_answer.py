"""What a client gets of a turn of the engine: its texts, and the calls of the client's own tools.

    answer = EngineAnswer()
    for packet in packets:
        for delta in answer.take(packet):     # TextDelta(0, "At noon.") … UsageReported, Closed
            writer.feed(delta)
    answer.error                              # why it failed, if it did

Searches on the server, their results, sources and thinking stay here. The texts of several steps are one text, with a
blank line between them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from lamella.core import deltas
from lamella.core.deltas import Delta
from lamella.core.errors import LamellaError, ServerStopping, error_of_fields
from lamella.core.messages import AnswerPart, StopReason, Text, ToolCall
from lamella.core.packets import (
    AnyPacket,
    PartialPacket,
    RunFinished,
    TextPacket,
    ToolHandedOut,
    TurnFinished,
    TurnStopped,
)

_PARTIAL = {"max_tokens": StopReason.MAX_TOKENS, "refusal": StopReason.REFUSAL, "step_limit": StopReason.MAX_TOKENS}
BETWEEN_TEXTS = "\n\n"


class EngineAnswer:
    """One answer. `seen` are the parts that its client has."""

    def __init__(self) -> None:
        self.seen: list[AnswerPart] = []
        self.error: LamellaError | None = None
        self.has_cost = False
        self._stop = StopReason.END_TURN
        self._shown: int | None = None
        """The block of the turn that is being shown."""

    def take(self, packet: AnyPacket) -> Iterator[Delta]:
        """What the client gets of a packet."""
        match packet:
            case TextPacket():
                yield self._said(packet)
            case ToolHandedOut():
                yield from self._handed_out(packet)
            case PartialPacket():
                self._stop = _PARTIAL[packet.reason]
            case RunFinished() if packet.error is not None:
                self.error = error_of_fields(packet.error)
            case TurnStopped() if packet.reason == "interrupted":
                self.error = ServerStopping("The server is stopping.", hint="Send the request again when it is back.")
            case TurnFinished():
                usage = packet.usage.usage()
                self.has_cost = usage.input > 0
                yield deltas.UsageReported(usage)
                yield deltas.Closed(self._stop)
            case _:
                pass

    def _said(self, packet: TextPacket) -> Delta:
        text, begins = packet.text, packet.block_index != self._shown
        self._shown = packet.block_index
        last = self.seen[-1] if self.seen else None
        if isinstance(last, Text):
            text = BETWEEN_TEXTS + text if begins else text
            self.seen[-1] = Text(last.text + text)
        else:
            self.seen.append(Text(text))
        return deltas.TextDelta(len(self.seen) - 1, text)

    def _handed_out(self, packet: ToolHandedOut) -> Iterator[Delta]:
        block = len(self.seen)
        self.seen.append(ToolCall(packet.call_id, packet.name, packet.arguments))
        self._stop = StopReason.TOOL_CALLS
        yield deltas.ToolCallOpened(block, packet.call_id, packet.name)
        yield deltas.ToolArgsDelta(block, packet.arguments)
