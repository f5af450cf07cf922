"""Compaction: old turns become a summary, in the background, and the conversation goes on in the next session.

    live window ─ split between two turns ▶ the same prefix with an instruction last ▶ summary ▶ next session

The newest turns stay as they were said: as many as fit into `keep_recent` tokens (4,000), and at least one unless it is
huge (a quarter of the budget). They also leave half of the room that a window has besides its fixed parts and a
summary: else it would be full again at once. Example: turns of 30,000, 9,000, 2,500 and 1,000 tokens; the last two
stay, 39,000 tokens become a summary of about 1,000. A compaction after a turn is not made if it frees less than a
quarter of the threshold, or of the window if prices asked for it (`Trigger.vain`). One that a waiting message needs is
made in any case.

The summary's request repeats the live window, so most of it is read from the cache. Nobody waits for it. The commit is
a compare-and-swap on the conversation's session: if the user has opened another one meanwhile, that one stays and the
summary is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from lamella.cache.economics import LEAST_CARRIED, LEAST_GAIN, expected_summary, turns_kept
from lamella.cache.pruning import summaries_tokens
from lamella.cache.weighing import SILENT, Gain, Trigger
from lamella.context.assemble import Assembled
from lamella.context.choices import usable
from lamella.core.counting import aside
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import LamellaError, LeaseLost, NotFound, SessionMoved, StoreFailed
from lamella.core.json import JsonObject
from lamella.core.messages import Turn, TurnStatus
from lamella.core.prompt import ToolSpec
from lamella.core.records import Caller, Job, StoredDecision
from lamella.core.sessions import Session, SessionCause, SessionStep, SessionSummary, summaries_in_window
from lamella.core.settings import EngineSettings
from lamella.sessions.carried_summaries import ChainRoom, carried_on, chain_room
from lamella.sessions.summariser import NotCompacted, Summariser
from lamella.sessions.summary import longest_in
from lamella.sessions.summary_check import forms_used
from lamella.sessions.summary_models import SessionSource, with_instruction
from lamella.sessions.window import Breakdown, as_it_stands, parts_of
from lamella.turns.effective_settings import allowed, taken
from lamella.turns.loader import TurnContext, TurnLoader
from lamella.turns.services import Services

log = structlog.get_logger()


ENGINE = "engine"
"""Who decides automatic actions."""

FREE = 0.5
"""The share of the room besides fixed parts and the summary that stays free for new messages; otherwise the window
would be full again at once.
"""

SLACK = 0.05
"""The share of the window that stays free besides a waiting message."""

ALL_RECENT = "LAMELLA_KEEP_RECENT_TOKENS sets how much is kept word for word. /new begins an empty window."


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction that was committed, in tokens as the provider counts them (apportioned).

    `after` is the window that it left, counted as every window is.
    """

    session: Session
    before: int
    after: Breakdown
    summary: int
    kept: int
    budget: int
    check: JsonObject = field(default_factory=dict)
    """The comparison of the summary with its source."""


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """A request for a compaction, from `job` if it is one's work.

    `if_it_pays`: it is not needed now, so it is skipped if it frees too little. `numbers` are the figures of the
    decision. `coming` are the local tokens of a waiting message or a running turn, which need room.
    """

    caller: Caller
    conversation_id: str
    who: str
    why: str
    focus: str = ""
    job: Job | None = None
    if_it_pays: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)
    coming: int = 0


