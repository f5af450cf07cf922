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
    """Somebody went on from a turn of an earlier session: what its window held up to there, the branch's holds too."""


@dataclass(frozen=True, slots=True)
class Carried:
    """How the summary of an earlier session stands in the window of a later one: whole, or these of its lines, counted
    from 0; without a line it is left out. The summary itself is never changed.

    `("sess_1", (2, 5))`: the third and the sixth line.
    """

    session_id: str
    lines: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """A session. `number` counts those of its conversation from 1; `parent_id` is the one that it continues.

    The window holds the turns behind `begins_after`, and the parent's summary if it `inherits` it; a branch's parent is
    the session that it branched from, of which it has what stood before that session and not its own summary. An open
    session has no `closed_at`; `ends_with` is the last turn of the path when a session was closed. `summary` is None
    until there is one; it stands for the turns up to `summary_ends_with`, and is never merged. A session that was
    reopened gets another one when it ends again behind another turn. `check` says how the summary compares with what
    it stands for. `carries` are the earlier summaries in its window, decided when it was opened: see `carried_in`.
    """

    id: str
    conversation_id: str
    number: int
    opened_at: datetime
    opened_by: SessionCause
    parent_id: str | None = None
    begins_after: str | None = None
    inherits: bool = False
    carries: tuple[Carried, ...] | None = None
    closed_at: datetime | None = None
    closed_by: SessionCause | None = None
    ends_with: str | None = None
    why: str = ""
    summary: str | None = None
    summary_tokens: int = 0
    summary_ends_with: str | None = None
    check: JsonObject = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """What was spent, by purpose: `chat`, `summary`, `embedding`."""
    made_from: tuple[str, ...] = ()
    """The knowledge bases of which something stood in what the summary was made from."""
    withheld: tuple[str, ...] = ()
    """Those because of which the summary is not given any more."""

    @property
    def as_summary(self) -> Summary:
        """The summary, as it stands in windows."""
        return Summary(self.id, self.summary or "", self.summary_tokens, self.made_from, self.withheld)

    @property
    def is_summarised(self) -> bool:
        """Whether the summary stands for all that the session held when it ended.

        What a compaction carried on is in the session that it opened, and not missing here.
        """
        if self.summary is None:
            return False
        return self.closed_by is SessionCause.COMPACTION or self.summary_ends_with == self.ends_with


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A summary that was made: its local tokens, what making it cost, how it compares with its source, and the
    knowledge bases of which something stood in that.
    """

    text: str
    tokens: int
    usage: Usage = field(default_factory=Usage)
    check: JsonObject = field(default_factory=dict)
    made_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionStep:
    """From one session to the next, in one transaction.

    `expected` has to be the conversation's session still, else nothing changes. `summary` closes it; None leaves it
    without one. Messages behind `session.begins_after` on the path are the new session's from then on. `changes` is how
    often the conversation had changed its session when this was planned: one that left `expected` and came back since
    has moved too; None where that does not matter. `then` is the kind of job that is enqueued with it for the session
    that ends, where something was said in it. `tools` is the list that the conversation has from then on; None leaves
    it as it is.
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
    """Back to an earlier session, in one transaction: it is open again and the conversation goes on from `head`.

    `expected`, `then`: see `SessionStep`. Nothing is removed: what came after is another branch. `forgets_summary`: the
    session goes on as if it had not ended, without the summary that it got then.
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
"""What the earlier summaries of a session hold that was opened before it was recorded which it carries."""


def carried_in(sessions: Sequence[Session], current: str) -> tuple[Carried, ...]:
    """Which earlier summaries stand before the session `current`, the oldest first, and how much of each.

    It is recorded when a session is opened. One that was opened before that has its ancestors' as far as each inherits,
    the nearest first and its parent's always, within `OLD_TOKENS` and `OLD_MOST`.
    """
    by_id = {session.id: session for session in sessions}
    if current in by_id and by_id[current].carries is not None:
        return by_id[current].carries or ()
    found: list[Carried] = []
    room, fits = OLD_TOKENS, True
    for session in _ancestors(by_id, current):
        fits = fits and (not found or session.summary_tokens <= room) and len(found) < OLD_MOST
        found.append(Carried(session.id) if fits else Carried(session.id, ()))
        room -= session.summary_tokens
    return tuple(reversed(found))


def summaries_in_window(sessions: Sequence[Session], current: str) -> tuple[Summary, ...]:
    """The summaries that stand before the session `current`, the oldest first.

    If some are shortened or left out, a line in front says so: a search finds them.
    """
    by_id = {session.id: session for session in sessions}
    carried = [(by_id[one.session_id], one) for one in carried_in(sessions, current) if one.session_id in by_id]
    carried = [(session, one) for session, one in carried if session.summary is not None]
    shown = [_shown(session, one) for session, one in carried if one.lines != ()]
    left = [session.number for session, one in carried if one.lines == ()]
    said = []
    if any(one.lines for _, one in carried):
        said.append("Summaries of earlier sessions of this conversation are shortened here.")
    if left:
        said.append(f"Left out here: the summaries of {_numbers(left)} of this conversation.")
    if not said:
        return tuple(shown)
    text = " ".join([*said, "A search over its sessions finds them."])
    return (Summary(f"{current}/earlier", text, count_tokens(text)), *shown)


def _shown(session: Session, carried: Carried) -> Summary:
    """A summary as far as it is carried; one that is not given any more says so."""
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
    said = [f"{one[0]} to {one[-1]}" if len(one) > 1 else str(one[0]) for one in ranges]
    listed = " and ".join([", ".join(said[:-1]), said[-1]]) if len(said) > 1 else said[0]
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
