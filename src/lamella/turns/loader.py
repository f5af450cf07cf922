"""Loads everything a turn needs: history, effective settings, models."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lamella.agent.calibration import BELIEVED, billed_factor, bounded
from lamella.agent.inputs import CompactedHistory, RunInput, TurnInput
from lamella.agent.reminders import ReminderView, has_found, merged
from lamella.agent.request import PrefixLine, tool_choice_is_free
from lamella.cache.planner import MarkerPolicy
from lamella.context.choices import back_again
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.core.agents import DynamicContext
from lamella.core.caching import Ttl
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.handover import answered, continued, with_results
from lamella.core.messages import ToolResult, Turn, UserMessage
from lamella.core.models import ModelFacts
from lamella.core.ports import ModelSource, OpenModel
from lamella.core.prompt import Sampling, ToolSpec
from lamella.core.records import (
    UNCHANGED,
    AgentAndProject,
    Caller,
    Choices,
    Conversation,
    ConversationSnapshot,
    NewRun,
    NewTurn,
    Place,
)
from lamella.core.sessions import Session
from lamella.core.settings import EngineSettings
from lamella.tooling.tool import Registry
from lamella.turns.effective_settings import (
    EffectiveSettings,
    changes,
    check_answer,
    check_tools,
    effort_before,
    grant_changes,
    lost_id,
    offered,
    setting_of,
    with_agent,
    with_tools,
)
from lamella.turns.services import Services
from lamella.turns.session_choices import (
    FormChoice,
    FormRule,
    Terms,
    chosen_form,
    chosen_prompt,
    completed,
    form_is_open,
    layout_of,
)

LINES_KEPT = 64
"""How many conversations' last windows stay in memory, to make the next one quicker."""


@dataclass(frozen=True, slots=True)
class TurnContext:
    """Everything that a turn of one model needs.

    `begun` are the decisions about changes, stored with the turn. `line` is the state that the last request with the
    same prefix left. `results` are those that the message brings for the calls before it; if it says nothing else,
    `continues` is the turn that goes on with them, which is no part of the path then.
    """

    found: ConversationSnapshot
    setting: EffectiveSettings
    begun: tuple[Decision, ...]
    run: RunInput
    line: PrefixLine | None
    results: tuple[ToolResult, ...] = ()
    continues: Turn | None = None
    own_tools: tuple[ToolSpec, ...] = ()
    """The caller's, which are among those of the setting."""

    def turn_of(self, id: str, user: UserMessage) -> Turn:
        """The turn that begins with this message, or the one that it continues."""
        turn = Turn(id, user)
        return turn if self.continues is None else continued(self.continues, turn)

    def completed(self, new: NewTurn) -> NewTurn:
        """The message with what was found out about it. One that continues a turn has that turn's dynamic context."""
        if self.continues is not None:
            return replace(new, results=self.results)
        context = completed(new.dynamic, self.setting.prompt, self.setting.around.agent)
        tools = self.own_tools if new.results and new.tools is None else new.tools
        return replace(new, results=self.results, dynamic=context, tools=tools)

    def reminders(self, deployment: tuple[str, ...], dynamic: DynamicContext) -> tuple[str, ...]:
        """The deployment's reminders; and those of the caller's words that a continued turn did not begin with."""
        if self.continues is None or not dynamic.text or dynamic.text in self.continues.user.dynamic:
            return deployment
        return (*deployment, dynamic.text)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions that hold, the newest last."""
        return (*(stored.decision for stored in self.found.decisions), *self.begun)

    def context(self, turn: Turn, reminder: str = "") -> ContextInput:
        """The window's data before the first step."""
        conversation, around, run = self.setting.conversation, self.setting.around, self.run
        return ContextInput(
            model=run.model.facts,
            budget=run.budget,
            sampling=run.sampling,
            system=conversation.system_prompt,
            tools=conversation.tools,
            history=self.found.path,
            turn=turn,
            reminder=reminder,
            decisions=self.decisions,
            calibration=run.calibration,
            agent=around.agent,
            project=around.project,
            summaries=self.found.summaries,
            keeps_results=run.keeps_results,
            limit=run.limit,
            margin=run.margin,
            doubt=run.doubt,
            sent_before=self.found.sent_before,
        )


def first_context(loaded: TurnContext, turn: Turn, registry: Registry, reminders: Sequence[str]) -> ContextInput:
    """The data of a turn's first request, with its reminder: `reminders` are the deployment's."""
    run, setting = loaded.run, loaded.setting
    last, tools = run.step_limit <= 1, setting.conversation.tools
    view = ReminderView(turn.steps, registry, setting.around.agent, setting.layout, reminders, last, tools)
    forbids = last and tool_choice_is_free(run.model, run.sampling)
    sampling = replace(run.sampling, tool_choice="none") if forbids else run.sampling
    context = replace(loaded.context(turn, merged(view)), sampling=sampling, last_step=last)
    return replace(context, searched=has_found(turn.steps, registry))


