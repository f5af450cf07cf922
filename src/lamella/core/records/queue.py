"""Messages that wait for their turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lamella.core.json import JsonObject


class QueueStatus(StrEnum):
    """Whether a message still waits for its turn."""

    QUEUED = "queued"
    BEGUN = "begun"
    """It is in a turn, or as a command it ran."""

    CANCELLED = "cancelled"
    FAILED = "failed"
    """It could not be answered, or as a command it was refused: a notice says why."""


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message or a command that waits for its turn, with the sender whose rights it has.

    `sent_at` carries the offset of `timezone`; `seq` is its place in its conversation, counted by the store from 1.
    `payload` is what else was sent with it. `turn_id` is the turn that it went into; of a command, and of a message
    that could not be answered, `notice_id` is the notice that tells of it.
    """

    id: str
    conversation_id: str
    sender: str
    text: str
    sent_at: datetime
    timezone: str
    payload: JsonObject = field(default_factory=dict)
    seq: int = 0
    status: QueueStatus = QueueStatus.QUEUED
    turn_id: str | None = None

    @property
    def notice_id(self) -> str:
        """The id of the notice that tells what became of it, if one does."""
        return f"note_{self.id.partition('_')[2]}"
