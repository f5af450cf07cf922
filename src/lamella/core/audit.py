"""What is kept of who was let in where, for admins: nothing of what is in a base, nor what it was asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class AuditKind(StrEnum):
    """What an audit lists."""

    GRANTS = "grants"
    """Changes of grants on knowledge bases."""

    MEMBERS = "members"
    """Users who were put into groups or taken out."""

    RESTRICTED_USES = "restricted-uses"
    """Questions to bases with restricted access: that there was one, and how it ended."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Something that happened: by whom, to whom (`subject`, or ""), and where (`on`, a base or a group).

    `before` and `after` are levels of a grant, `member` or nothing, and for a question how it ended; None for nothing.
    Names are as they were then, where they are kept; a base is named by its id and its owner's name.
    """

    id: str
    at: datetime
    by: str
    by_name: str
    subject: str
    subject_name: str
    on: str
    on_name: str
    before: str | None
    after: str | None
