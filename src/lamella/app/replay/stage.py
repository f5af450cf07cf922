"""The stage of a replay: a model and tools that act out the trace's turns, while virtual time passes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from lamella.app.trace.format import TraceCall, TraceSide, TraceStep, TraceTool, TraceTurn
from lamella.core import deltas
from lamella.core.clock import VirtualClock
from lamella.core.deltas import Delta
from lamella.core.errors import ToolFailed
from lamella.core.json import encode
from lamella.core.ports import ChatModel
from lamella.core.prompt import Level, Marker, Prompt, Sampling, ToolSpec, WireBlock, Wired, WireRequest
from lamella.tools.tool import Invocation, ToolKind, ToolOutput, ToolScope


@dataclass(frozen=True, slots=True)
class Held:
    """A summary that comes when turn `until` has ended."""

    until: int
    released: asyncio.Event


class Stage:
    """Where the replay is: the turn whose steps the model and the tools act out. `bodies` were sent, by script."""

    def __init__(self, clock: VirtualClock, side: TraceSide) -> None:
        self.clock = clock
        self.turn_number = 0
        self.turn: TraceTurn | None = None
        self.step_index = 0
        self.summaries: list[int] = []
        """Behind which turn each request for a summary was sent."""
        self.side = side
        self.held: list[Held] = []
        self.news = asyncio.Event()
        """Set when a summary is held back."""
        self.bodies: defaultdict[str, list[bytes]] = defaultdict(list)

    def step(self, index: int) -> TraceStep:
        """What the model says in a step; nothing behind the last."""
        assert self.turn is not None
        return self.turn.steps[index] if index < len(self.turn.steps) else TraceStep()

    def call(self, id: str) -> TraceCall:
        """The call of the running step; ids that came before carry a number."""
        calls = self.step(self.step_index).tool_calls
        found = next((c for c in calls if id == c.id or id.startswith(c.id + "_")), None)
        if found is None:
            raise ToolFailed(f"The trace has no result for the call {id}.")
        return found

    def headers(self, turn_id: str, purpose: str, number: int) -> Mapping[str, str]:
        """How the simulator learns time and script: by headers, never by the body."""
        now = self.clock.now().isoformat()
        if purpose == "summary":
            self.summaries.append(self.turn_number)
            return {"x-sim-now": now, "x-sim-reply": script_id(0, purpose, len(self.summaries) - 1)}
        return {"x-sim-now": now, "x-sim-reply": script_id(self.turn_number, purpose, number)}

    async def hold(self, index: int) -> None:
        """Hold back the end of a summary for as many turns as the trace says."""
        late = self.side.summary_at(index).late
        if late:
            held = Held(self.turn_number + late, asyncio.Event())
            self.held.append(held)
            self.news.set()
            try:
                await held.released.wait()
            finally:
                if held in self.held:
                    self.held.remove(held)

    def release(self, *, everything: bool = False) -> None:
        """Let go of the summaries whose turns have gone by."""
        for held in [held for held in self.held if everything or held.until <= self.turn_number]:
            self.held.remove(held)
            held.released.set()


def script_id(turn: int, purpose: str, number: int) -> str:
    """The name of a script at the simulator: of a step, or of a request beside the conversation."""
    return f"{turn}/{purpose}/{number}"


class StagedModel:
    """The real adapter; notes what was sent and lets virtual time pass as the trace says."""

    def __init__(self, inner: ChatModel, stage: Stage) -> None:
        self.facts = inner.facts
        self._inner = inner
        self._stage = stage

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """See `ChatModel`."""
        return self._inner.wire(prompt, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """See `ChatModel`."""
        return self._inner.request(prompt, blocks, markers)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """See `ChatModel`."""
        return self._inner.salts(sampling)

    def body(self, request: WireRequest) -> dict[str, object]:
        """See `ChatModel`."""
        return self._inner.body(request)

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """See `ChatModel`."""
        script = headers["x-sim-reply"]
        sent = self._stage.bodies[script]
        sent.append(encode(self.body(request)))
        number, (_, purpose, index) = len(sent), script.split("/")
        step = TraceStep()
        if purpose == "chat":
            self._stage.step_index = int(index)
            step = self._stage.step(int(index))
        async for delta in self._inner.stream(request, headers):
            if isinstance(delta, deltas.Opened):
                sent[number - 1] = delta.body
            yield delta
        if purpose == "summary":
            await self._stage.hold(int(index))
        self._stage.clock.advance(step.ms / 1000)

    async def count(self, request: WireRequest) -> int:
        """See `ChatModel`."""
        return await self._inner.count(request)

    async def close(self) -> None:
        """See `ChatModel`."""
        await self._inner.close()


class StagedTool:
    """A tool of the trace: gives the recorded result."""

    timeout = 3600.0

    def __init__(self, tool: TraceTool, stage: Stage) -> None:
        self.spec = spec_of(tool)
        self.kind = ToolKind.SEARCH if tool.kind == "search" else ToolKind.OTHER
        self._stage = stage

    async def run(self, scope: ToolScope, call: Invocation) -> str | ToolOutput:
        """See `Tool`."""
        recorded = self._stage.call(call.id)
        self._stage.clock.advance(recorded.ms / 1000)
        if recorded.error is not None:
            raise ToolFailed(recorded.error)
        if recorded.expanded_queries:
            return ToolOutput(recorded.result, tuple(recorded.expanded_queries))
        return recorded.result


def spec_of(tool: TraceTool) -> ToolSpec:
    """What a model is told of a tool."""
    return ToolSpec(tool.name, tool.description, encode(tool.schema).decode(), tool.when_old)
