"""Runs: `run` lets one model answer, `run_models` the models of a turn, each in a task; packets come in arrival order.

A model that fails before any of its answer was shown is replaced by its fallback, if there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from lamella.agent.container import StateContainer
from lamella.agent.hooks import Emitter, Fallback, RunHooks
from lamella.agent.inputs import AgentServices, RunInput, TurnInput, first_context
from lamella.agent.loop import Loop
from lamella.agent.reminders import ReminderView, merged
from lamella.agent.request import PrefixLine, Prepared, draft, prepare
from lamella.cache.ledger import Ledger
from lamella.cache.planner import policy_named
from lamella.context.layout import Layout
from lamella.context.layouts import DEFAULT, LAYOUTS
from lamella.core.agents import Agent
from lamella.core.clock import Clock, SystemClock
from lamella.core.counting import ApproximateCounter
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import LamellaError, ProviderError
from lamella.core.ids import Ids, RandomIds
from lamella.core.messages import Attachment, StopReason, Turn, TurnStatus, UserMessage
from lamella.core.models import OFF
from lamella.core.packets import ErrorPacket, ModelFallback, Packet, RunFinished, RunStarted, UsageBody
from lamella.core.ports import ChatModel
from lamella.core.prompt import Sampling
from lamella.core.records import Caller
from lamella.core.tokens import Usage
from lamella.tooling.tool import Registry, Tool, function_tool

log = structlog.get_logger()


@dataclass(slots=True)
class Run:
    """One model's part of a turn: its input, its output, its decisions and its end.

    If `error` is set at the beginning, its model is not asked.
    """

    input: RunInput
    container: StateContainer
    line: PrefixLine | None
    decisions: tuple[Decision, ...] = ()
    calibration: float = 0.0
    status: TurnStatus = TurnStatus.RUNNING
    error: LamellaError | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.input.id

    @property
    def usage(self) -> Usage:
        """The usage of its requests so far."""
        return sum((end.usage for end in self.container.ends), Usage())

    @property
    def cost(self) -> float:
        """The cost in US dollars."""
        return sum(end.cost for end in self.container.ends)

    def end(self, status: TurnStatus, reason: StopReason) -> None:
        """End the run. An open step is kept as far as it came."""
        self.status = status
        self.container.cut_off(reason, self.input.model.facts.cost)


async def run_models(turn: TurnInput, runs: Sequence[Run], services: AgentServices, hooks: RunHooks) -> None:
    """Let every model answer. One that fails or is stopped ends; the others continue."""
    async with asyncio.TaskGroup() as group:
        for index, run in enumerate(runs):
            group.create_task(_one(turn, run, services, Emitter(hooks.emit, index), hooks))


async def _one(turn: TurnInput, run: Run, services: AgentServices, emitter: Emitter, hooks: RunHooks) -> None:
    facts = run.input.model.facts
    emitter.emit(RunStarted(run_id=run.id, model=facts.name, caution=facts.caution))
    said = await _until_stopped(run, _answer(turn, run, services, emitter, hooks), hooks)
    if run.error is not None:
        run.end(TurnStatus.FAILED, StopReason.ERROR)
        emitter.emit(ErrorPacket(error=run.error.as_dict()))
        said = "error"
    emitter.emit(
        RunFinished(
            run_id=run.id,
            status=said,
            error=run.error.as_dict() if run.error is not None else None,
            usage=UsageBody.of(run.usage),
            cost=run.cost,
            stopped_at=run.container.stopped_at if run.error is None else "",
        )
    )


async def _until_stopped(run: Run, answer: Awaitable[str], hooks: RunHooks) -> str:
    """Wait for the end of the answer or for a stop."""
    work, stop = asyncio.ensure_future(answer), asyncio.ensure_future(hooks.stopped(run.id))
    try:
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
    finally:
        for task in (work, stop):
            task.cancel()
        await asyncio.gather(work, stop, return_exceptions=True)
    run.end(TurnStatus.STOPPED, StopReason.USER_CANCELLED)
    return StopReason.USER_CANCELLED.value


async def _answer(turn: TurnInput, run: Run, services: AgentServices, emitter: Emitter, hooks: RunHooks) -> str:
    """Why the model stopped; a failure is the run's error."""
    if run.error is not None:
        return "error"
    try:
        stop_reason = await _asked(turn, run, services, emitter, hooks)
    except LamellaError as error:
        run.error = error
        return "error"
    except Exception:  # the border where a run's failure becomes a packet; the cause is in the log
        log.exception("run failed", run_id=run.id, turn_id=turn.id)
        run.error = LamellaError("The turn failed inside the server.", hint="The server's log has the cause.")
        return "error"
    run.status = TurnStatus.FINISHED
    return stop_reason.value