@dataclass(frozen=True, slots=True)
class CompactionScope:
    """The scope of a compaction: the number of turns to summarise, of all turns, and their tokens."""

    old: int
    turns: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """The turns to summarise and those to keep. `sizes` are the tokens of each turn, oldest first."""

    loaded: TurnContext
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

    @property
    def before(self) -> int:
        """The tokens of the window, the instruction left out."""
        asked = sum(segment.tokens for segment in self.whole.rendered[-1].segments)
        return int((self.whole.report.local - asked) * self.loaded.run.calibration)

    @property
    def earlier(self) -> int:
        """The tokens of the earlier summaries."""
        return summaries_tokens(self.loaded.found.summaries, self.loaded.run.calibration)

    @property
    def gain(self) -> Gain:
        """What the compaction frees."""
        fixed = self.before - self.earlier - self.old_tokens - self.kept_tokens
        summary = expected_summary(self.loaded.decisions)
        return Gain(fixed, self.old_tokens, self.kept_tokens, self.earlier, summary)

    def left(self, sessions: Sequence[Session], decision: StoredDecision, tools: tuple[ToolSpec, ...]) -> TurnContext:
        """The state of the conversation in the last of `sessions`, which `decision` opens, with these tools."""
        found, setting = self.loaded.found, self.loaded.setting
        equipped = replace(setting.conversation, tools=(*allowed(tools, setting.around.agent), *self.loaded.own_tools))
        left = replace(
            found,
            path=tuple(self.kept),
            decisions=(*found.decisions, decision),
            session=sessions[-1],
            summaries=summaries_in_window(sessions, sessions[-1].id),
        )
        return replace(self.loaded, found=left, setting=replace(setting, conversation=equipped))

    @property
    def first_segment(self) -> str | None:
        """The first segment of the turns."""
        first = self.whole.rendered[0].segments
        return first[0].id if first else None


HUGE = 0.25
"""The share of the budget above which even the newest turn is summarised."""


