"""What happens to a conversation that is silent until its provider's cache expires.

A provider forgets a prefix some minutes after its last use; then the next message writes the whole window anew. So each
conversation has one timer, a job in the database. It rings 45 seconds before the cache expires: a summary made then
still reads the window at the price of reads. It is made if a return afterwards is likely enough. Example: a summary
that costs 11,800 and frees 55,000 tokens, written at 1.25, pays if the user returns with a chance of more than 11,800 /
68,750 = 0.17. Else the timer rings again when the cache has expired, and prunes old results, which then costs nothing;
or it compacts, if a return is likely enough for that too (0.59 in the example, with ten calls after it).
`cache/weighing.py` decides, `cache/rhythm.py` gives the chance.

Whatever is decided is read from what is stored, so a restart forgets nothing. `Outlook` is what the gauge and `/status`
say of all this: what is due next, at which size a compaction is due, and what one now would save.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lamella.background import Again, Worker
from lamella.cache.economics import Economy, Elsewhere, NextCompaction, Offer, floor_of
from lamella.cache.rhythm import Rhythm, rhythm_between
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
from lamella.core.tokens import percent, short
from lamella.sessions.compaction import ENGINE, CompactionRequest
from lamella.sessions.compactions import Compactions
from lamella.sessions.settings import SessionSettings, trigger_of
from lamella.sessions.why import newest_request
from lamella.sessions.window import parts_of, window_size
from lamella.turns.loader import TurnContext, TurnLoader
from lamella.turns.services import Services
from lamella.turns.turn import Finished

IDLE = "idle"

MARGIN = timedelta(seconds=45)
"""How long before the end a compaction is asked for: a worker looks for due work every 20 seconds, and the request of
the summary must have begun."""

Record = Callable[[Caller, str, Decision], Awaitable[None]]
"""Records a decision about a conversation."""

Prices = Callable[[ModelFacts], Elsewhere | None]
"""What a summary by another model costs beside one by this; None where no other makes any."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A conversation that is silent: its window, since when, and when its cache ends.

    `economy` is what its calls cost.
    """

    size: WindowSize
    economy: Economy
    rhythm: Rhythm
    since: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class Next:
    """What is due next while a conversation is silent, as seen at `now`: what, when and why. `ends` is the end of its
    cache, None where nothing is cached."""

    now: datetime
    ends: datetime | None
    act: Act
    at: datetime | None
    why: str


def next_json(due: Next) -> JsonObject:
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
        settings: SessionSettings,
        worker: Worker,
        compactions: Compactions,
        record: Record,
        elsewhere: Prices,
    ) -> None:
        self._loader = loader
        self._services = services
        self._settings = settings
        self._worker = worker
        self._compactions = compactions
        self._record = record
        self._elsewhere = elsewhere
        self._trigger = trigger_of(settings)

    async def watch(self, finished: Finished, size: WindowSize, economy: Economy | None) -> None:
        """Set the timer after a turn, where something could be due when it rings."""
        if finished.cached_until is None or economy is None or not self._could_pay(size, economy):
            return
        rings = max(finished.cached_until - MARGIN, self._services.clock.now())
        job = NewJob(IDLE, finished.conversation.id, "the cache ends", rings, follows=True, takes_over=True)
        await self._worker.enqueue(finished.caller, job)

    def _could_pay(self, size: WindowSize, economy: Economy) -> bool:
        settings = self._settings
        compacts = self._kept_for(size) == ""
        worth = economy.compaction(size.input, settings.keep_recent).return_worth(economy.rates)
        return (compacts and worth < 1) or size.prunable_when_cold(settings.pruning)

    async def ring(self, job: Job) -> Again | None:
        """The timer of a conversation rings: do what is due now, or set it again."""
        try:
            loaded = await self._loader.current(job.caller, job.subject)
            now = self._services.clock.now()
            silence = await self._silence(job.caller, loaded, now)
        except (NotFound, InvalidRequest):
            return None  # it was deleted, or its model is not served any more
        if silence is None:
            return None
        if now < silence.ends - MARGIN:
            return Again("the cache was used since", after=(silence.ends - MARGIN - now).total_seconds())
        if now < silence.ends:
            move = self._before(silence)
            if move.act is Act.COMPACT:
                self._ask(job, move)
                return None
            if not silence.size.prunable_when_cold(self._settings.pruning):
                return None
            return Again("results are pruned when the cache has ended", after=(silence.ends - now).total_seconds())
        await self._cold(job, silence, now)
        return None

    async def _cold(self, job: Job, silence: Silence, now: datetime) -> None:
        """Once the cache has ended: a summary where a return is nearly certain, else stubs, which cost nothing."""
        move = self._after(silence, now)
        if move.act is Act.COMPACT:
            self._ask(job, move)
            return
        pruning = silence.size.pruning(self._settings.pruning, self._trigger, silence.economy, who=ENGINE, cold=True)
        if pruning is not None:
            await self._record(job.caller, job.subject, pruning.decision)

    def _ask(self, job: Job, move: Move) -> None:
        asked = CompactionRequest(job.caller, job.subject, ENGINE, move.why, if_it_pays=True, numbers=move.numbers)
        self._compactions.ask(asked)

    def _before(self, silence: Silence) -> Move:
        return self._move(silence, before_it_ends, (silence.ends - silence.since).total_seconds())

    def _after(self, silence: Silence, now: datetime) -> Move:
        return self._move(silence, after_it_ended, (now - silence.since).total_seconds())

    def _move(self, silence: Silence, judge: Callable[..., Move], silent: float) -> Move:
        size, economy, keep = silence.size, silence.economy, self._settings.keep_recent
        if kept := self._kept_for(size):
            return Move(Act.NOTHING, kept)
        prospect = size.prospect(self._trigger, economy)
        return judge(economy.compaction(size.input, keep), prospect, silence.rhythm, silent)

    def _kept_for(self, size: WindowSize) -> str:
        """Why no compaction is made of this window whatever it would save; "" if one may be."""
        when = self._settings.compact_when
        floor = floor_of(when, size.budget, self._settings.floor)
        if floor is None or not size.by_price(when):
            return "compactions wait for their threshold here"
        if size.undone:
            return "the last compaction was taken back"
        if size.input <= floor:
            return f"it has {size.input} tokens, and up to {floor} nothing is compacted by itself"
        return ""

    async def _silence(self, caller: Caller, loaded: TurnContext, now: datetime) -> Silence | None:
        """The conversation as it is stored; None where a turn runs, or nothing is cached or known of its window.

        If the clock was set back since its last request, nobody knows what is cached: that counts as ended.
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

    async def next(self, caller: Caller, loaded: TurnContext) -> Next:
        """What is due next if nobody says anything. Raises `NotFound`."""
        now = self._services.clock.now()
        silence = await self._silence(caller, loaded, now)
        if silence is None:
            return Next(now, None, Act.NOTHING, None, "nothing of it is cached")
        move = self._before(silence) if now < silence.ends else self._after(silence, now)
        if move.act is Act.COMPACT:
            return Next(now, silence.ends, move.act, max(now, silence.ends - MARGIN), move.why)
        if silence.size.prunable_when_cold(self._settings.pruning):
            why = "old results of tools cost nothing to take out once the cache has ended"
            return Next(now, silence.ends, Act.PRUNE, max(now, silence.ends), why)
        return Next(now, silence.ends, Act.NOTHING, None, move.why)


