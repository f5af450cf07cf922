"""Choices made once per session, stored as a decision, and kept, so that the session's prefix never changes.

- The place of dynamic context: kept after its question, or last and gone with the next request. Chosen by price with
  the first turn of the session that has any.
- The static text about knowledge bases in the system prompt. Chosen with the session's first turn; if a later turn
  needs more, it goes with that turn's dynamic context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from lamella.cache.economics import DynamicAhead, Rates
from lamella.cache.forecast import forecast_between
from lamella.cache.planner import MarkerPolicy
from lamella.context.layout import Layout
from lamella.context.system_prompt import knowledge_text
from lamella.core.agents import Agent, DynamicContext, KnowledgePrompt
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn
from lamella.core.models import Markers, ModelFacts
from lamella.core.prompt import Kind
from lamella.core.records import Conversation, ConversationSnapshot

FORM_SUBJECT = "dynamic context"
"""The subject of the decision. Its outcome is `FORM@TURN`: the turn is the last one before the session's window."""

NEW_TURNS, NEW_CALLS, NEW_CHANGED = 20, 2, 0.25
"""The prior for a new conversation: number of turns, calls per turn, share of turns with changed dynamic context.
Context that does not change costs most if it is last, so the prior assumes few changes.
"""

_START = "start"
_KEPT, _LATE = "kept", "late"
_PLACES = {_KEPT: "stays after its question", _LATE: "is last in every request, and gone with the next"}


class FormRule(StrEnum):
    """The deployment's rule for the form of dynamic context."""

    PAYS = "pays"
    KEPT = "kept"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Terms:
    """The facts that a form is chosen by besides the conversation: model, marker policy, deployment."""

    model: ModelFacts
    policy: MarkerPolicy
    rule: FormRule

    @property
    def keeps(self) -> str:
        """Why nothing but the kept form can pay, or ""."""
        name = self.model.name
        if self.model.binds_thinking:
            return f"the thinking of {name} is bound to the content before it"
        if not self.model.price.read:
            return f"the prices of {name} are not known"
        if self.model.markers is Markers.NONE or self.policy is not MarkerPolicy.PLANNER:
            return "nothing marks the end of what stands before it for the cache"
        return ""


@dataclass(frozen=True, slots=True)
class FormChoice:
    """The layout in the form of the session, and the decision if it is new."""

    layout: Layout
    decisions: tuple[Decision, ...] = ()


def form_is_open(snapshot: ConversationSnapshot, layout: Layout, context: str) -> bool:
    """Whether a turn with this dynamic context decides the form of its session: it is the first with any."""
    return layout.late is not None and bool(context) and _pinned(snapshot) is None


def chosen_form(
    snapshot: ConversationSnapshot, layout: Layout, context: str, past: Sequence[Turn], terms: Terms
) -> FormChoice:
    """The layout in the form of the session of `snapshot`, for a turn with the dynamic context `context`.

    `past` are the earlier turns of the conversation.
    """
    if not form_is_open(snapshot, layout, context):
        return FormChoice(layout_of(snapshot, layout))
    ahead = expected(past, max(1, snapshot.session.number - 1), count_tokens(context))
    rates = Rates.of(terms.model).with_gaps(_cold(past, terms.model))
    if terms.rule is not FormRule.PAYS:
        form, why = terms.rule.value, "the deployment says so"
    elif terms.keeps:
        form, why = _KEPT, terms.keeps
    else:
        form = _KEPT if ahead.stays(rates) else _LATE
        whole, last = round(ahead.kept(rates)), round(ahead.late())
        why = f"over about {round(ahead.turns * ahead.calls)} requests it costs as much as {whole:,} new tokens "
        why += f"where it was sent, and as {last:,} in the last place"
    numbers = {
        "tokens": float(ahead.tokens),
        "turns": ahead.turns,
        "calls": ahead.calls,
        "told": ahead.told,
        "changed": ahead.changed,
        "read": rates.read,
        "write": rates.write,
        _KEPT: ahead.kept(rates),
        _LATE: ahead.late(),
    }
    outcome = f"{form}@{_place(snapshot)}"
    reason = f"in this session dynamic context {_PLACES[form]}: {why}"
    decision = Decision(DecisionKind.SETTING, FORM_SUBJECT, outcome, "engine", reason, numbers)
    return FormChoice(_in_form(layout, form), (decision,))


def layout_of(snapshot: ConversationSnapshot, layout: Layout) -> Layout:
    """This layout in the form of the session of `snapshot`."""
    return _in_form(layout.kept or layout, _pinned(snapshot) or _KEPT)


