"""What a provider itself says of a prompt that could not reuse the cache of an earlier one (PROVIDERS 1.4, 2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ASKED_BY = ("diagnostics", "previous_message_id", "comparison_response_id")
"""The fields of requests that ask for it: a server that does not have it names one in its refusal."""


class Verdict(StrEnum):
    """How a provider's comparison of two prompts came out."""

    SAME = "same"
    """Nothing kept what was cached of the earlier prompt from being read."""
    CHANGED = "changed"
    PENDING = "pending"
    """The answer was made before the comparison had ended."""
    NOT_FOUND = "not_found"
    """The provider does not know the answer to compare with: too old, or of another account."""
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a provider says of the prompt of one answer, compared with that of `against`, an earlier answer's id.

    `reason` is what changed, in the provider's own word (`tools_changed`), "" without one; `missed` its estimate of the
    tokens that were not read because of it, None where it gives none.
    """

    against: str
    verdict: Verdict
    reason: str = ""
    missed: int | None = None
