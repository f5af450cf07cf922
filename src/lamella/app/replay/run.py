"""The run: turns go through the real chat and engine, and between them things change as the trace says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from pathlib import Path

from msgspec import structs

from lamella.app.app import Core, build_core, build_services
from lamella.app.replay.bound import BilledRequest, lower_bound
from lamella.app.replay.ground import ReplayGround
from lamella.app.replay.library import OWNER, TraceLibrary
from lamella.app.replay.models import ReplayModels
from lamella.app.replay.options import ReplayOptions, applied
from lamella.app.replay.report import Event, Replayed, ReplayReport
from lamella.app.replay.stage import Stage, StagedTool, script_id
from lamella.app.trace.format import (
    AgentChange,
    ProjectChange,
    RestartChange,
    SetChange,
    ToolsChange,
    Trace,
    TraceChange,
    TraceSettings,
    TraceTurn,
)
from lamella.cache.plan import policy_named
from lamella.chat import Message
from lamella.core.amounts import Threshold
from lamella.core.clock import VirtualClock
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.effort import OFF, effort_named
from lamella.core.errors import InvalidRequest
from lamella.core.ids import CountingIds
from lamella.core.models import ModelFacts
from lamella.core.packets import ContextDegraded, RequestStarted, decode_packet
from lamella.core.records import Choices, Conversation, ConversationChange, RequestRecord
from lamella.core.tokens import Usage
from lamella.engine.opening import EngineSettings
from lamella.engine.setting import layout_named
from lamella.sessions.pruning import PruneSettings
from lamella.sessions.settings import SessionSettings
from lamella.storage import SqlStore
from lamella.storage.folder import FolderFileStore
from lamella.tools.tool import Registry

CONVERSATION = "conv_replay"


async def replay(
    trace: Trace, options: ReplayOptions | None = None, ground: ReplayGround | None = None
) -> ReplayReport:
    """Run a trace; raises `InvalidRequest` for one that can't be, and what the engine raises before a turn begins.

    `ground` may be shared by replays that follow each other.
    """
    trace = applied(trace, options or ReplayOptions())
    async with AsyncExitStack() as stack:
        stands = ground or ReplayGround()
        if ground is None:
            stack.push_async_callback(stands.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lamella-replay-")))
        store = await stack.enter_async_context(stands.store(folder))
        stage = Stage(VirtualClock(trace.entries[0].at))
        models = ReplayModels(stands, await stands.prepare(trace), trace.head.account.provider, stage)
        running = _Replay(trace, store, FolderFileStore(folder / "files"), models)
        stack.push_async_callback(running.close)
        return await running.run()


class _Replay:
    """One replay: what holds now, and what was found so far."""

    def __init__(self, trace: Trace, store: SqlStore, uploads: FolderFileStore, models: ReplayModels) -> None:
        self._trace = trace
        self._store = store
        self._models = models
        self._stage = models.stage
        self._settings = trace.head.settings
        self._model = trace.head.model
        tools = [StagedTool(tool, self._stage) for tool in trace.head.tools]
        self._services = build_services(
            store, Registry(tools, checks_arguments=False), self._stage.clock, CountingIds()
        )
        self._library = TraceLibrary(store, uploads, self._stage.clock, self._services.ids)
        self._core: Core | None = None
        self._decided = 0
        """Decisions that were told."""
        self._waiting: list[Event] = []
        """What changed since the last request; the next one tells it."""

    async def run(self) -> ReplayReport:
        """Every entry of the trace in order, then the sums."""
        await self._begin()
        found: list[Replayed] = []
        for entry in self._trace.entries:
            if isinstance(entry, TraceTurn):
                found += await self._turn(entry)
            else:
                await self._change(entry)
        return ReplayReport(
            requests=tuple(found),
            cost=sum(r.record.cost or 0.0 for r in found),
            bound=self._bound(found),
            faults=any(step.fault is not None for turn in self._trace.turns for step in turn.steps),
            unused=self._trace.unused,
        )

    async def close(self) -> None:
        """End the engine."""
        if self._core is not None:
            await self._core.chat.close()

    def _bound(self, found: Sequence[Replayed]) -> float:
        """A cache belongs to one model, and requests beside the conversation share nothing with it."""

        def line(request: Replayed) -> tuple[str, str]:
            return request.record.model, request.record.purpose

        return sum(
            lower_bound(
                [BilledRequest(r.record.at, r.record.segments, r.record.usage or Usage()) for r in requests],
                self._models.facts(model),
            )
            for (model, _), requests in groupby(sorted(found, key=line), key=line)
        )

    async def _begin(self) -> None:
        head, now, library = self._trace.head, self._stage.clock.now(), self._library
        layout = layout_named(head.layout)
        conversation = Conversation(
            id=CONVERSATION,
            title="",
            model=head.model,
            layout=layout.name,
            marker_policy=policy_named(head.marker_policy or layout.markers).value,
            system_prompt=head.system,
            tools=self._services.registry.specs(),
            created_at=now,
            updated_at=now,
            agent_id=await library.agent(head.agent) if head.agent else None,
            project_id=await library.project(head.project) if head.project else None,
        )
        await self._start()
        await self._store.create_conversation(OWNER, conversation)

    async def _start(self) -> None:
        """The engine with the settings of now. Its ledger goes on: the provider keeps its cache too."""
        await self.close()
        settings = _engine_settings(self._settings, self._trace, self._models.facts(self._model))
        self._core = build_core(
            self._services,
            self._models,
            replace(settings, headers=self._stage.headers),
            sessions=_session_settings(self._settings),
            jobs=self._store,
        )
        await self._core.chat.start()

    async def _change(self, change: TraceChange) -> None:
        self._stage.clock.set(self._free_at(change.at, f"“do”: “{change.__struct_config__.tag}”"))
        match change:
            case SetChange():
                await self._set(change)
            case AgentChange(agent=agent):
                await self._keep(ConversationChange(agent_id=await self._library.agent(agent) if agent else None))
            case ProjectChange(project=project):
                id = await self._library.project(project) if project else None
                await self._keep(ConversationChange(project_id=id))
            case ToolsChange():
                await self._equip(change)
            case RestartChange():
                await self._start()
                self._waiting.append(("restart", "the server started again"))

    async def _keep(self, change: ConversationChange) -> None:
        await self._store.change_conversation(OWNER, CONVERSATION, change, self._stage.clock.now())

    async def _equip(self, change: ToolsChange) -> None:
        """Another list of tools; as with every change of the window, a decision says so."""
        registry = Registry([StagedTool(tool, self._stage) for tool in change.tools], checks_arguments=False)
        self._services = replace(self._services, registry=registry)
        names = ", ".join(spec.name for spec in registry.specs()) or "none"
        why = f"the tools of the deployment are {names} from here on"
        decision = Decision(DecisionKind.SETTING, "tools", names, OWNER.user_id, why, first_changed="tools")
        await self._keep(ConversationChange(tools=registry.specs(), decisions=(decision,)))
        await self._start()

    async def _set(self, change: SetChange) -> None:
        if change.layout is not None or change.marker_policy is not None:
            await self._keep(ConversationChange(layout=change.layout, marker_policy=change.marker_policy))
        if change.marker_policy is not None:
            self._waiting.append(("markers", change.marker_policy))
        if change.model is not None:
            self._model = change.model
            await self._keep(ConversationChange(model=change.model))
            self._waiting.append(("model", change.model))
        given = {n: getattr(change.settings, n) for n in TraceSettings.__struct_fields__} if change.settings else {}
        given = {name: value for name, value in given.items() if value is not None}
        if given:
            self._settings = structs.replace(self._settings, **given)
            self._waiting.append(("settings", ", ".join(f"{name} {value}" for name, value in given.items())))
        if given or change.model is not None:
            await self._start()

    def _free_at(self, at: datetime, what: str) -> datetime:
        """The moment, if nothing is still answering then."""
        if at < self._stage.clock.now():
            raise InvalidRequest(
                f"{what} begins while turn {self._stage.turn_number} is still answering.",
                hint="This version does not replay queued messages: let it begin later.",
            )
        return at

    async def _turn(self, turn: TraceTurn) -> list[Replayed]:
        stage, core = self._stage, self._core
        assert core is not None
        stage.clock.set(self._free_at(turn.at, f"Turn {stage.turn_number + 1}"))
        stage.turn_number, stage.turn = stage.turn_number + 1, turn
        stage.bodies.clear()
        message = Message(
            text=turn.user,
            file_ids=tuple([await self._library.file(file) for file in turn.files]),
            timezone=turn.timezone or self._trace.head.timezone,
            model=self._model,
            dynamic=tuple(turn.dynamic_context),
            choices=Choices(layout=turn.layout),
        )
        turn_id = await core.chat.send(OWNER, CONVERSATION, message)
        events = await self._events(core, turn_id)
        requests = await self._store.requests(OWNER, turn_id)
        return [self._replayed(record, events.get(record.id, [])) for record in requests]

    def _replayed(self, record: RequestRecord, events: list[Event]) -> Replayed:
        """A request with what was sent for it: the first body of its script that is not taken yet."""
        stage = self._stage
        stage.sent += 1
        body = stage.bodies[script_id(stage.turn_number, record.purpose, record.step)].pop(0)
        if record.error is not None:
            events = [*events, ("error", str(record.error.get("message")))]
        return Replayed(stage.sent, stage.turn_number, record, body, tuple(events))

    async def _events(self, core: Core, turn_id: str) -> dict[str, list[Event]]:
        """What happened on the way to each request of a turn, to the turn's end."""
        degraded: list[tuple[str, ContextDegraded]] = []
        requests: list[str] = []
        waiting: list[ContextDegraded] = []
        async for batch in core.chat.stream(OWNER, turn_id):
            for _, data in batch:
                match decode_packet(data):
                    case ContextDegraded() as packet:
                        waiting.append(packet)
                    case RequestStarted(request_id=request_id):
                        requests.append(request_id)
                        degraded += ((request_id, packet) for packet in waiting)
                        waiting = []
                    case _:
                        pass
        decisions = await self._new_decisions()
        events: dict[str, list[Event]] = {id: [] for id in requests}
        if requests:
            settings = [(d.subject, d.why) for d in decisions if d.kind is DecisionKind.SETTING]
            events[requests[0]] += (*self._waiting, *settings)
            self._waiting = []
        for request_id, packet in degraded:
            events[request_id].append((_kind_of(packet, decisions), packet.why))
        return events

    async def _new_decisions(self) -> list[Decision]:
        known = await self._store.decisions(OWNER, CONVERSATION)
        fresh, self._decided = known[self._decided :], len(known)
        return [stored.decision for stored in fresh]