class Compactor:
    """Compacts conversations in the background."""

    def __init__(
        self,
        loader: TurnLoader,
        services: Services,
        settings: EngineSettings,
        summariser: Summariser,
        trigger: Trigger,
    ) -> None:
        self._loader = loader
        self._services = services
        self._settings = settings
        self._summariser = summariser
        self._trigger = trigger

    async def compact(self, request: CompactionRequest) -> Compacted | NotCompacted:
        """Summarise old turns and open the next session.

        Raises `NotFound`, `LeaseLost` and `StoreFailed`; then nothing has changed.
        """
        caller = request.caller
        plan = await self._planned(caller, request.conversation_id, request.coming)
        if isinstance(plan, NotCompacted):
            return plan
        vain = self._trigger.vain(plan.gain, plan.loaded.run.most) if request.if_it_pays else None
        if vain is not None:
            return NotCompacted(vain[1], code=vain[0])
        tokens = int(plan.old_tokens / plan.loaded.run.calibration)
        room = self._chain(plan).in_local(plan.loaded.run.calibration).newest
        source = SessionSource(self._services, plan.loaded, plan.old, tokens, request.focus, plan.kept, room)
        summary = await self._summariser.summary_of(caller, source)
        if isinstance(summary, NotCompacted):
            return summary
        known = await self._services.store.sessions.sessions(caller, request.conversation_id)
        step, compacted = await aside(len(plan.kept), self._step, plan, summary, request, known)
        try:
            opened = await self._services.store.sessions.next_session(caller, step, request.job)
        except (SessionMoved, LeaseLost, NotFound, StoreFailed) as error:
            await self._spent_in_vain(caller, step.expected, summary)
            if isinstance(error, SessionMoved):
                return NotCompacted("another session was opened meanwhile", code=SILENT)
            raise
        return replace(compacted, session=opened)

    async def _spent_in_vain(self, caller: Caller, session_id: str, summary: SessionSummary) -> None:
        """Record the cost of a summary that was not committed, if its session still exists."""
        try:
            await self._services.store.sessions.spend(caller, session_id, "summary", summary.usage)
        except LamellaError as error:
            log.error("the tokens of a summary are not recorded", session=session_id, error=error.message)

    async def scope(self, caller: Caller, conversation_id: str) -> CompactionScope | NotCompacted:
        """The scope of a compaction now. No model is asked. Raises `NotFound` and `StoreFailed`."""
        plan = await self._planned(caller, conversation_id)
        if isinstance(plan, NotCompacted):
            return plan
        return CompactionScope(len(plan.old), len(plan.old) + len(plan.kept), plan.old_tokens)

    async def _planned(self, caller: Caller, conversation_id: str, coming: int = 0) -> _Plan | NotCompacted:
        loaded = await self._loader.current(caller, conversation_id)
        return await aside(len(loaded.found.path), self._plan, loaded, coming)

    def _plan(self, loaded: TurnContext, coming: int) -> _Plan | NotCompacted:
        """The turns to summarise, by their sizes; none if all are recent.

        The window may exceed its budget: that is why it is compacted.
        """
        turns = [turn for turn in loaded.found.path if turn.status is not TurnStatus.RUNNING]
        if not turns:
            return NotCompacted("there are no messages yet", code="empty")
        context = with_instruction(loaded, turns, "")
        whole = as_it_stands(context, loaded.setting.layout)
        local = [sum(segment.tokens for segment in rendered.segments) for rendered in whole.rendered[: len(turns)]]
        room = room_for_turns(usable(context), whole.report.local - sum(local), coming)
        calibration = loaded.run.calibration
        sizes = [int(size * calibration) for size in local]
        most, huge = int(room * calibration), int(loaded.run.most * HUGE)
        kept = turns_kept(sizes, min(self._settings.keep_recent_tokens, most), min(huge, most))
        if kept == len(turns):
            return NotCompacted("all of it is recent", code="recent", hint=ALL_RECENT)
        cut = len(turns) - kept
        return _Plan(loaded, whole, turns[:cut], turns[cut:], sizes)

    def _chain(self, plan: _Plan) -> ChainRoom:
        """The room for all summaries after this compaction."""
        threshold = self._settings.compaction_threshold.in_tokens(plan.loaded.run.most)
        return chain_room(threshold, plan.before if self._settings.compaction_when == "pays" else None)

    def _room(self, plan: _Plan, summary: int) -> ChainRoom:
        """The same, or less if a window past its threshold would be past it again soon with all of them."""
        threshold = self._settings.compaction_threshold.in_tokens(plan.loaded.run.most)
        room = self._chain(plan)
        lacks = LEAST_GAIN * threshold - (plan.old_tokens - summary)
        if plan.before > threshold and lacks > 0:
            room = room.at_most(max(int(plan.earlier * LEAST_CARRIED), int(plan.earlier - lacks)) + summary)
        return room.in_local(plan.loaded.run.calibration)

    def _step(
        self, plan: _Plan, summary: SessionSummary, request: CompactionRequest, known: Sequence[Session]
    ) -> tuple[SessionStep, Compacted]:
        """The step to the next session, and the result. `known` are the sessions before it."""
        old, now = plan.loaded.found.session, self._services.clock.now()
        calibration, boundary = plan.loaded.run.calibration, plan.old[-1].ends_with
        size = int(summary.tokens * calibration)
        ended = replace(old, summary=summary.text, summary_tokens=summary.tokens, check=summary.check)
        session = Session(
            id=self._services.ids.new("sess"),
            conversation_id=old.conversation_id,
            number=0,
            opened_at=now,
            opened_by=SessionCause.COMPACTION,
            parent_id=old.id,
            begins_after=boundary,
            inherits=True,
            carries=carried_on(ended, known, self._room(plan, size), forms_used(plan.old)),
        )
        made = {"before": plan.before, "summary": size, "kept": plan.kept_tokens}
        numbers = {**request.numbers, **made}
        decision = Decision(
            DecisionKind.SESSION, session.id, boundary, request.who, request.why, numbers, plan.first_segment
        )
        sessions = (*(ended if one.id == old.id else one for one in known), session)
        pinned = plan.loaded.found.conversation.tools
        tools = self._services.registry.newest(pinned)
        news = taken(pinned, tools, ENGINE, "a compaction takes the tools that there are now")
        after = parts_of(plan.left(sessions, StoredDecision("", now, decision), tools), now)
        decision = replace(decision, numbers={**numbers, "after": after.total})
        step = SessionStep(
            expected=old.id,
            session=session,
            why=request.why,
            at=now,
            summary=summary,
            decisions=(decision, *news),
            changes=plan.loaded.found.session_changes,
            tools=tools if news else None,
        )
        budget = plan.loaded.run.most
        return step, Compacted(session, plan.before, after, size, plan.kept_tokens, budget, summary.check)


def room_for_turns(usable: int, fixed: int, coming: int) -> int:
    """The local tokens for kept turns in a window, besides its fixed parts, the summary, and the coming message."""
    free = usable - fixed - longest_in(usable)
    return max(0, min(int(free * (1 - FREE)), free - coming - int(usable * SLACK)))
