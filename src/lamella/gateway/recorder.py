"""Records what passed the gateway: its line, its bill, what was predicted, and why not more was read.

It works beside the streams, one exchange after the other, from a bounded queue. If the queue is full the record of an
exchange is dropped, never the exchange, and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import ParamSpec, TypeVar

import msgspec
import structlog

from lamella.agent.container import OpenStep, StepBirth
from lamella.agent.request import zones_of
from lamella.cache.difference import CLIENT, difference
from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, Plan, note_billed, note_written, predicted
from lamella.cache.why import Evidence, Why, why
from lamella.cache.window import Chain, chain, window_of
from lamella.context.layouts import DEFAULT
from lamella.core.clock import Clock
from lamella.core.errors import LamellaError
from lamella.core.ids import Ids
from lamella.core.messages import Step, StopReason, Text, ToolResult
from lamella.core.models import Markers
from lamella.core.prompt import Kind, Marker, Ttl
from lamella.core.records import (
    Caller,
    Line,
    NewRequest,
    ObservedRequest,
    RequestRecord,
    StoredBlock,
    StoredMarker,
)
from lamella.core.tokens import Usage
from lamella.gateway.additions import wanted_markers, with_markers
from lamella.gateway.answers import read_answer
from lamella.gateway.dialects import (
    Dialect,
    ObservedWindow,
    effort_of,
    rough_tokens_of,
    salts_of,
    text_of,
)
from lamella.gateway.exchange import BlockWeights, Exchange, Recorded, window_of_exchange
from lamella.gateway.matching import Match, Relation, answer_digest, label_of, match, title_of_message
from lamella.storage import Store

log = structlog.get_logger()

WAITING = 500
"""Exchanges that may wait for their record."""

WAITING_BYTES = 256_000_000
"""Bytes of bodies and answers that may wait."""

GOES_ON_FOR = timedelta(hours=24)
"""For so long a request may go on a line that names no session."""

SESSIONS_LAST = timedelta(days=30)
"""For so long a request may go on a line of its session."""

DROPS_TOLD = 1_000
"""Of so many records that are dropped the first is logged."""

LONG_BYTES = 40_000
"""A body from which on its blocks are read in a thread."""

HUGE_BYTES = 250_000
"""A body from which on tokens are only estimated for its markers: counting 2 MB takes 0.3 s, and the request waits."""

_MARKER = b'"cache_control"'
P = ParamSpec("P")
T = TypeVar("T")


class LineRecorder:
    """The recorder of a server."""

    def __init__(self, store: Store, ledger: Ledger, clock: Clock, ids: Ids) -> None:
        self._store, self._ledger, self._clock, self._ids = store, ledger, clock, ids
        self._weights = BlockWeights()
        self._watching: set[tuple[str, asyncio.Queue[Recorded]]] = set()
        self._queue: asyncio.Queue[Exchange] = asyncio.Queue()
        self._bytes = 0
        self._working: asyncio.Task[None] | None = None
        self.dropped = 0
        """Exchanges without a record, because too many waited."""

    async def mark(self, exchange: Exchange) -> None:
        """Add markers to a body that has none, if they pay. A body that can't get any is not read."""
        takes_markers = exchange.dialect is Dialect.MESSAGES and exchange.route.facts.markers is Markers.ANTHROPIC
        if not takes_markers or _MARKER in exchange.body:
            return
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the upstream refuses it
            is_huge = len(exchange.body) > HUGE_BYTES
            window = await _aside(exchange, window_of_exchange, exchange, rough_tokens_of if is_huge else self._weights)
            keys, facts = _keys(window, exchange, exchange.route.facts.token_factor)
            added = wanted_markers(window, keys, self._ledger, facts)
            if added:
                exchange.body = await _aside(exchange, with_markers, exchange.body, window, added)
                exchange.added = added

    def take(self, exchange: Exchange) -> None:
        """Record what passed, later; never waits."""
        size = len(exchange.body) + exchange.size
        if self._queue.qsize() >= WAITING or self._bytes + size > WAITING_BYTES:
            self.dropped += 1
            if self.dropped % DROPS_TOLD == 1:
                waiting = self._queue.qsize()
                log.warning("clients' requests are not recorded: too many wait", waiting=waiting, dropped=self.dropped)
            return
        self._bytes += size
        self._queue.put_nowait(exchange)

    def start(self) -> None:
        """Begin to record."""
        self._working = asyncio.create_task(self._work())

    @asynccontextmanager
    async def watch(self, caller: Caller) -> AsyncIterator[AsyncIterator[Recorded]]:
        """The records of a user as they are made."""
        queue: asyncio.Queue[Recorded] = asyncio.Queue(WAITING)
        entry = (caller.user_id, queue)
        self._watching.add(entry)
        try:
            yield _taken(queue)
        finally:
            self._watching.discard(entry)

    async def drain(self) -> None:
        """Wait until everything that was taken is stored."""
        await self._queue.join()

    async def close(self) -> None:
        """Store what waits, and end."""
        await self.drain()
        if self._working is not None:
            self._working.cancel()
            with suppress(asyncio.CancelledError):
                await self._working

    async def _work(self) -> None:
        while True:
            exchange = await self._queue.get()
            try:
                await self._record(exchange)
            except LamellaError as error:
                log.error("a client's request was not recorded", error=error.message)
            except Exception as error:  # a record that fails must not end those that follow
                log.error("a client's request was not recorded", exc_info=error)
            finally:
                self._bytes -= len(exchange.body) + exchange.size
                self._queue.task_done()

    async def _record(self, exchange: Exchange) -> None:
        window = await asyncio.to_thread(window_of_exchange, exchange, self._weights)
        since = exchange.at - (SESSIONS_LAST if exchange.session else GOES_ON_FOR)
        lines = await self._store.lines.candidates(exchange.caller, window.keys, exchange.session, since)
        found = await asyncio.to_thread(match, window, exchange.session, lines)
        before = None
        if found.line is not None:
            before = await self._store.requests.request(exchange.caller, found.line.request_id)
        # Ids and the ledger belong to the event loop; what takes time with a long answer goes to a thread.
        step = self._opened(exchange, window, before)
        error = await asyncio.to_thread(read_answer, exchange, step)
        observed = self._observed(exchange, window, found, before, step, error)
        await self._store.lines.add_request(exchange.caller, observed)
        explained = await self._explain(exchange, observed, before)
        line = observed.line
        if explained.lost:
            lost, cost = line.lost + explained.lost, line.lost_cost + (explained.lost_cost or 0.0)
            line = replace(line, breaks=line.breaks + 1, lost=lost, lost_cost=cost)
        recorded = Recorded(line, observed.request.record, found.relation, explained)
        for user_id, queue in self._watching:
            if user_id == exchange.caller.user_id and not queue.full():
                queue.put_nowait(recorded)

    async def _explain(self, exchange: Exchange, observed: ObservedRequest, before: RequestRecord | None) -> Why:
        """Why a request read what it read, counted on its line if it lost something."""
        request, data = observed.request.record, dict[str, bytes]()
        if before is not None and difference(before, request, {}) is not None:
            for one in (before, request):
                blocks = await self._store.requests.blocks(exchange.caller, one.id)
                data |= {block.digest: block.data for block in blocks}
        explained = await asyncio.to_thread(why, Evidence(request, before, (), exchange.route.facts, data))
        if explained.lost:
            cost = explained.lost_cost or 0.0
            await self._store.lines.note_break(exchange.caller, observed.line.id, explained.lost, cost)
        return explained

    def _opened(self, exchange: Exchange, window: ObservedWindow, before: RequestRecord | None) -> OpenStep:
        """The step into which the answer is read."""
        local = sum(segment.tokens for segment in window.segments)
        expected = Usage(input=round(_calibration(exchange, before) * local))
        return OpenStep(StepBirth(self._ids.new("msg"), self._ids.new("req"), window.model, "", "", expected), set())

    def _observed(
        self,
        exchange: Exchange,
        window: ObservedWindow,
        found: Match,
        before: RequestRecord | None,
        opened: OpenStep,
        error: LamellaError | None,
    ) -> ObservedRequest:
        """The rows of an exchange. `before` is the newest request of its line, `opened` the answer."""
        begins = _begins(window, found)
        plan, facts = _plan(window, exchange, self._ledger, before)
        usage = opened.usage if opened.is_billed or opened.usage.input else None
        if exchange.status == 200:
            note_written(plan, self._ledger, facts)
            if usage is not None:
                note_billed(plan, usage, self._ledger, facts)
        line = self._line(exchange, window, found, begins, opened.birth.request_id)
        step_number = 0 if begins is not None or before is None else before.step + 1
        record = _record(exchange, window, plan, facts, line, step_number, opened, usage, error)
        line = _with_bill(line, record, opened, exchange)
        step = _step(opened)
        results = _results(window)
        return ObservedRequest(
            line,
            found.line is None,
            begins,
            title_of_message(begins or ""),
            step,
            results,
            _new_request(record, window, before),
            self._clock.now(),
            DEFAULT,
        )

    def _line(
        self, exchange: Exchange, window: ObservedWindow, found: Match, begins: str | None, request_id: str
    ) -> Line:
        old = found.line
        turn_id = self._ids.new("turn") if begins is not None or old is None else old.turn_id
        run_id = self._ids.new("run") if begins is not None or old is None else old.run_id
        newest = {
            "model": exchange.route.model,
            "keys": window.keys,
            "tip": window.keys[-1] if window.keys else "",
            "system": window.system,
            "request_id": request_id,
            "turn_id": turn_id,
            "run_id": run_id,
            "at": exchange.at,
        }
        if old is not None:
            more_turns = old.turns + (begins is not None)
            return replace(old, **newest, requests=old.requests + 1, turns=more_turns)  # type: ignore[arg-type]
        return Line(
            id=self._ids.new("conv"),
            client=exchange.client,
            session=exchange.session,
            dialect=exchange.dialect,
            label=label_of(window),
            opening=len(window.keys),
            answer="",
            begun_at=exchange.at,
            requests=1,
            turns=1,
            **newest,  # type: ignore[arg-type]
        )


