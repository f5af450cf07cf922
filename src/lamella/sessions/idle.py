"""What happens to a conversation that is silent until its provider's cache expires.

A provider forgets a prefix some minutes after its last use; then the next message writes the whole window anew. So each
conversation has one timer, a job in the database. It rings 45 seconds before the cache expires: a summary made then
still reads the window at the price of reads. It is made if a return afterwards is likely enough. Example: a summary
that costs 11,800 and frees 55,000 tokens, written at 1.25, pays if the user returns with a chance of more than 11,800 /
68,750 = 0.17. Else the timer rings again when the cache has expired, and prunes old results, which then costs nothing;
or it compacts, if a return is likely enough for that too (0.59 in the example, with ten calls after it).
`cache/weighing.py` decides, `cache/forecast.py` gives the chance.

Whatever is decided is read from what is stored, so a restart forgets nothing. `Outlook` is what the gauge and `/status`
say of all this: what is due next, at which size a compaction is due, and what one now would save.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lamella.background import Retry, Worker
from lamella.cache.economics import CompactionCost, CompactionOffer, NextCompaction, OtherSummariser, floor_of
from lamella.cache.forecast import RequestForecast, forecast_between
from lamella.cache.weighing import (
    Act,
    Move,
    WindowSize,
    after_it_ended,
    before_it_ends,
    ends_at,
)
from lamella.core.caching import SKEW
from lamella.core.counting import aside
from lamella.core.decisions import Decision
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.json import JsonObject
from lamella.core.messages import TurnStatus
from lamella.core.models import ModelFacts
from lamella.core.records import Caller, Job, NewJob
from lamella.core.settings import EngineSettings
from lamella.core.tokens import percent, short
from lamella.sessions.compaction import ENGINE, CompactionRequest
from lamella.sessions.compactions import Compactions
from lamella.sessions.why import newest_request
from lamella.sessions.window import parts_of, prune_settings_of, trigger_of, window_size
from lamella.turns.loader import TurnContext, TurnLoader
from lamella.turns.services import Services
from lamella.turns.turn import Finished

IDLE = "idle"

MARGIN = timedelta(seconds=45)
"""How long before the cache expires a compaction is requested: workers poll every 20 seconds, and the summary's request
must have begun.
"""

Record = Callable[[Caller, str, Decision], Awaitable[None]]
"""Records a decision about a conversation."""

Prices = Callable[[ModelFacts], OtherSummariser | None]
"""The relative cost of a summary by another model; None if no other model makes any."""


@dataclass(frozen=True, slots=True)
class IdleConversation:
    """An idle conversation: its window, since when it is idle, and when its cache expires.

    `compaction_cost` is the cost of its calls.
    """

    size: WindowSize
    compaction_cost: CompactionCost
    forecast: RequestForecast
    since: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class NextAction:
    """The next action for an idle conversation, as of `now`: what, when and why. `ends` is when the cache expires, None
    if nothing is cached.
    """

    now: datetime
    ends: datetime | None
    act: Act
    at: datetime | None
    why: str


def next_json(due: NextAction) -> JsonObject:
    """The same for programs; moments in ISO 8601."""
    return {
        "ends_at": due.ends.isoformat() if due.ends is not None else None,
        "next": due.act.value,
        "at": due.at.isoformat() if due.at is not None else None,
        "why": due.why,
    }


class Idle:
    """The timers of the conversations of one process."""

    def __init__(
        self,
        loader: TurnLoader,
        services: Services,
        settings: EngineSettings,
        worker: Worker,
        compactions: Compactions,
        record: Record,
        prices: Prices,
    ) -> None:
        self._loader = loader
        self._services = services
        self._settings = settings
        self._pruning = prune_settings_of(settings)
        self._worker = worker
        self._compactions = compactions
        self._record = record
        self._elsewhere = prices
        self._trigger = trigger_of(settings)

    async def watch(self, finished: Finished, size: WindowSize, cost: CompactionCost | None) -> None:
        """Set the timer after a turn, if anything could be due when it fires."""
        if finished.cached_until is None or cost is None or not self._could_pay(size, cost):
            return
        rings = max(finished.cached_until - MARGIN, self._services.clock.now())
        job = NewJob(IDLE, finished.conversation.id, "the cache ends", rings, follows=True, takes_over=True)
        await self._worker.enqueue(finished.caller, job)

    def _could_pay(self, size: WindowSize, cost: CompactionCost) -> bool:
        settings = self._settings
        compacts = self._kept_for(size) == ""
        worth = cost.compaction(size.input, settings.keep_recent_tokens).return_worth(cost.rates)
        return (compacts and worth < 1) or size.prunable_when_cold(self._pruning)

    async def ring(self, job: Job) -> Retry | None:
        """A conversation's timer fires: do what is due, or set it again."""
        try:
            loaded = await self._loader.current(job.caller, job.subject)
            now = self._services.clock.now()
            silence = await self._silence(job.caller, loaded, now)
        except (NotFound, InvalidRequest):
            return None  # it was deleted, or its model is not served any more
        if silence is None:
            return None
        if now < silence.ends - MARGIN:
            return Retry("the cache was used since", after=(silence.ends - MARGIN - now).total_seconds())
        if now < silence.ends:
            move = self._before(silence)
            if move.act is Act.COMPACT:
                self._ask(job, move)
                return None
            if not silence.size.prunable_when_cold(self._pruning):
                return None
            return Retry("results are pruned when the cache has ended", after=(silence.ends - now).total_seconds())
        await self._cold(job, silence, now)
        return None

    async def _cold(self, job: Job, idle: IdleConversation, now: datetime) -> None:
        """After the cache expired: a summary if a return is nearly certain, else stubs, which cost nothing."""
        move = self._after(idle, now)
        if move.act is Act.COMPACT:
            self._ask(job, move)
            return
        pruning = idle.size.pruning(self._pruning, self._trigger, idle.compaction_cost, who=ENGINE, cold=True)
        if pruning is not None:
            await self._record(job.caller, job.subject, pruning.decision)

    def _ask(self, job: Job, move: Move) -> None:
        asked = CompactionRequest(job.caller, job.subject, ENGINE, move.why, if_it_pays=True, numbers=move.numbers)
        self._compactions.ask(asked)

    def _before(self, idle: IdleConversation) -> Move:
        return self._move(idle, before_it_ends, (idle.ends - idle.since).total_seconds())

    def _after(self, idle: IdleConversation, now: datetime) -> Move:
        return self._move(idle, after_it_ended, (now - idle.since).total_seconds())

    def _move(self, idle: IdleConversation, judge: Callable[..., Move], silent: float) -> Move:
        size, economy, keep = idle.size, idle.compaction_cost, self._settings.keep_recent_tokens
        if kept := self._kept_for(size):
            return Move(Act.NOTHING, kept)
        prospect = size.calls_ahead(self._trigger, economy)
        return judge(economy.compaction(size.input, keep), prospect, idle.forecast, silent)

    def _kept_for(self, size: WindowSize) -> str:
        """Why this window is not compacted whatever that saves; "" if it may be."""
        when = self._settings.compaction_when
        floor = floor_of(when, size.budget, self._settings.compaction_floor)
        if floor is None or not size.by_price(when):
            return "compactions wait for their threshold here"
        if size.undone:
            return "the last compaction was taken back"
        if size.input <= floor:
            return f"it has {size.input} tokens, and up to {floor} nothing is compacted automatically"
        return ""

    async def _silence(self, caller: Caller, loaded: TurnContext, now: datetime) -> IdleConversation | None:
        """The stored conversation. Returns None if a turn runs, nothing is cached, or its window is unknown.

        If the clock was set back since its last request, its cache counts as expired.
        """
        conversation_id = loaded.found.conversation.id
        path = loaded.found.path
        if path and path[-1].status is TurnStatus.RUNNING:
            return None
        newest = await newest_request(self._services.store, caller, conversation_id)
        facts = loaded.run.model.facts
        if newest is None or newest.model != facts.name:
            return None
        since, ends = newest.at, ends_at(newest.at, newest.markers, facts)
        if ends is None:
            return None
        if since - now > SKEW:
            since = ends = now
        return await aside(len(path), _silence, loaded, since, ends, self._elsewhere)

    async def next(self, caller: Caller, loaded: TurnContext) -> NextAction:
        """What is due next if no message comes. Raises `NotFound`."""
        now = self._services.clock.now()
        silence = await self._silence(caller, loaded, now)
        if silence is None:
            return NextAction(now, None, Act.NOTHING, None, "nothing of it is cached")
        move = self._before(silence) if now < silence.ends else self._after(silence, now)
        if move.act is Act.COMPACT:
            return NextAction(now, silence.ends, move.act, max(now, silence.ends - MARGIN), move.why)
        if silence.size.prunable_when_cold(self._pruning):
            why = "old results of tools cost nothing to take out once the cache has ended"
            return NextAction(now, silence.ends, Act.PRUNE, max(now, silence.ends), why)
        return NextAction(now, silence.ends, Act.NOTHING, None, move.why)


