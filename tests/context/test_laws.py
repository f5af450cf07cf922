"""The laws of the context core over generated conversations, in every layout and on both wires."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.context.layouts.lamella import LAMELLA
from lamella.core.decisions import DecisionKind
from lamella.core.messages import Text, ToolCall, ToolResult, TurnStatus, UserMessage

from .growing import Grown, grow, grown
from .law_7 import law_7
from .laws import law_1, law_2, law_3, law_4, law_5, law_6
from .plans import BINDING, SONNET, Plan, PlannedStep, PlannedTurn, in_lamella, laws
from .wires import NOW

LAWS = (law_1, law_2, law_3, law_4, law_5, law_6, law_7)


@pytest.mark.parametrize("law", LAWS)
@laws
@given(grown())
def test_every_layout_keeps(law: Callable[[Grown], None], conversation: Grown) -> None:
    law(conversation)


@pytest.mark.parametrize("law", [law_1, law_4, law_5])
@laws
@given(grown(st.sampled_from((BINDING, SONNET)), in_lamella))
def test_models_that_bind_their_thinking_keep(law: Callable[[Grown], None], conversation: Grown) -> None:
    """Where a changed prefix is refused and not only paid for."""
    law(conversation)


def test_pruning_after_turns_have_left_the_window_keeps_law_1() -> None:
    """The boundary passes results in turns that are left out, and names the first that stands in the window."""

    def turn(number: int, words: int, *calls: str, calibration: float = 0.5, prunes: bool = False) -> PlannedTurn:
        user = UserMessage(f"msg_{number}", "word " * words, NOW, "UTC", words)
        called = [PlannedStep((ToolCall(id, "now", "{}"),), (ToolResult(id, "now", "12"),), "") for id in calls]
        steps = (*called, PlannedStep((Text("Yes."),), (), ""))
        return PlannedTurn(BINDING, user, steps, TurnStatus.FINISHED, calibration, (), prunes=prunes)

    turns = (
        turn(0, 900),
        turn(1, 900, "c1"),
        turn(2, 9, "c2"),
        turn(3, 900, calibration=1.0),
        turn(4, 900, prunes=True),
    )
    conversation = grow(Plan(LAMELLA, (), "You are helpful.", 2_000, "off", can_compact=False, turns=turns))
    decided = {decision.kind: decision.first_changed for decision in conversation.sent[-1].decisions}
    assert decided == {DecisionKind.LEFT_OUT: "turn_0/user", DecisionKind.PRUNE: "step_2_0"}
    law_1(conversation)
