"""Summaries of sessions that ended without one, by `/new`, `/clear` or `/resume` (SPEC L4). Nobody waits for them."""

from __future__ import annotations

import structlog

from lamella.background.worker import Again
from lamella.core.errors import NotFound
from lamella.core.messages import TurnStatus
from lamella.core.records import Caller, Job, NewJob
from lamella.core.sessions import Session, SessionSummary
from lamella.engine.opening import Openings
from lamella.engine.services import Services
from lamella.sessions.summariser import NotCompacted, Source, Summariser
from lamella.sessions.summary import LITERAL, literal

log = structlog.get_logger()

SUMMARISE = "summarise"


def summarise_job(session: Session, why: str) -> NewJob:
    """The job that gives a session which has ended its summary."""
    assert session.closed_at is not None
    return NewJob(SUMMARISE, session.id, why, session.closed_at)


class EndedSessions:
    """Gives closed sessions their summaries. One that is resumed meanwhile gets none: it goes on."""

    def __init__(self, openings: Openings, services: Services, summariser: Summariser) -> None:
        self._openings = openings
        self._services = services
        self._summariser = summariser

    async def summarise(self, job: Job) -> Again | None:
        """Do a job of `summarise_job`."""
        try:
            closed = await self._services.store.session(job.caller, job.subject)
        except NotFound:
            return None
        if closed.closed_at is None or closed.is_summarised:
            return None
        made = await self._summary(job.caller, closed)
        if made is None:
            return None
        if isinstance(made, NotCompacted):
            log.warning("no summary of an ended session", session=closed.id, why=made.why)
            return Again(made.why, retry=made.again, code=made.code)
        if await self._services.store.summarise_session(job.caller, closed, made):
            log.info("summarised", session=closed.id, tokens=made.tokens)
            return None
        await self._services.store.spend(job.caller, closed.id, "summary", made.usage)
        now = await self._services.store.session(job.caller, closed.id)
        # Resumed, and ended again before this was done: what it holds now is not what was summarised.
        ended_again = now.closed_at is not None and not now.is_summarised
        return Again("the session was resumed and ended again meanwhile") if ended_again else None

    async def _summary(self, caller: Caller, closed: Session) -> SessionSummary | NotCompacted | None:
        """The summary of a closed session, None of one that holds nothing."""
        opening = await self._openings.closed(caller, closed)
        turns = [turn for turn in opening.found.path if turn.status is not TurnStatus.RUNNING]
        if not turns:
            return None
        tokens = sum(turn.user.tokens + sum(step.tokens for step in turn.steps) for turn in turns)
        if tokens <= LITERAL:
            return literal(turns)
        return await self._summariser.summary_of(caller, Source(opening, turns, tokens))
