"""Validates fields of a provider's answer, because a server may send any JSON.

Also reads cache diagnoses (`anthropic_diagnosis`, `openai_diagnosis`).
"""

from __future__ import annotations

from collections.abc import Mapping

from lamella.core.caching import CacheVerdict, Diagnosis


def plain(text: str) -> str:
    """`text` with U+FFFD for unpaired surrogates, which JSON allows but nothing can store or send.

    Raises `TypeError` if it is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"a text was expected, not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_LONGEST_NAME = 256


def name_of(value: object) -> str | None:
    """A provider's id, to be stored and sent back; None if it is not usable."""
    fits = isinstance(value, str) and value.isascii() and value.isprintable() and 0 < len(value) <= _LONGEST_NAME
    return str(value) if fits else None


def word(value: object) -> str:
    """A provider's code, to be stored and shown; "" if it is not a string."""
    return name_of(value) or ""


def index_of(value: int) -> int:
    """The number of a block. Raises `TypeError` if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"the number of a block was expected, not {value!r}")
    return value


def count_of(reported: Mapping[str, object], name: str, known: int = 0) -> int:
    """A counter of the usage, or its known value: servers omit some, and the answer matters more."""
    value = reported.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else known


def part(whole: Mapping[str, object], name: str) -> Mapping[str, object]:
    """An object inside a JSON object; empty if missing."""
    found = whole.get(name)
    return found if isinstance(found, dict) else {}


ANTHROPIC_FIELD = "diagnostics"
OPENAI_FIELD = "comparison_response_id"

_VERDICTS = {
    "previous_message_not_found": CacheVerdict.NOT_FOUND,
    "comparison_response_not_found": CacheVerdict.NOT_FOUND,
    "unavailable": CacheVerdict.UNAVAILABLE,
    "cache_hit": CacheVerdict.SAME,
}


def anthropic_diagnosis(told: object, against: str) -> Diagnosis | None:
    """Reads the field `diagnostics`; null means no difference. Returns None if unreadable."""
    if told is None:
        return Diagnosis(against, CacheVerdict.SAME)
    if not isinstance(told, dict) or "cache_miss_reason" not in told:
        return None
    reason = told["cache_miss_reason"]
    if reason is None:
        return Diagnosis(against, CacheVerdict.PENDING)
    if not isinstance(reason, dict):
        return None
    return _diagnosis(word(reason.get("type")), reason.get("cache_missed_input_tokens"), against)


def openai_diagnosis(told: object, against: str) -> Diagnosis | None:
    """Reads the field `prompt_cache_diagnostics`. Returns None if missing or unreadable."""
    if not isinstance(told, dict):
        return None
    type = word(told.get("type"))
    if type != "cache_miss":
        return _diagnosis(type, None, against) if type in _VERDICTS else None
    return _diagnosis(word(told.get("reason")), told.get("cache_missed_tokens"), against)


def _diagnosis(said: str, missed: object, against: str) -> Diagnosis | None:
    """Unknown codes are kept as they are, since vendors add some."""
    if not said:
        return None
    verdict = _VERDICTS.get(said, CacheVerdict.CHANGED)
    if verdict is not CacheVerdict.CHANGED:
        return Diagnosis(against, verdict)
    counted = missed if isinstance(missed, int) and not isinstance(missed, bool) and missed >= 0 else None
    return Diagnosis(against, verdict, said, counted)
