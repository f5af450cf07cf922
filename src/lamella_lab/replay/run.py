"""The run of a replay: turns go through the real chat and engine, and between them things change as the trace says.

Each request is reported with what happened on the way to it, and with the least that its input could have cost under
the provider's cache rules (`lower_bound`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from lamella.core.clock import VirtualClock
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.models import ModelFacts
from lamella.core.packets import AnyPacket, ContextDegraded, RequestStarted
from lamella.core.records import PageQuery, RequestRecord, StoredSegment
from lamella.core.tokens import Usage
from lamella.llm.model_table import ModelTable
from lamella.storage.file_store import FolderFiles
from lamella.storage.store import Store
from lamella_lab.replay.background import KINDS
from lamella_lab.replay.conversation import CONVERSATION, ReplayedConversation
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.replay.events import ReplayEvents
from lamella_lab.replay.library import OWNER
from lamella_lab.replay.models import ReplayModels
from lamella_lab.replay.options import ReplayOptions, applied
from lamella_lab.replay.playback import BESIDE, Playback, Script
from lamella_lab.replay.report import Event, Replayed, ReplayReport, made_then
from lamella_lab.trace.format import (
    AgentChange,
    BaseChange,
    CompactChange,
    PreferChange,
    ProjectChange,
    PruneChange,
    RestartChange,
    ResumeChange,
    SetChange,
    SystemChange,
    ToolsChange,
    Trace,
    TraceChange,
    TraceCommand,
    TraceTurn,
)


def events_of(
    packets: Sequence[AnyPacket], decisions: Sequence[Decision], before: Sequence[Event]
) -> Mapping[str, Sequence[Event]]:
    """The events by request, in order. What happened `before` the turn, and settings, are told with its first one."""
    degraded: list[tuple[str, ContextDegraded]] = []
    requests: list[str] = []
    waiting: list[ContextDegraded] = []
    for packet in packets:
        match packet:
            case ContextDegraded():
                waiting.append(packet)
            case RequestStarted(request_id=request_id):
                requests.append(request_id)
                degraded += ((request_id, told) for told in waiting)
                waiting = []
            case _:
                pass
    events: dict[str, list[Event]] = {id: [] for id in requests}
    if requests:
        settings = [(d.subject, d.why) for d in decisions if d.kind is DecisionKind.SETTING]
        events[requests[0]] += (*before, *settings)
    for request_id, told in degraded:
        events[request_id].append((_kind_of(told, decisions), told.why))
    return events


def _kind_of(packet: ContextDegraded, decisions: Iterable[Decision]) -> str:
    """The kind of the decision that a packet tells of."""
    named = (d.kind.value for d in decisions if d.subject == packet.subject and packet.why.startswith(d.why))
    return next(named, "degraded")


LONGEST_LIFE = 3600
"""Seconds: no entry of any provider at hand lives longer without use."""


@dataclass(frozen=True, slots=True)
class BilledRequest:
    """What the bound is computed from."""

    at: datetime
    segments: tuple[StoredSegment, ...]
    usage: Usage

    def prefixes(self) -> Iterator[tuple[int, float]]:
        """Each prefix of the window: a fingerprint, and its share of the billed input."""
        whole = sum(segment.tokens for segment in self.segments)
        key, tokens = 0, 0
        for segment in self.segments:
            key, tokens = hash((key, segment.blocks)), tokens + segment.tokens
            yield key, self.usage.input * tokens / whole if whole else 0.0


def lower_bound(requests: Sequence[BilledRequest], facts: ModelFacts) -> float:
    """US dollars of input that no placement of markers can go below, for the same windows.

    A token is read where an earlier request had it in the same prefix and not too long ago; else it is written where a
    later request can read it, and plain where none can. Minimum sizes and shorter lives are left out. What two
    requests share is apportioned by local weight: that is the error of the bound, a few percent on short traces.
    """
    billed = [request for request in requests if request.usage.input]
    before, after = _shared(billed), _shared(billed[::-1])[::-1]
    price = facts.price
    write = max(1.0, min(price.write_5m, price.write_1h))
    total = 0.0
    for request, read, read_later in zip(billed, before, after, strict=True):
        tokens = request.usage.input
        written = max(0, read_later - read)
        units = read * price.read + written * write + (tokens - read - written)
        tier = price.tier_factor if price.tier_above and tokens > price.tier_above else 1.0
        total += tier * units * price.input / 1_000_000
    return total


def _shared(requests: Sequence[BilledRequest]) -> list[int]:
    """For each request the tokens of its longest prefix that one before it in this order had, not too far in time."""
    seen: dict[int, tuple[datetime, float]] = {}
    found = []
    for request in requests:
        longest = 0.0
        prefixes = list(request.prefixes())
        for key, _ in prefixes:
            at, tokens = seen.get(key, (None, 0.0))
            if at is not None and abs((request.at - at).total_seconds()) <= LONGEST_LIFE:
                longest = tokens
        seen |= {key: (request.at, tokens) for key, tokens in prefixes}
        found.append(min(round(longest), request.usage.input))
    return found


def bound_of(records: Iterable[RequestRecord], facts_of: Callable[[str], ModelFacts]) -> float:
    """US dollars of input, for the requests of a conversation together: `lower_bound` of each line of them.

    A cache belongs to one model. A summary reads the conversation's prefix, a digest shares nothing with it.
    """

    def line(record: RequestRecord) -> tuple[str, str]:
        return record.model, "chat" if record.purpose == "summary" else record.purpose

    return sum(
        lower_bound([BilledRequest(r.at, r.segments, r.usage or Usage()) for r in of_line], facts_of(model))
        for (model, _), of_line in groupby(sorted(records, key=line), key=line)
    )


LONGEST = 100_000
"""Turns of a replay."""


async def replay(
    trace: Trace, options: ReplayOptions | None = None, environment: ReplayEnvironment | None = None
) -> ReplayReport:
    """Run a trace; raises `InvalidRequest` for one that can't be, `ConfigurationError` for a file of models that can't,
    and what the engine raises before a turn begins.

    `environment` may be shared by replays that follow each other.
    """
    options = options or ReplayOptions()
    trace, table = applied(trace, options), ModelTable.read(options.models)
    async with AsyncExitStack() as stack:
        stands = environment or ReplayEnvironment()
        if environment is None:
            stack.push_async_callback(stands.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lamella-replay-")))
        store = await stack.enter_async_context(stands.store(folder))
        first = trace.entries[0].at if trace.entries else datetime.fromtimestamp(0, UTC)
        playback = Playback(VirtualClock(first), trace.head.side, plays=trace.is_played)
        models = ReplayModels(stands, await stands.prepare(trace), trace.head, playback, table)
        conversation = ReplayedConversation(trace, store, FolderFiles(folder / "files"), models)
        stack.push_async_callback(conversation.close)
        return await _Replay(trace, conversation, models, store).run()


class _Replay:
    """One replay: its entries in order, and what was found so far."""

    def __init__(self, trace: Trace, conversation: ReplayedConversation, models: ReplayModels, store: Store) -> None:
        self._trace = trace
        self._conversation = conversation
        self._store = store
        self._models = models
        self._stage = conversation.playback
        self._happenings = ReplayEvents(store, store.jobs, OWNER, CONVERSATION)
        self._found: list[Replayed] = []
        self._beside: dict[str, list[str]] = {purpose: [] for purpose in BESIDE}
        """The ids of the side requests, by purpose, in the order of sending."""
        self._decided = 0
        """Decisions that were told."""
        self._fresh: list[Decision] = []
        """Decisions since the last turn."""
        self._waiting: list[Event] = []
        """What changed since the last request; the next one tells it."""

    async def run(self) -> ReplayReport:
        """Every entry of the trace in order, then the sums."""
        await self._conversation.begin()
        for entry in self._trace.entries:
            await self._work_until(entry.at)
            self._stage.clock.set(entry.at)
            match entry:
                case TraceTurn():
                    await self._turn(entry)
                case TraceCommand():
                    await self._conversation.command(entry.user)
                    await self._work()
                case _:
                    await self._change(entry)
                    await self._work()
        self._stage.release(everything=True)
        await self._work()
        return await self._report()

    async def _report(self) -> ReplayReport:
        # What was held back has its bill only now.
        stored = [replace(r, record=await self._store.requests.request(OWNER, r.record.id)) for r in self._found]
        reads = await self._models.reads()
        found = [replace(r, read=reads.get(r.record.provider_request_id or "")) for r in stored]
        steps = [step for turn in self._trace.turns for step in turn.all_steps]
        return ReplayReport(
            requests=tuple(found),
            cost=sum(r.record.cost or 0.0 for r in found),
            input_cost=sum(
                self._models.facts(r.record.model).input_cost(r.record.usage) for r in found if r.record.usage
            ),
            bound=bound_of([r.record for r in found], self._models.facts),
            faults=any(step.fault is not None for step in steps),
            lost=max(0, made_then(self._trace) - sum(r.recorded is not None for r in found)),
            unused=self._trace.unused,
            happenings=tuple(self._happenings.found),
        )

    # Side requests and background jobs

    async def _work_until(self, at: datetime) -> None:
        """Do what is due before this moment, each when it is due."""
        while not self._stage.held:
            due = await self._store.jobs.next_due(KINDS)
            if due is None or due > at:
                return
            self._stage.clock.set(due)
            await self._work()
            if await self._store.jobs.next_due(KINDS) == due:
                return

    async def _work(self) -> None:
        """Do what is due now, and note what happened."""
        jobs = self._conversation.jobs
        sessions = self._conversation.core.sessions
        await jobs.quiet(sessions.wake, lambda: sessions.is_compacting(CONVERSATION))
        jobs.open = False
        for purpose in BESIDE:
            await self._note_beside(purpose, len(self._stage.beside[purpose]))
        known = await self._store.conversations.decisions(OWNER, CONVERSATION)
        fresh, self._decided = known[self._decided :], len(known)
        await self._happenings.look(len(self._found), fresh)
        self._fresh += [stored.decision for stored in fresh]

    async def _note_beside(self, purpose: str, until: int) -> None:
        """Number the requests for this purpose that were sent, up to so many in all."""
        noted = self._beside[purpose]
        if until <= len(noted):
            return
        page = await self._store.turns.turns(OWNER, CONVERSATION, PageQuery(limit=LONGEST, order="asc"))
        records = [r for turn in page.data for r in await self._store.requests.requests(OWNER, turn.id)]
        fresh = [r for r in records if r.purpose == purpose and r.id not in noted]
        for record in sorted(fresh, key=lambda r: r.id)[: until - len(noted)]:
            index = len(noted)
            noted.append(record.id)
            turn = self._stage.beside[purpose][index]
            self._add(record, Script(0, 0, purpose, index), turn)

    # The entries

    async def _turn(self, turn: TraceTurn) -> None:
        playback, conversation = self._stage, self._conversation
        if turn.told:
            await conversation.ended(turn, await conversation.tell(turn))
            await self._work()
            return
        turn_id = await conversation.send(turn)
        before = {purpose: len(playback.beside[purpose]) for purpose in BESIDE}
        packets = await conversation.answered(turn_id)
        for purpose in BESIDE:
            await self._note_beside(purpose, before[purpose])
        runs = {run.id: run.index for run in (await self._store.turns.turn(OWNER, turn_id)).runs}
        first = len(self._found)
        for record in await self._store.requests.requests(OWNER, turn_id):
            if record.purpose not in BESIDE:
                run = runs.get(record.run_id or "", 0)
                self._add(record, Script(playback.turn_number, run, record.purpose, record.step), playback.turn_number)
        last = len(self._found)
        playback.release()
        await conversation.ended(turn, turn_id)
        await self._work()
        events = events_of(packets, self._fresh, self._waiting)
        self._fresh = []
        if events:
            self._waiting = []
        for place in range(first, last):
            replayed = self._found[place]
            self._found[place] = replace(replayed, events=(*events.get(replayed.record.id, ()), *replayed.events))

    def _add(self, record: RequestRecord, script: Script, turn: int) -> None:
        """Note a request with what was sent for it: the first body of its script that is not taken yet.

        One that was stopped before it was sent has none, and is left out.
        """
        bodies = self._stage.bodies[script.id]
        if not bodies:
            return
        sent, events = bodies.pop(0), []
        if record.error is not None:
            events.append(("error", str(record.error.get("message"))))
        number = len(self._found) + 1
        self._found.append(
            Replayed(number, turn, record, sent.body, tuple(events), run=script.run, recorded=sent.recorded)
        )

    async def _change(self, change: TraceChange) -> None:
        conversation = self._conversation
        match change:
            case SetChange():
                self._waiting += await conversation.set(change)
            case AgentChange(agent=agent):
                await conversation.use_agent(agent)
            case ProjectChange(project=project):
                await conversation.use_project(project)
            case ToolsChange(tools=tools):
                await conversation.equip(tools)
            case SystemChange(system=system):
                await conversation.use_system(system)
            case BaseChange(base=base, grant=grant):
                await conversation.grant(base, grant)
            case RestartChange():
                await conversation.start()
                self._waiting.append(("restart", "the server started again"))
            case PreferChange(turn=turn, run=run, latest=latest):
                await conversation.prefer(turn, run, latest=latest)
            case ResumeChange(session=session):
                await conversation.command(f"/resume {session}")
            case CompactChange(request=request):
                await conversation.compact(request)
            case PruneChange(turn=turn, run=run, step=step, numbers=numbers):
                await conversation.prune(turn, run, step, numbers)