def _kind_of(packet: ContextDegraded, decisions: Iterable[Decision]) -> str:
    """The kind of the decision that a packet tells of."""
    named = (d.kind.value for d in decisions if d.subject == packet.subject and packet.why.startswith(d.why))
    return next(named, "degraded")


def _engine_settings(asked: TraceSettings, trace: Trace, facts: ModelFacts) -> EngineSettings:
    shipped = EngineSettings()
    longest = max(len(turn.steps) + 1 for turn in trace.turns)
    return EngineSettings(
        context_budget=asked.context_budget,
        max_output=asked.max_output or shipped.max_output,
        step_limit=asked.step_limit or max(shipped.step_limit, longest),
        thinking_effort=effort_named(asked.thinking_effort or _effort(trace, facts)),
        reminders=(asked.reminder,) if asked.reminder else (),
    )


def _session_settings(asked: TraceSettings) -> SessionSettings:
    """Pruning as the trace asks for it. Compactions are not replayed: they would run beside the trace's clock."""
    shipped = PruneSettings()
    threshold, keep = asked.tool_prune_threshold, asked.tool_keep_threshold
    pruning = PruneSettings(
        shipped.threshold if threshold is None else threshold, shipped.keep if keep is None else keep
    )
    return SessionSettings(compaction=Threshold(share=1.0), pruning=pruning)


def _effort(trace: Trace, facts: ModelFacts) -> str:
    """Thinking is on when the trace has any: else the simulator would have no place for it."""
    thinks = any(step.reasoning for turn in trace.turns for step in turn.steps)
    return "medium" if thinks and facts.thinking != "none" else OFF
