"""How an inference ended, where it brought no answer or not a whole one: what to tell, and what to do (SPEC O11)."""

from __future__ import annotations

from collections.abc import Collection

from lamella.core.errors import OutputLimitReached, ProviderAnsweredNothing, ProviderError, ProviderRefusedAnswer
from lamella.core.messages import Step, StopReason, Text
from lamella.core.packets import PartialPacket
from lamella.core.tokens import Usage
from lamella.engine.container import OpenStep

REFUSED_CALL = "The answer was refused before it was finished; this call did not run."
CUT_CALL = (
    "The answer reached the limit of {most} output tokens in the middle of this call, which did not run. "
    "Do it in smaller pieces: make a call with shorter arguments, and others after it."
)

_OTHER_WORDS = "Say it in other words, or choose another model."


def nothing_of(opened: OpenStep, model: str, most: int) -> ProviderError | None:
    """Why an inference that ended brought neither text nor a call; None where it brought one.

    `most` is how many tokens of output it was given.
    """
    parts = opened.parts()
    if opened.call_ids or any(isinstance(part, Text) and not part.text.isspace() for part in parts):
        return None
    match opened.stop_reason:
        case StopReason.REFUSAL:
            return ProviderRefusedAnswer(f"{model} refused to answer{_because(opened.why)}", hint=_OTHER_WORDS)
        case StopReason.MAX_TOKENS:
            thinking = " all of them for thinking," if parts else ""
            return OutputLimitReached(
                f"{model} used up its {most:,} tokens of output,{thinking} and came to no answer.",
                hint="Choose a lower thinking effort, or let answers be longer with LAMELLA_MAX_OUTPUT.",
            )
        case _:
            return ProviderAnsweredNothing(
                f"{model} ended its answer without saying anything.",
                hint="Send the message again, or choose another model.",
            )


def may_ask_again(failure: ProviderError, opened: OpenStep) -> bool:
    """Whether the model is asked once more after `nothing_of`: it will refuse or think as long again, so only where
    that attempt cost nothing and showed nothing. Who said nothing at all is told so, and asked to answer.
    """
    return isinstance(failure, ProviderAnsweredNothing) or (opened.usage == Usage() and not opened.has_blocks)


def no_room_for_calls(step: Step, cut: Collection[str], model: str, most: int) -> OutputLimitReached:
    """Calls of a step were cut off, as those of the step before: there is no end of it."""
    names = ", ".join(sorted({call.name for call in step.calls if call.id in cut}))
    return OutputLimitReached(
        f"{model} reached its limit of {most:,} tokens of output in the middle of a call of {names}, twice.",
        hint="Ask for it in smaller pieces, or let answers be longer with LAMELLA_MAX_OUTPUT.",
    )


def partial_of(step: Step, why: str, most: int) -> PartialPacket | None:
    """What to tell where the last step of an answer is not whole; None where its model ended it."""
    model = step.model
    if step.stop_reason is StopReason.REFUSAL:
        return PartialPacket(
            reason="refusal", message=f"{model} refused to answer, or to go on{_because(why)}", hint=_OTHER_WORDS
        )
    if step.stop_reason is StopReason.MAX_TOKENS:
        return PartialPacket(
            reason="max_tokens",
            message=f"The answer is not whole: {model} reached its limit of {most:,} tokens of output.",
            hint="Ask it to go on, or let answers be longer with LAMELLA_MAX_OUTPUT.",
        )
    if step.calls:
        return PartialPacket(
            reason="step_limit",
            message=f"{model} called tools to the last step that a turn may have, and gave no answer.",
            hint="Ask it to go on: what was found is kept. LAMELLA_STEP_LIMIT lets a turn have more steps.",
        )
    return None


def _because(why: str) -> str:
    """What a provider says of a refusal, behind what we say."""
    said = " ".join(why.split())
    if not said:
        return "."
    return f": {said}" if said[-1] in ".!?" else f": {said}."
