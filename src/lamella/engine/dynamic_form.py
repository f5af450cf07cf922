"""Where dynamic context stands in a session: kept behind its question, or last and gone with the next request.

Decided by price with the first turn of the session that has any, stored with its numbers, and pinned (PROVIDERS 5.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from lamella.cache.economics import DynamicAhead, Rates
from lamella.cache.planner import MarkerPolicy
from lamella.cache.rhythm import rhythm_between
from lamella.context.layout import Layout
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn
from lamella.core.models import Markers, ModelFacts
from lamella.core.records import Beginning

SUBJECT = "dynamic context"
"""The subject of the decision. Its outcome is `FORM@TURN`: the turn is the last one before the session's window."""

NEW_TURNS, NEW_CALLS, NEW_CHANGED = 20, 2, 0.25
"""What is expected of a conversation without a past: so many turns of so many calls, the dynamic context another one in
every fourth. Context that does not change costs most when it is last, so a change is seen before it is expected."""

_START = "start"
_KEPT, _LATE = "kept", "late"
_PLACES = {_KEPT: "stays behind its question", _LATE: "is last in every request, and gone with the next"}


class FormRule(StrEnum):
    """What a deployment says of the form."""

    PAYS = "pays"
    KEPT = "kept"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a form is chosen by beside the conversation: who answers, who places markers, what the deployment says."""

    model: ModelFacts
    policy: MarkerPolicy
    rule: FormRule

    @property
    def keeps(self) -> str:
        """Why nothing but the kept form can pay, or ""."""
        name = self.model.name
        if self.model.binds_thinking:
            return f"the thinking of {name} is bound to what stands before it"
        if not self.model.price.read:
            return f"the prices of {name} are not known"
        if self.model.markers is Markers.NONE or self.policy is not MarkerPolicy.PLANNER:
            return "nothing marks the end of what stands before it for the cache"
        return ""


@dataclass(frozen=True, slots=True)
class FormChoice:
    """The layout in the form of the session, and the decision that it was chosen by where that is new."""

    layout: Layout
    decisions: tuple[Decision, ...] = ()


def form_is_open(found: Beginning, layout: Layout, told: str) -> bool:
    """Whether a turn with this dynamic context decides the form of its session: it is the first one that has any."""
    return layout.late is not None and bool(told) and _pinned(found) is None


def chosen_form(found: Beginning, layout: Layout, told: str, past: Sequence[Turn], terms: Terms) -> FormChoice:
    """The layout in the form of the session that `found` stands in, of a turn with the dynamic context `told`.

    `past` are the turns of the conversation so far.
    """
    if not form_is_open(found, layout, told):
        return FormChoice(layout_of(found, layout))
    ahead = expected(past, max(1, found.session.number - 1), count_tokens(told))
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
    outcome = f"{form}@{_place(found)}"
    said = f"in this session dynamic context {_PLACES[form]}: {why}"
    decision = Decision(DecisionKind.SETTING, SUBJECT, outcome, "engine", said, numbers)
    return FormChoice(_in_form(layout, form), (decision,))


def layout_of(found: Beginning, layout: Layout) -> Layout:
    """This layout, in whichever form, in that of the session that `found` stands in."""
    return _in_form(layout.kept or layout, _pinned(found) or _KEPT)


def expected(past: Sequence[Turn], sessions: int, tokens: int) -> DynamicAhead:
    """What a session is expected to send: as much as those before it did on average, `sessions` of them.

    Without a turn that had dynamic context there is no past to go by but that of its calls.
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
    late = sum(gap >= model.lives[0].seconds for gap in rhythm_between(past).gaps)
    return min(1.0, late / calls) if calls else 0.0


def _place(found: Beginning) -> str:
    return found.session.begins_after or _START


def _pinned(found: Beginning) -> str | None:
    """The form that the session has: decided, or kept where turns of it have dynamic context that nobody decided on."""
    for stored in reversed(found.decisions):
        form, _, place = stored.decision.outcome.partition("@")
        if stored.decision.subject == SUBJECT and place == _place(found):
            return form
    here = (turn for turn in found.path if turn.user.sent_at >= found.session.opened_at)
    return _KEPT if any(turn.user.dynamic for turn in here) else None


def _in_form(layout: Layout, form: str) -> Layout:
    late = layout.late
    return late if late is not None and form == _LATE else layout
