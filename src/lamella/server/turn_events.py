"""The packets of a turn as the events of a frontend's protocol: what AG-UI and the AI SDK's stream have in common.

Both want brackets that packets do not have: the begin and the end of a text, of a call's arguments, of a step.

    request.started, text.delta ×2, tool.call, tool.args.delta, usage, tool.result, request.started, …
    step ⟨ text ⟨ delta delta ⟩ call ⟨ arguments ⟩ result ⟩ step ⟨ …

`TurnEvents` finds the brackets; a protocol says what stands in each. It is pure: packets in, bytes out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lamella.core.packets import (
    AnyPacket,
    ErrorFields,
    ModelFallback,
    PartialPacket,
    PartialReason,
    ReasoningPacket,
    RequestStarted,
    RunFinished,
    RunStarted,
    SourcePacket,
    TextPacket,
    ToolApprovalPacket,
    ToolArgsPacket,
    ToolCallPacket,
    ToolHandedOut,
    ToolResultPacket,
    ToolVerdictPacket,
    TurnFinished,
    TurnStarted,
    TurnStopped,
    UsagePacket,
)
from lamella.core.tokens import Usage
from lamella.core.withheld_packets import CHAT
from lamella.server.sse import event

Event = Mapping[str, Any]
Events = Iterator[Event]

Said = Literal["text", "reasoning"]

CUT_OFF = "The call was cut off."


@dataclass(slots=True)
class OpenCall:
    """A call of a tool whose arguments still come. `block` is its block in the turn; `is_own`: the client runs it."""

    id: str
    name: str
    block: int
    is_own: bool = False
    arguments: str = ""


class TurnEvents(ABC):
    """The events of one run of a turn, as the stream of one request.

    `own` are the names of the client's tools. A call of one is whole when it is handed out, after its step: one that
    was cut off is not the client's to run. `handed` are those that were. `waits`: the last packet was a call that
    waits for the user, and the stream ends here. `usage` are the bills of this stream by model.
    """

    def __init__(self, turn_id: str, own: Collection[str] = ()) -> None:
        self.turn_id = turn_id
        self.own = frozenset(own)
        self.handed: list[str] = []
        self.waits: ToolApprovalPacket | None = None
        self.error: ErrorFields | None = None
        self.partial: PartialReason | None = None
        self.stopped: str | None = None
        self.usage: dict[str, Usage] = {}
        self.denied: set[str] = set()
        self.step: int | None = None
        self._model = ""
        self._calls: dict[str, OpenCall] = {}
        self._open: tuple[Said, int] | None = None

    def begin(self) -> bytes:
        """The events before the first packet."""
        return _written(self.started())

    def take(self, packet: AnyPacket) -> bytes:
        """The events of a packet; none for those of other models, which answer beside the first one."""
        return b"" if packet.model_index else _written(self._events(packet))

    def end(self) -> bytes:
        """The events after the last packet, for a stream that ends with a call that waits."""
        return _written(self._ended()) if self.waits is not None else b""

    def fail(self, error: ErrorFields) -> bytes:
        """The last events of a stream that can't go on."""
        self.error = error
        return _written([*self._closed(), *self.failed(error)])

    def approval_id(self, packet: ToolApprovalPacket) -> str:
        """The name of a call that waits: it says which packets come after the answer."""
        return f"{self.turn_id}:{packet.n}:{packet.call_id}"

    def _events(self, packet: AnyPacket) -> Events:
        match packet:
            case TextPacket() | ReasoningPacket():
                yield from self._said(packet)
            case ToolCallPacket() | ToolArgsPacket() | ToolHandedOut() | ToolApprovalPacket() | ToolVerdictPacket():
                yield from self._called(packet)
            case ToolResultPacket():
                yield from self._answered(packet)
            case TurnFinished():
                yield from self._closed()
                yield from self.finished(packet) if self.error is None else self.failed(self.error)
            case _:
                yield from self._around(packet)

    def _said(self, packet: TextPacket | ReasoningPacket) -> Events:
        kind: Said = "text" if isinstance(packet, TextPacket) else "reasoning"
        block = packet.block_index or 0
        if self._open != (kind, block):
            yield from self._block_ended()
            yield from self._calls_ended()
            self._open = kind, block
            yield from self.block_started(kind, block)
        yield from self.block_delta(kind, block, packet.text)

    def _called(self, packet: AnyPacket) -> Events:
        yield from self._block_ended()
        match packet:
            case ToolCallPacket():
                call = OpenCall(packet.call_id, packet.name, packet.block_index or 0, packet.name in self.own)
                self._calls[call.id] = call
                yield from self.call_started(call)
            case ToolArgsPacket() if (known := self._calls.get(packet.call_id)) is not None:
                known.arguments += packet.json
                yield from self.call_arguments(known, packet.json)
            case ToolApprovalPacket():
                yield from self._calls_ended()
                self.waits = packet
                yield from self.approval(packet)
            case ToolVerdictPacket(approved=False):
                self.denied.add(packet.call_id)
            case ToolHandedOut() if (own := self._calls.pop(packet.call_id, None)) is not None:
                own.arguments = packet.arguments
                self.handed.append(own.id)
                yield from self.call_ended(own)

    def _answered(self, packet: ToolResultPacket) -> Events:
        yield from self._block_ended()
        yield from self._calls_ended()
        refused = self._calls.pop(packet.call_id, None)
        yield from self.result(packet) if refused is None else self.call_refused(refused, packet.content)

    def _around(self, packet: AnyPacket) -> Events:
        """The events of packets that are not part of an answer."""
        match packet:
            case RequestStarted(purpose=purpose, step=step) if purpose == CHAT and step != self.step:
                yield from self._step_ended()
                self.step = step
                yield from self.step_started(step)
            case RunStarted() | ModelFallback():
                self._model = packet.model
            case UsagePacket():
                yield from self._block_ended()
                yield from self._calls_ended()
                self.usage[self._model] = self.usage.get(self._model, Usage()) + packet.usage.usage()
            case SourcePacket():
                yield from self.source(packet)
                return
            case PartialPacket():
                self.partial = packet.reason
            case RunFinished():
                self.error = packet.error
            case TurnStopped():
                self.stopped = packet.reason
        yield from self.noted(packet)

    # Brackets

    def _block_ended(self) -> Events:
        if self._open is not None:
            (kind, block), self._open = self._open, None
            yield from self.block_ended(kind, block)

    def _calls_ended(self) -> Events:
        for call in [call for call in self._calls.values() if not call.is_own]:
            del self._calls[call.id]
            yield from self.call_ended(call)

    def _step_ended(self) -> Events:
        yield from self._block_ended()
        yield from self._calls_ended()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            yield from self.call_refused(call, CUT_OFF)
        if self.step is not None:
            step, self.step = self.step, None
            yield from self.step_ended(step)

    def _closed(self) -> Events:
        yield from self._step_ended()

    def _ended(self) -> Events:
        assert self.waits is not None
        yield from self._closed()
        yield from self.paused(self.waits)

    # What a protocol says

    @abstractmethod
    def started(self) -> Events:
        """The stream begins."""

    @abstractmethod
    def step_started(self, step: int) -> Events:
        """A request to the model begins; steps count from 0."""

    @abstractmethod
    def step_ended(self, step: int) -> Events:
        """The step is over, with the results of its calls."""

    @abstractmethod
    def block_started(self, kind: Said, block: int) -> Events:
        """A text or a thought begins."""

    @abstractmethod
    def block_delta(self, kind: Said, block: int, text: str) -> Events:
        """A piece of it."""

    @abstractmethod
    def block_ended(self, kind: Said, block: int) -> Events:
        """It is whole."""

    @abstractmethod
    def call_started(self, call: OpenCall) -> Events:
        """A call of a tool begins."""

    @abstractmethod
    def call_arguments(self, call: OpenCall, piece: str) -> Events:
        """A piece of its arguments."""

    @abstractmethod
    def call_ended(self, call: OpenCall) -> Events:
        """Its arguments are whole."""

    @abstractmethod
    def call_refused(self, call: OpenCall, why: str) -> Events:
        """A call of the client's tool is over, and the client must not run it."""

    @abstractmethod
    def approval(self, packet: ToolApprovalPacket) -> Events:
        """The call waits for the user."""

    @abstractmethod
    def result(self, packet: ToolResultPacket) -> Events:
        """The result of a call."""

    @abstractmethod
    def source(self, packet: SourcePacket) -> Events:
        """A document that the answer cites."""

    @abstractmethod
    def noted(self, packet: AnyPacket) -> Events:
        """Everything else that happens."""

    @abstractmethod
    def paused(self, waits: ToolApprovalPacket) -> Events:
        """The stream ends, and the turn waits for the user."""

    @abstractmethod
    def finished(self, packet: TurnFinished) -> Events:
        """The turn is over, and has not failed."""

    @abstractmethod
    def failed(self, error: ErrorFields) -> Events:
        """The turn, or its stream, failed."""


def _written(events: Iterable[Event]) -> bytes:
    return b"".join(event(one) for one in events)


def fields_of(packet: AnyPacket) -> dict[str, Any]:
    """The fields of a packet, for an event that carries it as it is: without its number and its run, and its turn but
    in `turn.started`.
    """
    fields = {name: getattr(packet, name) for name in packet.__struct_fields__ if name not in ("n", "model_index")}
    if fields["block_index"] is None:
        del fields["block_index"]
    if not isinstance(packet, TurnStarted):
        del fields["turn_id"]
    return fields


def sentence_of(error: ErrorFields) -> str:
    """An error as one text, with its hint."""
    return " ".join(part for part in (error.get("message"), error.get("hint")) if part)