def _silence(loaded: TurnContext, since: datetime, ends: datetime, prices: Prices) -> IdleConversation | None:
    size = window_size(loaded)
    economy = size.compaction_cost(prices(size.model))
    if economy is None:
        return None
    forecast = forecast_between(size.shown.turns, loaded.found.sent_before)
    return IdleConversation(size, economy, forecast, since, ends)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is due next if no message comes (`next`), and the window size above which a compaction is automatic; None if
    never. `when` is the deployment's setting. `offer`: the saving of a compaction now, if it is worth asking for.
    `budget`: the most tokens of the window; None if its model is not served.
    """

    next: NextAction
    when: str
    compaction: NextCompaction | None = None
    offer: CompactionOffer | None = None
    budget: int | None = None


def outlook_of(
    loaded: TurnContext, due: NextAction, settings: EngineSettings, summariser: OtherSummariser | None
) -> Outlook:
    """The outlook of a conversation's window. `summariser` has the prices of another summariser."""
    size = window_size(loaded)
    if not size.input:  # another session began since the last bill, or there is none
        size = replace(size, input=parts_of(loaded, due.now).total)
    economy, trigger = size.compaction_cost(summariser), trigger_of(settings)
    cold = due.ends is None or due.ends <= due.now
    offered = size.offer(trigger, economy, cold=cold)
    return Outlook(due, settings.compaction_when, size.next_compaction(trigger, economy), offered, size.budget)


def outlook_json(ahead: Outlook) -> JsonObject:
    """The same for programs. `compaction_at` is null if no compaction is automatic."""
    due = ahead.compaction
    return {
        "compaction_when": ahead.when,
        "compaction_at": due.at if due is not None else None,
        "compaction_by": None if due is None else "price" if due.by_price else "threshold",
        "compaction_offer": offer_json(ahead.offer),
        "cache": next_json(ahead.next),
    }


def offer_json(offer: CompactionOffer | None) -> JsonObject | None:
    """The saving of a compaction now, for programs, in US dollars."""
    if offer is None:
        return None
    return {"saves": offer.saves, "share": offer.share, "messages": offer.messages}


def offer_line(offer: CompactionOffer) -> str:
    """The same as a line of `/status`."""
    share = percent(offer.share, 1)
    return f"/compact now would save about ${offer.saves:.2f} of the next {offer.messages} messages ({share})"


def compaction_line(ahead: Outlook) -> str:
    """The same as a line of `/status`."""
    due = ahead.compaction
    if due is None:
        return "Compaction: not automatic, since the last one was taken back"
    by = "where a summary pays" if due.by_price else "the threshold"
    return f"Compaction: automatic above {short(due.at)} tokens, {by} ({ahead.when})"
