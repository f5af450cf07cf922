"""Several processes on one database: the signals between them, and when a process counts as dead.

Each process adds 1 to its *beat* in the database each second. Every other process reads the beats and measures, on its
own monotonic clock, how long each one stays the same. So no two clocks are compared. Example: a beat is read as 7 at
0 s, 1 s, 2 s, 3 s, 4 s and 5 s of the reader's clock: its process is dead.

A reader that could not read for a while begins to measure anew: the others may not have been able to write either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lamella.core.json import JsonObject

BEAT_SECONDS = 1.0
"""Between two beats of a process, and between two looks at those of the others."""

LEASE_SECONDS = 5.0
"""A process is dead if its beat stays the same for so many seconds."""

LONGEST_PAUSE = 2.5
"""If two looks are further apart (in seconds), the reader itself was paused or cut off."""


@dataclass(slots=True)
class _Seen:
    beat: int
    unchanged: float = 0.0


@dataclass(slots=True)
class BeatWatch:
    """The beats of other processes, as one process sees them. Pure: the times are arguments."""

    _seen: dict[str, _Seen] = field(default_factory=dict)
    _ended: float | None = None

    def look(self, began: float, ended: float, beats: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        """The dead processes, each with its last beat, after beats were read between two moments of this clock."""
        since = None if self._ended is None else began - self._ended
        away = since is None or since > LONGEST_PAUSE
        found: dict[str, _Seen] = {}
        for id, beat in beats.items():
            before = self._seen.get(id)
            if since is None or away or before is None or before.beat != beat:
                found[id] = _Seen(beat)
            else:
                found[id] = _Seen(beat, before.unchanged + max(since, 0.0))
        self._seen, self._ended = found, ended
        return tuple((id, seen.beat) for id, seen in found.items() if seen.unchanged >= LEASE_SECONDS)


class SignalKind(StrEnum):
    """What a process asks of the one that holds a conversation."""

    QUEUE = "queue"
    """Read the queue again: rows were added, changed or removed."""
    STOP = "stop"
    """Stop a turn, or one of its runs."""
    ABORT = "abort"
    """Stop the messages that are about to begin a turn."""
    APPROVE = "approve"
    """Let a waiting call of a turn run, or not."""
    PREFER = "prefer"
    """The user goes on from a run of the running turn."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What a process is asked to do in a conversation.

    `data` has the `owner`, and by kind `turn`, `run`, `call`, `approved` and `reason`.
    """

    kind: SignalKind
    conversation_id: str
    data: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """What a process reads each second: the beats of all, whether it has signals, and whether a process that is gone
    left something.
    """

    beats: Mapping[str, int]
    has_signals: bool
    has_orphans: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """The process that holds a conversation (None: no process), its running turn, and whether rows wait."""

    holder: str | None
    running_turn: str | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Inherited:
    """A conversation that a gone process held. `owner` is the user's id."""

    conversation_id: str
    owner: str
