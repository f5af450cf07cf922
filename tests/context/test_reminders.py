"""Reminders: last, merged, told apart from the user, of role `system` where layout and model have that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lamella.context.assemble import letters
from lamella.context.layouts import LAYOUTS
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind

from .plans import BINDING, BLIND, GPT, LOOSE, OLD, SONNET
from .vendor_rules import CHECKS
from .windows import answer, call, made, request, result, turn
from .wires import body

CITE = "Cite."
CLEARING = replace(BINDING, clears_system_messages=True)
STEPS = (
    replace(call("step_1", result("c1", "One."), model=BINDING), reminder=CITE),
    replace(call("step_2", result("c2", "Two."), model=BINDING), reminder=CITE),
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("model", [BINDING, SONNET, LOOSE, OLD, BLIND, GPT], ids=lambda model: model.name)
def test_its_role(layout: str, model: ModelFacts) -> None:
    window = made(request(turn(1, *STEPS), model=model, reminder=CITE), layout)
    roles = [s.messages[0].role for s in window.prompt.segments if s.kind is Kind.REMINDER]
    system = layout == "lamella" and model.system_messages
    assert set(roles) == {"system" if system else "user"}
    sent: Any = body(window, model.provider)
    CHECKS[model.provider](sent)


def test_one_that_is_kept_is_sent_again_only_when_it_changed() -> None:
    asked = request(turn(1, *STEPS), model=BINDING, reminder=CITE)
    assert letters(made(asked).prompt.segments) == "S U1 R TC TR TC TR"
    assert letters(made(replace(asked, reminder="Be quick.")).prompt.segments) == "S U1 R TC TR TC TR R"


def test_one_that_the_provider_clears_is_sent_with_every_step() -> None:
    """It is hidden from the next user message on, so it does not stand there any more; nothing is ever taken away."""
    asked = request(turn(1, *STEPS), model=CLEARING, reminder=CITE)
    assert letters(made(asked).prompt.segments) == "S U1 R TC TR R TC TR R"
    later = request(turn(1, *STEPS, answer("step_3", model=CLEARING)), turn(2), model=CLEARING)
    assert letters(made(later).prompt.segments) == "S U1 R TC TR R TC TR A1 U2"
    sent: Any = body(made(asked), "anthropic")
    CHECKS["anthropic"](sent)
    system = [message for message in sent["messages"] if message["role"] == "system"]
    assert [message["clear_at"] for message in system] == ["next_user_message"] * 3


def test_a_model_without_the_option_is_not_asked_to_clear() -> None:
    sent: Any = body(made(request(turn(1, *STEPS), model=BINDING, reminder=CITE)), "anthropic")
    assert all("clear_at" not in message for message in sent["messages"])
