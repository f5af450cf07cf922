"""What the provider itself says of a cache that was missed, in words, and whether that is what was found here. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lamella.cache.cause import Cause
from lamella.cache.difference import Difference
from lamella.core.diagnosis import Diagnosis, Verdict
from lamella.core.figures import short
from lamella.core.records import RequestRecord

_CHANGED = {
    "model_changed": "the model changed",
    "system_changed": "the system prompt changed",
    "tools_changed": "the tools changed",
    "messages_changed": "earlier messages changed",
    "input_changed": "earlier input changed",
    "prompt_cache_key_changed": "the key of the cache changed",
    "text_format_changed": "the format of the answer changed",
    "reasoning_effort_changed": "the reasoning effort changed",
    "verbosity_changed": "the verbosity changed",
    "service_tier_changed": "the service tier changed",
    "context_compacted": "the conversation was compacted",
}

_SAID = {
    Verdict.SAME: "nothing in the request kept its cache from being read",
    Verdict.PENDING: "it was still comparing when the answer began",
    Verdict.NOT_FOUND: "it does not know the answer to compare with",
    Verdict.UNAVAILABLE: "it has no comparison to give",
}

_SETTINGS = ("reasoning_effort_changed", "verbosity_changed", "text_format_changed")
_TAIL = ("messages_changed", "input_changed")
_WINDOW = ("system_changed", "messages_changed", "input_changed", "context_compacted")

_UNCHANGED = (Cause.READ, Cause.EXPIRED, Cause.MISSED)
"""What is found here where a request begins as the one before, or where nobody looked."""


@dataclass(frozen=True, slots=True)
class Told:
    """The provider's sentence; `agrees` is None where it can't be set beside what was found here."""

    text: str
    agrees: bool | None


def told(
    diagnosis: Diagnosis,
    before: RequestRecord | None,
    cause: Cause,
    found: Difference | None,
    *,
    differs_behind: bool = False,
) -> Told:
    """The sentence, and whether the provider names the cause that was found.

    `differs_behind`: the windows differ only behind what was cached. A provider compares that too, and it explains no
    miss.
    """
    said = _CHANGED.get(diagnosis.reason, diagnosis.reason) or _SAID[diagnosis.verdict]
    missed = f" ({short(diagnosis.missed)} tokens missed)" if diagnosis.missed is not None else ""
    if before is None or before.answer_id != diagnosis.against:
        return Told(f"The provider says, compared with an earlier answer: {said}{missed}.", None)
    agrees = _agrees(diagnosis, cause, found)
    behind = cause is Cause.READ and diagnosis.verdict is Verdict.CHANGED
    if differs_behind and cause is not Cause.READ and diagnosis.reason in _TAIL:
        agrees, behind = None, True
    beside = ", which is not what was found here" if agrees is False else ", behind what was cached" if behind else ""
    return Told(f"The provider says: {said}{missed}{beside}.", agrees)


def _agrees(diagnosis: Diagnosis, cause: Cause, found: Difference | None) -> bool | None:
    if cause in (Cause.NOT_BILLED, Cause.FIRST, Cause.NOTHING_CACHED, Cause.COUNTERS, Cause.CLOCK):
        return None
    if diagnosis.verdict is Verdict.SAME:
        return cause in _UNCHANGED
    # What has expired may have changed too: the one does not deny the other. An unknown word says nothing here.
    if diagnosis.verdict is not Verdict.CHANGED or cause is Cause.EXPIRED or diagnosis.reason not in _CHANGED:
        return None
    if cause is Cause.READ:  # what moves stands behind the last marker, and a provider compares that too
        return diagnosis.reason in _WINDOW
    return _names(diagnosis.reason, cause, found)


def _names(reason: str, cause: Cause, found: Difference | None) -> bool:
    """Whether the vendor's word is for this cause. Tools stand before everything else, so they are told apart."""
    if reason == "model_changed":
        return cause is Cause.MODEL
    if reason in _SETTINGS:
        return cause in (Cause.EFFORT, Cause.SETTINGS)
    if reason == "tools_changed":
        return found is not None and found.segment.kind == "tools"
    return reason in _WINDOW and found is not None and found.segment.kind != "tools"