async def _asked(turn: TurnInput, run: Run, services: AgentServices, emitter: Emitter, hooks: RunHooks) -> StopReason:
    """Run the loop of the run's model, and that of the fallback if it fails before it has shown anything."""
    loop = Loop(turn, run.input, services, hooks, emitter, run.container, run.line)
    try:
        return await _run(run, loop)
    except ProviderError as error:
        if loop.has_shown:
            raise
        other = await _fallback(run, hooks, error, emitter)
        if other is None:
            raise
        run.input, run.line = other.input, other.line
    return await _run(run, Loop(other.turn, run.input, services, hooks, emitter, run.container, run.line))


async def _run(run: Run, loop: Loop) -> StopReason:
    try:
        return await loop.run()
    finally:
        run.line, run.decisions, run.calibration = loop.line, loop.decisions, loop.calibration


async def _fallback(run: Run, hooks: RunHooks, error: ProviderError, emitter: Emitter) -> Fallback | None:
    """The fallback after `error`. The failed request is closed, and clients are notified."""
    model = run.input.model.facts
    try:
        other = await hooks.fallback(run.id)
    except LamellaError as problem:
        log.error("no other model can answer", model=model.name, error=problem.message)
        return None
    if other is None:
        return None
    opened = run.container.opened
    if opened is not None:
        run.container.refused(opened.end(opened.usage, model.cost(opened.usage), error.as_dict()))
    name = other.input.model.facts.name
    emitter.emit(ModelFallback(requested_model=model.name, model=name, error=error.as_dict()))
    await hooks.decided((Decision(DecisionKind.FALLBACK, model.name, name, "engine", error.message),))
    return other


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """The input of `run`: a message, the system prompt, and earlier turns. Sizes in tokens.

    `budget` is the most tokens of the prompt; None: the model's window minus `max_output`. `step_limit` is the maximum
    number of requests. `AgentRun.then` fills in the fields after `agent`, which describe earlier turns.
    """

    text: str
    system: str = ""
    history: tuple[Turn, ...] = ()
    layout: Layout = LAYOUTS[DEFAULT]
    budget: int | None = None
    max_output: int = 16_000
    thinking_effort: str = OFF
    step_limit: int = 12
    attachments: tuple[Attachment, ...] = ()
    agent: Agent | None = None
    decisions: tuple[Decision, ...] = ()
    calibration: float | None = None
    line: PrefixLine | None = None
    ledger: Ledger = field(default_factory=Ledger)


