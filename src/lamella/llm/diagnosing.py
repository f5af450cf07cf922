"""What the vendors say of a cache that was missed, in our words."""

from __future__ import annotations

from lamella.core.caching import CacheVerdict, Diagnosis
from lamella.llm.fields import word

ANTHROPIC_FIELD = "diagnostics"
OPENAI_FIELD = "comparison_response_id"

_VERDICTS = {
    "previous_message_not_found": CacheVerdict.NOT_FOUND,
    "comparison_response_not_found": CacheVerdict.NOT_FOUND,
    "unavailable": CacheVerdict.UNAVAILABLE,
    "cache_hit": CacheVerdict.SAME,
}


def of_anthropic(told: object, against: str) -> Diagnosis | None:
    """Of the field `diagnostics`, whose null says that nothing diverged. None for what can't be read."""
    if told is None:
        return Diagnosis(against, CacheVerdict.SAME)
    if not isinstance(told, dict) or "cache_miss_reason" not in told:
        return None
    reason = told["cache_miss_reason"]
    if reason is None:
        return Diagnosis(against, CacheVerdict.PENDING)
    if not isinstance(reason, dict):
        return None
    return _of(word(reason.get("type")), reason.get("cache_missed_input_tokens"), against)


def of_openai(told: object, against: str) -> Diagnosis | None:
    """Of the field `prompt_cache_diagnostics`. None for what can't be read, or is not there."""
    type = word(getattr(told, "type", None))
    if type != "cache_miss":
        return _of(type, None, against) if type in _VERDICTS else None
    return _of(word(getattr(told, "reason", None)), getattr(told, "cache_missed_tokens", None), against)


def _of(said: str, missed: object, against: str) -> Diagnosis | None:
    """A word for what changed is kept as it is: vendors add some."""
    if not said:
        return None
    verdict = _VERDICTS.get(said, CacheVerdict.CHANGED)
    if verdict is not CacheVerdict.CHANGED:
        return Diagnosis(against, verdict)
    counted = missed if isinstance(missed, int) and not isinstance(missed, bool) and missed >= 0 else None
    return Diagnosis(against, verdict, said, counted)
