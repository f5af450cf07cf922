"""Replay: a trace through the real engine against the simulator, on virtual time (DESIGN 7)."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import msgspec
from msgspec import structs

from lamella.app.app import Core, build_core, build_services
from lamella.app.bound import BilledRequest, lower_bound
from lamella.app.demonstration import Simulator
from lamella.app.providers import DEFAULT_MODELS, Endpoint, adapter, load_adapter
from lamella.app.trace import UNUSED_SETTINGS, Trace, TraceCall, TraceSettings, TraceStep, TraceTurn
from lamella.chat import Message
from lamella.core import deltas
from lamella.core.agents import Agent, Project
from lamella.core.clock import VirtualClock
from lamella.core.counting import ApproximateCounter
from lamella.core.decisions import DecisionKind
from lamella.core.deltas import Delta
from lamella.core.errors import InvalidRequest, ToolFailed
from lamella.core.ids import CountingIds
from lamella.core.json import Json, encode
from lamella.core.messages import Attachment
from lamella.core.models import ModelFacts
from lamella.core.packets import ContextDegraded, RequestStarted, decode_packet
from lamella.core.ports import ChatModel, Store
from lamella.core.prompt import Level, Marker, Prompt, Sampling, ToolSpec, WireBlock, Wired, WireRequest
from lamella.core.records import Caller, Conversation, File, RequestRecord
from lamella.core.tokens import Usage
from lamella.engine.surroundings import Surroundings
from lamella.engine.turn import EngineSettings, OpenModel, layout_named
from lamella.llm.model_table import ModelTable
from lamella.storage.store import open_store
from lamella.tools.tool import Invocation, ToolKind, ToolScope

OWNER = Caller("user_replay")
PROJECT_DOCUMENTS = 1000
"""The documents of a trace's project are numbered from here, those of its turns from 1."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What the command line changes of a trace."""

    layout: str | None = None
    marker_policy: str | None = None
    model: str | None = None
    provider: str | None = None
    settings: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """One request of a replay. `body` is what went over the wire, byte for byte."""

    number: int
    turn: int
    record: RequestRecord
    body: bytes
    events: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """All requests, with the costs summed up in US dollars."""

    requests: tuple[Replayed, ...]
    cost: float
    bound: float
    faults: bool = False
    """Whether the trace has scripted faults: then failed requests are what it is about."""
    unused: tuple[str, ...] = ()
    """Settings of the trace that change nothing in this version."""

    @property
    def usage(self) -> Usage:
        """Everything that was billed."""
        return sum((r.record.usage for r in self.requests if r.record.usage), Usage())

    @property
    def ratio(self) -> float | None:
        """Cost as a multiple of the lower bound."""
        return self.cost / self.bound if self.bound else None

    def as_json(self) -> dict[str, Json]:
        """The shape that `lamella replay --json` prints."""
        usage = self.usage
        return {
            "requests": [_request_json(request) for request in self.requests],
            "totals": {
                "requests": len(self.requests),
                "input": usage.input,
                "read": usage.cache_read,
                "written": usage.cache_write,
                "fresh": usage.fresh,
                "output": usage.output,
                "cost": round(self.cost, 8),
                "lower_bound": round(self.bound, 8),
                "ratio": round(self.ratio, 4) if self.ratio is not None else None,
            },
        }


def body_name(number: int) -> str:
    """The name of a dumped body."""
    return f"{number:04d}.json"


def _request_json(request: Replayed) -> dict[str, Json]:
    record, usage = request.record, request.record.usage or Usage()
    return {
        "n": request.number,
        "at": record.at.isoformat(),
        "turn": request.turn,
        "step": record.step,
        "run": 0,
        "purpose": record.purpose,
        "letters": record.letters,
        "model": record.model,
        "tokens": {
            "input": usage.input,
            "read": usage.cache_read,
            "written": usage.cache_write,
            "fresh": usage.fresh,
            "output": usage.output,
        },
        "predicted": {"read": record.predicted_read, "written": record.predicted_written},
        "cost": round(record.cost or 0.0, 8),
        "events": [{"kind": kind, "cause": cause} for kind, cause in request.events],
        "body": body_name(request.number),
    }


