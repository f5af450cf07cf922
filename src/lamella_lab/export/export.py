"""Exports a conversation as a trace that a replay plays as it was, and says what of it could not be carried.

What its reader may not read any more is not carried, and requests that had it are told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lamella import __version__
from lamella.app.app import App
from lamella.app.providers import Models
from lamella.cache.difference import CLIENT
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.core.clock import Clock
from lamella.core.counting import aside
from lamella.core.decisions import DecisionKind
from lamella.core.errors import InvalidRequest
from lamella.core.knowledge import WITHHELD_SUMMARY
from lamella.core.models import ModelFacts
from lamella.core.records import Caller, RequestRecord
from lamella.llm.model_table import row_of
from lamella.settings import Settings
from lamella.storage import Store
from lamella.tooling.tool import Registry
from lamella.turns.effective_settings import GRANT, WITHHELD
from lamella_lab.export.content_removal import new_placeholders, without_content
from lamella_lab.export.conversation_data import ConversationData, gathered
from lamella_lab.export.related import Missing, agent_of, project_of, tools_of
from lamella_lab.export.requests import SentRequests, answer_of, requests_sent
from lamella_lab.export.timeline import ReplayDefaults, Timeline
from lamella_lab.trace.format import (
    BaseChange,
    Trace,
    TraceBase,
    TraceEntry,
    TraceExported,
    TraceHead,
    TraceProject,
    TraceSide,
)
from lamella_lab.trace.parts import TraceAnswer
from lamella_lab.trace.settings import carried_settings

ANSWERED_SO = frozenset({"temperature", "top_p", "parallel_tool_calls", "response_format", "text"})
"""Fields of a request's head that a caller's choices alone bring there."""

WRITTEN_BY_A_CLIENT = "the bytes of the requests, which a client wrote: a replay of the messages takes a layout"


def answered_so(record: RequestRecord) -> bool:
    """Whether a caller said how to answer this request. That no tool may be called is said by the engine too."""
    head, output = record.head, record.head.get("output_config")
    has_format = isinstance(output, Mapping) and "format" in output
    choice = head.get("tool_choice", "none")
    return bool(ANSWERED_SO.intersection(head)) or has_format or choice not in ("none", {"type": "none"})


AS_DATA = "S U"
"""The window of a side request, for a digest, a title or a summary: what it reads stands in it as
data, and nothing says from which rows."""


@dataclass(frozen=True, slots=True)
class WithheldRequests:
    """The requests whose windows held what is withheld now, the knowledge bases that it is of, and what is said of it.
    False where nothing is."""

    requests: frozenset[str]
    bases: frozenset[str]
    reasons: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.reasons)


def held_apart(data: ConversationData) -> WithheldRequests:
    """Which requests were made with what their reader may not read any more.

    A window that was built after a grant was lowered holds fixed sentences in its place, and is like any other.
    """
    closed = _closed_since(data)
    sources = _withheld_sources(data)
    if not sources:
        return WithheldRequests(frozenset(), frozenset(), ())
    apart = set()
    for records in data.requests.values():
        for record in records:
            bases = {base for segment in record.segments for base in sources.get(segment.source, ())}
            bases |= {base for segment in record.segments for base in sources.get(segment.id, ())}
            if record.letters == AS_DATA:
                bases |= _held_before(data, record)
            if any(base not in closed or record.at < closed[base] for base in bases):
                apart.add(record.id)
    closed_now = frozenset(base for held in sources.values() for base in held)
    told = [
        f"what was said and found with the knowledge base {base}, which may not be read in full any more"
        for base in sorted(closed_now)
    ]
    if apart:
        what = "request that was" if len(apart) == 1 else "requests that were"
        told.append(f"{len(apart)} {what} made with it: the replay makes them without, and they are not compared")
    return WithheldRequests(frozenset(apart), closed_now, tuple(told))


def _held_before(data: ConversationData, record: RequestRecord) -> set[str]:
    """The bases of all that is withheld and was there when a request was made."""
    turns = [turn for turn in data.turns if turn.started_at <= record.at]
    held = {base for turn in turns for run in turn.runs for step in run.steps for base in step.withheld}
    held |= {base for turn in turns if not turn.dynamic for base in turn.dynamic_from}
    return held | {base for one in data.sessions if one.opened_at <= record.at for base in one.withheld}


def _closed_since(data: ConversationData) -> Mapping[str, datetime]:
    """Since when windows leave out what came from a base, by the newest decision about it."""
    closed: dict[str, datetime] = {}
    for stored in data.decisions:
        kind, _, base = stored.decision.subject.partition(" ")
        if stored.decision.kind is DecisionKind.SETTING and kind == GRANT:
            closed.pop(base, None)
            if stored.decision.outcome == WITHHELD:
                closed[base] = stored.at
    return closed


def _withheld_sources(data: ConversationData) -> Mapping[str, tuple[str, ...]]:
    """The bases because of which something is not given, by the source or the id of its segment."""
    held: dict[str, tuple[str, ...]] = {}
    for turn in data.turns:
        if turn.dynamic_from and not turn.dynamic:
            held[f"{turn.id}/dynamic"] = turn.dynamic_from
        for run in turn.runs:
            held |= {step.id: step.withheld for step in run.steps if step.withheld}
    return held | {session.id: session.withheld for session in data.sessions if session.withheld}


def exporter_of(app: App) -> Exporter:
    """The exporter of what an app stores."""
    return Exporter(app.store, app.settings, app.registry, app.models, app.layouts, app.clock)


@dataclass(frozen=True, slots=True)
class Exporter:
    """Exports conversations of one deployment."""

    store: Store
    settings: Settings
    registry: Registry
    models: Models
    layouts: Mapping[str, Layout]
    clock: Clock

    async def export(self, caller: Caller, conversation_id: str, *, content: bool = True) -> Trace:
        """A conversation as it happened, as far as its reader may read it now; without `content`, with lengths and
        fingerprints in the place of all that was written. Raises `NotFound`.
        """
        placeholders = None if content else new_placeholders()
        missing = Missing(placeholders)
        trace = await self._trace(caller, conversation_id, missing)
        return trace if placeholders is None else await aside(len(trace.entries), without_content, trace, placeholders)

    async def _trace(self, caller: Caller, conversation_id: str, missing: Missing) -> Trace:
        found = await gathered(self.store, caller, conversation_id)
        apart = held_apart(found)
        sent = await requests_sent(self.store, caller, found, apart.requests)
        self._leave(found, missing)
        missing.reasons.extend(apart.reasons)
        facts = self._facts(found)
        projects = await self._projects(caller, found, missing)
        standing = self._standing(found)
        head = self._head(found, standing, projects)
        head.models = [row_of(facts[name]) for name in sorted(facts)]
        head.side = _side(found, sent, apart, missing)
        head.settings["titles"] = bool(found.of_purpose("title"))
        story = Timeline(found, sent, standing, self.registry, projects, facts, apart.bases)
        entries = tuple(story.entries())
        changed = {entry.base for entry in entries if isinstance(entry, BaseChange)}
        head.knowledge_bases = [TraceBase(base) for base in sorted(changed)]
        head.exported = TraceExported(
            at=self.clock.now(), version=__version__, content=missing.placeholders is None, not_carried=missing.reasons
        )
        return Trace(head, _in_order(entries))

    def _standing(self, data: ConversationData) -> ReplayDefaults:
        """What a replay begins with: what the first turn had, else what the conversation has now."""
        conversation, settings = data.conversation, self.settings
        asked = [one for turn in data.turns for one in data.requests[turn.id] if one.purpose == "chat"]
        first = asked[0] if asked else None
        titled = data.of_purpose("title")
        own = titled[0].model if titled and settings.compaction_model is None else first.model if first else None
        budget, output = settings.context_budget, settings.max_output
        around = data.around(data.turns[0].started_at) if data.turns else None
        return ReplayDefaults(
            model=own or conversation.model,
            layout=first.layout if first is not None else conversation.layout,
            marker_policy=first.marker_policy if first is not None else conversation.marker_policy,
            effort=first.thinking_effort if first is not None else settings.thinking_effort,
            budget=budget,
            max_output=output,
            has_second=settings.compaction_model is not None,
            system=around.system if around is not None else conversation.system_prompt,
            tools=around.tools if around is not None else conversation.tools,
            agent=around.agent if around is not None else None,
            project=around.project if around is not None else None,
        )

    def _head(
        self, data: ConversationData, defaults: ReplayDefaults, projects: Mapping[tuple[str, int], TraceProject]
    ) -> TraceHead:
        project = defaults.project
        settings = dict(carried_settings(self.settings))
        settings["thinking_effort"] = defaults.effort
        return TraceHead(
            lamella_trace=1,
            model=defaults.model,
            layout=defaults.layout,
            marker_policy=defaults.marker_policy,
            timezone=data.turns[0].timezone if data.turns else "UTC",
            settings=settings,
            system=defaults.system,
            tools=tools_of(defaults.tools, self.registry),
            agent=agent_of(defaults.agent) if defaults.agent is not None else None,
            project=projects[project.id, project.revision] if project is not None else None,
        )

    def _facts(self, data: ConversationData) -> Mapping[str, ModelFacts]:
        """What is known of every model that was asked, or was to be."""
        names = {record.model for of_turn in data.requests.values() for record in of_turn}
        names |= {run.model for turn in data.turns for run in turn.runs} | {data.conversation.model}
        others = (self.settings.fallback_model, self.settings.compaction_model)
        names |= {name for name in others if name is not None}
        known = {}
        for name in names:
            try:
                known[name] = self.models.facts(name)
            except InvalidRequest:
                continue
        return known

    async def _projects(
        self, caller: Caller, data: ConversationData, missing: Missing
    ) -> Mapping[tuple[str, int], TraceProject]:
        """The projects that stood around turns, by id and revision."""
        projects = {}
        for _, pinned in data.pinned:
            one = pinned.project
            if one is not None and (one.id, one.revision) not in projects:
                made = await project_of(self.store, caller, data.conversation.id, one, missing)
                projects[one.id, one.revision] = made
        return projects

    def _leave(self, data: ConversationData, missing: Missing) -> None:
        """Name what the trace leaves out of the conversation."""
        conversation = data.conversation
        if conversation.running_turn is not None:
            missing.add("the turn that is running")
        if data.waiting:
            waits = "a message that waits in the queue" if data.waiting == 1 else f"{data.waiting} messages that wait"
            missing.add(waits)
        told = [step for turn in data.turns if data.is_told(turn) for run in turn.runs for step in run.steps]
        if missing.placeholders is not None and any(step.made_after for step in told):
            missing.add("the thinking of turns that were copied here, which is only sent after the words before it")
        old = sum(data.kept_around(turn.started_at) is None for turn in data.turns if not data.is_told(turn))
        if old:
            missing.add(
                f"agent and project of {old} turn{'s' if old > 1 else ''} that an earlier version answered, and their "
                "system prompt and tools, which are given as they are now"
            )
        expired = sum(one.expired is not None for of_turn in data.requests.values() for one in of_turn)
        if expired:
            what = "body of a request" if expired == 1 else f"bodies of {expired} requests"
            missing.add(f"the {what}, which expired: the replay makes them anew, and their bytes are not compared")
        if any(answered_so(record) for of_turn in data.requests.values() for record in of_turn):
            missing.add("how a request wanted its answer (temperature, a schema, a tool choice), which its bytes show")
        used = {record.layout for of_turn in data.requests.values() for record in of_turn}
        for name in sorted(used - set(LAYOUTS)):
            own = f"the layout {missing.named(name)}, which is this deployment's own"
            missing.add(WRITTEN_BY_A_CLIENT if name == CLIENT else own)
        known = set(self._facts(data))
        asked = {record.model for of_turn in data.requests.values() for record in of_turn}
        for name in sorted(asked - known):
            missing.add(f"what is known of the model {missing.named(name)}: it is not served any more")


def _side(data: ConversationData, sent: SentRequests, apart: WithheldRequests, missing: Missing) -> TraceSide:
    """The answers to side requests."""
    side = TraceSide()
    summaries, titles = data.of_purpose("summary"), data.of_purpose("title")
    lost = [one for one in (*summaries, *titles) if one.said is None and one.error is None]
    if lost:
        what = "1 summary or title" if len(lost) == 1 else f"{len(lost)} summaries and titles"
        missing.add(f"what was answered when {what} was asked for, by an earlier version")
    held = WITHHELD_SUMMARY if apart else None
    made = [answer_of(one, sent[one.id], held, _late(data, summaries, n)) for n, one in enumerate(summaries)]
    side.summary = list[str | TraceAnswer](made)
    side.title = list[str | TraceAnswer](answer_of(one, sent[one.id], held) for one in titles)
    return side


def _late(data: ConversationData, summaries: Sequence[RequestRecord], number: int) -> int:
    """How many turns had begun before a summary came: until the next one was asked for, or a session began with it."""
    asked = data.asked_at(summaries[number])
    ends = [record.at for record in summaries[number + 1 : number + 2]]
    ends += [session.opened_at for session in data.sessions if session.opened_at > asked]
    end = min(ends, default=asked)
    return sum(asked <= turn.started_at < end for turn in data.turns)


def _in_order(entries: Sequence[TraceEntry]) -> tuple[TraceEntry, ...]:
    """The entries with moments that never go back: what changed before a turn has the turn's."""
    return tuple(sorted(entries, key=lambda entry: entry.at))
