"""Decisions: what the engine or a user decided once and everybody reads as data ever after (DESIGN 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class DecisionKind(StrEnum):
    """What was decided."""

    ADMISSION = "admission"
    """Whether a file's text is in the window of a model, or only listed. Subject: `FILE_ID#DOCUMENT@MODEL`."""

    PROJECT = "project"
    """Whether a project's files are in the window of a model as one block. Subject: `PROJECT_ID@MODEL`."""

    PRUNE = "prune"
    """Up to which step old tool results are stubs. Outcome: the id of that step."""

    SETTING = "setting"
    """A setting of the conversation changed (model, system prompt, layout)."""


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