class _Stage:
    """Where the replay is: the turn whose steps the model and the tools act out."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.turn_number = 0
        self.turn: TraceTurn | None = None
        self.step_index = 0
        self.bodies: list[bytes] = []

    def step(self, index: int) -> TraceStep:
        assert self.turn is not None
        if index < len(self.turn.steps):
            return self.turn.steps[index]
        return TraceStep()

    def call(self, id: str) -> TraceCall:
        calls = self.step(self.step_index).tool_calls
        found = next((c for c in calls if id == c.id or id.startswith(c.id + "_")), None)
        if found is None:
            raise ToolFailed(f"The trace has no result for the call {id}.")
        return found

    def headers(self, turn_id: str, step: int) -> Mapping[str, str]:
        """How the simulator learns time and script: by headers, never by the body."""
        now = self.clock.now().isoformat()
        return {"x-sim-now": now, "x-sim-reply": _script_id(self.turn_number, step)}


def _script_id(turn: int, step: int) -> str:
    return f"t{turn}s{step}"


class _StagedModel:
    """The real adapter; notes what was sent and lets virtual time pass as the trace says."""

    def __init__(self, inner: ChatModel, stage: _Stage) -> None:
        self.facts = inner.facts
        self._inner = inner
        self._stage = stage

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        return self._inner.wire(prompt, previous)

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        return self._inner.request(prompt, blocks, markers)

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        return self._inner.salts(sampling)

    def body(self, request: WireRequest) -> dict[str, object]:
        return self._inner.body(request)

    async def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        self._stage.bodies.append(encode(self.body(request)))
        self._stage.step_index = int(headers["x-sim-reply"].rpartition("s")[2])
        step = self._stage.step(self._stage.step_index)
        async for delta in self._inner.stream(request, headers):
            if isinstance(delta, deltas.Opened):
                self._stage.bodies[-1] = delta.body
            yield delta
        self._stage.clock.advance(step.ms / 1000)

    async def count(self, request: WireRequest) -> int:
        return await self._inner.count(request)

    async def close(self) -> None:
        await self._inner.close()


class _StagedTool:
    """A tool of the trace: gives the recorded result."""

    timeout = 3600.0

    def __init__(self, spec: ToolSpec, kind: ToolKind, stage: _Stage) -> None:
        self.spec = spec
        self.kind = kind
        self._stage = stage

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        recorded = self._stage.call(call.id)
        self._stage.clock.advance(recorded.ms / 1000)
        if recorded.error is not None:
            raise ToolFailed(recorded.error)
        return recorded.result


class _Staged:
    """The agent and the project of the trace."""

    def __init__(self, found: Surroundings) -> None:
        self._found = found

    async def of(self, caller: Caller, conversation: Conversation) -> Surroundings:
        return self._found


class _OneModel:
    """A `ModelSource` of one model."""

    def __init__(self, model: OpenModel) -> None:
        self._model = model

    async def open(self, name: str) -> OpenModel:
        return self._model


async def replay(trace: Trace, options: ReplayOptions | None = None) -> ReplayReport:
    """Run a trace; raises `InvalidRequest` for one that can't be, and what the engine raises before a turn begins."""
    trace = _with_options(trace, options or ReplayOptions())
    asked = (options.provider if options else None) or trace.account.provider
    provider = asked or ("openai" if trace.model.startswith("gpt-") else "anthropic")
    facts = ModelTable.shipped().facts(trace.model, provider)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lamella-replay-")))
        store = await stack.enter_async_context(await open_store(folder / "lamella.db"))
        checked = str(trace.account.prefix_check).lower()
        simulator = Simulator("--clock", "virtual", "--option", f"prefix_check_enforced={checked}")
        stack.push_async_callback(simulator.close)
        url, _ = await asyncio.gather(simulator.start(), load_adapter(provider))
        await _load_scripts(url, trace)
        stage = _Stage(VirtualClock(trace.turns[0].at))
        base_url = f"{url}/v1" if provider == "openai" else url
        endpoint = Endpoint(provider, base_url, "replay", timeout=60, retries=0)
        model = _StagedModel(await adapter(facts, endpoint), stage)
        stack.push_async_callback(model.close)
        core, tools = _core(trace, facts, model, store, stage)
        await core.chat.start()
        stack.push_async_callback(core.chat.close)
        await store.create_conversation(OWNER, _conversation(trace, tools, stage))
        found: list[Replayed] = []
        for number, turn in enumerate(trace.turns, 1):
            found += await _turn(number, turn, trace, core, store, stage)
    billed = [BilledRequest(r.record.at, r.record.segments, r.record.usage or Usage()) for r in found]
    return ReplayReport(
        requests=tuple(found),
        cost=sum(r.record.cost or 0.0 for r in found),
        bound=lower_bound(billed, facts),
        faults=any(step.fault is not None for turn in trace.turns for step in turn.steps),
        unused=trace.settings.unused,
    )


