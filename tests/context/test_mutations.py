"""The test of the laws: each notices a deliberate mistake in generated conversations that the code itself passes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import Phase, given, settings

from lamella.context.layouts import LAYOUTS
from lamella.core.decisions import DecisionKind
from lamella.core.messages import TurnStatus
from lamella.core.prompt import Kind

from .growing import Code, grow
from .mutations import MUTATIONS, Mutation
from .plans import MODELS, Plan, laws, plans
from .test_laws import LAWS

pytestmark = pytest.mark.long

TRIED = 400
"""Conversations in which a mistake has to show."""


@cache
def generated() -> tuple[Plan, ...]:
    """The same plans in every run of the same tests: Hypothesis takes constants from the modules that are loaded."""
    found: list[Plan] = []

    @settings(laws, max_examples=TRIED, phases=[Phase.generate], database=None)
    @given(plans())
    def collect(plan: Plan) -> None:
        found.append(plan)

    collect()
    return tuple(found)


def notices(mutation: Mutation, plan: Plan) -> bool:
    """Whether the law is broken in the conversation that grows from a plan."""
    tried = mutation.where(plan) if mutation.where is not None else plan
    layout = mutation.layout(plan.layout) if mutation.layout is not None else plan.layout
    conversation = grow(replace(tried, layout=layout), code=mutation.code)
    try:
        mutation.law(conversation)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.law.__name__}: {mutation.what}")
def test_a_mistake_is_noticed(mutation: Mutation) -> None:
    caught = next((plan for plan in generated() if notices(mutation, plan)), None)
    assert caught is not None, f"{mutation.law.__name__} does not notice that {mutation.what}"
    assert not notices(replace(mutation, code=Code(), layout=None), caught)


def test_every_law_has_a_mutation() -> None:
    assert {mutation.law for mutation in MUTATIONS} == set(LAWS)


def test_the_generated_conversations_reach_what_the_laws_are_about() -> None:
    """A law that nothing comes near proves nothing."""
    seen: Counter[str] = Counter()
    for plan in generated():
        conversation = grow(plan)
        seen[plan.layout.name] += 1
        seen["refused"] += len(conversation.refused)
        for sent in conversation.sent:
            seen[sent.context.model.name] += 1
            seen.update(decision.kind.value for decision in sent.assembled.decisions)
            seen.update(f"edited {d.kind.value}" for d in sent.assembled.decisions if d.first_changed is not None)
            seen.update(d.subject for d in sent.context.decisions if d.kind is DecisionKind.SETTING)
            seen.update(segment.kind.value for segment in sent.assembled.prompt.segments)
            seen["picture"] += sent.assembled.prompt.sampling.images
            seen["last step"] += sent.context.last_step
            seen["stopped"] += any(turn.status is TurnStatus.STOPPED for turn in sent.context.history)
    everything = [*LAYOUTS, *(model.name for model in MODELS), *(kind.value for kind in Kind)]
    everything += ["admission", "project", "prune", "cut", "edited prune", "edited admission", "refused", "picture"]
    everything += ["agent", "tools", "session", "last step", "stopped"]
    assert [name for name in everything if seen[name] < 3] == []
