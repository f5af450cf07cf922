"""The reminders of a step, merged into one message in a fixed order (SPEC O8)."""

from __future__ import annotations

from collections.abc import Sequence

from lamella.core.messages import Step
from lamella.tools.tool import Registry

CITATION = (
    "Cite the documents that an answer rests on: put their numbers in square brackets right behind the statement, "
    "such as [1] or [2][3]. Cite only documents that you have seen."
)
LAST_STEP = "This is the last step of this turn: answer now with what you have. No tool can be called any more."


def merged(steps: Sequence[Step], registry: Registry, *, last_step: bool, configured: Sequence[str] = ()) -> str:
    """The text of this step's reminder, or "": citation from the first search-like call on, last step, configured."""
    texts = []
    if any(registry.is_search(call.name) for step in steps for call in step.calls):
        texts.append(CITATION)
    if last_step:
        texts.append(LAST_STEP)
    return "\n\n".join([*texts, *configured])
