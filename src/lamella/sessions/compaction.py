"""Compaction: what is old becomes a summary, in the background, and the conversation goes on (SPEC L1, L3, L7).

live window ──split on a turn boundary──▶ the same prefix with an instruction last ──▶ summary ──▶ the next session

The commit is a compare-and-swap on the conversation's session: whoever opened another one meanwhile wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.cache.plan import note_billed, note_written
from lamella.context.assemble import Assembled, assemble
from lamella.context.input import ContextInput
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded, SessionMoved
from lamella.core.messages import Turn, TurnStatus, UserMessage
from lamella.core.records import Caller, Job
from lamella.core.sessions import Session, SessionCause, SessionStep
from lamella.engine.loop import Services
from lamella.engine.opening import Opening, Openings
from lamella.engine.request import Identity, new_request, prepare
from lamella.engine.side import SideAnswer, ask
from lamella.sessions.settings import SessionSettings
from lamella.sessions.split import turns_kept
from lamella.sessions.summary import MAX_OUTPUT, Refused, checked, instruction


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction that was committed, in tokens as the provider counts them (apportioned)."""

    session: Session
    before: int
    after: int
    summary: int
    kept: int


@dataclass(frozen=True, slots=True)
class NotCompacted:
    """Nothing changed, and why. `again`: it may be tried once more without anything else having changed."""

    why: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a compaction would summarise: so many turns of so many, and their tokens."""

    old: int
    turns: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is summarised, and what stays; `sizes` are the tokens of each turn, oldest first."""

    opening: Opening
    whole: Assembled
    old: Sequence[Turn]
    kept: Sequence[Turn]
    sizes: Sequence[int]

    @property
    def old_tokens(self) -> int:
        return sum(self.sizes[: len(self.old)])

    @property
    def kept_tokens(self) -> int:
        return sum(self.sizes[len(self.old) :])


class Compactor:
    """Compacts conversations; nobody waits for it."""

    def __init__(self, openings: Openings, services: Services, settings: SessionSettings) -> None:
        self._openings = openings
        self._services = services
        self._settings = settings

    async def compact(
        self, caller: Caller, conversation_id: str, *, who: str, why: str, focus: str = "", job: Job | None = None
    ) -> Compacted | NotCompacted:
        """Summarise what is old and open the next session, as the work of `job` if it is one's.

        Raises `NotFound`, `LeaseLost` and `StoreFailed`; then nothing has changed.
        """
        plan = self._plan(await self._openings.standing(caller, conversation_id))
        if isinstance(plan, NotCompacted):
            return plan
        answer = await self._ask(caller, plan, focus)
        if answer.error is not None:
            return NotCompacted(f"the summary could not be made: {answer.error.message}", again=True)
        source = int(plan.old_tokens / plan.opening.run.calibration)
        summary = checked(answer.text, answer.stop_reason, called_tools=answer.called_tools, source_tokens=source)
        if isinstance(summary, Refused):
            return NotCompacted(summary.why, again=True)
        return await self._commit(caller, plan, summary, answer, who=who, why=why, job=job)

    async def ahead(self, caller: Caller, conversation_id: str) -> Ahead | NotCompacted:
        """What a compaction would summarise now; no model is asked. Raises `NotFound` and `StoreFailed`."""
        plan = self._plan(await self._openings.standing(caller, conversation_id))
        if isinstance(plan, NotCompacted):
            return plan
        return Ahead(len(plan.old), len(plan.old) + len(plan.kept), plan.old_tokens)

    def _plan(self, opening: Opening) -> _Plan | NotCompacted:
        """What to summarise; nothing where all of it is recent."""
        turns = [turn for turn in opening.found.path if turn.status is not TurnStatus.RUNNING]
        if not turns:
            return NotCompacted("there is nothing to compact yet")
        try:
            whole = assemble(_context(opening, turns, instruction(turns[-1:])), opening.setting.layout)
        except ContextLengthExceeded as error:
            return NotCompacted(f"the window can't be built: {error.message}")
        sizes = [
            int(sum(segment.tokens for segment in rendered.segments) * opening.run.calibration)
            for rendered in whole.rendered[: len(turns)]
        ]
        kept = turns_kept(sizes, self._settings.keep_recent, int(opening.run.budget * self._settings.huge))
        if kept == len(turns):
            return NotCompacted("all of it is recent: there is nothing to compact")
        cut = len(turns) - kept
        return _Plan(opening, whole, turns[:cut], turns[cut:], sizes)

    async def _ask(self, caller: Caller, plan: _Plan, focus: str) -> SideAnswer:
        """The live prefix with the instruction last: what is cached of it is read from the cache."""
        opening, now = plan.opening, self._services.clock.now()
        run, setting = opening.run, opening.setting
        context = _context(opening, plan.old, instruction(plan.old, focus))
        context = replace(context, sampling=replace(run.sampling, max_output=min(run.sampling.max_output, MAX_OUTPUT)))
        prepared = prepare(
            context,
            setting.layout,
            setting.policy,
            run.model,
            run.account,
            self._services.ledger,
            now,
            opening.line,
        )
        turn_id = plan.old[-1].id
        identity = Identity(self._services.ids.new("req"), setting.conversation.id, turn_id, 0, "summary", now)
        await self._services.store.record_request(caller, new_request(prepared, identity, setting.policy, None))
        note_written(prepared.plan, self._services.ledger, prepared.facts)
        answer = await ask(run.model, prepared.request, run.headers("summary", 0))
        note_billed(prepared.plan, answer.usage, self._services.ledger, prepared.facts)
        cost = run.model.facts.cost(answer.usage)
        await self._services.store.end_request(caller, answer.end(identity.id, cost))
        return answer

    async def _commit(
        self, caller: Caller, plan: _Plan, summary: str, answer: SideAnswer, *, who: str, why: str, job: Job | None
    ) -> Compacted | NotCompacted:
        old, now = plan.opening.found.session, self._services.clock.now()
        tokens = count_tokens(summary)
        calibration = plan.opening.run.calibration
        asked = sum(segment.tokens for segment in plan.whole.rendered[-1].segments)
        before = int((plan.whole.report.local - asked) * calibration)
        after = before - plan.old_tokens + int(tokens * calibration)
        boundary = plan.old[-1].id
        session = Session(
            id=self._services.ids.new("sess"),
            conversation_id=old.conversation_id,
            number=0,
            opened_at=now,
            opened_by=SessionCause.COMPACTION,
            parent_id=old.id,
            begins_after=boundary,
            inherits=True,
        )
        numbers = {"before": before, "after": after, "summary": tokens * calibration, "kept": plan.kept_tokens}
        first = plan.whole.rendered[0].segments
        decision = Decision(
            DecisionKind.SESSION,
            session.id,
            boundary,
            who,
            why,
            numbers,
            first_changed=first[0].id if first else None,
        )
        step = SessionStep(
            expected=old.id,
            session=session,
            why=why,
            at=now,
            summary=summary,
            summary_tokens=tokens,
            usage=answer.usage,
            decisions=(decision,),
        )
        try:
            opened = await self._services.store.next_session(caller, step, job)
        except SessionMoved:
            return NotCompacted("another session was opened meanwhile")
        return Compacted(opened, before, after, int(tokens * calibration), plan.kept_tokens)


def _context(opening: Opening, history: Sequence[Turn], text: str) -> ContextInput:
    """The window of `history` with an instruction as its newest message."""
    last = history[-1].user
    user = UserMessage("instruction", text, last.sent_at, last.timezone, count_tokens(text))
    return replace(opening.context(Turn("instruction", user)), history=tuple(history))
