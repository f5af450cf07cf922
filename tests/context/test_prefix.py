"""Law 1 in layout `lamella`, where it says more: what excuses a changed prefix, and what a finished turn becomes."""

from __future__ import annotations

import pytest
from hypothesis import given

from lamella.cache.planner import MarkerPolicy
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.decisions import DecisionKind
from lamella.core.prompt import Lifetime
from lamella.core.records import AgentAndProject, Conversation
from lamella.turns.effective_settings import EffectiveSettings, changes

from .growing import Grown, grown
from .laws import lasting, named_since
from .plans import AGENTS, PROJECTS, in_lamella, laws
from .wires import NOW

EMPTY, SHIP = PROJECTS[0], PROJECTS[1]
PIRATE, _, JUDGE, _, BLANK = AGENTS


@laws
@given(grown(layouts=in_lamella))
def test_only_reminders_are_short_lived(conversation: Grown) -> None:
    """Nothing else excuses a changed prefix but a recorded decision; including a document never changes what stands."""
    for sent in conversation.sent:
        short = [s.kind for s in sent.assembled.prompt.segments if s.lifetime is not Lifetime.SESSION]
        assert set(short) <= {"reminder"}
        for decision in sent.assembled.decisions:
            edits = decision.kind in (DecisionKind.PRUNE, DecisionKind.LEFT_OUT) or (
                decision.outcome == "listed" and "room" not in decision.numbers
            )
            assert (decision.first_changed is not None) == edits


@laws
@given(grown(layouts=in_lamella))
def test_an_answered_request_is_a_prefix_of_the_next_one_with_its_answer(conversation: Grown) -> None:
    """Where thinking is bound to what stood before it, that is the whole request; elsewhere all but its reminder."""
    for before, after in conversation.consecutive():
        ids = [segment.id for segment in after.assembled.prompt.segments]
        answers = [id for id in ids if conversation.made_by.get(id) is before]
        if answers and not named_since(before, after):
            segments = before.assembled.prompt.segments
            binds = before.context.model.binds_thinking
            stays = [s.id for s in (segments if binds else segments[: lasting(before, after)])]
            assert ids[: len(stays) + 1] == [*stays, answers[0]]


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (AgentAndProject(project=SHIP), AgentAndProject(project=EMPTY), SHIP.id),
        (AgentAndProject(project=EMPTY), AgentAndProject(project=SHIP), SHIP.id),
        (AgentAndProject(project=SHIP), AgentAndProject(), SHIP.id),
        (AgentAndProject(agent=PIRATE), AgentAndProject(agent=BLANK), PIRATE.id),
        (AgentAndProject(agent=BLANK), AgentAndProject(agent=PIRATE), PIRATE.id),
        (AgentAndProject(agent=PIRATE), AgentAndProject(agent=JUDGE), "system"),
        (AgentAndProject(agent=JUDGE), AgentAndProject(agent=PIRATE), "system"),
        (AgentAndProject(agent=JUDGE), AgentAndProject(), "system"),
    ],
)
def test_what_goes_is_named_where_nothing_comes_in_its_place(
    before: AgentAndProject, after: AgentAndProject, named: str
) -> None:
    """A decision names a segment that one of the two windows has: an empty project or prompt is none."""
    conversation = Conversation("conv", "", "claude-opus-5", "lamella", "off", "You help.", (), NOW, NOW)
    known = changes(EffectiveSettings(conversation, LAMELLA, MarkerPolicy.OFF, before), conversation, (), "user", ())
    setting = EffectiveSettings(conversation, LAMELLA, MarkerPolicy.OFF, after)
    (decision,) = changes(setting, conversation, known, "user", ())
    assert decision.first_changed == named
