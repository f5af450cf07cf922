"""What the server tells a conversation's people outside its turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lamella.core.json import JsonObject


class NoticeKind(StrEnum):
    """What a notice tells."""

    COMMAND = "command"
    """A command of the user, with its answer."""

    NOT_ANSWERED = "not_answered"
    """A message of the queue whose turn could not begin."""

    PRUNED = "pruned"
    COMPACTED = "compacted"
    NOT_COMPACTED = "not_compacted"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a conversation shows and no model reads: a command with its answer, or what was done to its past.

    It stands behind the turn `turn_id`, None for before the first. `name` and `argument` are those of a command.
    `text` is what people read, `data` the same for programs.
    """

    id: str
    conversation_id: str
    turn_id: str | None
    kind: NoticeKind
    at: datetime
    text: str
    name: str = ""
    argument: str = ""
    data: JsonObject = field(default_factory=dict)
