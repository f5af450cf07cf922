"""Sessions: self-contained segments of a conversation, each with its own summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from lamella.core.agents import Summary
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision
from lamella.core.json import JsonObject
from lamella.core.prompt import ToolSpec
from lamella.core.tokens import Usage


class SessionCause(StrEnum):
    """Why a session began, and the one before it ended."""

    CREATED = "created"
    """With the conversation."""

    COMPACTION = "compaction"
    NEW = "new"
    RESUME = "resume"
    UNDO = "undo"
    """A compaction was taken back."""

    BRANCH = "branch"
    """A user continued from a turn of an earlier session. The branch's window has what that window held up to there."""


@dataclass(frozen=True, slots=True)
class CarriedSummary:
    """How an earlier session's summary appears in a later window: whole, or only these lines, counted from 0. An empty
    list leaves it out. The stored summary never changes.

    `("sess_1", (2, 5))`: the third and the sixth line.
    """

    session_id: str
    lines: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A session. `number` counts the sessions of its conversation from 1; `parent_id` is the session that it continues.

    The window holds the turns after `begins_after`, and the parent's summary if `inherits`. The parent of a branch is
    the session that it branched from: the branch has what preceded that session, but not its summary. `closed_at` is
    None while it is open; `ends_with` is the last turn of the path when it was closed. `summary` is None until it is
    made. It covers the turns up to `summary_ends_with` and is never merged. A reopened session gets a new summary if it
    ends after another turn. `check` compares the summary with its source. `carries` are the earlier summaries in its
    window, decided when it was opened: see `carried_in`.
    """

    id: str
    conversation_id: str
    number: int
    opened_at: datetime
    opened_by: SessionCause
    parent_id: str | None = None
    begins_after: str | None = None
    inherits: bool = False
    carries: tuple[CarriedSummary, ...] | None = None
    closed_at: datetime | None = None
    closed_by: SessionCause | None = None
    ends_with: str | None = None
    why: str = ""
    summary: str | None = None
    summary_tokens: int = 0
    summary_ends_with: str | None = None
    check: JsonObject = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """Usage by purpose: `chat`, `summary`, `embedding`."""
    made_from: tuple[str, ...] = ()
    """The knowledge bases whose content was in the source of the summary."""
    withheld: tuple[str, ...] = ()
    """Those because of which the summary is not given any more."""

    @property
    def as_summary(self) -> Summary:
        """The summary in the form in which windows show it."""
        return Summary(self.id, self.summary or "", self.summary_tokens, self.made_from, self.withheld)

    @property
    def is_summarised(self) -> bool:
        """Whether the summary covers everything that the session held when it ended.

        Turns that a compaction kept are in the session that it opened, so they are not missing.
        """
        if self.summary is None:
            return False
        return self.closed_by is SessionCause.COMPACTION or self.summary_ends_with == self.ends_with


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A new summary: its local tokens, its cost, its comparison with the source, and the knowledge bases in that
    source.
    """

    text: str
    tokens: int
    usage: Usage = field(default_factory=Usage)
    check: JsonObject = field(default_factory=dict)
    made_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionStep:
    """A change from one session to the next, in one transaction.

    Nothing changes if `expected` is no longer the conversation's session. `summary` closes it; None leaves it without
    one. Messages after `session.begins_after` on the path belong to the new session. `changes` is the number of session
    changes when this was planned, so that a conversation that left `expected` and came back counts as moved; None skips
    this check. `then` is the kind of job to enqueue for the session that ends, if it has messages. `tools` is the
    conversation's new list of tools; None keeps the old one.
    """

    expected: str
    session: Session
    why: str
    at: datetime
    summary: SessionSummary | None = None
    decisions: Sequence[Decision] = ()
    changes: int | None = None
    then: str | None = None
    tools: tuple[ToolSpec, ...] | None = None


@dataclass(frozen=True, slots=True)
class SessionReturn:
    """A return to an earlier session, in one transaction: it is opened again, and the conversation continues from
    `head`.

    `expected`, `then`: see `SessionStep`. Nothing is removed: later turns become another branch. `forgets_summary`: the
    session continues as if it had not ended, without its summary.
    """

    expected: str
    session_id: str
    head: str | None
    cause: SessionCause
    why: str
    at: datetime
    decisions: Sequence[Decision] = ()
    forgets_summary: bool = False
    then: str | None = None


OLD_TOKENS, OLD_MOST = 8_000, 8
"""The tokens and number of earlier summaries in a session that was opened before `carries` was stored."""


def carried_in(sessions: Sequence[Session], current: str) -> tuple[CarriedSummary, ...]:
    """The earlier summaries in the window of session `current`, oldest first, and how much of each.

    The list is stored when a session is opened. An older session without a list gets the summaries of its ancestors,
    nearest first, within `OLD_TOKENS` and `OLD_MOST`; its parent's is always included.
    """
    by_id = {session.id: session for session in sessions}
    if current in by_id and by_id[current].carries is not None:
        return by_id[current].carries or ()
    found: list[CarriedSummary] = []
    room, fits = OLD_TOKENS, True
    for session in _ancestors(by_id, current):
        fits = fits and (not found or session.summary_tokens <= room) and len(found) < OLD_MOST
        found.append(CarriedSummary(session.id) if fits else CarriedSummary(session.id, ()))
        room -= session.summary_tokens
    return tuple(reversed(found))


def summaries_in_window(sessions: Sequence[Session], current: str) -> tuple[Summary, ...]:
    """The summaries before the turns of session `current`, oldest first.

    If some are shortened or left out, a line before them says that a search finds them.
    """
    by_id = {session.id: session for session in sessions}
    carried = [(by_id[one.session_id], one) for one in carried_in(sessions, current) if one.session_id in by_id]
    carried = [(session, one) for session, one in carried if session.summary is not None]
    shown = [_shown(session, one) for session, one in carried if one.lines != ()]
    left = [session.number for session, one in carried if one.lines == ()]
    notes = []
    if any(one.lines for _, one in carried):
        notes.append("Summaries of earlier sessions of this conversation are shortened here.")
    if left:
        notes.append(f"Left out here: the summaries of {_numbers(left)} of this conversation.")
    if not notes:
        return tuple(shown)
    text = " ".join([*notes, "A search over its sessions finds them."])
    return (Summary(f"{current}/earlier", text, count_tokens(text)), *shown)


def _shown(session: Session, carried: CarriedSummary) -> Summary:
    """A summary as far as the window carries it."""
    whole = session.as_summary
    if carried.lines is None or whole.withheld:
        return whole
    lines = whole.text.split("\n")
    text = "\n".join(lines[index] for index in carried.lines if index < len(lines))
    return replace(whole, text=text, tokens=count_tokens(text))


def _numbers(numbers: Sequence[int]) -> str:
    """`session 3`, or `sessions 1 to 4 and 7`, of rising numbers."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    texts = [f"{one[0]} to {one[-1]}" if len(one) > 1 else str(one[0]) for one in ranges]
    listed = " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]
    return f"session{'s' if len(numbers) > 1 else ''} {listed}"


def _ancestors(by_id: Mapping[str, Session], current: str) -> list[Session]:
    """The sessions with a summary that `current` continues, the nearest first; a branch has not that of its parent."""
    found: list[Session] = []
    session = by_id.get(current)
    while session is not None and session.inherits and session.parent_id is not None:
        branches, session = session.opened_by is SessionCause.BRANCH, by_id.get(session.parent_id)
        if session is not None and session.summary is not None and not branches:
            found.append(session)
    return found
