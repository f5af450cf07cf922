"""An answer that its model did not end: a note behind it says so in every later request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lamella.context.layouts import LAYOUTS
from lamella.core.messages import StopReason, Turn, TurnStatus

from .vendor_rules import CHECKS
from .windows import answer, call, made, messages, request, result, the, turn
from .wires import WIRES, body

STOPPED = "<system-reminder>\nThe user stopped the answer above before it was finished.\n</system-reminder>"
CUT_AT_LIMIT = (
    "<system-reminder>\nThe answer above reached the limit of its length before it was finished.\n</system-reminder>"
)
CUT = "<system-reminder>\nThe answer above was cut off before it was finished.\n</system-reminder>"


def ended(number: int, reason: StopReason, status: TurnStatus, *, calls: bool = False) -> Turn:
    step = call(f"step_{number}", result("c1", "Found.")) if calls else answer(f"step_{number}", "It was a dark and")
    return replace(turn(number, replace(step, stop_reason=reason)), status=status)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize(
    ("reason", "note"),
    [
        (StopReason.USER_CANCELLED, STOPPED),
        (StopReason.INTERRUPTED, CUT),
        (StopReason.ERROR, CUT),
        (StopReason.MAX_TOKENS, CUT_AT_LIMIT),
        (StopReason.REFUSAL, None),
    ],
)
def test_the_note_stands_behind_what_was_cut_off(
    reason: StopReason, note: str | None, calls: bool, layout: str
) -> None:
    """In a message of its own, so that it is not in the model's mouth; the letters stay those of the answer.

    A call that the limit broke off needs none: its result says so, and the model goes on.
    """
    note = None if calls and reason is StopReason.MAX_TOKENS else note
    window = made(request(ended(1, reason, TurnStatus.STOPPED, calls=calls), turn(2, text="Go on.")), layout)
    segment = the(window, "step_1")
    roles = [message.role for message in segment.messages]
    assert roles == ["assistant", *(["tool"] if calls else []), *(["user"] if note else [])]
    said = "".join(getattr(part, "text", "") for message in messages(window) for part in message.parts)
    assert said.count("<system-reminder>\nThe ") == (1 if note else 0)
    assert note is None or note in said
    for wire in WIRES:
        sent: Any = body(window, wire)
        CHECKS[wire](sent)


def test_the_note_is_counted() -> None:
    plain = made(request(turn(1, answer("step_1", "It was a dark and")), turn(2)))
    cut = made(request(ended(1, StopReason.USER_CANCELLED, TurnStatus.STOPPED), turn(2)))
    assert 10 < the(cut, "step_1").tokens - the(plain, "step_1").tokens < 40


def test_the_running_step_has_none() -> None:
    """Only what is over can have been cut off."""
    window = made(request(turn(1, call("step_1", result("c1", "Found.")))))
    assert [message.role for message in the(window, "step_1").messages] == ["assistant", "tool"]
