"""What follows a turn, and what a user asks of sessions: prune, compact, begin anew, resume (hop 12).

Nobody waits for a compaction: it runs beside the conversation, one at a time for each, and commits by compare-and-swap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from lamella.background.worker import Again, Worker
from lamella.cache.unread import Unread
from lamella.cache.why import Why
from lamella.context.choices import Known
from lamella.context.layout import Layout, OldResults
from lamella.context.results import can_be_read, kept_names
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import InvalidRequest, NotFound, SessionMoved, StoreFailed
from lamella.core.json import JsonObject
from lamella.core.messages import TurnStatus
from lamella.core.ports import Jobs
from lamella.core.records import Caller, Conversation, ConversationChange, Job, JobStatus, LastBill, NewJob
from lamella.core.sessions import Session, SessionCause, SessionReturn, SessionStep
from lamella.engine.inputs import Services
from lamella.engine.opening import Openings
from lamella.engine.setting import layout_named
from lamella.engine.turn import Finished
from lamella.sessions.compaction import Ahead, Asked, Compacted, Compactor
from lamella.sessions.efforts import EffortChoice, effort_choices, lost_since
from lamella.sessions.ended import SUMMARISE, EndedSessions, summarise_job
from lamella.sessions.notifications import Notifications
from lamella.sessions.pruning import Pruned, Pruning, prune
from lamella.sessions.recall.recall import Recall
from lamella.sessions.resuming import resumed_size
from lamella.sessions.settings import SessionSettings
from lamella.sessions.summariser import SILENT, NotCompacted, SecondSource, Summariser
from lamella.sessions.titles import TITLE, Titles
from lamella.sessions.triggers import Fill, ThresholdTrigger, Trigger
from lamella.sessions.why import why_request
from lamella.sessions.window import Standing, is_of_window, standing

log = structlog.get_logger()

ENGINE = "engine"
COMPACT = "compact"
UNDONE = "undone"
"""The number of a session's decision that says that a compaction was taken back."""

Outcome = Compacted | NotCompacted


@dataclass(frozen=True, slots=True)
class SessionView:
    """Where a conversation is: its sessions, the oldest first, and which one is current."""

    current: Session
    sessions: tuple[Session, ...]
    compacting: bool
    messages: Mapping[str, int]
    """Stored messages by session id."""
    numbers: Mapping[str, Mapping[str, float]]
    """By session id, the figures of what opened it; of a compaction `before`, `after`, `summary`, `kept`."""


