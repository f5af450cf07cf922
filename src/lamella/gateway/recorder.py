"""Records what passed the gateway: its line, its bill, what was predicted, and why not more was read.

It works beside the streams, one exchange after the other, from a bounded queue. If the queue is full the record of an
exchange is dropped, never the exchange, and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import ParamSpec, TypeVar

import msgspec
import structlog

from lamella.agent.container import OpenStep, StepBirth
from lamella.cache.difference import difference
from lamella.cache.ledger import Ledger
from lamella.cache.planner import Facts, Plan, note_billed, note_written
from lamella.cache.why import Evidence, Why, why
from lamella.context.layouts import DEFAULT
from lamella.core.access import LineStorage
from lamella.core.clock import Clock
from lamella.core.errors import ClientLoops, HeadMoved, LamellaError, NotFound, QueueFull, StoreFailed
from lamella.core.ids import Ids
from lamella.core.models import Markers
from lamella.core.records import Caller, Line, LoopAlarm, ObservedRequest, Place, RequestRecord, StoredDecision
from lamella.core.tokens import Usage
from lamella.gateway.additions import wanted_markers, with_markers
from lamella.gateway.answers import read_billed
from lamella.gateway.dialects import Dialect, ObservedWindow, rough_tokens_of, said_digest
from lamella.gateway.exchange import BlockWeights, Exchange, Recorded, window_of_exchange, windows_of_exchange
from lamella.gateway.issued import IssuedResponses
from lamella.gateway.loops import AnsweredRequest, LoopWatch, told
from lamella.gateway.managing import ManagedContext, SideRequests
from lamella.gateway.matching import Match, Relation, answer_place, earlier, match, place_after, title_of_message
from lamella.gateway.observed import Observation, keys_of, step_of_answer, text_of_answer, usage_of_answer, without_text
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

    def __init__(
        self, store: Store, ledger: Ledger, clock: Clock, ids: Ids, managed: ManagedContext | None = None
    ) -> None:
        self._store, self._ledger, self._clock, self._ids, self._managed = store, ledger, clock, ids, managed
        if managed is not None:
            managed.note = self._note
        self._weights = BlockWeights()
        self._watching: set[tuple[str, asyncio.Queue[Recorded]]] = set()
        self._queue: asyncio.Queue[Exchange | SideRequests] = asyncio.Queue()
        self._bytes = 0
        self._working: asyncio.Task[None] | None = None
        self._loops = LoopWatch()
        self.issued = IssuedResponses(store)
        """Which upstream keeps a response."""
        self.index: Callable[[Caller, str], Awaitable[None]] | None = None
        """Called after a request was stored on a line, so that a search finds its texts."""
        self.dropped = 0
        """Exchanges without a record, because too many waited."""

    async def mark(self, exchange: Exchange) -> None:
        """Add markers to a body that has none, if they pay."""
        await mark(exchange, self._ledger, self._weights)

    async def refuse_loops(self, exchange: Exchange) -> None:
        """Raises `ClientLoops` for a request of a client that loops. The body is read only while one does."""
        if not self._loops.is_alarmed(exchange.caller.user_id):
            return
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            window = await _aside(exchange, window_of_exchange, exchange, rough_tokens_of)
            alarm = self._loops.of(exchange, window)
            if alarm is not None:
                raise ClientLoops(told(alarm), hint="Stop it. Its requests are taken again after a minute without any.")

    def alarm(self, caller: Caller, line: Line) -> LoopAlarm | None:
        """The alarm of a line as it is now: whether it loops, and how many requests were refused."""
        return self._loops.alarm(caller.user_id, line.id, self._clock.now())

    def take(self, exchange: Exchange) -> None:
        """Record what passed, later; never waits."""
        exchange.ended = exchange.ended or self._clock.now()
        size = len(exchange.body) + exchange.size
        if self._queue.qsize() >= WAITING or self._bytes + size > WAITING_BYTES:
            self.dropped += 1
            if self.dropped % DROPS_TOLD == 1:
                waiting = self._queue.qsize()
                log.warning("clients' requests are not recorded: too many wait", waiting=waiting, dropped=self.dropped)
            exchange.tell(QueueFull("Too many requests wait for their record.", hint="Send it later."))
            return
        self._bytes += size
        self._queue.put_nowait(exchange)

    def _note(self, side: SideRequests) -> None:
        """Record requests that were made for a line here, after what was taken before."""
        self._queue.put_nowait(side)

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

    def is_watched(self, caller: Caller) -> bool:
        """Whether somebody follows the records of a user."""
        return any(user_id == caller.user_id for user_id, _ in self._watching)

    def tell(self, caller: Caller, recorded: Recorded) -> None:
        """Give a record to those who follow; one who is too slow misses it."""
        for user_id, queue in self._watching:
            if user_id == caller.user_id and not queue.full():
                queue.put_nowait(recorded)

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
            taken = await self._queue.get()
            try:
                await (self._record_side(taken) if isinstance(taken, SideRequests) else self._record(taken))
            except LamellaError as error:
                log.error("a client's request was not recorded", error=error.message)
            except Exception as error:  # a record that fails must not end those that follow
                log.error("a client's request was not recorded", exc_info=error)
            finally:
                if isinstance(taken, Exchange):
                    taken.tell(StoreFailed("The request was not recorded; the log of the server says why."))
                    self._bytes -= len(taken.body) + taken.size
                self._queue.task_done()

    async def _record(self, exchange: Exchange) -> None:
        await self.issued.keep(exchange)
        window, changed = await asyncio.to_thread(windows_of_exchange, exchange, self._weights)
        while True:
            try:
                return await self._record_window(exchange, window, changed)
            except HeadMoved:  # another process recorded a request of the same line
                continue

    async def _record_window(self, exchange: Exchange, window: ObservedWindow, changed: ObservedWindow | None) -> None:
        since = exchange.at - (SESSIONS_LAST if exchange.session else GOES_ON_FOR)
        lines = await self._store.lines.candidates(exchange.caller, window.keys, exchange.session, since)
        found = await asyncio.to_thread(match, window, exchange.session, lines)
        if found.line is None and (line_id := self._loops.summarised(exchange, window)) is not None:
            with suppress(NotFound):  # it was deleted
                found = Match(Relation.REWRITTEN, await self._store.lines.line(exchange.caller, line_id))
        found = await self._earlier(exchange, window, found, since)
        if found.line is not None and found.relation is Relation.NEXT:
            # It has the line's last answer, so it came later, whatever another process's clock said.
            exchange.at = max(exchange.at, found.line.at + timedelta(microseconds=1))
        elif found.after is not None:
            exchange.at = max(exchange.at, found.after.at + timedelta(microseconds=1))
        before, billed, left = await self._before(exchange, found)
        # Ids and the ledger belong to the event loop; what takes time with a long answer goes to a thread.
        seen = Observation(exchange, window, found, before, changed)
        if found.relation in (Relation.AGAIN, Relation.BRANCH) and before is not None:
            asked = before if found.relation is Relation.AGAIN else replace(before, step=before.step + 1)
            seen = replace(seen, is_answered=await self._store.lines.is_answered(exchange.caller, asked))
        if self._ledger.is_shared:
            await self._ledger.read(seen.keys)
        plan, facts = seen.plan(self._ledger)
        answer = self._opened(seen, plan)
        error = await asyncio.to_thread(read_billed, exchange, answer)
        observed = self._observed(seen, answer, error, plan, facts)
        observed = self._with_alarm(seen, observed, answer)
        if exchange.storage is LineStorage.HASHES:
            observed = without_text(observed)
        branch = await self._go_to(seen, observed)
        await self._store.lines.add_request(exchange.caller, observed)
        await self._keep_place(seen, observed, answer)
        if self.index is not None and exchange.storage is LineStorage.FULL:
            await self.index(exchange.caller, observed.line.id)
        explained = await self._explain(exchange, observed, billed, left, branch)
        await self._follow(seen, observed, answer)
        line = observed.line
        if explained.lost and not seen.decisions:
            lost, cost = line.lost + explained.lost, line.lost_cost + (explained.lost_cost or 0.0)
            line = replace(line, breaks=line.breaks + 1, lost=lost, lost_cost=cost)
        recorded = Recorded(line, observed.request.record, found.relation, explained)
        self.tell(exchange.caller, recorded)
        exchange.tell(recorded)

    async def _earlier(self, exchange: Exchange, window: ObservedWindow, found: Match, since: datetime) -> Match:
        """The match of a request, which may go on from an earlier answer than the newest one of a line."""
        name, said = answer_place(window, exchange.session), window.newest_answer[1]
        if not name or found.relation is Relation.AGAIN:
            return found
        known = (await self._store.threads.thread(exchange.caller, name)).turns
        if not known:
            return found
        with suppress(NotFound):  # it was removed
            after = await self._store.requests.request(exchange.caller, max(known))
            line = await self._store.lines.line(exchange.caller, after.conversation_id)
            its_own = found.relation is Relation.NEXT and found.line is not None and bool(said)
            if its_own and found.line is not None and found.line.request_id in known:
                return found  # two lines that were alike until now
            return earlier(window, found, line, after) if after.at > since else found
        return found

    async def _keep_place(self, seen: Observation, observed: ObservedRequest, answer: OpenStep) -> None:
        """Remember where an answer is, so that a later request is found to go on from it: see `answer_place`."""
        window, session, line = seen.window, seen.exchange.session, observed.line
        said = said_digest(text_of_answer(answer), answer.call_ids.values())
        names = [place_after(window, session, len(window.keys), said)] if said else []
        if session is not None and "assistant" not in window.roles:
            names.append(place_after(window, session, len(window.keys), ""))
        for name in names:
            await self._store.threads.name_messages(seen.exchange.caller, name, line.turn_id, [line.request_id])

    async def _go_to(self, seen: Observation, observed: ObservedRequest) -> StoredDecision | None:
        """Let the line stand at the answer that a request goes on from. Raises `HeadMoved`."""
        before, line = seen.before, observed.line
        if seen.found.relation is not Relation.BRANCH or before is None:
            return None
        caller, at = seen.exchange.caller, seen.exchange.at
        decision, place = seen.branch(line.turn_id), Place(before.turn_id, before.run_id)
        head = (await self._store.conversations.conversation(caller, line.id)).place
        made = (decision,) if decision is not None else ()
        await self._store.branches.go_to(caller, line.id, head, place, at, made)
        return StoredDecision("", at, decision) if decision is not None else None

    async def _before(self, exchange: Exchange, found: Match) -> tuple[RequestRecord | None, ...]:
        """The request before this one, the newest before it that was billed (what failed wrote nothing to the cache),
        and the newest of the branch that this one left.
        """
        if found.line is None:
            return None, None, None
        caller, line_id = exchange.caller, found.line.id
        before = found.after or await self._store.requests.request(caller, found.line.request_id)
        is_billed = before.usage is not None and before.usage.is_measured
        newest = None
        if found.relation is Relation.BRANCH or not is_billed:
            newest = await self._store.requests.billed_request(caller, line_id)
        left = newest if found.relation is Relation.BRANCH else None
        return before, before if is_billed else newest or before, left

    def _with_alarm(self, seen: Observation, observed: ObservedRequest, answer: OpenStep) -> ObservedRequest:
        """The same with the alarm of its line, if its client loops; that is logged once in an hour."""
        exchange, line, cost = seen.exchange, observed.line, observed.request.record.cost or 0.0
        said, ended = text_of_answer(answer), exchange.ended or exchange.at
        alarm = self._loops.note(AnsweredRequest(exchange, seen.window, seen.found.relation, line, said, cost, ended))
        if alarm is None:
            return observed
        if self._loops.is_news(line.id, ended):
            log.warning("a client loops", line=line.id, client=line.client, told=told(alarm))
        return replace(observed, line=replace(line, alarm=alarm))

    async def _explain(
        self,
        exchange: Exchange,
        observed: ObservedRequest,
        before: RequestRecord | None,
        left: RequestRecord | None,
        branch: StoredDecision | None,
    ) -> Why:
        """Why a request read what it read, counted on its line if it lost something."""
        request, data = observed.request.record, dict[str, bytes]()
        for other in (before, left):
            if other is None or difference(other, request, {}) is None:
                continue
            for one in (other, request):
                blocks = await self._store.requests.blocks(exchange.caller, one.id)
                data |= {block.digest: block.data for block in blocks}
        decided = tuple(StoredDecision("", request.at, one) for one in observed.request.decisions)
        placed = (*decided, branch) if branch is not None else decided
        evidence = Evidence(request, before, placed, exchange.route.facts, data, left if branch is not None else None)
        explained = await asyncio.to_thread(why, evidence)
        if explained.lost and not decided:
            cost = explained.lost_cost or 0.0
            await self._store.lines.note_break(exchange.caller, observed.line.id, explained.lost, cost)
        return explained

    async def _follow(self, seen: Observation, observed: ObservedRequest, answer: OpenStep) -> None:
        """Note which replacements a request had, and do what is due after it."""
        exchange, line, record = seen.exchange, observed.line, observed.request.record
        if exchange.managed is None or self._managed is None:
            return
        for one in exchange.managed.change.made:
            await self._store.lines.use_replacement(exchange.caller, one.id, line.id, record.id)
        factor = seen.calibration
        if record.usage is not None and record.usage.is_measured and record.local_tokens:
            factor = record.usage.input / record.local_tokens
        await self._managed.after(exchange, line, answer, factor)

    async def _record_side(self, side: SideRequests) -> None:
        for number, request in enumerate(side.requests):
            record = replace(request.record, conversation_id=side.line.id, turn_id=side.line.turn_id)
            compactions = side.compactions if number == len(side.requests) - 1 else 0
            made = replace(request, record=record)
            cost = record.cost or 0.0
            await self._store.lines.add_side_request(side.exchange.caller, made, -cost, compactions)

    def _opened(self, seen: Observation, plan: Plan) -> OpenStep:
        """The step into which the answer is read."""
        whole = round(seen.calibration * seen.local_tokens)
        expected = Usage(input=whole, cache_read=min(plan.read, whole))
        ids = self._ids.new("msg"), self._ids.new("req")
        return OpenStep(StepBirth(*ids, seen.window.model, "", "", expected, seen.calibration), set())

    def _observed(
        self, seen: Observation, answer: OpenStep, error: LamellaError | None, plan: Plan, facts: Facts
    ) -> ObservedRequest:
        """The rows of an exchange."""
        begins, usage, old = seen.begins, usage_of_answer(answer), seen.found.line
        if seen.exchange.status == 200:
            note_written(plan, self._ledger, facts)
            if usage is not None:
                note_billed(plan, usage, self._ledger, facts)
        of: Line | RequestRecord | None = old if begins is None and seen.again is None else None
        of = seen.found.after if of is not None and seen.found.after is not None else of
        turn_id, run_id = (of.turn_id, of.run_id or "") if of else (self._ids.new("turn"), self._ids.new("run"))
        line = seen.line(self._ids.new("conv") if old is None else old.id, turn_id, run_id, answer.birth.request_id)
        record = seen.record(line, answer, error, plan, facts)
        return ObservedRequest(
            seen.with_bill(line, record, answer),
            old is None,
            begins,
            title_of_message(begins or ""),
            step_of_answer(answer),
            seen.results,
            seen.new_request(record),
            self._clock.now(),
            DEFAULT,
            seen.again,
            old,
        )


async def mark(exchange: Exchange, ledger: Ledger, weights: BlockWeights) -> None:
    """Add markers to a body that has none, if they pay. A body that can't get any is not read."""
    takes_markers = exchange.dialect is Dialect.MESSAGES and exchange.route.facts.markers is Markers.ANTHROPIC
    if not takes_markers or _MARKER in exchange.body:
        return
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the upstream refuses it
        is_huge = len(exchange.body) > HUGE_BYTES
        window = await _aside(exchange, window_of_exchange, exchange, rough_tokens_of if is_huge else weights)
        keys, facts = keys_of(window, exchange, exchange.route.facts.token_factor)
        with suppress(StoreFailed):  # then by what is known here
            await ledger.read(keys.keys)
        added = wanted_markers(window, keys, ledger, facts)
        if added:
            exchange.body = await _aside(exchange, with_markers, exchange.body, window, added)
            exchange.added = added


@asynccontextmanager
async def recording(
    store: Store, ledger: Ledger, clock: Clock, ids: Ids, managed: ManagedContext | None = None
) -> AsyncIterator[LineRecorder]:
    """A recorder that works until the block ends, and then stores what waits."""
    recorder = LineRecorder(store, ledger, clock, ids, managed)
    recorder.start()
    try:
        yield recorder
    finally:
        await recorder.close()
        if managed is not None:
            await managed.close()


async def _taken(queue: asyncio.Queue[Recorded]) -> AsyncIterator[Recorded]:
    while True:
        yield await queue.get()


async def _aside(exchange: Exchange, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do it in a thread if the body is long, so that it holds up no stream."""
    if len(exchange.body) > LONG_BYTES:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)
