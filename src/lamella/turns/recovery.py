"""After a crash: the journal of a turn that never ended becomes its messages, marked as interrupted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

import msgspec
import structlog

from lamella.agent.container import OpenStep, StateContainer, StepBirth, build_step
from lamella.context.results import INTERRUPTED
from lamella.core import deltas
from lamella.core.clock import Clock
from lamella.core.errors import LamellaError, StoreFailed
from lamella.core.knowledge import bases_of_steps, bases_of_window
from lamella.core.messages import StopReason, ToolCall, ToolResult, TurnStatus
from lamella.core.models import ModelFacts
from lamella.core.packets import (
    AnyPacket,
    ModelFallback,
    Packet,
    ReasoningPacket,
    RequestStarted,
    RunFinished,
    RunStarted,
    TextPacket,
    ToolArgsPacket,
    ToolCallPacket,
    ToolHandedOut,
    ToolResultPacket,
    TurnFinished,
    TurnStopped,
    UsageBody,
    UsagePacket,
    decode_packet,
    encode_packet,
)
from lamella.core.records import JournalEntry, RequestEnd, RunEnd, TurnEnd, UnfinishedTurn
from lamella.core.tokens import TokenCounter, Usage
from lamella.storage import Store

log = structlog.get_logger()


Prices = Mapping[str, ModelFacts]
"""Facts of models, by name."""

FindFacts = Callable[[str], Awaitable[ModelFacts]]

GAP = 1_000_000
"""Recovered packets are numbered from the next multiple of this: clients may have seen packets that were lost."""


@dataclass(slots=True)
class _Rebuild:
    """Feeds packets back into a container, as the run once did."""

    counter: TokenCounter
    container: StateContainer
    prices: Prices
    before: frozenset[str] = frozenset()
    """The knowledge bases with content in the window before the turn."""
    model: str = ""
    opened: OpenStep | None = None
    step: int = -1
    handed: set[str] = field(default_factory=set)
    """The calls of the open step that were handed to the caller."""
    cost: float | None = None
    """The cost of the open step, if it was reported."""
    ended: bool = False
    """Whether the run came to its end."""

    def take(self, packet: AnyPacket) -> None:
        match packet:
            case RunStarted(model=model) | ModelFallback(model=model):
                self.model = model
            case RunFinished():
                self._end(packet)
            case RequestStarted():
                self._close(StopReason.TOOL_CALLS, whole=packet.step != self.step)
                self.step = packet.step
                self.opened = self.container.open(self._birth(packet))
                self.cost, self.handed = None, set()
            case _ if self.opened is not None:
                self._feed(self.opened, packet)
            case _:
                pass

    def _birth(self, packet: RequestStarted) -> StepBirth:
        """A request without a bill gets its expected figures."""
        facts = self.prices.get(self.model)
        return StepBirth(
            f"step_{packet.request_id.removeprefix('req_')}",
            packet.request_id,
            self.model,
            "",
            "",
            estimate=Usage(input=packet.estimate, cache_read=min(packet.predicted_read, packet.estimate)),
            factor=facts.token_factor if facts is not None else 1.0,
            made_from=tuple(sorted(self.before | bases_of_steps(self.container.steps))),
        )

    def _priced(self, usage: Usage) -> float:
        """The cost of the open step: reported, else by the model's prices; 0 if they are unknown."""
        if self.cost is not None:
            return self.cost
        facts = self.prices.get(self.model)
        return facts.cost(usage) if facts is not None else 0.0

    def _feed(self, step: OpenStep, packet: AnyPacket) -> None:
        block = packet.block_index or 0
        step.began = step.began or isinstance(packet, _ANSWER)
        match packet:
            case TextPacket(text=text):
                step.feed(deltas.TextDelta(block, text))
            case ReasoningPacket(text=text):
                step.feed(deltas.ReasoningDelta(block, text))
            case ToolCallPacket(call_id=call_id, name=name):
                step.feed(deltas.ToolCallOpened(block, call_id, name))
            case ToolArgsPacket(json=json):
                step.feed(deltas.ToolArgsDelta(block, json))
            case ToolResultPacket(call_id=call_id, name=name, content=content, is_error=is_error):
                queries, rich = packet.queries, packet.rich
                step.results[call_id] = ToolResult(call_id, name, content, is_error, queries, rich=rich)
            case ToolHandedOut(call_id=call_id):
                self.handed.add(call_id)
            case UsagePacket(usage=usage, cost=cost):
                step.feed(deltas.UsageReported(usage.usage()))
                step.feed(deltas.Closed(StopReason.END_TURN))
                step.drained = True
                self.cost = cost
            case _:
                pass

    def _close(self, reason: StopReason, *, whole: bool = True) -> None:
        """The step was followed by another, so it was complete. A retried step is dropped."""
        opened = self.opened
        if opened is None:
            return
        end = RequestEnd(opened.birth.request_id, opened.usage, self.cost or 0.0)
        if whole:
            self.container.close(replace(build_step(opened, opened.parts(), self.counter), stop_reason=reason), end)
        else:
            self.container.refused(end)
        self.opened = None

    def _end(self, packet: RunFinished) -> None:
        """The run was over: its last step is whole, or was cut off for the reason that it gave."""
        self.ended = True
        reason = StopReason.ERROR if packet.status == "error" else StopReason(packet.status)
        if reason not in (StopReason.ERROR, StopReason.USER_CANCELLED):
            self._close(reason)
            return
        if self.opened is not None and packet.usage is not None:
            # The run told its whole bill: what its other requests do not account for is this one's.
            ends = self.container.ends
            self.opened.usage = packet.usage.usage().without(sum((end.usage for end in ends), Usage()))
            self.opened.drained = True
            self.cost = max(packet.cost - sum(end.cost for end in ends), 0.0)
        self.container.cut_off(reason, self._priced)
        self.opened = None

    def finish(self) -> None:
        if self.ended:
            return
        if self.handed and self.opened is not None:  # its caller may have it, and answer it
            for call in self.opened.parts():
                if isinstance(call, ToolCall) and call.id not in {*self.handed, *self.opened.results}:
                    self.opened.results[call.id] = ToolResult(call.id, call.name, INTERRUPTED, is_error=True)
            self._close(StopReason.TOOL_CALLS)
            return
        self.container.cut_off(StopReason.INTERRUPTED, self._priced)


