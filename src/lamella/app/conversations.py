"""Creates and changes conversations: their initial settings, and the decisions of a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from lamella.app.idempotency import CreationRequest, IdempotentCreation
from lamella.app.library import Library
from lamella.cache.planner import policy_named
from lamella.context.layout import Layout
from lamella.context.layouts import DEFAULT
from lamella.core.agents import Agent
from lamella.core.clock import Clock
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.ids import Ids
from lamella.core.models import effort_named
from lamella.core.prompt import Kind
from lamella.core.records import UNCHANGED, Caller, Conversation, ConversationChange, Unchanged
from lamella.storage import Store
from lamella.turns.effective_settings import layout_named, taken


@dataclass(frozen=True, slots=True)
class NewConversation:
    """The requested settings of a new conversation; None leaves a field to the agent, then to the deployment."""

    title: str = ""
    model: str | None = None
    layout: str | None = None
    marker_policy: str | None = None
    agent_id: str | None = None
    project_id: str | None = None
    thinking_effort: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConversationEdit:
    """The requested changes of a conversation. None leaves a field; for agent, project and effort None means none."""

    title: str | None = None
    model: str | None = None
    layout: str | None = None
    marker_policy: str | None = None
    system_prompt_version: int | None = None
    agent_id: str | Unchanged | None = UNCHANGED
    project_id: str | Unchanged | None = UNCHANGED
    thinking_effort: str | Unchanged | None = UNCHANGED
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Conversations:
    """Creates and changes conversations. `marker_policy` is the deployment's, None for the layout's."""

    store: Store
    library: Library
    marker_policy: str | None
    once: IdempotentCreation
    clock: Clock
    ids: Ids

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """The layouts to choose from."""
        return self.library.layouts

    async def create(self, caller: Caller, request: NewConversation, key: str | None = None) -> Conversation:
        """Create a conversation with the current system prompt and tools.

        Raises `InvalidRequest` for unknown names, `NotFound` for a foreign agent or project. If the Idempotency-Key was
        used before for the same, returns that conversation.
        """
        new = await self._new(caller, request)

        async def make(id: str) -> Conversation:
            conversation = replace(new, id=id)
            await self.store.conversations.create_conversation(caller, conversation)
            return conversation

        return await self.once.create(
            caller,
            CreationRequest(key, "conversations", request),
            new.id,
            lambda id: self.store.conversations.conversation(caller, id),
            make,
        )

    async def _new(self, caller: Caller, request: NewConversation) -> Conversation:
        agent = await self._agent(caller, request.agent_id)
        if request.project_id is not None:
            await self.store.library.project(caller, request.project_id)
        models = self.library.models
        model = request.model or (agent.model if agent is not None else None) or models.default
        models.facts(model)
        named = agent.layout if agent is not None else None
        layout = layout_named(request.layout or named or DEFAULT, self.layouts)
        policy = policy_named(request.marker_policy or self.marker_policy or layout.markers)
        prompt = await self.library.current_prompt(caller)
        await self.library.registry.settled()
        now = self.clock.now()
        return Conversation(
            id=self.ids.new("conv"),
            title=request.title.strip(),
            titled_by="user" if request.title.strip() else "nobody",
            model=model,
            layout=layout.name,
            marker_policy=policy.value,
            system_prompt=prompt.text,
            tools=self.library.registry.specs(),
            created_at=now,
            updated_at=now,
            agent_id=request.agent_id,
            project_id=request.project_id,
            system_prompt_version=prompt.version,
            thinking_effort=effort_named(request.thinking_effort) if request.thinking_effort is not None else None,
            metadata=request.metadata,
        )

    async def change(self, caller: Caller, conversation_id: str, edit: ConversationEdit) -> Conversation:
        """Change a conversation. Another model, layout or system prompt is stored as a decision.

        An agent's layout is set too, unless a layout is requested. Raises as `create` does.
        """
        before = await self.store.conversations.conversation(caller, conversation_id)
        if edit.model is not None and edit.model != before.model:
            self.library.models.facts(edit.model)
        agent_id = edit.agent_id if isinstance(edit.agent_id, str) and edit.agent_id != before.agent_id else None
        agent = await self._agent(caller, agent_id)
        layout = edit.layout or (agent.layout if agent is not None else None)
        prompt = None
        if edit.system_prompt_version is not None:
            prompt = await self.library.prompt(caller, edit.system_prompt_version)
        change = ConversationChange(
            title=edit.title,
            model=edit.model,
            layout=layout_named(layout, self.layouts).name if layout is not None else None,
            marker_policy=self._policy(before, edit, layout),
            system_prompt=prompt,
            agent_id=edit.agent_id,
            project_id=edit.project_id,
            thinking_effort=_effort(edit.thinking_effort),
            metadata=edit.metadata,
        )
        decided = tuple(self._decisions(caller, before, change))
        return await self.store.conversations.change_conversation(
            caller, conversation_id, replace(change, decisions=decided), self.clock.now()
        )

    async def refresh_tools(self, caller: Caller, conversation_id: str) -> Conversation:
        """Give the conversation the current tools; stored as a decision if they differ.

        Raises `NotFound` and `TurnInProgress`.
        """
        before = await self.store.conversations.conversation(caller, conversation_id)
        specs = self.library.registry.specs()
        decisions = taken(before.tools, specs, caller.user_id, "the list of tools was refreshed")
        if not decisions:
            return before
        change = ConversationChange(tools=specs, decisions=decisions)
        return await self.store.conversations.change_conversation(caller, conversation_id, change, self.clock.now())

    def _policy(self, before: Conversation, edit: ConversationEdit, layout: str | None) -> str | None:
        """The requested marker policy. The default of a layout changes with the layout."""
        if edit.marker_policy is not None:
            return policy_named(edit.marker_policy).value
        own = self.layouts.get(before.layout)
        if layout is None or own is None or own.markers != before.marker_policy:
            return None
        return layout_named(layout, self.layouts).markers

    async def _agent(self, caller: Caller, agent_id: str | None) -> Agent | None:
        return (await self.store.library.agent(caller, agent_id)).agent if agent_id is not None else None

    def _decisions(self, caller: Caller, before: Conversation, change: ConversationChange) -> Iterator[Decision]:
        """The changes of the window. Agent, project and effort are decided when the next turn begins."""
        for subject, old, new in (
            ("model", before.model, change.model),
            ("layout", before.layout, change.layout),
        ):
            if new is not None and new != old:
                why = f"the {subject} was changed from {old} to {new}"
                yield Decision(DecisionKind.SETTING, subject, new, caller.user_id, why)
        prompt = change.system_prompt
        if prompt is not None and (prompt.version, prompt.text) != (before.system_prompt_version, before.system_prompt):
            why = f"the system prompt was changed from version {before.system_prompt_version} to {prompt.version}"
            layout = self.layouts.get(change.layout or before.layout)
            first = "system" if layout is None or layout.is_fixed(Kind.SYSTEM) else None
            yield Decision(
                DecisionKind.SETTING, "system", str(prompt.version), caller.user_id, why, first_changed=first
            )


def _effort(asked: str | Unchanged | None) -> str | Unchanged | None:
    """The effort in its one spelling."""
    return effort_named(asked) if isinstance(asked, str) else asked
