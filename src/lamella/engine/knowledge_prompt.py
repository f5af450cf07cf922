"""Which static text about knowledge bases a session has: chosen with its first turn, and kept (SPEC W1, W8).

What a later turn needs beyond it goes with the turn's dynamic context, so that the prefix of a session never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.context.layout import Layout
from lamella.context.system_prompt import knowledge_text
from lamella.core.agents import Agent, DynamicContext, KnowledgePrompt
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.prompt import Kind
from lamella.core.records import Beginning, Conversation

SUBJECT = "knowledge prompt"
"""The subject of the decision. Its outcome is `PROMPT@TURN`: the turn is the last one before the session's window."""

_START = "start"
_SAYS = {
    KnowledgePrompt.NONE: "no text about knowledge bases",
    KnowledgePrompt.NORMAL: "the text about knowledge bases",
    KnowledgePrompt.RESTRICTED: "the text about knowledge bases with restricted access",
}
MISSING = "what the system prompt of this session does not say of knowledge bases"


@dataclass(frozen=True, slots=True)
class ChosenPrompt:
    """The text of a session, and the decision that it was chosen by where that is new."""

    prompt: KnowledgePrompt
    decisions: tuple[Decision, ...] = ()

    def in_system(self, conversation: Conversation) -> Conversation:
        """The conversation with the text in its system prompt."""
        text = knowledge_text(self.prompt)
        if not text:
            return conversation
        said = (conversation.system_prompt.strip(), text)
        return replace(conversation, system_prompt="\n\n".join(one for one in said if one))


def chosen_prompt(found: Beginning, needed: KnowledgePrompt | None, layout: Layout, who: str) -> ChosenPrompt:
    """The text of the session that `found` stands in. `needed` None: nobody asks, so nothing is chosen now."""
    known = _known([stored.decision for stored in found.decisions])
    place = found.session.begins_after or _START
    for prompt, at in reversed(known):
        if at == place:
            return ChosenPrompt(prompt)
    begun = bool(found.path) and not known
    if needed is None or begun or not (known or needed):
        return ChosenPrompt(KnowledgePrompt.NONE)
    first = "system" if layout.is_fixed(Kind.SYSTEM) else None
    why = f"the system prompt of this session has {_SAYS[needed]}"
    decision = Decision(DecisionKind.SETTING, SUBJECT, f"{needed.value}@{place}", who, why, first_changed=first)
    return ChosenPrompt(needed, (decision,))


def _known(decisions: Sequence[Decision]) -> list[tuple[KnowledgePrompt, str]]:
    outcomes = [one.outcome.partition("@") for one in decisions if one.subject == SUBJECT]
    return [(KnowledgePrompt(prompt), place) for prompt, _, place in outcomes]


def completed(context: DynamicContext, chosen: KnowledgePrompt, agent: Agent | None) -> DynamicContext:
    """The dynamic context of a turn with what it needs and its system prompt does not say: another text was chosen, or
    an agent's prompt stands in its place.
    """
    said = KnowledgePrompt.NONE if agent is not None and agent.replaces_system else chosen
    if said.covers(context.prompt):
        return context
    texts = (knowledge_text(context.prompt), context.text)
    return replace(context, text="\n\n".join(text for text in texts if text), whys=(MISSING, *context.whys))