def calibration_of(facts: ModelFacts, snapshot: ConversationSnapshot) -> float:
    """The provider's tokens per local token, by the last bill or a later count.

    It is bounded by how much tokenizers differ, so that one odd bill can't make a conversation look too large forever.
    """
    last, factor = snapshot.last_bill, facts.token_factor
    if last is not None and last.local_tokens:
        factor = billed_factor(last.usage.input, last.local_tokens, facts)
    for stored in snapshot.decisions:
        learnt = stored.decision.kind is DecisionKind.CALIBRATION and stored.decision.subject == facts.name
        if learnt and (last is None or stored.at > last.at):
            factor = float(stored.decision.outcome)
    return bounded(factor, facts)


@dataclass(frozen=True, slots=True)
class TurnQuery:
    """The turn to load: its `runs` follow `place`, None for the current position. `dynamic` is the dynamic context of
    its message; None without a message. `tools`, `results`, `continues`: see `NewTurn`.
    """

    conversation_id: str
    runs: tuple[NewRun, ...]
    choices: Choices
    turn_id: str = ""
    place: Place | None = None
    dynamic: DynamicContext | None = None
    tools: tuple[ToolSpec, ...] | None = None
    results: tuple[ToolResult, ...] = ()
    continues: bool = False

    @classmethod
    def of(cls, new: NewTurn) -> TurnQuery:
        """That of a message."""
        choices, results = new.choices, new.results
        return cls(
            new.conversation_id, new.runs, choices, new.id, new.parent, new.dynamic, new.tools, results, new.continues
        )

    def tools_after(self, path: Sequence[Turn], continues: Turn | None) -> tuple[ToolSpec, ...]:
        """The caller's tools: those that the message names, else those of the turn whose calls it answers. Without a
        message, those of the last turn.
        """
        if self.tools is not None:
            return self.tools
        is_after = self.dynamic is None or bool(self.results)
        last = continues or (path[-1] if path and is_after else None)
        return (last.user.tools or ()) if last is not None else ()


def _begun_with(
    query: TurnQuery, snapshots: Sequence[ConversationSnapshot]
) -> tuple[list[ConversationSnapshot], tuple[ToolResult, ...], Turn | None]:
    """The snapshots with the results of a message in the turn before it; all the results; and that turn, taken out of
    the path, if the message continues it. Raises `InvalidRequest` as `answered`.
    """
    if not query.results:
        return list(snapshots), (), None
    path = snapshots[0].path
    results = answered(path[-1].steps if path else (), query.results)
    *before, last = path
    last = with_results(last, results)
    kept = tuple(before) if query.continues else (*before, last)
    return [replace(one, path=kept) for one in snapshots], results, last if query.continues else None


def _check_apart(names: Sequence[str]) -> None:
    """Raises `InvalidRequest` for a model that is to answer twice."""
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise InvalidRequest(f"The model {twice} is named twice.", hint="Name each model once.", param="models")


