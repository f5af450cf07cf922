"""Decisions: choices about the window that are stored once and read as data by every later request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class DecisionKind(StrEnum):
    """The kinds of decision. Each says what its subject and its outcome are."""

    ADMISSION = "admission"
    """Whether a file's text is in the window of a model, or only listed. Subject: `FILE_ID#DOCUMENT@MODEL`."""

    PROJECT = "project"
    """Whether a project's files are in the window of a model as one block. Subject: `PROJECT_ID.REVISION@MODEL`."""

    PRUNE = "prune"
    """Results up to this step are stubs. Outcome: the id of the step."""

    CUT = "cut"
    """A tool result is shown as head and tail only. Subject: `CALL_ID@MODEL`; outcome: `HEAD:TAIL` in characters."""

    CALIBRATION = "calibration"
    """How many of the provider's tokens one local token is, learned from a refusal or a count. Subject: `MODEL`;
    outcome: the factor.
    """

    LEFT_OUT = "left_out"
    """The oldest turns left the window of a model, because nothing else made room. They stay stored and searchable.
    Subject: `MODEL`; outcome: the last turn that left, else the last summary, or "" after all came back. The number
    `summaries` counts the summaries that left; `budget` is the budget that was too small.
    """

    SESSION = "session"
    """A session began. Subject: its id; outcome: the last turn that is not in the window, with all before it, or ""."""

    FALLBACK = "fallback"
    """Another model answered one turn. Subject: the model that failed; outcome: the model that answered."""

    BRANCH = "branch"
    """A turn follows something else than the newest answer. Subject: its id; outcome: the turn it follows, or ""."""

    PREFERRED = "preferred"
    """The answer from which a conversation continues. Subject: the turn; outcome: the run."""

    REPLACED = "replaced"
    """Messages that a client sends again are a summary upstream, or results of tools stubs. Subject: the replacement;
    outcome: `summary` or `prune`.
    """

    SETTING = "setting"
    """A setting changed. Subject: `model`, `layout`, `agent`, `project`, `system`, `tools` or `thinking_effort`;
    outcome: the new value, for agents and projects `ID@REVISION`."""


WAY = "way"
"""The number in a session's decision that a turn brought along, because its path is in another session."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A stored choice. `subject` is its object, `first_changed` the first segment that differs because of it, if
    any.
    """

    kind: DecisionKind
    subject: str
    outcome: str
    who: str
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    first_changed: str | None = None
