"""How large a session is that would be resumed, as its provider counted it (SPEC L5, L12)."""

from __future__ import annotations

from lamella.core.records import Caller
from lamella.core.sessions import Session
from lamella.engine.opening import Openings
from lamella.engine.services import Services


async def resumed_size(
    openings: Openings, services: Services, caller: Caller, target: Session, last: str | None
) -> tuple[int, int]:
    """The tokens of the window with which a session would go on behind its turn `last`, and the window's budget.

    The last bill of that turn, answer included; a local estimate where none of its requests was billed.
    """
    opening = await openings.closed(caller, target)
    requests = await services.store.requests(caller, last) if last is not None else ()
    billed = [r.usage for r in requests if r.purpose == "chat" and r.usage is not None and not r.usage.input_estimated]
    billed = [usage for usage in billed if usage.input]
    if billed:
        return billed[-1].input + billed[-1].output, opening.run.most
    turns = opening.found.path
    local = sum(turn.user.tokens + sum(step.tokens for step in turn.steps) for turn in turns)
    local += sum(attachment.tokens for turn in turns for attachment in turn.user.attachments)
    return int(local * opening.run.calibration), opening.run.most
