"""The stage of a replay: whose turn it is, what each model is to say next, and how virtual time passes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lamella.core.clock import VirtualClock
from lamella.core.errors import ToolFailed
from lamella_lab.trace.format import TraceSide, TraceTurn
from lamella_lab.trace.parts import TraceAnswer, TraceCall, TraceRun, TraceSent, TraceStep, TraceStop, TraceTool

BESIDE = ("summary", "title")
"""Purposes of background requests, which belong to no turn. They are numbered through the whole replay."""


@dataclass(frozen=True, slots=True)
class HeldSummary:
    """A summary that comes when turn `until` has ended."""

    until: int
    released: asyncio.Event


@dataclass(frozen=True, slots=True)
class Script:
    """Which answer a request gets: of turn, run, purpose and number. Beside a turn, turn and run are 0."""

    turn: int
    run: int
    purpose: str
    number: int

    @property
    def id(self) -> str:
        """Its name at the simulator."""
        return f"{self.turn}/{self.run}/{self.purpose}/{self.number}"

    @classmethod
    def of(cls, id: str) -> Script:
        """The script of this name."""
        turn, run, purpose, number = id.split("/")
        return cls(int(turn), int(run), purpose, int(number))


@dataclass(frozen=True, slots=True)
class SentBody:
    """The body that a request sent, and the facts of the original request if there is one."""

    body: bytes
    recorded: TraceSent | None = None


@dataclass(frozen=True, slots=True)
class PlayedRequest:
    """A request that was made: it came to the step of this index, or to nothing (`step` None)."""

    sent: TraceSent
    index: int
    step: TraceStep | None


def asks_of(run: TraceRun) -> tuple[PlayedRequest, ...]:
    """The requests of a recorded run, in order."""
    found: list[PlayedRequest] = []
    for index, step in enumerate(run.steps):
        found += (PlayedRequest(sent, index, None) for sent in step.failed)
        if step.sent is not None:
            found.append(PlayedRequest(step.sent, index, step))
    return tuple(found)


@dataclass(slots=True)
class PlayedRun:
    """One run of the running turn: which of its requests comes next, and what it has used of the turn's time."""

    run: TraceRun
    stop: TraceStop | None
    asks: tuple[PlayedRequest, ...]
    place: int = 0
    step: int = 0
    seconds: float = 0.0
    counts: dict[int, list[int]] = field(default_factory=dict)
    """What is left of the counts of each request."""
    open_calls: int = 0
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when every call of the step that was answered then has been answered."""

    @property
    def next_model(self) -> str | None:
        """The model of the next request, if it is not the run's own."""
        return self.asks[self.place].sent.model if self.place < len(self.asks) else None