def _with_options(trace: Trace, options: ReplayOptions) -> Trace:
    if not trace.turns:
        raise InvalidRequest("The trace has no turns.")
    if options.provider not in (None, *DEFAULT_MODELS):
        raise InvalidRequest(f"There is no provider “{options.provider}”.", hint="Choose anthropic or openai.")
    wanted = replace_fields(trace, layout=options.layout, marker_policy=options.marker_policy, model=options.model)
    if options.provider and options.model is None and wanted.model.startswith("gpt-") != (options.provider == "openai"):
        wanted.model = DEFAULT_MODELS[options.provider]
    for name, value in (options.settings or {}).items():
        _set(wanted, name, value)
    return wanted


def replace_fields(trace: Trace, **fields: str | None) -> Trace:
    """A copy of the trace with the given fields that are not None."""
    values = {name: getattr(trace, name) for name in trace.__struct_fields__}
    return Trace(**(values | {name: value for name, value in fields.items() if value is not None}))


def _set(trace: Trace, name: str, value: str) -> None:
    known = [field for field in TraceSettings.__struct_fields__ if field != "unused"]
    if name in UNUSED_SETTINGS:
        trace.settings = structs.replace(trace.settings, unused=(*trace.settings.unused, name))
        return
    if name not in known:
        raise InvalidRequest(f"There is no setting “{name}”.", hint="Choose one of " + ", ".join(known) + ".")
    given = msgspec.to_builtins(trace.settings) | {name: int(value) if value.lstrip("-").isdigit() else value}
    try:
        trace.settings = msgspec.convert(given, TraceSettings)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{name} can't be “{value}”: {error}.") from None


async def _load_scripts(url: str, trace: Trace) -> None:
    scripts = {
        _script_id(t, s): step.reply() for t, turn in enumerate(trace.turns, 1) for s, step in enumerate(turn.steps)
    }
    async with httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        answer = await client.post("/_sim/replies", content=encode(scripts))
    if answer.status_code >= 400:
        raise InvalidRequest(f"The simulator does not take the trace's replies: {answer.text[:500]}")


def _core(
    trace: Trace, facts: ModelFacts, model: ChatModel, store: Store, stage: _Stage
) -> tuple[Core, tuple[ToolSpec, ...]]:
    tools = tuple(
        _StagedTool(
            ToolSpec(tool.name, tool.description, encode(tool.schema).decode()),
            ToolKind.SEARCH if tool.kind == "search" else ToolKind.OTHER,
            stage,
        )
        for tool in trace.tools
    )
    asked, defaults = trace.settings, EngineSettings()
    settings = replace(
        defaults,
        context_budget=asked.context_budget,
        max_output=asked.max_output or defaults.max_output,
        step_limit=asked.step_limit or max(defaults.step_limit, *(len(turn.steps) + 1 for turn in trace.turns)),
        thinking_effort=asked.thinking_effort or _effort(trace, facts),
        reminders=(asked.reminder,) if asked.reminder else (),
        headers=stage.headers,
    )
    services = build_services(store, tools, stage.clock, CountingIds())
    core = build_core(
        replace(services, surroundings=_Staged(_surroundings(trace))), _OneModel(OpenModel(model, "replay")), settings
    )
    return core, core.services.registry.specs()


