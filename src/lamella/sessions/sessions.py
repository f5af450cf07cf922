"""What follows a turn, and what a user asks of sessions: prune, compact, begin anew, resume, undo.

After a turn `Sessions.after` loads the last bill, asks `cache/weighing.upkeep` what is due, and does it: a pruning is
one decision that is stored at once, a compaction a job in the background. Nobody waits for a compaction: each
conversation has one at most, and it commits by compare-and-swap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import structlog

from lamella.agent.calibration import billed_factor
from lamella.background import Handler, Retry, Worker
from lamella.cache.ledger import CacheLoss
from lamella.cache.pruning import Pruning, prune
from lamella.cache.weighing import Act, Upkeep, WindowSize, upkeep
from lamella.cache.why import Why
from lamella.context.layout import OldResults
from lamella.core.counting import aside
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.models import ModelFacts
from lamella.core.ports import Jobs
from lamella.core.records import Caller, ConversationChange, Job, LastBill
from lamella.core.sessions import Session
from lamella.core.settings import EngineSettings
from lamella.sessions.compaction import ENGINE, CompactionRequest, CompactionScope, Compactor
from lamella.sessions.compactions import COMPACT, Compactions, Outcome
from lamella.sessions.idle import IDLE, Idle, NextAction, Outlook, outlook_of
from lamella.sessions.notifications import Notifications
from lamella.sessions.recall.recall import Recall
from lamella.sessions.session_changes import SUMMARISE, EndedSessions, SessionChanges
from lamella.sessions.summariser import NotCompacted, Summariser, SummaryModelSource, other_summariser
from lamella.sessions.titles import TITLE, Titles
from lamella.sessions.why import why_request
from lamella.sessions.window import (
    EffortChoice,
    WindowState,
    effort_choices,
    is_of_window,
    lost_since,
    prune_settings_of,
    trigger_of,
    window_size,
    window_state,
)
from lamella.turns.loader import TurnLoader
from lamella.turns.services import Services
from lamella.turns.turn import Finished

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """The figures of a conversation's sessions: the current one, and the rest by session id."""

    current_id: str
    messages: Mapping[str, int]
    """Stored messages."""
    tokens: Mapping[str, int]
    """Tokens by the local count; none for a session with content of a knowledge base."""
    questions: Mapping[str, str]
    """How the first question begins."""
    numbers: Mapping[str, Mapping[str, float]]
    """The figures of the compaction that opened it: `before`, `after`, `summary`, `kept`."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """The sessions of a conversation, oldest first, and the current one."""

    current: Session
    sessions: tuple[Session, ...]
    compacting: bool
    figures: SessionFigures


class Sessions:
    """The sessions of all conversations of one process."""

    def __init__(
        self,
        loader: TurnLoader,
        services: Services,
        jobs: Jobs,
        settings: EngineSettings,
        summary_model: SummaryModelSource | None = None,
        recall: Recall | None = None,
    ) -> None:
        self.settings = settings
        self._pruning = prune_settings_of(settings)
        self.recall = recall
        summariser = Summariser(summary_model)
        self._ended = EndedSessions(loader, services, summariser)
        self._titles = Titles(loader, services, summary_model)
        handlers: dict[str, Handler] = {SUMMARISE: self._do_summary, TITLE: self._titles.write}
        self._worker = Worker(jobs, services.clock, handlers)
        self._services = services
        self._loader = loader
        self._trigger = trigger_of(settings)
        self._notifications = Notifications(loader.layouts, services, on=settings.compaction_notify)
        self._compactor = Compactor(loader, services, settings, summariser, self._trigger)
        self._compactions = Compactions(
            self._compactor, self._worker, self._notifications, settings, services.clock, recall
        )
        handlers[COMPACT] = self._compactions.do
        self._elsewhere = partial(other_summariser, summary_model)
        self._idle = Idle(loader, services, settings, self._worker, self._compactions, self._record, self._elsewhere)
        handlers[IDLE] = self._idle.ring
        self._moves = SessionChanges(loader, services, self._worker, settings)

    def start(self) -> None:
        """Start the jobs of an ended process, and new ones."""
        self._worker.start()
        if self.recall is not None:
            self.recall.start()

    @property
    def is_working(self) -> bool:
        """Whether jobs are done."""
        return self._worker.is_working

    def wake(self) -> None:
        """Start due jobs at once, instead of at the next poll."""
        self._worker.wake()

    async def after(self, finished: Finished) -> Pruning | None:
        """Prune, then compact in the background, if either is due after this turn. Returns the pruning.

        The turn is also indexed in the background, and the conversation gets a title after its first answer. If another
        session was opened during the turn, its answer read an old window, and nothing is decided by it.
        """
        await self._follow(finished.caller, finished.conversation.id)
        await self._title(finished)
        caller, conversation_id = finished.caller, finished.conversation.id
        now, bill = await self._services.store.requests.with_last_bill(caller, conversation_id, finished.model)
        if now.session_id != finished.conversation.session_id or not self.settings.compaction_automatic:
            return None
        facts = await self._loader.facts(finished.model)
        due = await aside(len(finished.turns), self._due, finished, facts, bill)
        if due.pruning is not None:
            await self._record(caller, conversation_id, due.pruning.decision)
            if finished.layout.tells or self._pruning.policy == "keep_all":
                await self._notifications.pruned(caller, conversation_id, due.pruning, due.size)
        if due.compaction is not None:
            await self._compactions.follow_up(finished, due.compaction)
        await self._idle.watch(finished, due.size, due.compaction_cost)
        return due.pruning

    def _due(self, finished: Finished, facts: ModelFacts, bill: LastBill | None) -> Upkeep:
        """What is due after a turn. The gauge uses the same, newest bill."""
        calibration, input = finished.calibration, finished.input
        if bill is not None and bill.local_tokens and input:
            calibration, input = billed_factor(bill.usage.input, bill.local_tokens, facts), bill.usage.input
        size = WindowSize.of(
            finished.conversation,
            finished.turns,
            finished.summaries,
            finished.decisions,
            finished.layout,
            facts,
            calibration=calibration,
            input=input,
            budget=finished.budget,
        )
        read, other_summariser = finished.input, self._elsewhere(facts)
        return upkeep(size, self._pruning, self._trigger, other_summariser, read=read, who=ENGINE)

    async def _title(self, finished: Finished) -> None:
        """Have a title written once; a conversation keeps its first words when that did not work out."""
        wanted = self._titles.wanted(finished) if self.settings.titles else None
        if wanted is not None and await self._worker.job(finished.caller, wanted.kind, wanted.subject) is None:
            await self._worker.enqueue(finished.caller, wanted)

    async def _follow(self, caller: Caller, conversation_id: str) -> None:
        if self.recall is not None:
            await self.recall.follow(caller, conversation_id)

    async def _do_summary(self, job: Job) -> Retry | None:
        """Do the summary of a session that has ended, then let it be found."""
        again = await self._ended.summarise(job)
        with suppress(NotFound):
            session = await self._services.store.sessions.session(job.caller, job.subject)
            await self._follow(job.caller, session.conversation_id)
        return again

    async def _record(self, caller: Caller, conversation_id: str, decision: Decision) -> None:
        change = ConversationChange(decisions=(decision,))
        await self._services.store.conversations.change_conversation(
            caller, conversation_id, change, self._services.clock.now()
        )

    def compact(
        self, caller: Caller, conversation_id: str, *, who: str, why: str, focus: str = ""
    ) -> asyncio.Task[Outcome]:
        """Compact in the background: see `Compactions.ask`."""
        return self._compactions.ask(CompactionRequest(caller, conversation_id, who, why, focus))

    def make_room(self, caller: Caller, conversation_id: str, *, why: str, coming: int = 0) -> asyncio.Task[Outcome]:
        """Compact now, before all other compactions, for a message or a running turn of `coming` local tokens.

        A running turn is not changed: the history before it is summarised, and it continues in the next session.
        """
        asked = CompactionRequest(caller, conversation_id, ENGINE, why, coming=coming)
        return self._compactions.ask(asked, first=True)

    def is_compacting(self, conversation_id: str) -> bool:
        """Whether a compaction of this conversation is about to run, or runs, in this process."""
        return self._compactions.is_running(conversation_id)

    async def compacts(self, caller: Caller, conversation_id: str) -> bool:
        """Whether a compaction of this conversation runs or is about to, in any process."""
        return await self._compactions.run_anywhere(caller, conversation_id)

    async def wait_until_idle(self, conversation_id: str) -> None:
        """Returns when no compaction that was requested here runs for this conversation."""
        await self._compactions.wait_until_idle(conversation_id)

    async def scope(self, caller: Caller, conversation_id: str) -> CompactionScope | NotCompacted:
        """The scope of a compaction now. No model is asked."""
        return await self._compactor.scope(caller, conversation_id)

    async def window_state(self, caller: Caller, conversation_id: str) -> WindowState:
        """The state of the window. No model is asked."""
        return await window_state(self._loader, self._services, caller, conversation_id)

    async def counted(self, caller: Caller, conversation_id: str, bill: LastBill | None) -> int | None:
        """The tokens of the window if `bill`, the last one, is of an older window; None if the bill is current."""
        if bill is not None and is_of_window(
            bill, await self._services.store.conversations.decisions(caller, conversation_id)
        ):
            return None
        # What was decided on another branch only is nothing to this window.
        now = await self.window_state(caller, conversation_id)
        return None if now.measured else now.parts.total

    async def outlook(self, caller: Caller, conversation_id: str) -> Outlook:
        """The outlook of the window. No model is asked. Raises `NotFound`."""
        try:
            loaded = await self._loader.current(caller, conversation_id)
        except InvalidRequest as error:  # its model is not served any more
            nothing = NextAction(self._services.clock.now(), None, Act.NOTHING, None, error.message)
            return Outlook(nothing, self.settings.compaction_when)
        due, other_summariser = await self._idle.next(caller, loaded), self._elsewhere(loaded.run.model.facts)
        return await aside(len(loaded.found.path), outlook_of, loaded, due, self.settings, other_summariser)

    async def why(self, caller: Caller, request_id: str) -> Why:
        """Why a request read what it read from the cache. Raises `NotFound`."""
        return await why_request(self._services.store, self._loader, caller, request_id)

    async def effort(self, caller: Caller, conversation_id: str) -> str:
        """The thinking effort that holds for the conversation."""
        return (await self._loader.current(caller, conversation_id)).run.sampling.thinking_effort

    async def efforts(self, caller: Caller, conversation_id: str) -> tuple[EffortChoice, ...]:
        """The thinking efforts to choose from, with the cost of changing to each now. No model is asked."""
        return await effort_choices(await self._loader.current(caller, conversation_id), self._services)

    async def lost_since(self, caller: Caller, conversation_id: str, before: str) -> CacheLoss | None:
        """What the next request can't read that it could with the effort `before`. Returns None if nothing is lost."""
        return await lost_since(await self._loader.current(caller, conversation_id), self._services, before)

    async def prune(self, caller: Caller, conversation_id: str) -> Pruning | None:
        """Prune now, below the threshold too. Returns None if there is nothing to prune.

        Raises `InvalidRequest` in a layout that shows no stubs.
        """
        loaded = await self._loader.current(caller, conversation_id)
        layout = loaded.setting.layout
        if layout.old_results is not OldResults.STUB:
            raise InvalidRequest(
                f"The layout {layout.name} does not prune: it has its own rule for old results.",
                hint="Choose another layout for this conversation to prune by hand.",
            )
        window = window_size(loaded).shown
        pruning = prune(window, self._pruning, who=caller.user_id, asked=True)
        if pruning is not None:
            await self._record(caller, conversation_id, pruning.decision)
        return pruning

    async def begin_anew(self, caller: Caller, conversation_id: str, *, why: str) -> Session:
        """`/new`: see `SessionChanges.begin_anew`."""
        return await self._moves.begin_anew(caller, conversation_id, why=why)

    async def resume(self, caller: Caller, conversation_id: str, session_id: str, *, why: str) -> Session:
        """`/resume ID`: see `SessionChanges.resume`."""
        return await self._moves.resume(caller, conversation_id, session_id, why=why)

    async def undo(self, caller: Caller, session_id: str) -> Session:
        """`/undo`: see `SessionChanges.undo`."""
        return await self._moves.undo(caller, session_id)

    async def view(self, caller: Caller, conversation_id: str) -> SessionView:
        """The conversation's sessions."""
        figures = await self.figures(caller, conversation_id)
        sessions = await self._services.store.sessions.sessions(caller, conversation_id)
        current = next(session for session in sessions if session.id == figures.current_id)
        return SessionView(current, sessions, await self.compacts(caller, conversation_id), figures)

    async def figures(self, caller: Caller, conversation_id: str) -> SessionFigures:
        """The figures of a conversation's sessions."""
        conversation = await self._services.store.conversations.conversation(caller, conversation_id)
        totals = await self._services.store.notices.totals(caller, conversation_id)
        decided = [
            stored.decision for stored in await self._services.store.conversations.decisions(caller, conversation_id)
        ]
        numbers = {d.subject: d.numbers for d in decided if d.kind is DecisionKind.SESSION and d.numbers}
        return SessionFigures(conversation.session_id, totals.messages, totals.tokens, totals.questions, numbers)

    async def close(self) -> None:
        """Stop running jobs. A compaction that was not committed changed nothing and is repeated later."""
        await self._worker.close()
        if self.recall is not None:
            await self.recall.close()
        await self._compactions.close()
