"""The effective settings of a turn: layout, marker policy, agent, project, tools, system prompt, thinking effort.

Each difference from the turn before is stored as a decision, so a window never changes without a reason. Two more
changes are decisions: a changed grant (content of a knowledge base is withheld, or shown again), and the change to the
session of an earlier turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lamella.cache.planner import MarkerPolicy, policy_named
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.context.segments import dynamic_id
from lamella.core.agents import Agent, KnowledgePrompt, Summary
from lamella.core.decisions import WAY, Decision, DecisionKind
from lamella.core.errors import InvalidRequest
from lamella.core.ids import Ids
from lamella.core.knowledge import bases_of_steps
from lamella.core.messages import Turn
from lamella.core.models import EFFORT_SUBJECT, OFF, ModelFacts, effort_named, effort_of, tokens_of
from lamella.core.prompt import Kind, ToolSpec
from lamella.core.records import (
    UNCHANGED,
    AgentAndProject,
    AnswerChoices,
    Caller,
    Choices,
    Conversation,
    ConversationSnapshot,
    Pinned,
    PinnedProject,
)
from lamella.core.sessions import Session, SessionCause, SessionReturn, SessionStep

OFFERED = "offered tools"
"""The subject of decisions about tools offered in addition to a conversation's list."""

NONE = "none"
"""The outcome of a decision for nothing: no agent, no project, no tools."""

REPLACES = "replaces_system"
"""The number in an agent's decision that says whether its prompt replaced the system prompt."""


def layout_named(name: str, layouts: Mapping[str, Layout] = LAYOUTS) -> Layout:
    """The layout of this name; raises `InvalidRequest` with the names there are."""
    layout = layouts.get(name)
    if layout is None:
        raise InvalidRequest(
            f"There is no layout “{name}”.", hint="Choose one of " + ", ".join(layouts) + ".", param="layout"
        )
    return layout


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """The effective settings of a turn.

    `conversation` has the turn's own choices, of the tools those that it may use, and in its system prompt the `prompt`
    of the session.
    """

    conversation: Conversation
    layout: Layout
    policy: MarkerPolicy
    around: AgentAndProject
    effort: str = OFF
    prompt: KnowledgePrompt = KnowledgePrompt.NONE
    answer: AnswerChoices = field(default_factory=AnswerChoices)


def with_agent(conversation: Conversation, choices: Choices) -> Conversation:
    """The conversation with the agent that this turn has."""
    if choices.agent_id is UNCHANGED:
        return conversation
    return replace(conversation, agent_id=choices.agent_id)


def setting_of(
    conversation: Conversation,
    choices: Choices,
    around: AgentAndProject,
    layouts: Mapping[str, Layout],
    effort: str = OFF,
) -> EffectiveSettings:
    """The settings of the turn, else of the agent that it names, else of the conversation.

    `effort` is the deployment's. Raises `InvalidRequest` for an unknown layout, marker policy or effort.
    """
    named = around.agent.layout if around.agent is not None and choices.agent_id is not UNCHANGED else None
    layout = layout_named(choices.layout or named or conversation.layout, layouts)
    policy = policy_named(choices.marker_policy or _policy(conversation, layout, layouts))
    chosen = replace(
        conversation,
        layout=layout.name,
        marker_policy=policy.value,
        tools=allowed(conversation.tools, around.agent),
    )
    chosen_effort = _effort(conversation, choices, around.agent, effort)
    return EffectiveSettings(chosen, layout, policy, around, chosen_effort, answer=choices.answer)


def with_tools(setting: EffectiveSettings, own: Sequence[ToolSpec]) -> EffectiveSettings:
    """The settings with the caller's own tools."""
    conversation = setting.conversation
    return replace(setting, conversation=replace(conversation, tools=(*conversation.tools, *own))) if own else setting


def check_tools(own: Sequence[ToolSpec], server: Sequence[ToolSpec], *, has_agent: bool = False) -> None:
    """Raises `InvalidRequest` for a tool of the caller that has the name of another one. `server` are those of the
    server that the turn has; with an agent, those that the agent has.
    """
    names = [tool.name for tool in own]
    for index, name in enumerate(names):
        if any(tool.name == name for tool in server):
            raise InvalidRequest(
                f"The server has a tool named “{name}”, so a tool of the request can't be named so.",
                hint=f"Rename it, such as my_{name}, or leave it out: the model has the server's."
                + (" Or take that one out of the agent's tools." if has_agent else ""),
                param="tools",
            )
        if name in names[:index]:
            raise InvalidRequest(f"There are two tools named “{name}”.", hint="Rename one.", param="tools")