@asynccontextmanager
async def recording(store: Store, ledger: Ledger, clock: Clock, ids: Ids) -> AsyncIterator[LineRecorder]:
    """A recorder that works until the block ends, and then stores what waits."""
    recorder = LineRecorder(store, ledger, clock, ids)
    recorder.start()
    try:
        yield recorder
    finally:
        await recorder.close()


async def _taken(queue: asyncio.Queue[Recorded]) -> AsyncIterator[Recorded]:
    while True:
        yield await queue.get()


async def _aside(exchange: Exchange, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do it in a thread if the body is long, so that it holds up no stream."""
    if len(exchange.body) > LONG_BYTES:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


def _begins(window: ObservedWindow, found: Match) -> str | None:
    """The user's message with which a turn begins; None for a step of the turn before."""
    if found.relation is Relation.AGAIN:
        return None
    tail: list[str] = []
    for role, text, step in zip(
        reversed(window.roles), reversed(window.texts), reversed(window.is_follow_up), strict=True
    ):
        if step:
            break
        if role == "user":
            tail.append(text)
    if not tail and found.line is not None:
        return None
    return tail[0] if tail else ""


def _plan(
    window: ObservedWindow, exchange: Exchange, ledger: Ledger, before: RequestRecord | None
) -> tuple[Plan, Facts]:
    """What was to be read and written, by the caller's own markers."""
    model, calibration = exchange.route.facts, _calibration(exchange, before)
    keys, facts = _keys(window, exchange, calibration)
    planned = window_of(keys, facts.segments, model, calibration)
    return predicted(planned, _markers(window, exchange, keys, ledger, facts), (), ledger, facts), facts


PROVIDERS = "placed by the provider"

ENDINGS = 21
"""Endings of messages at which OpenAI looks for what it cached without a marker."""


def _markers(
    window: ObservedWindow, exchange: Exchange, keys: Chain, ledger: Ledger, facts: Facts
) -> tuple[Marker, ...]:
    """The caller's markers, those that were added here, and where OpenAI caches by itself: it writes at the last
    ending, and reads at the deepest that it knows.
    """
    markers = {one.index: one for one in exchange.added or window.markers}
    if facts.model.markers is Markers.OPENAI and window.endings:
        *before, last = window.endings[-ENDINGS:]
        known = [index for index in before if ledger.live(keys.keys[index], facts.now) is not None]
        for index in (*known[-1:], last):
            markers.setdefault(index, Marker(index, Ttl.THIRTY_MINUTES, PROVIDERS))
    return tuple(markers[index] for index in sorted(markers))


def _calibration(exchange: Exchange, before: RequestRecord | None) -> float:
    """The provider's tokens per local token, by the bill of the request before."""
    if before is not None and before.usage is not None and before.local_tokens and before.usage.input:
        return before.usage.input / before.local_tokens
    return exchange.route.facts.token_factor


def _keys(window: ObservedWindow, exchange: Exchange, calibration: float) -> tuple[Chain, Facts]:
    """The keys of the window's prefixes, and what the planner needs."""
    model = exchange.route.facts
    segments = {segment.id: segment for segment in window.segments}
    keys = chain(window.blocks, f"{exchange.route.account}/{model.name}", salts_of(window))
    return keys, Facts(model, segments, calibration, exchange.at)


def _record(
    exchange: Exchange,
    window: ObservedWindow,
    plan: Plan,
    facts: Facts,
    line: Line,
    step: int,
    opened: OpenStep,
    usage: Usage | None,
    error: LamellaError | None,
) -> RequestRecord:
    local = sum(segment.tokens for segment in window.segments)
    return RequestRecord(
        id=line.request_id,
        conversation_id=line.id,
        turn_id=line.turn_id,
        run_id=line.run_id,
        step=step,
        purpose="chat",
        model=exchange.route.model,
        layout=CLIENT,
        marker_policy="planner" if exchange.added else CLIENT if plan.markers else "off",
        thinking_effort=effort_of(window),
        at=exchange.at,
        head=window.head,
        letters=" ".join(segment.letters for segment in window.segments),
        segments=window.stored,
        zones=zones_of(window.segments),
        markers=tuple(StoredMarker(m.index, m.ttl.value, m.why) for m in plan.markers),
        notes=(),
        protocol=window.dialect.value,
        local_tokens=local,
        estimate=round(facts.calibration * local),
        budget=facts.model.window,
        predicted_read=plan.read,
        predicted_written=plan.written,
        predicted_hit=plan.hit,
        provider_request_id=exchange.headers.get("request-id") or exchange.headers.get("x-request-id"),
        answer_id=opened.answer_id,
        diagnosis=opened.diagnosis,
        usage=usage,
        cost=facts.model.cost(usage) if usage is not None else None,
        error=error.as_dict() if error is not None else None,
    )


def _with_bill(line: Line, record: RequestRecord, opened: OpenStep, exchange: Exchange) -> Line:
    said = "".join(part.text for part in opened.parts() if isinstance(part, Text))
    return replace(
        line,
        answer=answer_digest(said),
        usage=line.usage + (record.usage or Usage()),
        cost=line.cost + (record.cost or 0.0),
        saved=line.saved + (_saved(record, exchange) if exchange.added else 0.0),
    )


def _saved(record: RequestRecord, exchange: Exchange) -> float:
    """What the markers that were added here saved, in US dollars: the cost if nothing had been cached, less the cost.
    Below zero if what they wrote was not read yet.
    """
    usage = record.usage
    if usage is None or record.cost is None:
        return 0.0
    return exchange.route.facts.cost(Usage(input=usage.input, output=usage.output)) - record.cost


def _step(opened: OpenStep) -> Step | None:
    """The answer as a step; None if nothing of one came."""
    if not opened.has_blocks:
        return None
    birth = opened.birth
    stop = opened.stop_reason or StopReason.END_TURN
    return Step(birth.id, birth.model, opened.parts(), stop, "", opened.usage.output)


def _results(window: ObservedWindow) -> Sequence[ToolResult]:
    """The results of calls that the newest messages bring."""
    found: list[ToolResult] = []
    for group, step in zip(reversed(window.groups), reversed(window.segments), strict=True):
        if step.kind is not Kind.STEP or group[0].role == "assistant":
            break
        for block in group:
            value = block.value
            call = value.get("tool_use_id") or value.get("tool_call_id") or value.get("call_id")
            said = value.get("content") if "content" in value else value.get("output")
            content = said if isinstance(said, str) else text_of([{"role": "tool", "content": said or []}])
            if isinstance(call, str):
                found.append(ToolResult(call, "", content, is_error=bool(value.get("is_error"))))
    return found[::-1]


def _new_request(record: RequestRecord, window: ObservedWindow, before: RequestRecord | None) -> NewRequest:
    """The row of a request, as its difference to the one before on its line."""
    shared = 0
    if before is not None:
        pairs = zip(record.segments, before.segments, strict=False)
        same = next((n for n, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
        shared = min(len(record.segments), len(before.segments)) if same is None else same
    fresh = [block for group in window.groups[shared:] for block in group]
    blocks = {b.digest: StoredBlock(b.digest, b.level, b.role, b.data) for b in fresh}
    return NewRequest(record, before.id if before is not None and shared else None, shared, tuple(blocks.values()))