class Sessions:
    """The sessions of all conversations of one process."""

    def __init__(
        self,
        openings: Openings,
        services: Services,
        jobs: Jobs,
        settings: SessionSettings,
        second: SecondSource | None = None,
        recall: Recall | None = None,
    ) -> None:
        self.settings = settings
        self.recall = recall
        summariser = Summariser(services, second)
        self._ended = EndedSessions(openings, services, summariser)
        self._titles = Titles(openings, services, second)
        handlers = {COMPACT: self._do, SUMMARISE: self._do_summary, TITLE: self._titles.write}
        self._worker = Worker(jobs, services.clock, handlers)
        self._services = services
        self._openings = openings
        self._trigger: Trigger = ThresholdTrigger(settings.compaction)
        self._compactor = Compactor(openings, services, settings, summariser, self._trigger)
        self._notifications = Notifications(openings, services, on=settings.notify)
        self._asked: dict[str, asyncio.Task[Outcome]] = {}
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._doing: set[str] = set()

    def start(self) -> None:
        """Take up what an ended process left, and what comes."""
        self._worker.start()
        if self.recall is not None:
            self.recall.start()

    def wake(self) -> None:
        """Take up at once what has become due, and not only at the next look."""
        self._worker.wake()

    async def after(self, finished: Finished) -> Pruning | None:
        """Hop 12: prune what is old, then compact in the background where the last answer read too much (L6, L8).

        What was said is indexed in the background, and titled after the first answer. An answer beside which the
        conversation went on to another session read a window that is gone: it says nothing of the one that stands.
        """
        await self._follow(finished.caller, finished.conversation.id)
        await self._title(finished)
        now = await self._services.store.conversation(finished.caller, finished.conversation.id)
        if now.session_id != finished.conversation.session_id:
            return None
        pruning = self._pruning(finished) or self._emptying(finished)
        if pruning is not None:
            await self._record(finished.caller, finished.conversation.id, pruning.decision)
            await self._notifications.pruned(finished.caller, finished.conversation.id, pruning)
        freed = pruning.before - pruning.after if pruning is not None else 0
        moves = [decision for decision in finished.decisions if decision.kind is DecisionKind.SESSION]
        undone = bool(moves and moves[-1].numbers.get(UNDONE))
        why = self._trigger.due(Fill(finished.input, finished.budget, freed, undone))
        if why is not None:
            self.compact(finished.caller, finished.conversation.id, who=ENGINE, why=why, if_it_pays=True)
        return pruning

    async def _title(self, finished: Finished) -> None:
        """Have a title written once; a conversation keeps its first words when that did not work out."""
        wanted = self._titles.wanted(finished) if self.settings.titles else None
        if wanted is not None and await self._worker.job(finished.caller, wanted.kind, wanted.subject) is None:
            await self._worker.enqueue(finished.caller, wanted)

    async def _follow(self, caller: Caller, conversation_id: str) -> None:
        if self.recall is not None:
            await self.recall.follow(caller, conversation_id)

    async def _do_summary(self, job: Job) -> Again | None:
        """Do the summary of a session that has ended, then let it be found."""
        again = await self._ended.summarise(job)
        with suppress(NotFound):
            session = await self._services.store.session(job.caller, job.subject)
            await self._follow(job.caller, session.conversation_id)
        return again

    def _pruning(self, finished: Finished) -> Pruning | None:
        layout = layout_named(finished.conversation.layout, self._openings.layouts)
        if layout.old_results is not OldResults.STUB:
            return None
        return prune(_window(finished, layout), self.settings.pruning, who=ENGINE)

    def _emptying(self, finished: Finished) -> Pruning | None:
        """Results that are kept go all the same when the window is past the compaction threshold (SPEC L9)."""
        threshold = self.settings.compaction.in_tokens(finished.budget)
        if self.settings.pruning.policy != "keep_all" or finished.input <= threshold:
            return None
        why = f"results of tools are kept, but the last answer read {finished.input} tokens, more than {threshold}"
        window = _window(finished, layout_named(finished.conversation.layout, self._openings.layouts))
        return prune(window, self.settings.pruning, who=ENGINE, full=why)

    async def _record(self, caller: Caller, conversation_id: str, decision: Decision) -> None:
        change = ConversationChange(decisions=(decision,))
        await self._services.store.change_conversation(caller, conversation_id, change, self._services.clock.now())

    def compact(
        self, caller: Caller, conversation_id: str, *, who: str, why: str, focus: str = "", if_it_pays: bool = False
    ) -> asyncio.Task[Outcome]:
        """Compact in the background; a compaction that runs already is the one that is given.

        One that waits to be tried again goes on waiting, unless a user asks: then it is done now, as the user wants it.
        """
        asked = self._asked.get(conversation_id)
        if asked is None:
            payload: JsonObject = {"who": who, "focus": focus, "if_it_pays": if_it_pays}
            now = self._services.clock.now()
            job = NewJob(COMPACT, conversation_id, why, now, payload, takes_over=who != ENGINE)
            asked = self._asked[conversation_id] = asyncio.create_task(self._ask(caller, job))
        return asked

    async def _ask(self, caller: Caller, job: NewJob) -> Outcome:
        """Enqueue a compaction and hear how it ends; the job goes on whether or not somebody does."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[job.subject] = outcome
        try:
            stored = await self._worker.enqueue(caller, job)
            if stored.status is JobStatus.WAITING and stored.due_at > self._services.clock.now():
                return NotCompacted(
                    f"it did not work out a moment ago, and is tried again at {stored.due_at:%H:%M}", code=SILENT
                )
            return await self._heard(caller, stored, outcome)
        except StoreFailed as error:
            return NotCompacted(error.message)
        finally:
            self._waiting.pop(job.subject, None)
            self._asked.pop(job.subject, None)

    async def _heard(self, caller: Caller, job: Job, outcome: asyncio.Future[Outcome]) -> Outcome:
        """How a compaction ends; one that somebody else did, or that ended as it was asked for again, tells nobody."""
        while True:
            await asyncio.wait({outcome}, timeout=self.settings.look)
            if outcome.done():
                return outcome.result()
            now = await self._worker.job(caller, job.kind, job.subject)
            if now is None or now.id != job.id or now.status not in (JobStatus.WAITING, JobStatus.RUNNING):
                return NotCompacted("a compaction ended a moment ago")

    async def _do(self, job: Job) -> Again | None:
        """Do a compaction that was asked for, here or in another process."""
        who, focus = str(job.payload.get("who")), str(job.payload.get("focus"))
        self._doing.add(job.subject)
        outcome: Outcome = NotCompacted("it was broken off")
        try:
            pays = bool(job.payload.get("if_it_pays"))
            outcome = await self._compactor.compact(Asked(job.caller, job.subject, who, job.cause, focus, job, pays))
            if isinstance(outcome, Compacted) or job.attempts <= 1:
                await self._tell(job.caller, job.subject, who, outcome)
        except NotFound as error:
            outcome = NotCompacted(error.message)
        finally:
            self._doing.discard(job.subject)
            waiting = self._waiting.get(job.subject)
            if waiting is not None and not waiting.done():
                waiting.set_result(outcome)
        match outcome:
            case Compacted(session, before, after):
                await self._follow(job.caller, job.subject)
                log.info("compacted", conversation_id=job.subject, session=session.id, before=before, after=after)
                return None
            case NotCompacted(why, again):
                log.warning("not compacted", conversation_id=job.subject, why=why)
                return Again(why) if again else None

    async def _tell(self, caller: Caller, conversation_id: str, who: str, outcome: Outcome) -> None:
        """Notify of a compaction; of one that nobody asked for and that did not work out once for each reason."""
        match outcome:
            case Compacted():
                await self._notifications.compacted(caller, conversation_id, outcome, asked_for=who != ENGINE)
            case NotCompacted():
                await self._notifications.not_compacted(caller, conversation_id, outcome, asked_for=who != ENGINE)

    async def ahead(self, caller: Caller, conversation_id: str) -> Ahead | NotCompacted:
        """What a compaction would summarise now; no model is asked."""
        return await self._compactor.ahead(caller, conversation_id)

    async def standing(self, caller: Caller, conversation_id: str) -> Standing:
        """Where the conversation stands now, window and budget; no model is asked."""
        return await standing(self._openings, self._services, caller, conversation_id)

    async def counted(self, caller: Caller, conversation_id: str, bill: LastBill) -> int | None:
        """The tokens of the window where `bill`, the last one, is not of it any more; None where the bill tells them.

        None too where the window can't be counted: the next message says why.
        """
        if is_of_window(bill, await self._services.store.decisions(caller, conversation_id)):
            return None
        now = await self.standing(caller, conversation_id)
        return now.parts.total if now.parts is not None else None

    async def why(self, caller: Caller, request_id: str) -> Why:
        """Why a request read what it read of the cache. Raises `NotFound`."""
        return await why_request(self._services.store, self._openings, caller, request_id)

    async def effort(self, caller: Caller, conversation_id: str) -> str:
        """The thinking effort that holds for the conversation."""
        return (await self._openings.standing(caller, conversation_id)).run.sampling.thinking_effort

    async def efforts(self, caller: Caller, conversation_id: str) -> tuple[EffortChoice, ...]:
        """The thinking efforts to choose from, with what changing to each costs now; no model is asked."""
        return effort_choices(await self._openings.standing(caller, conversation_id), self._services)

    async def lost_since(self, caller: Caller, conversation_id: str, before: str) -> Unread | None:
        """What the next request can't read that it could with the effort `before`; None where nothing is lost."""
        return lost_since(await self._openings.standing(caller, conversation_id), self._services, before)

    def is_compacting(self, conversation_id: str) -> bool:
        """Whether a compaction of this conversation is about to run, or runs, in this process."""
        return conversation_id in self._asked or conversation_id in self._doing

    async def compacts(self, caller: Caller, conversation_id: str) -> bool:
        """Whether a compaction of this conversation is about to run, or runs, in whatever process."""
        if self.is_compacting(conversation_id):
            return True
        job = await self._worker.job(caller, COMPACT, conversation_id)
        return job is not None and job.status is JobStatus.RUNNING and job.due_at > self._services.clock.now()

    async def settled(self, conversation_id: str) -> None:
        """Come back when no compaction of this conversation that was asked for here runs."""
        asked = self._asked.get(conversation_id)
        if asked is not None:
            await asyncio.wait({asked})

    async def prune(self, caller: Caller, conversation_id: str) -> Pruning | None:
        """Prune now, below the threshold too; None when there is nothing to prune.

        Raises `InvalidRequest` in a layout that does not show stubs in the place of old results.
        """
        opening = await self._openings.standing(caller, conversation_id)
        layout = opening.setting.layout
        if layout.old_results is not OldResults.STUB:
            raise InvalidRequest(
                f"The layout {layout.name} does not prune: it has its own rule for old results.",
                hint="Choose another layout for this conversation to prune by hand.",
            )
        window = Pruned(
            conversation_id,
            [turn for turn in opening.found.path if turn.status is not TurnStatus.RUNNING],
            Known(opening.run.model.facts.name, opening.decisions),
            opening.run.calibration,
            kept_names(opening.setting.conversation.tools),
            layout.names_ids and can_be_read(opening.setting.conversation.tools),
        )
        pruning = prune(window, self.settings.pruning, who=caller.user_id, asked=True)
        if pruning is not None:
            await self._record(caller, conversation_id, pruning.decision)
        return pruning

    async def begin_anew(self, caller: Caller, conversation_id: str, *, why: str) -> Session:
        """`/new`: an empty session behind the newest message; what was before is not in its window, and not removed.

        The session that ends gets its summary in the background.
        """
        while True:
            conversation = await self._services.store.conversation(caller, conversation_id)
            boundary = conversation.head or ""
            session = self._next(conversation.session_id, conversation_id, SessionCause.NEW, conversation.head)
            decision = Decision(DecisionKind.SESSION, session.id, boundary, caller.user_id, why)
            step = SessionStep(
                conversation.session_id, session, why, session.opened_at, decisions=(decision,), then=SUMMARISE
            )
            try:
                opened = await self._services.store.next_session(caller, step)
            except SessionMoved:
                continue  # a compaction was quicker: the command wins all the same (SPEC L3)
            self._worker.wake()
            return opened

    async def _summarise(self, caller: Caller, session_id: str, why: str) -> None:
        """Have a session summarised that ended long ago, without a summary."""
        ended = await self._services.store.session(caller, session_id)
        if ended.closed_at is not None and ended.ends_with != ended.begins_after:
            await self._worker.enqueue(caller, summarise_job(ended, why))

    async def resume(self, caller: Caller, conversation_id: str, session_id: str, *, why: str) -> Session:
        """`/resume ID`: go on from an earlier session, in full. What came after stays, as another branch.

        One that is larger than the resume budget goes on by its summary, in a new session: that one is given then.
        Raises `NotFound`, `TurnInProgress`, and `InvalidRequest` for the session that is current, and for one that is
        too large and has no summary of all of it yet.
        """
        while True:
            try:
                opened = await self._resume(caller, conversation_id, session_id, why)
            except SessionMoved:
                continue  # as above
            self._worker.wake()
            return opened

    async def _resume(self, caller: Caller, conversation_id: str, session_id: str, why: str) -> Session:
        """Go back once; gives the session that goes on."""
        conversation = await self._services.store.conversation(caller, conversation_id)
        target = await self._services.store.session(caller, session_id)
        if target.conversation_id != conversation_id:
            raise NotFound(f"This conversation has no session {session_id}.", param="session_id")
        if target.id == conversation.session_id:
            raise InvalidRequest("This session is the current one.", hint="Choose another one: /resume lists them.")
        following = await self._after(caller, target)
        size, budget = await resumed_size(self._openings, self._services, caller, target, following)
        if size > self.settings.resume.in_tokens(budget):
            return await self._resume_by_summary(caller, conversation, target, size, why)
        decision = Decision(DecisionKind.SESSION, target.id, target.begins_after or "", caller.user_id, why)
        back = SessionReturn(
            expected=conversation.session_id,
            session_id=target.id,
            head=following or target.begins_after,
            cause=SessionCause.RESUME,
            why=why,
            at=self._services.clock.now(),
            decisions=(decision,),
            then=SUMMARISE,
        )
        return await self._services.store.return_to_session(caller, back)

    async def _resume_by_summary(
        self, caller: Caller, conversation: Conversation, target: Session, size: int, why: str
    ) -> Session:
        """A new session behind the newest message, with the summary of the one that is too large."""
        if not target.is_summarised:
            await self._summarise(caller, target.id, why)
            raise InvalidRequest(
                f"Session {target.number} is too large to be resumed in full, and has no summary of all of it yet.",
                hint="The summary is being made: send the command again in a moment.",
            )
        session = self._next(target.id, conversation.id, SessionCause.RESUME, conversation.head)
        numbers = {"size": float(size)}
        boundary = conversation.head or ""
        decision = Decision(DecisionKind.SESSION, session.id, boundary, caller.user_id, why, numbers)
        session = replace(session, inherits=True)
        step = SessionStep(
            conversation.session_id, session, why, session.opened_at, decisions=(decision,), then=SUMMARISE
        )
        return await self._services.store.next_session(caller, step)

    async def _after(self, caller: Caller, target: Session) -> str | None:
        """The last turn that a session had when it ended, the tail that a compaction carried on included.

        None where it ended with nothing in a conversation that had said nothing.
        """
        sessions = await self._services.store.sessions(caller, target.conversation_id)
        children = [s for s in sessions if s.parent_id == target.id or s.number == target.number + 1]
        if target.ends_with is not None:
            return target.ends_with
        last, ended = (children[0].begins_after if children else None), target.closed_at
        if not children or children[0].opened_by is not SessionCause.COMPACTION or ended is None:
            return last
        path = await self._services.store.path(caller, target.conversation_id)
        if last not in {turn.id for turn in path}:
            return last
        return next((turn.id for turn in reversed(path) if turn.user.sent_at <= ended), last)

    async def undo(self, caller: Caller, session_id: str) -> Session:
        """Take a compaction back: the session that it ended goes on, with all that was said since.

        `session_id` is that of the session that ended, or of the one that began; gives the one that goes on. Nothing is
        compacted again until somebody asks for it, or a message would not fit. Raises `NotFound`, `TurnInProgress`,
        `SessionMoved`, and `InvalidRequest` where the conversation's newest session did not begin with a compaction.
        """
        store = self._services.store
        named = await store.session(caller, session_id)
        conversation = await store.conversation(caller, named.conversation_id)
        current = await store.session(caller, conversation.session_id)
        parent = current.parent_id
        if current.opened_by is not SessionCause.COMPACTION or parent is None or named.id not in (current.id, parent):
            raise InvalidRequest(
                f"Session {named.number} was not made or ended by this conversation's newest compaction.",
                hint="Only the newest compaction can be undone; /resume goes back to an earlier session.",
                param="session_id",
            )
        target, why = await store.session(caller, parent), "the compaction was undone"
        boundary = target.begins_after or ""
        decision = Decision(DecisionKind.SESSION, target.id, boundary, caller.user_id, why, {UNDONE: 1})
        back = SessionReturn(
            expected=current.id,
            session_id=target.id,
            head=conversation.head,
            cause=SessionCause.UNDO,
            why=why,
            at=self._services.clock.now(),
            decisions=(decision,),
            forgets_summary=True,
        )
        return await store.return_to_session(caller, back)

    def _next(self, parent: str, conversation_id: str, cause: SessionCause, begins_after: str | None) -> Session:
        return Session(
            id=self._services.ids.new("sess"),
            conversation_id=conversation_id,
            number=0,
            opened_at=self._services.clock.now(),
            opened_by=cause,
            parent_id=parent,
            begins_after=begins_after,
        )

    async def view(self, caller: Caller, conversation_id: str) -> SessionView:
        """Where the conversation is."""
        conversation = await self._services.store.conversation(caller, conversation_id)
        sessions = await self._services.store.sessions(caller, conversation_id)
        current = next(session for session in sessions if session.id == conversation.session_id)
        totals = await self._services.store.totals(caller, conversation_id)
        decided = [stored.decision for stored in await self._services.store.decisions(caller, conversation_id)]
        numbers = {d.subject: d.numbers for d in decided if d.kind is DecisionKind.SESSION and d.numbers}
        return SessionView(current, sessions, self.is_compacting(conversation_id), totals.messages, numbers)

    async def close(self) -> None:
        """End what runs: a compaction that was not committed has changed nothing, and is taken up again later."""
        await self._worker.close()
        if self.recall is not None:
            await self.recall.close()
        asked = list(self._asked.values())
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


def _window(finished: Finished, layout: Layout) -> Pruned:
    """The window behind a finished turn, as a pruning sees it."""
    known, tools = Known(finished.model, finished.decisions), finished.conversation.tools
    readable = layout.names_ids and can_be_read(tools)
    return Pruned(finished.conversation.id, finished.turns, known, finished.calibration, kept_names(tools), readable)
