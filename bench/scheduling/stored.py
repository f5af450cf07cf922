"""What a schedule left in the database, as the laws read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.database import Disk, Row
from scheduling.model import QUESTION


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything that the laws read, in the order in which it was stored."""

    conversation: Row
    sessions: Sequence[Row]
    turns: Sequence[Row]
    messages: Sequence[Row]
    decisions: Sequence[Row]
    jobs: Sequence[Row]
    commands: Sequence[Row]
    queue: Sequence[Row]
    packets: Sequence[Row]

    @classmethod
    def of(cls, disk: Disk) -> Stored:
        """What is in the database."""
        rows = disk.rows
        [conversation] = rows("SELECT * FROM conversations")
        return cls(
            conversation,
            rows("SELECT * FROM sessions ORDER BY number"),
            rows("SELECT * FROM turns ORDER BY rowid"),
            rows("SELECT * FROM messages ORDER BY rowid"),
            rows("SELECT * FROM decisions WHERE kind = 'session' ORDER BY rowid"),
            rows("SELECT * FROM jobs"),
            rows("SELECT * FROM notices WHERE kind = 'command'"),
            rows("SELECT * FROM queued_messages ORDER BY seq"),
            rows("SELECT turn_id, first, last FROM journal ORDER BY turn_id, first"),
        )

    def asked(self) -> dict[str, list[str]]:
        """The names of the questions of each turn: several, where they were sent quickly one after another."""
        return {row["turn_id"]: _names(row) for row in self.messages if row["role"] == "user"}

    def questions(self) -> list[tuple[str, str]]:
        """Each question's name and its turn."""
        asked = [row for row in self.messages if row["role"] == "user"]
        return [(name, row["turn_id"]) for row in asked for name in _names(row)]

    def path(self) -> list[str]:
        """The turns to the head, the oldest first."""
        parents = {row["id"]: row["parent_id"] for row in self.turns}
        found, turn = [], self.conversation["head"]
        while turn is not None:
            found.append(turn)
            turn = parents[turn]
        return found[::-1]

    def session(self, id: str) -> Row:
        """A session."""
        return next(row for row in self.sessions if row["id"] == id)


def said(row: Row) -> str:
    """The text of a message."""
    return "".join(part.get("text", "") for part in json.loads(row["parts"]))


def _names(row: Row) -> list[str]:
    return QUESTION.findall(said(row)) or [f"message {row['id']} without a question"]
