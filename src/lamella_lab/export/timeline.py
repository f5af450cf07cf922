"""What happened in a conversation, in order: its turns, and between them what people and the engine did."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lamella.context.system_prompt import knowledge_text
from lamella.core.agents import Agent, KnowledgePrompt
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.models import ModelFacts, effort_named
from lamella.core.prompt import ToolSpec
from lamella.core.records import (
    Notice,
    Pinned,
    PinnedProject,
    Place,
    RequestRecord,
    StoredDecision,
    TurnRecord,
    can_go_on,
    first_choice,
)
from lamella.core.settings import budget_of
from lamella.tooling.tool import Registry
from lamella.turns.effective_settings import GRANT, WITHHELD
from lamella.turns.session_choices import KNOWLEDGE_SUBJECT as KNOWLEDGE
from lamella_lab.export.answers import run_of, stop_of
from lamella_lab.export.conversation_data import ConversationData
from lamella_lab.export.related import agent_of, file_of, found_of, tools_of, withheld_document
from lamella_lab.export.requests import SentRequests
from lamella_lab.trace.format import (
    AgentChange,
    BaseChange,
    CompactChange,
    PreferChange,
    ProjectChange,
    PruneChange,
    ResumeChange,
    SetChange,
    SystemChange,
    ToolsChange,
    TraceCommand,
    TraceEntry,
    TraceProject,
    TraceTurn,
)
from lamella_lab.trace.parts import TraceFound, TraceResult

ACTING = ("new", "clear", "compact", "prune", "undo")
"""Commands that change the window, besides `/resume`; the others only read."""

Happened = TurnRecord | Notice | StoredDecision | RequestRecord


@dataclass(slots=True)
class ReplayDefaults:
    """What a replay has when it comes to a moment of the story: what differs then is said before it."""

    model: str
    layout: str
    marker_policy: str
    effort: str
    budget: int | None
    max_output: int
    has_second: bool
    """Another model makes the summaries."""
    system: str
    tools: Sequence[ToolSpec] = ()
    agent: Agent | None = None
    project: PinnedProject | None = None
    place: Place | None = field(default_factory=Place)
    """None: the position is known to the replay only."""


class Timeline:
    """Tells what happened. `projects` are those of the turns by id and revision, with their files; `closed` are the
    knowledge bases of which nothing is told, since they may not be read now."""

    def __init__(
        self,
        gathered: ConversationData,
        sent: SentRequests,
        defaults: ReplayDefaults,
        registry: Registry,
        projects: Mapping[tuple[str, int], TraceProject],
        facts: Mapping[str, ModelFacts],
        closed: Collection[str],
    ) -> None:
        self._gathered = gathered
        self._sent = sent
        self._standing = defaults
        self._registry = registry
        self._projects = projects
        self._facts = facts
        self._closed = closed
        self._turns = {turn.id: turn for turn in gathered.turns}
        self._runs = {run.id: run.index for turn in gathered.turns for run in turn.runs}
        self._steps = dict(_steps(gathered.turns))
        self._summaries = gathered.of_purpose("summary")
        self._number = {record.id: number for number, record in enumerate(self._summaries)}
        self._knowledge = dict(_knowledge(gathered.decisions))

    def entries(self) -> list[TraceEntry]:
        """All of it, in order."""
        happened = self._happened()
        return [entry for number, one in enumerate(happened) for entry in self._told(one, happened[number + 1 :])]

    def _happened(self) -> list[Happened]:
        gathered = self._gathered
        found: list[tuple[datetime, Happened]] = [(notice.at, notice) for notice in gathered.commands]
        first = (record for record in self._summaries if record.step == 0)  # the others are asked for by its answer
        found += ((gathered.asked_at(record), record) for record in first)
        found += ((one.at, one) for one in gathered.decisions if self._is_told(one))
        found += ((turn.started_at, turn) for turn in gathered.turns)
        return [happened for _, happened in sorted(found, key=lambda one: one[0])]

    def _is_told(self, stored: StoredDecision) -> bool:
        """Whether a decision is a part of the story, and not what comes of it."""
        match stored.decision.kind:
            case DecisionKind.PREFERRED:
                return self._was_kept(stored.decision)
            case DecisionKind.PRUNE:
                return stored.run_id is None and stored.decision.outcome in self._steps
            case DecisionKind.SETTING:
                kind, _, base = stored.decision.subject.partition(" ")
                return kind == GRANT and base not in self._closed
            case _:
                return False

    def _was_kept(self, decision: Decision) -> bool:
        """Whether the conversation went on from the answer that was chosen: not if that one failed afterwards."""
        turn, index = self._turns.get(decision.subject), self._runs.get(decision.outcome)
        if turn is None or index is None:
            return turn is not None
        return can_go_on([run.status for run in turn.runs], index)

    def _told(self, happened: Happened, after: Sequence[Happened]) -> Iterator[TraceEntry]:
        match happened:
            case TurnRecord():
                yield from self._turn(happened)
            case Notice():
                asked = _asked_by_it(after)
                if asked is not None:
                    yield from self._alone(happened.at, asked)
                yield from self._command(happened)
            case StoredDecision():
                yield self._decision(happened)
            case RequestRecord():
                at = self._gathered.asked_at(happened)
                yield from self._alone(at, happened)
                yield CompactChange(at=at, request=self._number[happened.id])

    def _alone(self, at: datetime, record: RequestRecord) -> Iterator[TraceEntry]:
        """What the conversation has by itself when it asks for a summary."""
        yield from self._around(at, self._gathered.kept_around(record.at))
        yield from self._set(at, record)
        if not self._standing.has_second:
            yield from self._changed(at, self._budget(record))

    # Between turns

    def _command(self, notice: Notice) -> Iterator[TraceEntry]:
        if notice.name == "resume":
            number = self._resumed(notice)
            if number is not None:
                self._standing.place = None
                yield ResumeChange(at=notice.at, session=number)
        elif notice.name in ACTING:
            focus = notice.argument if notice.name == "compact" else ""
            yield TraceCommand(at=notice.at, user=f"/{notice.name} {focus}".strip())

    def _resumed(self, notice: Notice) -> int | None:
        """The number of the session that was resumed. None if sessions were only listed."""
        wanted = notice.data.get("summary_of") or notice.data.get("session_id")
        return next((session.number for session in self._gathered.sessions if session.id == wanted), None)

    def _decision(self, stored: StoredDecision) -> TraceEntry:
        decision = stored.decision
        if decision.kind is DecisionKind.SETTING:
            base = decision.subject.partition(" ")[2]
            return BaseChange(at=stored.at, base=base, grant="none" if decision.outcome == WITHHELD else "full")
        if decision.kind is DecisionKind.PREFERRED:
            turn = self._turns[decision.subject]
            run = self._runs.get(decision.outcome)
            self._standing.place = Place(turn.id, decision.outcome)
            return PreferChange(at=stored.at, turn=turn.user_message_id, run=run)
        turn, run_index, step = self._steps[decision.outcome]
        return PruneChange(
            at=stored.at, turn=turn.user_message_id, run=run_index, step=step, numbers=dict(decision.numbers)
        )

    # Turns

    def _turn(self, turn: TurnRecord) -> Iterator[TraceEntry]:
        first = next((one for one in self._gathered.requests[turn.id] if one.purpose == "chat"), None)
        yield from self._around(turn.started_at, self._gathered.kept_around(turn.started_at))
        if first is not None:
            yield from self._limits(turn.started_at, first)
        yield self._asked(turn, first)
        self._standing.place = Place(turn.id, turn.runs[first_choice([run.status for run in turn.runs])].id)

    def _around(self, at: datetime, pinned: Pinned | None) -> Iterator[TraceEntry]:
        """What stands around the conversation otherwise than before."""
        now = self._standing
        if pinned is None:
            return
        if pinned.system != now.system:
            now.system = pinned.system
            yield SystemChange(at=at, system=pinned.system)
        if tuple(pinned.tools) != tuple(now.tools):
            now.tools = pinned.tools
            yield ToolsChange(at=at, tools=tools_of(pinned.tools, self._registry))
        if pinned.agent != now.agent:
            now.agent = pinned.agent
            yield AgentChange(at=at, agent=agent_of(pinned.agent) if pinned.agent is not None else None)
        if pinned.project != now.project:
            now.project = pinned.project
            yield ProjectChange(at=at, project=self.project(pinned.project))

    def project(self, pinned: PinnedProject | None) -> TraceProject | None:
        """A project with its files."""
        return self._projects[pinned.id, pinned.revision] if pinned is not None else None

    def _limits(self, at: datetime, record: RequestRecord) -> Iterator[TraceEntry]:
        """The budget and the reserved output of a request, if they differ from those of a replay."""
        now, facts = self._standing, self._facts.get(record.model)
        settings: dict[str, int] = {}
        output = output_of(record)
        most = now.max_output if facts is None else min(now.max_output, facts.max_output)
        if output is not None and output != most:
            settings["max_output"] = now.max_output = output
        yield from self._changed(at, settings | self._budget(record))

    def _budget(self, record: RequestRecord) -> dict[str, int]:
        """The budget that a request had, if a replay has another one."""
        now, facts = self._standing, self._facts.get(record.model)
        if facts is not None and record.budget == budget_of(facts, now.budget, now.max_output):
            return {}
        now.budget = record.budget
        return {"context_budget": record.budget}

    def _changed(self, at: datetime, settings: dict[str, int]) -> Iterator[TraceEntry]:
        if settings:
            yield SetChange(at=at, settings=dict(settings))

    def _set(self, at: datetime, record: RequestRecord) -> Iterator[TraceEntry]:
        """Model, layout, markers and effort of a request that a turn does not choose."""
        now, change = self._standing, SetChange(at=at)
        if record.model != now.model and not self._standing.has_second:
            change.model = now.model = record.model
        if record.layout != now.layout:
            change.layout = now.layout = record.layout
        if record.marker_policy != now.marker_policy:
            change.marker_policy = now.marker_policy = record.marker_policy
        if record.thinking_effort != now.effort:
            change.effort = now.effort = effort_named(record.thinking_effort)
        if change != SetChange(at=at):
            yield change

    def _asked(self, turn: TurnRecord, first: RequestRecord | None) -> TraceTurn:
        now, gathered = self._standing, self._gathered
        runs = [run_of(turn, run, gathered, self._sent) for run in turn.runs]
        stops = [stop for run, made in zip(turn.runs, runs, strict=True) if (stop := stop_of(run, made)) is not None]
        prompt, told = self._dynamic(turn)
        made = TraceTurn(
            at=turn.started_at,
            user=turn.text,
            models=[run.model for run in turn.runs],
            id=turn.user_message_id,
            sent=turn.sent_at,
            files=[file_of(attached) for attached in turn.attachments],
            dynamic_context=[told] if told else [],
            timezone=turn.timezone,
            stop=stops[0] if len(stops) == 1 else stops or None,
            found=list(self._found(turn)),
            made_from=list(turn.dynamic_from) if turn.dynamic else [],
            own_tools=tools_of(turn.tools, self._registry) if turn.tools is not None else None,
            results=[TraceResult(result.call_id, result.content, result.is_error) for result in turn.results],
            told=gathered.is_told(turn),
        )
        if prompt is not KnowledgePrompt.NONE:
            made.knowledge = "restricted" if prompt is KnowledgePrompt.RESTRICTED else "normal"
        if len(runs) == 1:
            made.steps = runs[0].steps
        else:
            made.runs = {str(number): run for number, run in enumerate(runs)}
        if turn.parent != now.place:
            made.parent = self._place(turn.parent)
        if first is not None:
            made.layout = first.layout if first.layout != now.layout else None
            is_own = first.marker_policy == now.marker_policy and made.layout is None
            made.marker_policy = None if is_own else first.marker_policy
            made.effort = first.thinking_effort if first.thinking_effort != now.effort else None
        return made

    def _place(self, place: Place) -> str | None:
        if place.turn_id is None or place.turn_id not in self._turns:
            return None
        named = self._turns[place.turn_id].user_message_id
        return named if place.run_id is None else f"{named}/{self._runs[place.run_id]}"

    def _dynamic(self, turn: TurnRecord) -> tuple[KnowledgePrompt, str]:
        """Which text about knowledge bases a turn needed, and its dynamic context without that text; of a turn that was
        answered elsewhere, all of the context.
        """
        if self._gathered.is_told(turn):
            return KnowledgePrompt.NONE, turn.dynamic
        for prompt in (KnowledgePrompt.RESTRICTED, KnowledgePrompt.NORMAL):
            text = knowledge_text(prompt)
            if turn.dynamic == text or turn.dynamic.startswith(f"{text}\n\n"):
                return prompt, turn.dynamic[len(text) :].removeprefix("\n\n")
        return self._knowledge.get(turn.id, KnowledgePrompt.NONE), turn.dynamic

    def _found(self, turn: TurnRecord) -> Iterator[TraceFound]:
        """What tools brought into the conversation from this turn's beginning to the next one's."""
        following = (one.started_at for one in self._gathered.turns if one.started_at > turn.started_at)
        end = next(following, None)
        is_withheld = any(step.withheld for run in turn.runs for step in run.steps)
        for at, document in self._gathered.found:
            if turn.started_at <= at and (end is None or at < end):
                yield withheld_document(document) if is_withheld else found_of(document)


def _asked_by_it(after: Sequence[Happened]) -> RequestRecord | None:
    """The request for a summary that a command leads to: the next one, before any turn."""
    for happened in after:
        if isinstance(happened, RequestRecord):
            return happened
        if isinstance(happened, TurnRecord):
            return None
    return None


def output_of(record: RequestRecord) -> int | None:
    """The most tokens that a request let its answer have."""
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    given = next((record.head[name] for name in names if name in record.head), None)
    return given if isinstance(given, int) else None


def _steps(turns: Iterable[TurnRecord]) -> Iterator[tuple[str, tuple[TurnRecord, int, int]]]:
    """Where each step is: its turn, run and place."""
    for turn in turns:
        for run in turn.runs:
            for place, step in enumerate(run.steps):
                yield step.id, (turn, run.index, place)


def _knowledge(decisions: Iterable[StoredDecision]) -> Iterator[tuple[str, KnowledgePrompt]]:
    """The turns with which the text about knowledge bases was chosen for a session."""
    for stored in decisions:
        if stored.decision.subject == KNOWLEDGE and stored.turn_id is not None:
            yield stored.turn_id, KnowledgePrompt(stored.decision.outcome.partition("@")[0])