class Playback:
    """Where the replay is. `plays`: its trace is of a conversation that was carried away, and is played as it was."""

    def __init__(self, clock: VirtualClock, side: TraceSide, *, plays: bool = False) -> None:
        self.clock = clock
        self.side = side
        self.plays = plays
        self.turn_number = 0
        self.turn: TraceTurn | None = None
        self.tools: Mapping[str, TraceTool] = {}
        self.beside: dict[str, list[int]] = {purpose: [] for purpose in BESIDE}
        """After which turn each side request was sent, by purpose."""
        self.held: list[HeldSummary] = []
        self.news = asyncio.Event()
        """Set when a summary is held back."""
        self.bodies: defaultdict[str, list[SentBody]] = defaultdict(list)
        self.on_stop: Callable[[TraceStop], Awaitable[None]] | None = None
        self._models: Sequence[str] = ()
        self._acting: list[PlayedRun] = []
        self._began = clock.now()

    def begin(self, turn: TraceTurn, models: Sequence[str]) -> None:
        """The next turn is acted out from now on, by these models."""
        stops = {stop.run: stop for stop in turn.stops}
        self.turn_number, self.turn, self._models = self.turn_number + 1, turn, models
        self._acting = [PlayedRun(run, stops.get(n), asks_of(run)) for n, run in enumerate(turn.answers)]
        self._began = self.clock.now()

    # Who speaks

    def run_of(self, model: str) -> int:
        """The number of the run that a model answers for: its own, or the one in whose place it answers."""
        if model in self._models:
            return self._models.index(model)
        waiting = (n for n, acting in enumerate(self._acting) if acting.next_model == model)
        return next(waiting, 0)

    def acting(self, run: int) -> PlayedRun:
        """A run of the running turn."""
        return self._acting[run]

    def step(self, run: int, index: int) -> TraceStep:
        """The model's answer in a step. Empty after the last step."""
        steps = self._acting[run].run.steps
        return steps[index] if index < len(steps) else TraceStep()

    def call(self, id: str) -> tuple[PlayedRun, TraceCall]:
        """The call of a running step with its run; ids that came before carry a number."""
        for exact in (True, False):
            for acting in self._acting:
                for call in self._calls(acting):
                    if id == call.id or (not exact and id.startswith(call.id + "_")):
                        return acting, call
        raise ToolFailed(f"The trace has no result for the call {id}.")

    def _calls(self, acting: PlayedRun) -> Sequence[TraceCall]:
        steps = acting.run.steps
        return steps[acting.step].calls if acting.step < len(steps) else ()

    def counted(self, model: str) -> int | None:
        """What the provider counted of the next request of a recorded run, or what it was thought to have."""
        acting = self._acting[self.run_of(model)]
        if acting.place >= len(acting.asks):
            return None
        sent, counts = acting.asks[acting.place].sent, acting.counts
        if acting.place not in counts:
            counts[acting.place] = list(sent.counted)
        return counts[acting.place].pop(0) if counts[acting.place] else sent.estimate or None

    def digest(self, run: int, number: int) -> TraceAnswer:
        """What a recorded run was answered when it asked for its digest of this number."""
        old = {name for name, tool in self.tools.items() if tool.when_old == "digest"}
        calls = [call for step in self._acting[run].run.steps for call in step.calls]
        asked = [call for call in calls if call.name in old and call.error is None and call.result.strip()]
        given = asked[number].digest if number < len(asked) else ""
        return TraceAnswer(given) if isinstance(given, str) else given

    def answer(self, script: Script) -> TraceAnswer:
        """The recorded answer to a side request."""
        match script.purpose:
            case "digest":
                return self.digest(script.run, script.number)
            case "title":
                return self.side.title_at(script.number)
            case _:
                return self.side.summary_at(script.number)

    # What is sent

    def headers(self, turn_id: str, purpose: str, number: int) -> Mapping[str, str]:
        """How the simulator learns time and script: by headers, never by the body."""
        turn = self.turn_number
        if purpose in self.beside:
            self.beside[purpose].append(self.turn_number)
            turn, number = 0, len(self.beside[purpose]) - 1
        return {"x-sim-now": self.clock.now().isoformat(), "x-sim-reply": Script(turn, 0, purpose, number).id}

    def script(self, headers: Mapping[str, str], model: str) -> Script:
        """Which answer a request of this model gets."""
        script = Script.of(headers["x-sim-reply"])
        return script if script.turn == 0 else Script(script.turn, self.run_of(model), script.purpose, script.number)

    # How time passes

    def spend(self, run: int, milliseconds: int) -> None:
        """Advance the clock by the duration of a run. Parallel runs overlap."""
        if len(self._acting) < 2:
            self.clock.advance(milliseconds / 1000)
            return
        acting = self._acting[run]
        acting.seconds += milliseconds / 1000
        self.clock.set(_after(self._began, acting.seconds))

    # What is held back, and stopped

    async def hold(self, index: int) -> None:
        """Hold back the end of a summary for as many turns as the trace says."""
        late = self.side.summary_at(index).late
        if late:
            held = HeldSummary(self.turn_number + late, asyncio.Event())
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

    async def stopped(self, stop: TraceStop) -> None:
        """The run is stopped here; does not come back."""
        assert self.on_stop is not None
        await self.on_stop(stop)
        await asyncio.Event().wait()


def _after(moment: datetime, seconds: float) -> datetime:
    return datetime.fromtimestamp(moment.timestamp() + seconds, moment.tzinfo)