class TurnLoader:
    """Loads turn contexts; keeps the last window of each line."""

    def __init__(
        self, services: Services, models: ModelSource, settings: EngineSettings, layouts: Mapping[str, Layout]
    ) -> None:
        self._services = services
        self._models = models
        self._settings = settings
        self.layouts = layouts
        self._lines: OrderedDict[tuple[str, str, str], PrefixLine] = OrderedDict()

    async def load(
        self, caller: Caller, conversation_id: str, model: str, choices: Choices, turn_id: str, *, keep: bool = True
    ) -> TurnContext:
        """Load the data of a turn. With `keep`, the documents of its project get their permanent numbers.

        Raises `NotFound`, and `InvalidRequest` for an unknown model, agent, layout or policy.
        """
        query = TurnQuery(conversation_id, (NewRun("", model),), choices, turn_id)
        [loaded] = await self.load_all(caller, query, keep=keep)
        return loaded

    async def load_all(self, caller: Caller, query: TurnQuery, *, keep: bool = True) -> tuple[TurnContext, ...]:
        """As `load`, for each of the runs of one turn. Raises `InvalidRequest` for a model that is named twice too."""
        conversation_id, dynamic, choices = query.conversation_id, query.dynamic, query.choices
        models = [await self._models.open(run.model) for run in query.runs]
        names = [opened.model.facts.name for opened in models]
        _check_apart(names)
        snapshots = await self._services.store.snapshots.snapshots(
            caller, conversation_id, names, query.place, with_last=bool(query.results)
        )
        beginnings, results, continues = _begun_with(query, snapshots)
        first = beginnings[0]
        chosen, around = await self._around(caller, first.conversation, choices, keep=keep)
        setting = setting_of(chosen, choices, around, self.layouts, self._settings.thinking_effort)
        own, server = query.tools_after(first.path, continues), setting.conversation.tools
        if dynamic is not None:
            check_tools(own, server, has_agent=around.agent is not None)
        own = tuple(tool for tool in own if all(tool.name != other.name for other in server))
        setting = with_tools(setting, own)
        if not self._settings.cache_enabled:
            setting = replace(setting, policy=MarkerPolicy.OFF)
        known = tuple(stored.decision for stored in first.decisions)
        deleted = await self._deleted(caller, known, around)
        begun = changes(setting, first.conversation, known, caller.user_id, deleted)
        needed = dynamic.prompt if dynamic is not None and continues is None else None
        prompt = chosen_prompt(first, needed, setting.layout, caller.user_id)
        setting = replace(setting, conversation=prompt.in_system(setting.conversation), prompt=prompt.prompt)
        told = completed(dynamic, prompt.prompt, around.agent).text if needed is not None and dynamic else ""
        form = await self._form(caller, first, setting, models[0].model.facts, told)
        setting = replace(setting, layout=form.layout)
        path = first.path if continues is None else (*first.path, continues)
        begun += (*prompt.decisions, *form.decisions, *grant_changes(path, first.summaries, known))
        limits = [await self._limit(opened) for opened in models]
        for opened, found, limit in zip(models, beginnings, limits, strict=True):
            begun += self._back_again(opened.model.facts, found, limit)
        registry = self._services.registry
        if registry.changes:
            begun += offered(first.conversation.tools, registry.specs(), known)
        return tuple(
            TurnContext(
                found,
                setting,
                begun,
                replace(self._run_input(run, opened, found, setting, begun, query.turn_id), limit=limit),
                self._lines.get((conversation_id, opened.account, opened.model.facts.name)),
                results,
                continues,
                own,
            )
            for run, opened, found, limit in zip(query.runs, models, beginnings, limits, strict=True)
        )

    async def _limit(self, model: OpenModel) -> int | None:
        """The largest prompt in tokens that a model accepts, learned from refusals. If its expiry is further away than
        any can be, the clock was set back and the limit's age is unknown.
        """
        now = self._services.clock.now()
        limit = await self._services.store.requests.provider_limit(model.account, model.model.facts.name, now)
        return limit.tokens if limit is not None and limit.until - now <= BELIEVED else None

    def _back_again(self, facts: ModelFacts, snapshot: ConversationSnapshot, limit: int | None) -> tuple[Decision, ...]:
        budget = self._settings.budget(facts)
        most = min(budget, limit) if limit is not None else budget
        known = tuple(stored.decision for stored in snapshot.decisions)
        return back_again(facts.name, known, snapshot.path, snapshot.summaries, most)

    async def fallback(self, caller: Caller, loaded: TurnContext) -> TurnContext | None:
        """The same turn for the fallback of the model of `loaded`. Returns None if there is none.

        The agent's fallback comes before the deployment's. Raises as `load` does.
        """
        agent = loaded.setting.around.agent
        name = (agent.fallback_model if agent is not None else None) or self._settings.fallback_model
        if name is None:
            return None
        opened = await self._models.open(name)
        facts, conversation = opened.model.facts, loaded.found.conversation.id
        if facts.name == loaded.run.model.facts.name:
            return None
        [found] = await self._services.store.snapshots.snapshots(caller, conversation, [facts.name], loaded.found.place)
        found = replace(found, path=loaded.found.path)
        run = self._run_input(NewRun(loaded.run.id, name), opened, found, loaded.setting, loaded.begun, "")
        run = replace(run, limit=await self._limit(opened))
        line = self._lines.get((conversation, opened.account, facts.name))
        return replace(loaded, found=found, run=replace(run, headers=loaded.run.headers), line=line)

    async def reopened(self, turn: TurnInput, model: str) -> CompactedHistory:
        """The history before a running turn, after its conversation was compacted."""
        found = await self._services.store.snapshots.snapshot(turn.caller, turn.conversation_id, model)
        history = tuple(one for one in found.path if one.id != turn.turn.id)
        decisions = tuple(stored.decision for stored in found.decisions)
        return CompactedHistory(history, found.summaries, decisions, found.sent_before)

    async def facts(self, model: str) -> ModelFacts:
        """The facts of a model. Raises `InvalidRequest` if it is not served."""
        return (await self._models.open(model)).model.facts

    async def current(self, caller: Caller, conversation_id: str) -> TurnContext:
        """The current state of a conversation: its own model, agent and layout, without a new message."""
        conversation = await self._services.store.conversations.conversation(caller, conversation_id)
        return await self.load(caller, conversation_id, conversation.model, Choices(), "", keep=False)

    async def at_end_of(self, caller: Caller, session: Session) -> TurnContext:
        """The state of the conversation at the end of a closed session, with its current agent and project."""
        loaded = await self.current(caller, session.conversation_id)
        name = loaded.run.model.facts.name
        found = await self._services.store.snapshots.snapshot(caller, session.conversation_id, name, session.id)
        setting = replace(loaded.setting, layout=layout_of(found, loaded.setting.layout))
        return replace(loaded, found=found, setting=setting)

    async def _form(
        self,
        caller: Caller,
        snapshot: ConversationSnapshot,
        setting: EffectiveSettings,
        model: ModelFacts,
        context: str,
    ) -> FormChoice:
        """The layout in the session's form of dynamic context. If the form is not chosen yet, the whole path is
        read.
        """
        past = snapshot.path
        if snapshot.session.number > 1 and form_is_open(snapshot, setting.layout, context):
            past = await self._services.store.turns.path(caller, snapshot.conversation.id)
        terms = Terms(model, setting.policy, FormRule(self._settings.dynamic_context_form))
        return chosen_form(snapshot, setting.layout, context, past, terms)

    async def _around(
        self, caller: Caller, conversation: Conversation, choices: Choices, *, keep: bool
    ) -> tuple[Conversation, AgentAndProject]:
        """The conversation with this turn's agent, and its project."""
        chosen = with_agent(conversation, choices)
        try:
            return chosen, await self._services.agent_and_project.of(caller, chosen, keep=keep)
        except NotFound:
            if chosen.agent_id is None or choices.agent_id is not UNCHANGED:
                raise
        # The conversation's own agent was deleted a moment ago: the turn goes on without it.
        chosen = replace(chosen, agent_id=None)
        return chosen, await self._services.agent_and_project.of(caller, chosen, keep=keep)

    async def _deleted(self, caller: Caller, known: Sequence[Decision], around: AgentAndProject) -> frozenset[str]:
        """Which of agent and project are not used any more because they are gone."""
        store = self._services.store
        gone = set()
        for subject, present, look in (
            ("agent", around.agent, store.library.agent),
            ("project", around.project, store.library.project),
        ):
            before = lost_id(known, subject) if present is None else None
            if before is not None:
                try:
                    await look(caller, before)
                except NotFound:
                    gone.add(subject)
        return frozenset(gone)

    def _run_input(
        self,
        run: NewRun,
        model: OpenModel,
        snapshot: ConversationSnapshot,
        setting: EffectiveSettings,
        begun: Sequence[Decision],
        turn_id: str,
    ) -> RunInput:
        facts, bill = model.model.facts, snapshot.last_bill
        check_answer(setting, facts)
        diagnoses = facts.diagnoses and self._settings.cache_diagnostics
        compared_with = bill.answer_id if diagnoses and bill is not None else None
        return RunInput(
            id=run.id,
            model=model.model,
            account=model.account,
            budget=self._settings.budget(facts),
            sampling=setting.answer.of(
                Sampling(self._settings.output(facts), setting.effort, compared_with=compared_with)
            ),
            calibration=calibration_of(facts, snapshot),
            billed_local=bill.local_tokens if bill is not None else 0,
            decisions=(*(stored.decision for stored in snapshot.decisions), *begun),
            step_limit=self._settings.step_limit,
            most_calls=setting.answer.max_calls,
            diagnoses=diagnoses,
            keeps_results=self._settings.tool_summarization_policy == "keep_all",
            effort_before=effort_before(begun),
            ttl=Ttl(self._settings.cache_ttl) if self._settings.cache_ttl is not None else None,
            headers=lambda purpose, number: self._services.headers(turn_id, purpose, number),
        )

    def keep_line(self, conversation_id: str, run: RunInput, line: PrefixLine | None) -> None:
        """Remember the last window of a line."""
        if line is None:
            return
        key = (conversation_id, run.account, run.model.facts.name)
        self._lines[key] = line
        self._lines.move_to_end(key)
        while len(self._lines) > LINES_KEPT:
            self._lines.popitem(last=False)

    def forget(self, conversation_id: str) -> None:
        """Drop the cached state of a deleted conversation."""
        for key in [key for key in self._lines if key[0] == conversation_id]:
            del self._lines[key]