def _surroundings(trace: Trace) -> Surroundings:
    agent, project = trace.agent, trace.project
    files = tuple(
        Attachment(
            file_id=f"file_project_{number}",
            document=PROJECT_DOCUMENTS + number,
            title=file.name,
            media_type=file.media_type,
            size=len(file.text.encode()),
            tokens=ApproximateCounter().count(file.text),
            text=file.text,
        )
        for number, file in enumerate(project.files if project else [], 1)
    )
    return Surroundings(
        Agent("agent_trace", agent.name, agent.prompt, agent.reminder, agent.replaces_system) if agent else None,
        Project("proj_trace", project.name, project.instructions, files) if project else None,
    )


def _effort(trace: Trace, facts: ModelFacts) -> str | None:
    """Thinking is on when the trace has any: else the simulator would have no place for it."""
    thinks = any(step.reasoning for turn in trace.turns for step in turn.steps)
    return "medium" if thinks and facts.thinking != "none" else None


def _conversation(trace: Trace, tools: tuple[ToolSpec, ...], stage: _Stage) -> Conversation:
    now = stage.clock.now()
    return Conversation(
        id="conv_replay",
        title="",
        model=trace.model,
        layout=trace.layout,
        marker_policy=trace.marker_policy or layout_named(trace.layout).markers,
        system_prompt=trace.system,
        tools=tools,
        created_at=now,
        updated_at=now,
    )


async def _turn(number: int, turn: TraceTurn, trace: Trace, core: Core, store: Store, stage: _Stage) -> list[Replayed]:
    if turn.at < stage.clock.now():
        raise InvalidRequest(
            f"Turn {number} begins while turn {number - 1} is still answering.",
            hint="This version does not replay queued messages: let the turn begin later.",
        )
    stage.clock.set(turn.at)
    stage.turn_number, stage.turn = number, turn
    file_ids = [await _file(file_number, turn, core, store) for file_number in range(len(turn.files))]
    first = len(stage.bodies)
    zone = turn.timezone or trace.timezone
    message = Message(turn.user, tuple(file_ids), zone, dynamic=tuple(turn.dynamic_context))
    turn_id = await core.chat.send(OWNER, "conv_replay", message)
    events = await _events(core, turn_id)
    found = []
    for index, record in enumerate(await store.requests(OWNER, turn_id)):
        told = events.get(record.id, [])
        if record.error is not None:
            told.append(("error", str(record.error.get("message"))))
        found.append(Replayed(first + index + 1, number, record, stage.bodies[first + index], tuple(told)))
    return found


async def _events(core: Core, turn_id: str) -> dict[str, list[tuple[str, str]]]:
    """What a turn's packets say of its requests, to the turn's end: a degradation comes before its request."""
    events: dict[str, list[tuple[str, str]]] = {}
    waiting: list[tuple[str, str]] = []
    async for batch in core.chat.stream(OWNER, turn_id):
        for _, data in batch:
            match decode_packet(data):
                case ContextDegraded(why=why):
                    waiting.append((DecisionKind.ADMISSION.value, why))
                case RequestStarted(request_id=request_id):
                    events[request_id], waiting = waiting, []
                case _:
                    pass
    return events


async def _file(index: int, turn: TraceTurn, core: Core, store: Store) -> str:
    file = turn.files[index]
    file_id = core.services.ids.new("file")
    row = File(
        id=file_id,
        name=file.name,
        media_type=file.media_type,
        size=len(file.text.encode()),
        status="ready",
        tokens=ApproximateCounter().count(file.text),
        created_at=core.services.clock.now(),
    )
    await store.add_file(OWNER, row, file.text)
    return file_id
