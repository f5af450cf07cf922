"""What happens between the requests of a replay: commands, sessions, prunings, notifications, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.json import Json
from lamella.core.ports import Jobs
from lamella.core.records import Caller, JobStatus, Notice, NoticeKind, PageQuery, StoredDecision
from lamella.storage import Store

TOLD = {DecisionKind.SESSION: "session", DecisionKind.PRUNE: "prune"}

MOST = 100
"""Notices of one page."""


@dataclass(frozen=True, slots=True)
class ReplayEvent:
    """An event between two requests, for example a compaction: it comes after request `after`. Has kind, cause, figures
    and the text that was shown.
    """

    at: datetime
    after: int
    kind: str
    cause: str
    numbers: Mapping[str, float]
    text: str = ""

    def as_json(self) -> dict[str, Json]:
        """The shape of `lamella replay --json`."""
        return {
            "at": self.at.isoformat(),
            "after": self.after,
            "kind": self.kind,
            "cause": self.cause,
            "numbers": {name: round(value) for name, value in self.numbers.items()},
            "text": self.text,
        }


class ReplayEvents:
    """Finds what is new in the store, each time that it is asked."""

    def __init__(self, store: Store, jobs: Jobs, caller: Caller, conversation_id: str) -> None:
        self._store = store
        self._jobs = jobs
        self._caller = caller
        self._conversation = conversation_id
        self._notices: set[str] = set()
        self._failure: tuple[str, int, str] | None = None
        self.found: list[ReplayEvent] = []

    async def look(self, after: int, decided: Sequence[StoredDecision]) -> None:
        """Note the events after request `after`; `decided` are the new decisions."""
        numbers = {s.id: s.number for s in await self._store.sessions.sessions(self._caller, self._conversation)}
        fresh = [
            ReplayEvent(stored.at, after, TOLD[d.kind], d.why, d.numbers, _text(d, numbers))
            for stored in decided
            if (d := stored.decision).kind in TOLD
        ]
        query = PageQuery(limit=MOST, order="desc")
        page = await self._store.notices.notices(self._caller, self._conversation, query)
        notices = [notice for notice in page.data if notice.id not in self._notices]
        self._notices |= {notice.id for notice in notices}
        fresh += [_of_notice(notice, after) for notice in notices[::-1]]
        self.found += sorted(fresh, key=lambda one: (one.kind != "command", one.at, one.kind == "notice"))
        await self._look_at_job(after)

    async def _look_at_job(self, after: int) -> None:
        """A failed automatic compaction shows no notice, so the reason is read from its job."""
        job = await self._jobs.job(self._caller, "compact", self._conversation)
        if job is None or job.error is None or job.status is JobStatus.FINISHED:
            return
        failure = (job.id, job.attempts, str(job.error.get("message")))
        if failure != self._failure:
            self._failure = failure
            again = f"; again at {job.due_at:%H:%M:%S}" if job.status is JobStatus.WAITING else "; given up"
            self.found.append(ReplayEvent(job.due_at, after, "not compacted", job.cause, {}, failure[2] + again))


def _text(decision: Decision, numbers: Mapping[str, int]) -> str:
    if decision.kind is DecisionKind.SESSION:
        return f"session {numbers.get(decision.subject, 0)}"
    return ""


def _of_notice(notice: Notice, after: int) -> ReplayEvent:
    if notice.kind is NoticeKind.COMMAND:
        cause = f"/{notice.name} {notice.argument}".strip()
        return ReplayEvent(notice.at, after, "command", cause, {}, notice.text)
    return ReplayEvent(notice.at, after, "notice", notice.kind.value, {}, notice.text)
