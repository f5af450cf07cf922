"""Moves a conversation to another session: begin a new one, resume an earlier one, undo a compaction.

A session that is closed by such a command gets its summary in the background (`EndedSessions`). An earlier session that
is larger than the resume budget continues from its summary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import structlog

from lamella.background import Retry, Worker
from lamella.cache.pruning import UNDONE
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import InvalidRequest, NotFound, SessionMoved
from lamella.core.messages import TurnStatus
from lamella.core.records import Caller, Conversation, Job, NewJob
from lamella.core.sessions import CarriedSummary, Session, SessionCause, SessionReturn, SessionStep, SessionSummary
from lamella.core.settings import EngineSettings
from lamella.sessions.carried_summaries import carried_on, chain_room
from lamella.sessions.summariser import NotCompacted, Summariser
from lamella.sessions.summary import LITERAL, literal
from lamella.sessions.summary_models import SessionSource
from lamella.turns.effective_settings import taken
from lamella.turns.loader import TurnLoader
from lamella.turns.services import Services

log = structlog.get_logger()

SUMMARISE = "summarise"


def summarise_job(session: Session, why: str) -> NewJob:
    """The job that makes the summary of a closed session."""
    assert session.closed_at is not None
    return NewJob(SUMMARISE, session.id, why, session.closed_at)


class EndedSessions:
    """Makes the summaries of closed sessions. A session that was resumed meanwhile gets none."""

    def __init__(self, loader: TurnLoader, services: Services, summariser: Summariser) -> None:
        self._loader = loader
        self._services = services
        self._summariser = summariser

    async def summarise(self, job: Job) -> Retry | None:
        """Do a job of `summarise_job`."""
        try:
            closed = await self._services.store.sessions.session(job.caller, job.subject)
        except NotFound:
            return None
        if closed.closed_at is None or closed.is_summarised:
            return None
        made = await self._summary(job.caller, closed)
        if made is None:
            return None
        if isinstance(made, NotCompacted):
            log.warning("no summary of an ended session", session=closed.id, why=made.why)
            return Retry(made.why, retry=made.again, code=made.code)
        if await self._services.store.sessions.summarise_session(job.caller, closed, made):
            log.info("summarised", session=closed.id, tokens=made.tokens)
            return None
        await self._services.store.sessions.spend(job.caller, closed.id, "summary", made.usage)
        now = await self._services.store.sessions.session(job.caller, closed.id)
        # Resumed, and ended again before this was done: what it holds now is not what was summarised.
        ended_again = now.closed_at is not None and not now.is_summarised
        return Retry("the session was resumed and ended again meanwhile") if ended_again else None

    async def _summary(self, caller: Caller, closed: Session) -> SessionSummary | NotCompacted | None:
        """The summary of a closed session; None if it is empty."""
        loaded = await self._loader.at_end_of(caller, closed)
        turns = [turn for turn in loaded.found.path if turn.status is not TurnStatus.RUNNING]
        if not turns:
            return None
        tokens = sum(turn.user.tokens + sum(step.tokens for step in turn.steps) for turn in turns)
        if tokens <= LITERAL:
            return literal(turns)
        return await self._summariser.summary_of(caller, SessionSource(self._services, loaded, turns, tokens))


async def resumed_size(
    loader: TurnLoader, services: Services, caller: Caller, target: Session, last: str | None
) -> tuple[int, int]:
    """The tokens of the window with which a session would continue after its turn `last`, and the window's budget.

    By the last bill of that turn, answer included; a local estimate if none of its requests was billed.
    """
    loaded = await loader.at_end_of(caller, target)
    requests = await services.store.requests.requests(caller, last) if last is not None else ()
    billed = [r.usage for r in requests if r.purpose == "chat" and r.usage is not None and not r.usage.input_estimated]
    billed = [usage for usage in billed if usage.input]
    if billed:
        return billed[-1].input + billed[-1].output, loaded.run.most
    turns = loaded.found.path
    local = sum(turn.user.tokens + sum(step.tokens for step in turn.steps) for turn in turns)
    local += sum(attachment.tokens for turn in turns for attachment in turn.user.attachments)
    return int(local * loaded.run.calibration), loaded.run.most


OVER = "over"
"""The number in a session's decision that says that it continues although it exceeds the resume budget."""


