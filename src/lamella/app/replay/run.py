"""The run: turns go through the real chat and engine, and between them things change as the trace says."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from lamella.app.core import Core, build_core, build_services
from lamella.app.replay.background import KINDS, StagedJobs
from lamella.app.replay.bound import bound_of
from lamella.app.replay.events import events_of
from lamella.app.replay.ground import ReplayGround
from lamella.app.replay.happenings import Happenings
from lamella.app.replay.library import OWNER, TraceLibrary
from lamella.app.replay.models import ReplayModels
from lamella.app.replay.options import ReplayOptions, applied
from lamella.app.replay.report import Event, Replayed, ReplayReport
from lamella.app.replay.shares import replay_settings
from lamella.app.replay.stage import Stage, StagedTool, script_id
from lamella.app.shares import core_settings
from lamella.app.trace.format import (
    AgentChange,
    ProjectChange,
    RestartChange,
    SetChange,
    ToolsChange,
    Trace,
    TraceChange,
    TraceCommand,
    TraceTurn,
)
from lamella.cache.plan import policy_named
from lamella.chat import Message, QueueSettings
from lamella.commands.parse import Typed
from lamella.context.layouts import LAYOUTS
from lamella.core.clock import VirtualClock
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import InvalidRequest
from lamella.core.ids import CountingIds
from lamella.core.packets import decode_packet
from lamella.core.records import Choices, Conversation, ConversationChange, PageQuery, RequestRecord
from lamella.engine.setting import layout_named
from lamella.llm.model_table import ModelTable
from lamella.storage import SqlStore
from lamella.storage.folder import FolderFileStore
from lamella.tools.tool import Registry

CONVERSATION = "conv_replay"

LONGEST = 100_000
"""Turns of a replay."""

LONGEST_WAIT = 30.0
"""Real seconds that a turn waits to begin: then it needs what a held back summary would give."""


async def replay(
    trace: Trace, options: ReplayOptions | None = None, ground: ReplayGround | None = None
) -> ReplayReport:
    """Run a trace; raises `InvalidRequest` for one that can't be, `ConfigurationError` for a file of models that can't,
    and what the engine raises before a turn begins.

    `ground` may be shared by replays that follow each other.
    """
    options = options or ReplayOptions()
    trace, table = applied(trace, options), ModelTable.read(options.models)
    async with AsyncExitStack() as stack:
        stands = ground or ReplayGround()
        if ground is None:
            stack.push_async_callback(stands.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lamella-replay-")))
        store = await stack.enter_async_context(stands.store(folder))
        stage = Stage(VirtualClock(trace.entries[0].at), trace.head.side)
        models = ReplayModels(stands, await stands.prepare(trace), trace.head.account.provider, stage, table)
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
        self._jobs = StagedJobs(store, self._stage)
        self._happenings = Happenings(store, store, OWNER, CONVERSATION)
        self._found: list[Replayed] = []
        self._summaries: list[str] = []
        """The ids of the requests for summaries, in the order in which they were sent."""
        self._decided = 0
        """Decisions that were told."""
        self._fresh: list[Decision] = []
        """Decisions since the last turn."""
        self._waiting: list[Event] = []
        """What changed since the last request; the next one tells it."""

    async def run(self) -> ReplayReport:
        """Every entry of the trace in order, then the sums."""
        await self._begin()
        for entry in self._trace.entries:
            await self._work_until(entry.at)
            match entry:
                case TraceTurn():
                    await self._turn(entry)
                case TraceCommand():
                    await self._command(entry)
                case _:
                    await self._change(entry)
                    await self._work()
        self._stage.release(everything=True)
        await self._work()
        # What was held back has its bill only now.
        stored = [replace(r, record=await self._store.request(OWNER, r.record.id)) for r in self._found]
        reads = await self._models.reads()
        found = [replace(r, read=reads.get(r.record.provider_request_id or "")) for r in stored]
        return ReplayReport(
            requests=tuple(found),
            cost=sum(r.record.cost or 0.0 for r in found),
            input_cost=sum(
                self._models.facts(r.record.model).input_cost(r.record.usage) for r in found if r.record.usage
            ),
            bound=bound_of([r.record for r in found], self._models.facts),
            faults=any(step.fault is not None for turn in self._trace.turns for step in turn.steps),
            unused=self._trace.unused,
            happenings=tuple(self._happenings.found),
        )

    async def _work_until(self, at: datetime) -> None:
        """Do what is due before this moment, each when it is due."""
        while not self._stage.held:
            due = await self._store.next_due(KINDS)
            if due is None or due > at:
                return
            self._stage.clock.set(due)
            await self._work()
            if await self._store.next_due(KINDS) == due:
                return

    async def _work(self) -> None:
        """Do what is due now, and note what happened."""
        assert self._core is not None
        await self._jobs.quiet(self._core, CONVERSATION)
        self._jobs.open = False
        await self._note_summaries(len(self._stage.summaries))
        known = await self._store.decisions(OWNER, CONVERSATION)
        fresh, self._decided = known[self._decided :], len(known)
        await self._happenings.look(len(self._found), fresh)
        self._fresh += [stored.decision for stored in fresh]

    async def _note_summaries(self, until: int) -> None:
        """Number the requests for summaries that were sent, up to so many in all."""
        if until <= len(self._summaries):
            return
        page = await self._store.turns(OWNER, CONVERSATION, PageQuery(limit=LONGEST, order="asc"))
        records = [r for turn in page.data for r in await self._store.requests(OWNER, turn.id)]
        fresh = [r for r in records if r.purpose == "summary" and r.id not in self._summaries]
        for record in sorted(fresh, key=lambda r: r.id)[: until - len(self._summaries)]:
            index = len(self._summaries)
            self._summaries.append(record.id)
            body = self._stage.bodies[script_id(0, "summary", index)][0]
            self._found.append(Replayed(len(self._found) + 1, self._stage.summaries[index], record, body, ()))

    async def _command(self, command: TraceCommand) -> None:
        """A command is answered at once; what it started runs before the next entry."""
        core = self._core
        assert core is not None
        self._stage.clock.set(self._free_at(command.at, f"“{command.user}”"))
        typed = core.chat.read(Message(text=command.user))
        if not isinstance(typed, Typed):
            raise InvalidRequest(f"“{command.user}” is no command.", hint="/help lists them; // sends it as text.")
        await core.chat.orders.run(OWNER, CONVERSATION, typed)
        await self._work()

    async def close(self) -> None:
        """End the engine."""
        if self._core is not None:
            await self._core.chat.close()

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
        self._jobs.restarted()
        settings = replay_settings(self._settings, self._trace, self._models.facts(self._model))
        parts = core_settings(settings, LAYOUTS, self._stage.headers, demonstration=False)
        self._core = build_core(self._services, self._models, replace(parts, queue=QueueSettings()), jobs=self._jobs)
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
        given = change.settings
        if given:
            self._settings = self._settings | given
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

    async def _turn(self, turn: TraceTurn) -> None:
        stage, core = self._stage, self._core
        assert core is not None
        stage.clock.set(self._free_at(turn.at, f"Turn {stage.turn_number + 1}"))
        stage.turn_number, stage.turn = stage.turn_number + 1, turn
        message = Message(
            text=turn.user,
            file_ids=tuple([await self._library.file(file) for file in turn.files]),
            timezone=turn.timezone or self._trace.head.timezone,
            models=(self._model,),
            dynamic=tuple(turn.dynamic_context),
            choices=Choices(layout=turn.layout),
        )
        turn_id = await self._sent(core, message)
        before = len(stage.summaries)
        packets = [decode_packet(data) async for batch in core.chat.stream(OWNER, turn_id) for _, data in batch]
        await core.chat.rest(CONVERSATION)
        await self._note_summaries(before)
        requests = [r for r in await self._store.requests(OWNER, turn_id) if r.purpose != "summary"]
        first = len(self._found)
        self._found += [self._replayed(number, record) for number, record in enumerate(requests, first + 1)]
        stage.release()
        await self._work()
        events = events_of(packets, self._fresh, self._waiting)
        self._fresh = []
        if events:
            self._waiting = []
        for place in range(first, first + len(requests)):
            replayed = self._found[place]
            self._found[place] = replace(replayed, events=(*events.get(replayed.record.id, ()), *replayed.events))

    async def _sent(self, core: Core, message: Message) -> str:
        """Begin a turn. One that needs a compaction first waits for it, and then no summary is held back."""
        sending = asyncio.ensure_future(core.chat.send(OWNER, CONVERSATION, message))
        self._jobs.open, held, waited = True, len(self._stage.held), 0.0
        while not sending.done():
            await asyncio.wait({sending}, timeout=0.05)
            waited += 0.05
            if len(self._stage.held) > held or waited > LONGEST_WAIT:
                self._stage.release(everything=True)
        self._jobs.open = False
        return sending.result()

    def _replayed(self, number: int, record: RequestRecord) -> Replayed:
        """A request with what was sent for it: the first body of its script that is not taken yet."""
        stage = self._stage
        body = stage.bodies[script_id(stage.turn_number, record.purpose, record.step)].pop(0)
        events: tuple[Event, ...] = ()
        if record.error is not None:
            events = (("error", str(record.error.get("message"))),)
        return Replayed(number, stage.turn_number, record, body, events)
