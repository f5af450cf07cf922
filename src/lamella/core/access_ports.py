"""The ports about callers: users, groups and keys; knowledge bases and the grants on them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

LONGEST_QUESTION = 500
"""Characters of a question that are kept."""


@dataclass(frozen=True, slots=True)
class RestrictedUse:
    """A question to a restricted base: by whom, and what came of it.

    `decision` is `answer` or `refuse`; `removed` names the kinds of what the guard found. Tokens are the second
    model's: only the owner sees them, since they grow with the passages. Of the documents nothing is in it.
    """

    id: str
    base_id: str
    user_id: str
    user_name: str
    at: datetime
    question: str
    decision: str
    reason: str
    chunks: int
    removed: tuple[str, ...]
    cached: bool
    model: str
    input_tokens: int
    output_tokens: int
