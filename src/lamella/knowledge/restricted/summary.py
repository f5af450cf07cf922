"""What a second model may answer about restricted documents, and what is left of it for the reader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from lamella.core.access import DAILY_LIMIT, FormField
from lamella.guard.release import NOTHING, Released

LONGEST = 4_000
"""Characters of a summary; a longer one is no summary."""

Decision = Literal["answer", "refuse"]


class Reason(StrEnum):
    """Why there is an answer or none, as programs read it: the second model chooses among the first five alone."""

    ANSWERED = "answered"
    PARTLY_ANSWERED = "partly_answered"
    NOT_IN_DOCUMENTS = "not_in_documents"
    TOO_REVEALING = "too_revealing"
    OFF_TOPIC = "off_topic"

    NO_MODEL = "no_model"
    """No second model is configured."""

    TIMED_OUT = "timed_out"
    MODEL_FAILED = "model_failed"
    BAD_OUTPUT = "bad_output"
    """What it gave is not what it was asked for."""

    LOW_CONFIDENCE = "low_confidence"
    GUARDED = "guarded"
    """It told something protected, and too little was left without that."""

    LANGUAGE = "language_not_supported"
    """The question, or the reply, is in a language that the guard does not know."""

    NO_WORD_LISTS = "no_word_lists"
    """The packages of `lamella[restricted]` are not installed."""

    NO_DOCUMENTS = "no_documents"
    STILL_INDEXING = "still_indexing"
    DAILY_LIMIT = DAILY_LIMIT
    """The reader got as many answers of this base in 24 hours as may be."""

    ACCESS_CHANGED = "access_changed"
    """The grant was changed while the second model answered."""

    FAILED = "failed"


ANSWERS = frozenset({Reason.ANSWERED, Reason.PARTLY_ANSWERED})
_REFUSALS = frozenset({Reason.NOT_IN_DOCUMENTS, Reason.TOO_REVEALING, Reason.OFF_TOPIC})
COUNTED = ANSWERS | _REFUSALS | {Reason.GUARDED, Reason.LOW_CONFIDENCE}
"""What the second model decides: each tells the reader something, and counts as an answer of the day."""

TO_DO = {
    Reason.ANSWERED: "",
    Reason.PARTLY_ANSWERED: "",
    Reason.NOT_IN_DOCUMENTS: "Say that nothing was found; try other words once.",
    Reason.TOO_REVEALING: "Say that this may not be told with restricted access, and that the owner may be asked.",
    Reason.OFF_TOPIC: "Say that this base does not help with the question.",
    Reason.NO_MODEL: "Say that restricted access is not configured on this server (LAMELLA_RESTRICTED_MODEL).",
    Reason.TIMED_OUT: "The second model took too long. It may be tried again later.",
    Reason.MODEL_FAILED: "The second model could not be asked. It may be tried again later.",
    Reason.BAD_OUTPUT: "The second model gave no usable answer. Ask in other words once.",
    Reason.LOW_CONFIDENCE: "The second model was not sure. Ask for one thing at a time.",
    Reason.GUARDED: "What could be said would have told protected text. Ask for something more general, or the owner.",
    Reason.LANGUAGE: "Say that this base answers in English, German, French, Spanish, Russian, Chinese and Japanese.",
    Reason.NO_WORD_LISTS: "Say that restricted access is not installed on this server (lamella[restricted]).",
    Reason.NO_DOCUMENTS: "There is nothing in this base.",
    Reason.STILL_INDEXING: "The documents are still being indexed. Say so, or try later.",
    Reason.DAILY_LIMIT: "Say that this base has given the user as many answers in 24 hours as the server allows, and "
    "that the owner may be asked. Do not search it again today.",
    Reason.ACCESS_CHANGED: "Access to this base has changed meanwhile. Search again.",
    Reason.FAILED: "The search failed. It may be tried again later.",
}
"""What the main model is told to do, for each reason."""


@dataclass(frozen=True, slots=True)
class SafeSummary:
    """What may leave; nothing in a refusal, whatever else was said."""

    reason: Reason
    released: Released = NOTHING

    @property
    def text(self) -> str:
        """The words that may leave."""
        return self.released.text

    @property
    def decision(self) -> Decision:
        """Whether there is an answer."""
        return "answer" if self.text and self.reason in ANSWERS else "refuse"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the second model answered, in the form that it was asked for. None of it may leave before the guard."""

    reason: Reason
    summary: str
    confidence: float
    picks: tuple[int, ...] = ()
    """The choices of a form that were picked, by their numbers."""


class _Wire(msgspec.Struct, forbid_unknown_fields=True):
    decision: Decision
    reason: str
    summary: Annotated[str, msgspec.Meta(max_length=LONGEST)]
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]


_FENCED = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


class _Rewritten(msgspec.Struct, forbid_unknown_fields=True):
    sentences: Annotated[list[Annotated[str, msgspec.Meta(max_length=LONGEST)]], msgspec.Meta(max_length=40)]


def rewritten_of(text: str, count: int) -> tuple[str, ...]:
    """The sentences that a second model wrote in place of others, as many as it was asked for; else none."""
    fenced = _FENCED.match(text.strip())
    try:
        told = msgspec.json.decode(fenced[1] if fenced else text.strip(), type=_Rewritten).sentences
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ()
    return tuple(told) if len(told) == count else ()


class _Picked(msgspec.Struct, forbid_unknown_fields=True):
    choices: Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(max_length=20)]
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]


def picked_of(text: str, form: Sequence[FormField]) -> Reply | None:
    """What a second model picked, one choice of each field; None for whatever is anything else."""
    fenced = _FENCED.match(text.strip())
    try:
        told = msgspec.json.decode(fenced[1] if fenced else text.strip(), type=_Picked)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if len(told.choices) != len(form):
        return None
    if any(pick >= len(field.choices) for pick, field in zip(told.choices, form, strict=True)):
        return None
    return Reply(Reason.ANSWERED, "", told.confidence, tuple(told.choices))


def reply_of(text: str) -> Reply | None:
    """What a second model answered; None for whatever is not exactly what it was asked for.

    A fence around the object is taken off; words before or after it, other fields, another reason or one that does
    not fit the decision, and an answer without a summary are all no reply.
    """
    bare = text.strip()
    fenced = _FENCED.match(bare)
    try:
        wire = msgspec.json.decode(fenced[1] if fenced else bare, type=_Wire)
        reason = Reason(wire.reason)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    expected = ANSWERS if wire.decision == "answer" else _REFUSALS
    summary = wire.summary.strip()
    if reason not in expected or bool(summary) != (wire.decision == "answer"):
        return None
    return Reply(reason, summary, wire.confidence)