def check_answer(setting: EffectiveSettings, facts: ModelFacts) -> None:
    """Raises `InvalidRequest` for a tool choice that the model or the tools do not allow."""
    choice, names = setting.answer.tool_choice, {tool.name for tool in setting.conversation.tools}
    if choice in ("auto", "none"):
        return
    named = choice.partition(" ")[2]
    if not facts.forced_tool_choice:
        why, hint = f"{facts.name} can't be made to call a tool.", "Send auto, or choose another model."
    elif not names or (named and named not in names):
        why, hint = "There is no such tool to be called.", "Name one of the tools of this request or of the server."
    else:
        return
    raise InvalidRequest(why, hint=hint, param="tool_choice")


def _effort(conversation: Conversation, choices: Choices, agent: Agent | None, deployment: str) -> str:
    """The narrowest that says one: turn, agent that the turn names, conversation, its agent, deployment."""
    own = agent.thinking_effort if agent is not None else None
    named = own if choices.agent_id is not UNCHANGED else None
    return effort_named(choices.thinking_effort or named or conversation.thinking_effort or own or deployment)


def _policy(conversation: Conversation, layout: Layout, layouts: Mapping[str, Layout]) -> str:
    """The conversation's marker policy. If it is the default of its layout, it changes with the layout."""
    own, policy = layouts.get(conversation.layout), conversation.marker_policy
    return layout.markers if own is not None and own.markers == policy else policy


def pinned_of(conversation: Conversation, around: AgentAndProject) -> Pinned:
    """The current agent, project and tools of a conversation, to be stored. `conversation` is the stored one."""
    project, kept = around.project, None
    if project is not None:
        files = tuple(file.file_id for file in project.files)
        kept = PinnedProject(project.id, project.name, project.instructions, project.revision, files)
    return Pinned(conversation.system_prompt, conversation.tools, around.agent, kept)


def allowed(tools: tuple[ToolSpec, ...], agent: Agent | None) -> tuple[ToolSpec, ...]:
    """Of these tools, those that an agent has."""
    if agent is None or agent.tools is None:
        return tools
    return tuple(tool for tool in tools if tool.name in agent.tools)


def last_settings(decisions: Sequence[Decision]) -> Mapping[str, Decision]:
    """The newest decision about each setting."""
    return {decision.subject: decision for decision in decisions if decision.kind is DecisionKind.SETTING}


def changes(
    now: EffectiveSettings, pinned: Conversation, decisions: Sequence[Decision], who: str, deleted: Collection[str]
) -> tuple[Decision, ...]:
    """The decisions for everything that changed since the turn before.

    `pinned` is the conversation as stored; without decisions its settings are those it began with. `deleted` are the
    subjects (`agent`, `project`) whose last value was deleted.
    """
    return tuple(_changes(now, pinned, last_settings(decisions), who, deleted))


def _changes(
    now: EffectiveSettings, pinned: Conversation, last: Mapping[str, Decision], who: str, deleted: Collection[str]
) -> Iterator[Decision]:
    layout, conversation = now.layout, now.conversation
    before = _outcome(last, "layout", pinned.layout)
    if before != layout.name:
        yield _setting("layout", layout.name, who, f"the layout was changed from {before} to {layout.name}")
    version = str(conversation.system_prompt_version)
    if _outcome(last, "system", version) != version:
        why = f"the system prompt is version {version} now"
        yield _setting("system", version, who, why, _fixed(layout, Kind.SYSTEM, "system"))
    names = _names(conversation.tools)
    if _outcome(last, "tools", _names(pinned.tools)) != names:
        why = f"the tools that may be called are {names}" if conversation.tools else "no tool may be called"
        yield _setting("tools", names, who, why, _fixed(layout, Kind.TOOLS, "tools"))
    yield from _effort_change(now.effort, last.get(EFFORT_SUBJECT), who)
    yield from _agent(now, last.get("agent"), who, "agent" in deleted)
    yield from _project(now, last.get("project"), who, "project" in deleted)


EFFORT_BEFORE = "before"
"""The number in an effort's decision with the previous tokens of thinking."""