class SessionChanges:
    """Changes the session that a conversation is in. A command wins over a compaction that runs."""

    def __init__(self, loader: TurnLoader, services: Services, worker: Worker, settings: EngineSettings) -> None:
        self._loader = loader
        self._services = services
        self._worker = worker
        self._settings = settings

    async def begin_anew(self, caller: Caller, conversation_id: str, *, why: str) -> Session:
        """`/new`: an empty session after the newest message. Earlier messages leave the window and are kept.

        The closed session gets its summary in the background.
        """
        while True:
            conversation = await self._services.store.conversations.conversation(caller, conversation_id)
            boundary = conversation.head or ""
            session = self._next(conversation.session_id, conversation_id, SessionCause.NEW, conversation.head)
            decision = Decision(DecisionKind.SESSION, session.id, boundary, caller.user_id, why)
            step = self._step(caller, conversation, session, decision)
            try:
                opened = await self._services.store.sessions.next_session(caller, step)
            except SessionMoved:
                continue  # a compaction was quicker: the command wins all the same
            self._worker.wake()
            return opened

    async def _summarised(self, caller: Caller, target: Session, why: str) -> Session:
        """The session with its summary, which is made now if missing; without one if that fails or takes too long."""
        if target.is_summarised or target.closed_at is None or target.ends_with == target.begins_after:
            return target
        wanted = replace(summarise_job(target, why), takes_over=True)
        job = await self._worker.enqueue(caller, wanted, first=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.resume_timeout):
                await self._worker.ended(job)
        return await self._services.store.sessions.session(caller, target.id)

    async def resume(self, caller: Caller, conversation_id: str, session_id: str, *, why: str) -> Session:
        """`/resume ID`: continue an earlier session in full. Later turns are kept as another branch.

        A session that exceeds the resume budget continues from its summary in a new session, which is returned. If it
        has no summary and none can be made, it continues in full and its decision says so (`OVER`). Raises `NotFound`,
        `TurnInProgress`, and `InvalidRequest` for the current session.
        """
        while True:
            try:
                opened = await self._resume(caller, conversation_id, session_id, why)
            except SessionMoved:
                continue  # as above
            self._worker.wake()
            return opened

    async def _resume(self, caller: Caller, conversation_id: str, session_id: str, why: str) -> Session:
        """Go back once; returns the session that continues."""
        conversation = await self._services.store.conversations.conversation(caller, conversation_id)
        target = await self._services.store.sessions.session(caller, session_id)
        if target.conversation_id != conversation_id:
            raise NotFound(f"This conversation has no session {session_id}.", param="session_id")
        if target.id == conversation.session_id:
            raise InvalidRequest("This session is the current one.", hint="Choose another one: /resume lists them.")
        following = await self._after(caller, target)
        size, budget = await resumed_size(self._loader, self._services, caller, target, following)
        numbers = {"size": float(size)}
        if size > self._settings.resume_token_budget.in_tokens(budget):
            target = await self._summarised(caller, target, why)
            conversation = await self._services.store.conversations.conversation(caller, conversation_id)
            if target.is_summarised:
                known = await self._services.store.sessions.sessions(caller, conversation_id)
                carries = carried_on(target, known, chain_room(self._settings.compaction_threshold.in_tokens(budget)))
                return await self._resume_by_summary(caller, conversation, target, carries, numbers, why)
            numbers[OVER] = 1
        decision = Decision(DecisionKind.SESSION, target.id, target.begins_after or "", caller.user_id, why, numbers)
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
        return await self._services.store.sessions.return_to_session(caller, back)

    async def _resume_by_summary(
        self,
        caller: Caller,
        conversation: Conversation,
        target: Session,
        carries: tuple[CarriedSummary, ...],
        numbers: Mapping[str, float],
        why: str,
    ) -> Session:
        """A new session after the newest message, with the summary of the session that is too large."""
        session = self._next(target.id, conversation.id, SessionCause.RESUME, conversation.head)
        boundary = conversation.head or ""
        decision = Decision(DecisionKind.SESSION, session.id, boundary, caller.user_id, why, numbers)
        session = replace(session, inherits=True, carries=carries)
        return await self._services.store.sessions.next_session(
            caller, self._step(caller, conversation, session, decision)
        )

    def _step(self, caller: Caller, conversation: Conversation, session: Session, decision: Decision) -> SessionStep:
        """The step to a session whose window begins anew in any case, so it takes the current tools."""
        tools = self._services.registry.newest(conversation.tools)
        news = taken(conversation.tools, tools, caller.user_id, "a new session takes the tools that there are now")
        return SessionStep(
            expected=conversation.session_id,
            session=session,
            why=decision.why,
            at=session.opened_at,
            decisions=(decision, *news),
            then=SUMMARISE,
            tools=tools if news else None,
        )

    async def _after(self, caller: Caller, target: Session) -> str | None:
        """The last turn of a session when it was closed, including turns that a compaction kept.

        Returns None if it was closed empty, in a conversation without messages.
        """
        sessions = await self._services.store.sessions.sessions(caller, target.conversation_id)
        children = [s for s in sessions if s.parent_id == target.id or s.number == target.number + 1]
        if target.ends_with is not None:
            return target.ends_with
        last, ended = (children[0].begins_after if children else None), target.closed_at
        if not children or children[0].opened_by is not SessionCause.COMPACTION or ended is None:
            return last
        path = await self._services.store.turns.path(caller, target.conversation_id)
        if last not in {turn.ends_with for turn in path}:
            return last
        return next((turn.ends_with for turn in reversed(path) if turn.user.sent_at <= ended), last)

    async def undo(self, caller: Caller, session_id: str) -> Session:
        """Undo a compaction: the session that it closed continues, with all later messages.

        `session_id` is that of the closed session or of the one opened; returns the session that continues. Nothing is
        compacted automatically until a user asks, or a message would not fit. Raises `NotFound`, `TurnInProgress`,
        `SessionMoved`, and `InvalidRequest` if the newest session did not begin with a compaction.
        """
        store = self._services.store
        named = await store.sessions.session(caller, session_id)
        conversation = await store.conversations.conversation(caller, named.conversation_id)
        current = await store.sessions.session(caller, conversation.session_id)
        parent = current.parent_id
        if current.opened_by is not SessionCause.COMPACTION or parent is None or named.id not in (current.id, parent):
            raise InvalidRequest(
                f"Session {named.number} was not made or ended by this conversation's newest compaction.",
                hint="Only the newest compaction can be undone; /resume goes back to an earlier session.",
                param="session_id",
            )
        target, why = await store.sessions.session(caller, parent), "the compaction was undone"
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
        return await store.sessions.return_to_session(caller, back)

    def _next(self, parent: str, conversation_id: str, cause: SessionCause, begins_after: str | None) -> Session:
        return Session(
            id=self._services.ids.new("sess"),
            conversation_id=conversation_id,
            number=0,
            opened_at=self._services.clock.now(),
            opened_by=cause,
            parent_id=parent,
            begins_after=begins_after,
            carries=(),
        )