def expected(past: Sequence[Turn], sessions: int, tokens: int) -> DynamicAhead:
    """The dynamic context that a session is expected to send: the average of the `sessions` before it.

    Without earlier turns with dynamic context, only the number of calls is learned.
    """
    told = [turn.user.dynamic for turn in past if turn.user.dynamic]
    calls = sum(len(turn.steps) for turn in past) / len(past) if past else 0.0
    if not told:
        return DynamicAhead(tokens, NEW_TURNS, max(1.0, calls) if past else NEW_CALLS, changed=NEW_CHANGED)
    changed = 1 + sum(before != after for before, after in pairwise(told))
    turns = max(1.0, len(past) / sessions)
    return DynamicAhead(tokens, turns, max(1.0, calls), len(told) / len(past), changed / len(told))


def _cold(past: Sequence[Turn], model: ModelFacts) -> float:
    """The share of the calls so far that came after the cache had ended."""
    calls = sum(len(turn.steps) for turn in past)
    late = sum(gap >= model.lives[0].seconds for gap in forecast_between(past).gaps)
    return min(1.0, late / calls) if calls else 0.0


def _place(snapshot: ConversationSnapshot) -> str:
    return snapshot.session.begins_after or _START


def _pinned(snapshot: ConversationSnapshot) -> str | None:
    """The form that the session has: decided, or kept if its turns have dynamic context without a decision."""
    for stored in reversed(snapshot.decisions):
        form, _, place = stored.decision.outcome.partition("@")
        if stored.decision.subject == FORM_SUBJECT and place == _place(snapshot):
            return form
    here = (turn for turn in snapshot.path if turn.user.sent_at >= snapshot.session.opened_at)
    return _KEPT if any(turn.user.dynamic for turn in here) else None


def _in_form(layout: Layout, form: str) -> Layout:
    late = layout.late
    return late if late is not None and form == _LATE else layout


KNOWLEDGE_SUBJECT = "knowledge prompt"
"""The subject of the decision. Its outcome is `PROMPT@TURN`: the turn is the last one before the session's window."""

_SAYS = {
    KnowledgePrompt.NONE: "no text about knowledge bases",
    KnowledgePrompt.NORMAL: "the text about knowledge bases",
    KnowledgePrompt.RESTRICTED: "the text about knowledge bases with restricted access",
}
MISSING = "what the system prompt of this session does not say of knowledge bases"


@dataclass(frozen=True, slots=True)
class ChosenPrompt:
    """The text of a session, and the decision if it is new."""

    prompt: KnowledgePrompt
    decisions: tuple[Decision, ...] = ()

    def in_system(self, conversation: Conversation) -> Conversation:
        """The conversation with the text in its system prompt."""
        text = knowledge_text(self.prompt)
        if not text:
            return conversation
        texts = (conversation.system_prompt.strip(), text)
        return replace(conversation, system_prompt="\n\n".join(one for one in texts if one))


def chosen_prompt(
    snapshot: ConversationSnapshot, needed: KnowledgePrompt | None, layout: Layout, who: str
) -> ChosenPrompt:
    """The text of the session of `snapshot`. `needed` None: nothing is chosen now."""
    known = _known([stored.decision for stored in snapshot.decisions])
    place = snapshot.session.begins_after or _START
    for prompt, at in reversed(known):
        if at == place:
            return ChosenPrompt(prompt)
    begun = bool(snapshot.path) and not known
    if needed is None or begun or not (known or needed):
        return ChosenPrompt(KnowledgePrompt.NONE)
    first = "system" if layout.is_fixed(Kind.SYSTEM) else None
    why = f"the system prompt of this session has {_SAYS[needed]}"
    decision = Decision(
        DecisionKind.SETTING, KNOWLEDGE_SUBJECT, f"{needed.value}@{place}", who, why, first_changed=first
    )
    return ChosenPrompt(needed, (decision,))


def _known(decisions: Sequence[Decision]) -> list[tuple[KnowledgePrompt, str]]:
    outcomes = [one.outcome.partition("@") for one in decisions if one.subject == KNOWLEDGE_SUBJECT]
    return [(KnowledgePrompt(prompt), place) for prompt, _, place in outcomes]


def completed(context: DynamicContext, chosen: KnowledgePrompt, agent: Agent | None) -> DynamicContext:
    """The dynamic context of a turn, with a needed text that its system prompt lacks: because another text was chosen,
    or because an agent's prompt replaces it.
    """
    prompt_kind = KnowledgePrompt.NONE if agent is not None and agent.replaces_system else chosen
    if prompt_kind.covers(context.prompt):
        return context
    texts = (knowledge_text(context.prompt), context.text)
    return replace(context, text="\n\n".join(text for text in texts if text), whys=(MISSING, *context.whys))