def _effort_change(effort: str, last: Decision | None, who: str) -> Iterator[Decision]:
    """Without an earlier decision, a conversation began without thinking."""
    before = last.outcome if last is not None else OFF
    if before != effort:
        numbers = {EFFORT_BEFORE: float(tokens_of(before)), "after": float(tokens_of(effort))}
        why = f"the thinking effort was changed from {before} to {effort}"
        yield _setting(EFFORT_SUBJECT, effort, who, why, numbers=numbers)


def effort_before(decided: Sequence[Decision]) -> str | None:
    """The effort before a change that is among these decisions."""
    changed = next((d for d in decided if d.kind is DecisionKind.SETTING and d.subject == EFFORT_SUBJECT), None)
    return effort_of(int(changed.numbers[EFFORT_BEFORE])) if changed is not None else None


def difference(before: Sequence[ToolSpec], after: Sequence[ToolSpec]) -> str:
    """A description of new, changed and removed tools, or ""."""
    old, new = {tool.name: tool for tool in before}, {tool.name: tool for tool in after}
    changes = (
        ("added", sorted(new.keys() - old.keys())),
        ("changed", sorted(name for name in new.keys() & old.keys() if new[name] != old[name])),
        ("removed", sorted(old.keys() - new.keys())),
    )
    return "; ".join(f"{word} {', '.join(names)}" for word, names in changes if names)


def offered(
    pinned: Sequence[ToolSpec], there: Sequence[ToolSpec], decisions: Sequence[Decision]
) -> tuple[Decision, ...]:
    """The decision that says that other tools are offered than a conversation has: it keeps its list."""
    news = difference(pinned, there)
    if news == _outcome(last_settings(decisions), OFFERED, ""):
        return ()
    later = "the conversation keeps its list until its next session, or until it is refreshed"
    why = f"other tools are offered now ({news}); {later}" if news else "the conversation has what is offered"
    return (_setting(OFFERED, news, "engine", why),)


def taken(pinned: Sequence[ToolSpec], there: Sequence[ToolSpec], who: str, moment: str) -> tuple[Decision, ...]:
    """The decision that a conversation takes the tools `there` now; none if it has them."""
    if tuple(pinned) == tuple(there):
        return ()
    names = ", ".join(spec.name for spec in there) or "none"
    return (_setting("tools", names, who, f"{moment}: {difference(pinned, there)}", "tools"),)


def _agent(now: EffectiveSettings, last: Decision | None, who: str, deleted: bool) -> Iterator[Decision]:
    agent = now.around.agent
    before = last.outcome if last is not None else NONE
    outcome = f"{agent.id}@{agent.revision}" if agent is not None else NONE
    if before == outcome:
        return
    shows, replaces = bool(agent and agent.prompt.strip()), bool(agent and agent.replaces_system)
    id = agent.id if agent is not None and (shows or before == NONE) else _id(before)
    replaced = last is not None and bool(last.numbers.get(REPLACES))
    kind, segment = (Kind.SYSTEM, "system") if replaces or replaced else (Kind.AGENT, id)
    why = _why("agent", agent.id if agent else None, agent.name if agent else "", outcome, before, deleted)
    yield _setting("agent", outcome, who, why, _fixed(now.layout, kind, segment), {REPLACES: float(replaces)})


def _project(now: EffectiveSettings, last: Decision | None, who: str, deleted: bool) -> Iterator[Decision]:
    project = now.around.project
    before = last.outcome if last is not None else NONE
    outcome = f"{project.id}@{project.revision}" if project is not None else NONE
    if before == outcome:
        return
    shows = bool(project and (project.instructions or project.files))
    id = project.id if project is not None and (shows or before == NONE) else _id(before)
    first = _fixed(now.layout, Kind.PROJECT, id)
    why = _why("project", project.id if project else None, project.name if project else "", outcome, before, deleted)
    yield _setting("project", outcome, who, why, first)


def _why(noun: str, id: str | None, name: str, outcome: str, before: str, deleted: bool) -> str:
    if id is None:
        gone = "was deleted; the conversation continues without it" if deleted else "is not used any more"
        return f"the {noun} {_id(before)} {gone}"
    if before == NONE:
        return f"the {noun} “{name}” is used from here on"
    if _id(before) == id:
        return f"the {noun} “{name}” was edited: this is revision {outcome.rpartition('@')[2]}"
    return f"the {noun} was changed to “{name}”"


def _id(outcome: str) -> str:
    """The id of an outcome `ID@REVISION`."""
    return outcome.rpartition("@")[0]