_ANSWER = (TextPacket, ReasoningPacket, ToolCallPacket)
"""One of these shows that the provider began to answer, and to bill."""


def rebuild(
    packets: Iterable[AnyPacket],
    counter: TokenCounter,
    prices: Prices = MappingProxyType({}),
    before: frozenset[str] = frozenset(),
) -> StateContainer:
    """The container of a run, rebuilt from its packets. A request without a bill gets an estimate."""
    work = _Rebuild(counter, StateContainer(counter), prices, before)
    for packet in packets:
        work.take(packet)
    work.finish()
    return work.container


async def recover(
    store: Store, clock: Clock, counter: TokenCounter, facts: FindFacts, conversation_id: str | None = None
) -> int:
    """End every turn that a dead process left running, or that of one conversation; returns their number.

    `facts` finds the facts of a model; raises a `LamellaError` if it no longer exists.
    """
    unfinished = await store.turns.unfinished_turns(conversation_id)
    for turn in unfinished:
        await _recover_turn(turn, store, clock, counter, facts)
        log.info("a turn that was cut off has been recovered", turn_id=turn.turn_id)
    return len(unfinished)


async def _recover_turn(
    turn: UnfinishedTurn, store: Store, clock: Clock, counter: TokenCounter, facts: FindFacts
) -> None:
    packets, last = await _journal(turn, store)
    prices = await _prices(packets, facts)
    now = clock.now()
    before = bases_of_window(await store.turns.path(turn.caller, turn.conversation_id))
    runs = [
        _run_end(run_id, rebuild(_of_run(packets, index), counter, prices, before), _of_run(packets, index), now)
        for index, run_id in enumerate(turn.run_ids)
    ]
    end = TurnEnd(turn.turn_id, TurnStatus.INTERRUPTED, runs, now)
    await store.turns.finish_turn(turn.caller, end, _last_packets(turn, end, last))


def _of_run(packets: Sequence[AnyPacket], index: int) -> list[AnyPacket]:
    """The packets of one of a turn's models."""
    return [packet for packet in packets if packet.model_index == index]


async def _prices(packets: Iterable[AnyPacket], facts: FindFacts) -> Prices:
    """The facts of the models that these packets name."""
    found: dict[str, ModelFacts] = {}
    for name in {packet.model for packet in packets if isinstance(packet, RunStarted | ModelFallback)}:
        try:
            found[name] = await facts(name)
        except LamellaError as error:
            log.warning("what a turn cost is not known: its model is gone", model=name, error=error.message)
    return found


def _run_end(run_id: str, container: StateContainer, packets: Sequence[AnyPacket], at: datetime) -> RunEnd:
    """The end of a run. One that ended before the process died keeps its status."""
    finished = next((packet for packet in reversed(packets) if isinstance(packet, RunFinished)), None)
    status, error = TurnStatus.INTERRUPTED, None
    if finished is not None:
        status = _STATUS.get(finished.status, TurnStatus.FINISHED)
        error = finished.error
    return RunEnd(run_id, status, container.steps, container.ends, at, error)


_STATUS = {
    "error": TurnStatus.FAILED,
    StopReason.USER_CANCELLED.value: TurnStatus.STOPPED,
    StopReason.INTERRUPTED.value: TurnStatus.INTERRUPTED,
}


async def _journal(turn: UnfinishedTurn, store: Store) -> tuple[list[AnyPacket], int]:
    """The packets of a turn up to the first that can't be read, and the last number that was given out."""
    packets: list[AnyPacket] = []
    rows: Sequence[tuple[int, bytes]] = ()
    try:
        rows = await store.turns.journal(turn.caller, turn.turn_id, 0)
        for _, data in rows:
            packets.append(decode_packet(data))
    except (StoreFailed, msgspec.DecodeError) as error:
        log.error("a part of a turn's journal can't be read", turn_id=turn.turn_id, error=str(error))
    return packets, rows[-1][0] if rows else 0


def _last_packets(turn: UnfinishedTurn, end: TurnEnd, last: int) -> JournalEntry:
    first = (last // GAP + 1) * GAP
    usage = sum((e.usage for e in end.requests), Usage())
    closing: list[Packet] = [
        TurnStopped(n=first, turn_id=turn.turn_id, reason="interrupted"),
        TurnFinished(
            n=first + 1,
            turn_id=turn.turn_id,
            status=end.status.value,
            usage=UsageBody.of(usage),
            cost=sum(e.cost for e in end.requests),
        ),
    ]
    data = b"\n".join(encode_packet(packet) for packet in closing)
    return JournalEntry(turn.caller.user_id, turn.turn_id, first, first + 1, data)
