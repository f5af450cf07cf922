"""Decisions: what the engine or a user decided once and everybody reads as data ever after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class DecisionKind(StrEnum):
    """What was decided."""

    ADMISSION = "admission"
    """Whether a file's text is in the window of a model, or only listed. Subject: `FILE_ID#DOCUMENT@MODEL`."""

    PROJECT = "project"
    """Whether a project's files are in the window of a model as one block. Subject: `PROJECT_ID.REVISION@MODEL`."""

    PRUNE = "prune"
    """Up to which step old tool results are stubs. Outcome: the id of that step."""

    CUT = "cut"
    """A tool result is shown as head and tail only. Subject: `CALL_ID@MODEL`; outcome: `HEAD:TAIL` in characters."""

    CALIBRATION = "calibration"
    """What the provider counts for a local token, by a refusal or a count. Subject: `MODEL`; outcome: the factor."""

    LEFT_OUT = "left_out"
    """The oldest turns left the window of a model, because nothing else made room. They stay stored and searchable.
    Subject: `MODEL`; outcome: the last turn that left, else the last summary, or "" once all are back. The number
    `summaries` says how many of the oldest summaries left, `budget` in what budget there was no room."""

    SESSION = "session"
    """A session began. Subject: its id; outcome: the last turn that is not in the window, with all before it, or ""."""

    FALLBACK = "fallback"
    """Another model answered one turn. Subject: the model that failed; outcome: the one that answered."""

    BRANCH = "branch"
    """A turn follows something else than the newest answer. Subject: its id; outcome: the turn it follows, or ""."""

    PREFERRED = "preferred"
    """From which answer a conversation goes on. Subject: the turn; outcome: the run."""

    SETTING = "setting"
    """A setting changed. Subject: `model`, `layout`, `agent`, `project`, `system`, `tools` or `thinking_effort`;
    outcome: the new value, for agents and projects `ID@REVISION`."""


WAY = "way"
"""The number of a session's decision that a turn brought along, because its path stands in another session."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One fact. `subject` is what it is about, `first_changed` the segment from which the window differs, if any."""

    kind: DecisionKind
    subject: str
    outcome: str
    who: str
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    first_changed: str | None = None


def window_start(decisions: Sequence[Decision]) -> str | None:
    """The last turn that is no longer in the window, by the newest session; None when every turn of the path is."""
    starts = [decision.outcome for decision in decisions if decision.kind is DecisionKind.SESSION]
    return (starts[-1] or None) if starts else None