def lost_id(decisions: Sequence[Decision], subject: str) -> str | None:
    """The agent or project that was used last, if any."""
    last = last_settings(decisions).get(subject)
    return _id(last.outcome) or None if last is not None else None


def _outcome(last: Mapping[str, Decision], subject: str, otherwise: str) -> str:
    return last[subject].outcome if subject in last else otherwise


def _names(tools: Sequence[ToolSpec]) -> str:
    return ", ".join(sorted(tool.name for tool in tools)) or NONE


def _fixed(layout: Layout, kind: Kind, segment: str) -> str | None:
    """The segment that changes, if it precedes what stays: the old one if the new one is empty."""
    return segment if layout.is_fixed(kind) else None


def _setting(
    subject: str,
    outcome: str,
    who: str,
    why: str,
    first_changed: str | None = None,
    numbers: Mapping[str, float] | None = None,
) -> Decision:
    return Decision(DecisionKind.SETTING, subject, outcome, who, why, numbers or {}, first_changed)


GRANT = "grant"
"""The beginning of the decisions' subject, before the base's id, and whose doing it is."""

WITHHELD, FULL = "withheld", "full"


def grant_changes(
    turns: Sequence[Turn], summaries: Sequence[Summary], decisions: Sequence[Decision]
) -> tuple[Decision, ...]:
    """The decisions that say which bases are closed or open now, other than before, with the first segment of each."""
    closed = _first((segment, base) for segment, withheld, _ in _segments(turns, summaries) for base in withheld)
    opened = _first((segment, base) for segment, _, held in _segments(turns, summaries) for base in held)
    before = {one.subject: one.outcome for one in decisions if one.kind is DecisionKind.SETTING}
    made = []
    for base, segment in closed.items():
        if before.get(f"{GRANT} {base}") != WITHHELD:
            why = f"the grant on the knowledge base {base} is not full any more: content made from it is left out"
            made.append(_decision(base, WITHHELD, why, segment))
    for base, segment in opened.items():
        if base not in closed and before.get(f"{GRANT} {base}") == WITHHELD:
            why = f"the grant on the knowledge base {base} is full again: content made from it is shown again"
            made.append(_decision(base, FULL, why, segment))
    return tuple(made)


def _segments(
    turns: Sequence[Turn], summaries: Sequence[Summary]
) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """The segments of a window in order, each with the bases that are withheld in it and those that it holds."""
    for summary in summaries:
        yield summary.id, summary.withheld, summary.made_from
    for turn in turns:
        yield dynamic_id(turn), turn.user.withheld, turn.user.made_from
        for step in turn.steps:
            yield step.id, step.withheld, sorted(bases_of_steps([step]))


def _first(found: Iterator[tuple[str, str]]) -> dict[str, str]:
    """The first segment of each base."""
    first: dict[str, str] = {}
    for segment, base in found:
        first.setdefault(base, segment)
    return first


def _decision(base: str, outcome: str, why: str, segment: str) -> Decision:
    return Decision(DecisionKind.SETTING, f"{GRANT} {base}", outcome, GRANT, why, first_changed=segment)


CHANGE_WHY = "the conversation continues from an earlier turn"


def session_change(
    snapshot: ConversationSnapshot, caller: Caller, ids: Ids, now: datetime
) -> SessionStep | SessionReturn | None:
    """The change to the session of the path of `snapshot`. Returns None if the conversation is in it.

    A session that was left for a branch continues. A session that ended stays closed with its summary: a branch of it
    is opened, with the window that it had at that turn.
    """
    current, target = snapshot.conversation.session_id, snapshot.session
    if target.id == current:
        return None
    boundary = target.begins_after or ""
    if target.closed_by is SessionCause.BRANCH:
        decision = Decision(DecisionKind.SESSION, target.id, boundary, caller.user_id, CHANGE_WHY, {WAY: 1})
        return SessionReturn(
            current, target.id, snapshot.place.turn_id, SessionCause.BRANCH, CHANGE_WHY, now, (decision,)
        )
    session = Session(
        id=ids.new("sess"),
        conversation_id=target.conversation_id,
        number=0,
        opened_at=now,
        opened_by=SessionCause.BRANCH,
        parent_id=target.id,
        begins_after=target.begins_after,
        inherits=True,
        carries=target.carries,
    )
    decision = Decision(DecisionKind.SESSION, session.id, boundary, caller.user_id, CHANGE_WHY, {WAY: 1})
    return SessionStep(current, session, CHANGE_WHY, now, decisions=(decision,))
