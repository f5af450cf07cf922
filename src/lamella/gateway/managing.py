"""Managed context: keeps the histories that clients send again no longer than it pays.

    request ─▶ apply: replace what is recorded for its messages ─▶ upstream
    answer  ─▶ after: prune, or summarise in the background, if either pays ─▶ a replacement for later requests

A client keeps sending its whole history. After each turn the window is weighed as the engine weighs its own
(`cache/weighing.py`). What is due becomes a row: under the key of the messages that it stands for, and for all requests
that begin with them. It holds from the next turn on. If a request would not fit its model's window, it waits for a
summary first, at most `WAIT` seconds; without one it goes on as the client sent it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec
import structlog

from lamella.agent.container import OpenStep
from lamella.core.clock import Clock
from lamella.core.counting import count_tokens
from lamella.core.errors import LamellaError, StoreFailed
from lamella.core.ids import Ids
from lamella.core.json import decode_in_pieces, fields_but
from lamella.core.messages import Step, StopReason, Turn
from lamella.core.records import Line, NewRequest, Replacement, ReplacementKind
from lamella.core.settings import EngineSettings
from lamella.gateway.dialects import read, rough_tokens_of
from lamella.gateway.exchange import BlockWeights, Exchange, ManagedExchange
from lamella.gateway.history import History, history_of
from lamella.gateway.matching import CONVERSATION
from lamella.gateway.observed import text_of_answer
from lamella.gateway.replacing import Change, change_of, with_change
from lamella.gateway.shortening import ClientWindow, CompactionPlan, compaction_plan, prune_of, summary_of_plan
from lamella.gateway.summarising import Asker, ClientSource, cut_off
from lamella.sessions.summariser import NotCompacted, Summariser, SummaryModelSource, other_summariser
from lamella.sessions.window import prune_settings_of, trigger_of
from lamella.storage import Store
from lamella.turns.services import RequestHeaders, no_headers

log = structlog.get_logger()

WAIT = 120.0
"""Seconds that a request which does not fit its window waits for a summary. Clients wait for ten minutes."""

LEAST_BYTES = 2.5
"""Bytes of a body for a token at least: a body with fewer fits, and is not counted."""

HUGE_BYTES = 250_000
"""A body from which on tokens are only estimated before it is sent."""

REMEMBERED = 100
"""Requests that are remembered until they are recorded."""

AGAIN = 1.25
"""How many times as large a window gets before a summary that failed is tried again."""


@dataclass(frozen=True, slots=True)
class SideRequests:
    """Requests for summaries to record on a line, as those of a turn; `saved` is added to what the line saved."""

    exchange: Exchange
    line: Line
    requests: tuple[NewRequest, ...]
    compactions: int = 0


class ManagedContext:
    """The managed context of one server. `note` records requests that were made here."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        settings: EngineSettings,
        summary_model: SummaryModelSource | None = None,
        headers: RequestHeaders = no_headers,
    ) -> None:
        self._store, self._clock, self._ids, self._headers = store, clock, ids, headers
        self._trigger, self._pruning = trigger_of(settings), prune_settings_of(settings)
        self._most_output = settings.max_output
        self._summariser, self._second = Summariser(summary_model), summary_model
        self._weigh = BlockWeights()
        self._open: deque[Exchange] = deque(maxlen=REMEMBERED)
        self._making: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, int] = {}
        self._factors: dict[tuple[str, str], float] = {}
        self.note: Callable[[SideRequests], None] = lambda _: None

    # Before a request is sent

    async def apply(self, exchange: Exchange) -> None:
        """Replace what is recorded for the messages of a request. One that can't be read goes on as it is."""
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError, StoreFailed):
            history = await asyncio.to_thread(self._history, exchange)
            if not history.turns:
                return
            exchange.managed = ManagedExchange(exchange.body, history, Change(history.turns))
            await self._begin(exchange, history)
            found = await self._store.lines.replacements(exchange.caller, exchange.dialect, history.keys)
            await self._change(exchange, found)
            self._open.append(exchange)
            if not await asyncio.to_thread(self._fits, exchange):
                await self._make_room(exchange)

    def _history(self, exchange: Exchange) -> History:
        weigh = rough_tokens_of if len(exchange.body) > HUGE_BYTES else self._weigh
        return history_of(read(exchange.dialect, decode_in_pieces(exchange.body), weigh), exchange.at)

    async def _begin(self, exchange: Exchange, history: History) -> None:
        """Tell the requests before this one that a turn has begun, and wait while a replacement is stored."""
        keys = frozenset(history.keys)
        for one in list(self._open):
            managed = one.managed
            if managed is None or one.caller != exchange.caller or managed.history.keys[-1] not in keys:
                continue
            if managed.history.turns[-1].id != history.turns[-1].id:
                managed.begun.add(history.turns[-1].id)
            if managed.stored is not None:
                await managed.stored.wait()

    async def _change(self, exchange: Exchange, found: Sequence[Replacement]) -> None:
        managed = exchange.managed
        assert managed is not None
        facts, history = exchange.route.facts, managed.history
        change = await asyncio.to_thread(change_of, history, found, facts)
        managed.change, managed.found = change, tuple(found)
        if change.made:
            of = (managed.sent, exchange.dialect, len(history.keys), change)
            exchange.body = await asyncio.to_thread(with_change, *of)

    def _fits(self, exchange: Exchange) -> bool:
        """Whether a request fits the window of its model."""
        budget = self._budget(exchange)
        sure = len(exchange.body) / LEAST_BYTES * self._factor(exchange) <= budget
        return sure or self._tokens(exchange) <= budget

    def _tokens(self, exchange: Exchange) -> int:
        """The provider's tokens of a request, as it is now."""
        window = read(exchange.dialect, decode_in_pieces(exchange.body), self._weigh)
        return int(sum(segment.tokens for segment in window.segments) * self._factor(exchange))

    def _budget(self, exchange: Exchange) -> int:
        """The tokens that a prompt may have, with room for the answer that is asked for."""
        facts = exchange.route.facts
        fields = fields_but(exchange.body, ("messages", "input", "tools", "system", "instructions"))
        asked = [fields.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")]
        output = next((one for one in asked if isinstance(one, int)), self._most_output)
        return facts.window - min(output, facts.max_output)

    def _factor(self, exchange: Exchange) -> float:
        route = exchange.route
        return self._factors.get((route.account, route.model), route.facts.token_factor)

    async def _make_room(self, exchange: Exchange) -> None:
        """Have a summary made, and wait for it. Without one the request goes on as it is."""
        managed = exchange.managed
        assert managed is not None
        turns = managed.change.turns[:-1]
        if not turns:
            return
        key = f"{exchange.caller.user_id}/{managed.history.keys[0]}"
        if key not in self._making:
            size = await asyncio.to_thread(self._tokens, exchange)
            window = self._window(exchange, turns, size)
            coming = managed.history.turns[-1]
            waiting = int((coming.user.tokens + sum(step.tokens for step in coming.steps)) * window.factor)
            plan = await asyncio.to_thread(compaction_plan, window, self._trigger.keep_recent, None, waiting)
            if plan is None:
                return
            self._start(key, self._compact(exchange, plan, None))
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT):
                await asyncio.wait([self._making[key]])
        found = await self._store.lines.replacements(exchange.caller, exchange.dialect, managed.history.keys)
        now = managed.history.turns[-1].id
        found = tuple(replace(one, skipped=tuple(id for id in one.skipped if id != now)) for one in found)
        await self._change(exchange, found)

    # After an answer

    async def after(self, exchange: Exchange, line: Line, answer: OpenStep, factor: float) -> None:
        """Record what was made for a request, and do what is due after it, if it ended a turn."""
        managed = exchange.managed
        if managed is None:
            return
        if managed.requests:
            made = 1 if managed.change.summary is not None else 0
            self.note(SideRequests(exchange, line, tuple(managed.requests), made))
        self._factors[exchange.route.account, exchange.route.model] = factor
        usage = answer.usage
        is_whole = exchange.status == 200 and answer.stop_reason is StopReason.END_TURN and not answer.call_ids
        is_compacting = False
        if is_whole and usage.input and not usage.input_estimated and line.label == CONVERSATION:
            is_compacting = await self._look(exchange, line, answer, factor)
        if not is_compacting:
            self._forget(exchange)

    @property
    def remembered(self) -> int:
        """How many requests are remembered: those that wait for their record, or for a summary of their messages."""
        return len(self._open)

    async def _look(self, exchange: Exchange, line: Line, answer: OpenStep, factor: float) -> bool:
        """Prune now, and compact in the background, if either is due. Returns whether a compaction has begun."""
        managed = exchange.managed
        assert managed is not None
        said = text_of_answer(answer)
        *before, newest = managed.change.turns
        step = Step("answer", exchange.route.model, answer.parts(), StopReason.END_TURN, "", count_tokens(said))
        turns = (*before, replace(newest, steps=(*newest.steps, step)))
        window = replace(self._window(exchange, turns, answer.usage.input), factor=factor)
        other = other_summariser(self._second, window.facts)
        due = await asyncio.to_thread(window.due, self._pruning, self._trigger, other)
        if due.pruning is not None and not window.thinks_after(window.start_of(turns[0])):
            pruned = prune_of(due.pruning, window, self._blank(exchange))
            await self._keep(exchange, pruned)
            change = change_of(managed.history, (*managed.found, pruned), window.facts)
            window = replace(window, change=change, input=due.size.input)
        if due.compaction is None or line.id in self._making:
            return False
        plan = await asyncio.to_thread(compaction_plan, window, self._trigger.keep_recent, said)
        if plan is None or self._trigger.vain(plan.gain, window.budget) is not None:
            return False
        if window.input <= self._failed.get(line.id, 0):
            return False
        self._start(line.id, self._compact(exchange, plan, line))
        return True

    async def _compact(self, exchange: Exchange, plan: CompactionPlan, line: Line | None) -> None:
        """Make a summary and store it. Its requests are recorded on the line, or with the request that waits for it."""
        managed = exchange.managed
        assert managed is not None
        asker = Asker(exchange, self._clock, self._ids, self._weigh, self._headers, plan.window.factor)
        source = await asyncio.to_thread(self._source, asker, plan, line is None)
        made = await self._summariser.summary_of(exchange.caller, source)
        if isinstance(made, NotCompacted):
            log.warning("a client's history was not compacted", why=made.why, line=line.id if line else None)
            if line is not None:
                self._failed[line.id] = int(plan.window.input * AGAIN)
        else:
            blank = self._blank(exchange)
            row = await asyncio.to_thread(summary_of_plan, plan, made, managed.found, self._trigger, blank)
            await self._keep(exchange, row)
        if line is None:
            managed.requests += asker.made
            return
        self._forget(exchange)
        self.note(SideRequests(exchange, line, tuple(asker.made), 0 if isinstance(made, NotCompacted) else 1))

    def _source(self, asker: Asker, plan: CompactionPlan, follows: bool) -> ClientSource:
        window, exchange, managed = plan.window, asker.exchange, asker.exchange.managed
        assert managed is not None
        body, answer = exchange.body, "" if follows else plan.window.turns[-1].steps[-1].text
        if follows:
            body = cut_off(body, exchange.dialect, len(managed.history.keys) - managed.history.starts[-1])
        local = int(plan.gain.old / window.factor)
        return ClientSource(
            asker=asker,
            turns=plan.old,
            kept=plan.kept,
            tokens=local,
            room=plan.chain(self._trigger).newest,
            body=body,
            answer=answer,
            window=int(window.input / window.factor) + count_tokens(answer),
            most=window.most,
            stubbed=replace(window, change=managed.change).stubbed,
        )

    async def _keep(self, exchange: Exchange, row: Replacement) -> None:
        """Store a replacement, which does not hold for the turns that have begun meanwhile."""
        managed = exchange.managed
        assert managed is not None
        managed.stored = asyncio.Event()
        try:
            await self._store.lines.add_replacement(exchange.caller, replace(row, skipped=tuple(sorted(managed.begun))))
        finally:
            managed.stored.set()
            managed.stored = None

    def _blank(self, exchange: Exchange) -> Replacement:
        id, now = self._ids.new("rep"), self._clock.now()
        return Replacement(id, exchange.dialect, "", ReplacementKind.SUMMARY, now, "")

    def _window(self, exchange: Exchange, turns: tuple[Turn, ...], input: int) -> ClientWindow:
        managed = exchange.managed
        assert managed is not None
        facts, factor = exchange.route.facts, self._factor(exchange)
        return ClientWindow(managed.history, managed.change, turns, facts, input, factor, self._budget(exchange))

    # Tasks

    def _start(self, key: str, work: Coroutine[None, None, None]) -> None:
        async def worked() -> None:
            try:
                await work
            except LamellaError as error:
                log.error("a client's history was not compacted", error=error.message)
            except Exception as error:  # a summary that fails must not fail the request that waits for it
                log.error("a client's history was not compacted", exc_info=error)
            finally:
                del self._making[key]

        self._making[key] = asyncio.create_task(worked())

    def _forget(self, exchange: Exchange) -> None:
        self._open = deque((one for one in self._open if one is not exchange), REMEMBERED)

    async def settle(self) -> None:
        """Wait until no summary is being made."""
        while self._making:
            await asyncio.wait(list(self._making.values()))

    async def close(self) -> None:
        """Stop what runs. A summary that was not stored changed nothing, and is made again later."""
        tasks = list(self._making.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