class AgentRun:
    """An answer that is being given: iterate over its packets, once. The last one is `run.finished`.

    A failure is no exception: it is the packet `error`, and then in `error`. Breaking off the iteration stops the run.
    """

    def __init__(
        self, model: ChatModel, turn: AgentTurn, registry: Registry, hooks: RunHooks, clock: Clock, ids: Ids
    ) -> None:
        counter = ApproximateCounter()
        self._given = turn
        self._hooks = hooks
        self._services = AgentServices(registry, turn.ledger, clock, ids, counter)
        tokens = counter.count(turn.text)
        user = UserMessage(ids.new("msg"), turn.text, clock.now(), "UTC", tokens, turn.attachments)
        self._turn = TurnInput(
            caller=Caller("local"),
            conversation_id="local",
            system=turn.system,
            tools=registry.specs(),
            history=turn.history,
            turn=Turn(ids.new("turn"), user),
            layout=turn.layout,
            policy=policy_named(turn.layout.markers),
            agent=turn.agent,
        )
        self._run = Run(
            _run_input(ids.new("run"), model, turn),
            StateContainer(counter, set(self._turn.call_ids)),
            turn.line,
            turn.decisions,
        )

    async def __aiter__(self) -> AsyncIterator[Packet]:
        packets: asyncio.Queue[Packet | None] = asyncio.Queue()

        def emit(packet: Packet) -> None:
            self._hooks.emit(packet)
            packets.put_nowait(packet)

        work = asyncio.create_task(_one(self._turn, self._run, self._services, Emitter(emit, 0), self._hooks))
        work.add_done_callback(lambda _: packets.put_nowait(None))
        try:
            while (packet := await packets.get()) is not None:
                yield packet
            work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            if self._run.status is TurnStatus.RUNNING:
                self._run.end(TurnStatus.STOPPED, StopReason.USER_CANCELLED)

    @property
    def inputs(self) -> tuple[TurnInput, RunInput]:
        """The run's input, for a hook that lets another model answer the same turn."""
        return self._turn, self._run.input

    def prepared(self) -> Prepared:
        """The first request as it would be sent now. Nothing is sent. Raises `ContextLengthExceeded`."""
        turn, run, services = self._turn, self._run.input, self._services
        view = ReminderView(
            (), services.registry, turn.agent, turn.layout, turn.reminders, run.step_limit == 1, turn.tools
        )
        context = first_context(turn, run, merged(view), last_step=view.last_step)
        made = draft(context, turn.layout, run.model, run.account, self._run.line)
        return prepare(made, turn.policy, services.ledger, services.clock.now(), run.ttl)

    @property
    def turn(self) -> Turn:
        """The turn with the steps that were made so far, each with its text, calls and results."""
        steps = (*self._turn.turn.steps, *self._run.container.steps)
        return replace(self._turn.turn, steps=steps, status=self._run.status)

    @property
    def text(self) -> str:
        """The answer: the text of the last step, or ""."""
        return self.turn.steps[-1].text if self.turn.steps else ""

    @property
    def error(self) -> LamellaError | None:
        """Why the run failed."""
        return self._run.error

    @property
    def usage(self) -> Usage:
        """The usage of its requests."""
        return self._run.usage

    @property
    def cost(self) -> float:
        """The cost in US dollars."""
        return self._run.cost

    def then(self, text: str, attachments: tuple[Attachment, ...] = ()) -> AgentTurn:
        """The next message of the same conversation. It reads the cached prefix of this one."""
        run = self._run
        return replace(
            self._given,
            text=text,
            attachments=attachments,
            history=(*self._given.history, self.turn),
            decisions=run.decisions,
            calibration=run.calibration or self._given.calibration,
            line=run.line,
        )


def run(
    model: ChatModel,
    turn: AgentTurn,
    tools: Sequence[Tool | Callable[..., object]] = (),
    hooks: RunHooks | None = None,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> AgentRun:
    """Let a model answer, with tools. A function becomes a tool by `function_tool`.

    Raises `ConfigurationError` for a tool that providers would refuse.
    """
    clock = clock or SystemClock()
    registry = Registry(function_tool(tool) if callable(tool) else tool for tool in tools)
    return AgentRun(model, turn, registry, hooks or RunHooks(), clock, ids or RandomIds(clock))


def _run_input(id: str, model: ChatModel, turn: AgentTurn) -> RunInput:
    output = min(turn.max_output, model.facts.max_output)
    free = model.facts.window - output
    return RunInput(
        id=id,
        model=model,
        account="local",
        budget=min(turn.budget or free, free),
        sampling=Sampling(output, turn.thinking_effort),
        calibration=turn.calibration or model.facts.token_factor,
        decisions=turn.decisions,
        step_limit=turn.step_limit,
        ttl=None,
        headers=lambda purpose, number: {},
        can_compact=True,
        billed_local=turn.line.record.local_tokens if turn.line is not None and turn.calibration else 0,
    )