def _silence(loaded: TurnContext, since: datetime, ends: datetime, elsewhere: Prices) -> Silence | None:
    size = window_size(loaded)
    economy = size.economy(elsewhere(size.model))
    if economy is None:
        return None
    rhythm = rhythm_between(size.shown.turns, loaded.found.sent_before)
    return Silence(size, economy, rhythm, since, ends)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is due `next` if nobody says anything, and the size of window at which a compaction is made by itself; None
    if none is. `when` is the deployment's setting. `offer`: what one now would save, if that is worth asking for.
    `budget`: the most tokens of the window; None if its model is not served."""

    next: Next
    when: str
    compaction: NextCompaction | None = None
    offer: Offer | None = None
    budget: int | None = None


def outlook_of(loaded: TurnContext, due: Next, settings: SessionSettings, elsewhere: Elsewhere | None) -> Outlook:
    """What is ahead of the window in which a conversation stands; `elsewhere` are the prices of another summariser."""
    size = window_size(loaded)
    if not size.input:  # another session began since the last bill, or there is none
        size = replace(size, input=parts_of(loaded, due.now).total)
    economy, trigger = size.economy(elsewhere), trigger_of(settings)
    cold = due.ends is None or due.ends <= due.now
    offered = size.offer(trigger, economy, cold=cold)
    return Outlook(due, settings.compact_when, size.next_compaction(trigger, economy), offered, size.budget)


def outlook_json(ahead: Outlook) -> JsonObject:
    """The same for programs; `compaction_at` is null if no compaction is made by itself."""
    due = ahead.compaction
    return {
        "compaction_when": ahead.when,
        "compaction_at": due.at if due is not None else None,
        "compaction_by": None if due is None else "price" if due.by_price else "threshold",
        "compaction_offer": offer_json(ahead.offer),
        "cache": next_json(ahead.next),
    }


def offer_json(offer: Offer | None) -> JsonObject | None:
    """What a compaction now would save, for programs; in US dollars."""
    if offer is None:
        return None
    return {"saves": offer.saves, "share": offer.share, "messages": offer.messages}


def offer_line(offer: Offer) -> str:
    """The same as a line of `/status`."""
    share = percent(offer.share, 1)
    return f"/compact now would save about ${offer.saves:.2f} of the next {offer.messages} messages ({share})"


def compaction_line(ahead: Outlook) -> str:
    """The same as a line of `/status`."""
    due = ahead.compaction
    if due is None:
        return "Compaction: none is made by itself, since the last one was taken back"
    by = "where a summary pays" if due.by_price else "the threshold"
    return f"Compaction: by itself above {short(due.at)} tokens, {by} ({ahead.when})"
