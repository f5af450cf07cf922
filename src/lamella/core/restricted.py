"""Who asked a base with restricted access what, and how it ended: kept for its owner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lamella.core.records import Caller, Page, PageQuery

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


class RestrictedUses(Protocol):
    """The record of these questions (`storage/`)."""

    async def record_restricted_use(self, use: RestrictedUse) -> RestrictedUse:
        """Keep one, with the name that its user has; raises `NotFound` for a base that is gone."""
        ...

    async def restricted_uses(self, caller: Caller, base_id: str, query: PageQuery) -> Page[RestrictedUse]:
        """Those of a base of the caller's; raises `NotFound` and `PermissionDenied`."""
        ...
