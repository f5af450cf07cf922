"""The compactions of one process: requested, done in the background one at a time per conversation, and reported.

A compaction that fails is retried after a pause, and then not before something has changed.
"""

from __future__ import annotations

import asyncio

import structlog

from lamella.background import LOOK_SECONDS, Retry, Worker
from lamella.cache.weighing import SILENT, Due
from lamella.core.clock import Clock
from lamella.core.decisions import DecisionKind
from lamella.core.errors import LamellaError, LeaseLost, NotFound, StoreFailed
from lamella.core.json import JsonObject, digest, encode
from lamella.core.records import Caller, Job, JobStatus, NewJob
from lamella.core.settings import EngineSettings
from lamella.sessions.compaction import ENGINE, Compacted, CompactionRequest, Compactor
from lamella.sessions.notifications import Notifications
from lamella.sessions.recall.recall import Recall
from lamella.sessions.summariser import NOTHING_YET, WAY_OUT, NotCompacted
from lamella.turns.turn import Finished

log = structlog.get_logger()

COMPACT = "compact"

GROWTH = 1.25
"""How much larger than when it was last given up a window is when a compaction is tried again."""

Outcome = Compacted | NotCompacted


class Compactions:
    """Requests compactions and does them; callers may wait for the outcome."""

    def __init__(
        self,
        compactor: Compactor,
        worker: Worker,
        notifications: Notifications,
        settings: EngineSettings,
        clock: Clock,
        recall: Recall | None,
    ) -> None:
        self._compactor = compactor
        self._worker = worker
        self._notifications = notifications
        self._settings = settings
        self._clock = clock
        self._recall = recall
        self._asked: dict[str, asyncio.Task[Outcome]] = {}
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._doing: set[str] = set()
        self._needed: dict[str, int] = {}
        """Conversations with a waiting message, whose compaction is made whether or not it pays, and the local tokens
        that need room.
        """

    async def follow_up(self, finished: Finished, due: Due) -> None:
        """Ask for one after a turn, unless the last one was given up and nothing has changed since."""
        state: JsonObject = {"state": self._state(finished), "input": finished.input}
        job = await self._worker.job(finished.caller, COMPACT, finished.conversation.id)
        if job is None or not _is_given_up(job, state):
            conversation = finished.conversation.id
            self.ask(
                CompactionRequest(finished.caller, conversation, ENGINE, due.why, if_it_pays=True, numbers=due.numbers),
                state,
            )

    def _state(self, finished: Finished) -> str:
        """The state that a compaction depends on besides the window's size: session, model, settings, agent, and the
        user's changes.
        """
        changed = [d for d in finished.decisions if d.kind is DecisionKind.SETTING or d.who != ENGINE]
        conversation, settings = finished.conversation, self._settings
        on = (finished.model, finished.budget, conversation.session_id, conversation.agent_id, conversation.layout)
        return digest(encode([*on, len(changed), str(settings.compaction_threshold), settings.keep_recent_tokens]))

    def ask(
        self, request: CompactionRequest, state: JsonObject | None = None, *, first: bool = False
    ) -> asyncio.Task[Outcome]:
        """Compact in the background. Returns the running compaction if there is one.

        A compaction that waits for a retry keeps waiting, unless a user asks: then it runs now, as the user wants.
        `state` is what an automatic one depends on. `first`: a message or a running turn waits for it. It begins before
        all others; and if a running compaction is skipped because it would not pay, another one is made.
        """
        running = self._asked.get(request.conversation_id)
        if running is not None:
            return asyncio.create_task(self._after(running, request)) if first else running
        if first:
            self._needed[request.conversation_id] = request.coming
        numbers = {name: round(value, 3) for name, value in request.numbers.items()}
        wanted: JsonObject = {
            "who": request.who,
            "focus": request.focus,
            "if_it_pays": request.if_it_pays,
            "numbers": numbers,
        }
        job = NewJob(
            kind=COMPACT,
            subject=request.conversation_id,
            cause=request.why,
            not_before=self._clock.now(),
            payload={**wanted, **(state or {})},
            takes_over=request.who != ENGINE,
        )
        task = self._asked[request.conversation_id] = asyncio.create_task(self._ask(request.caller, job, first=first))
        return task

    async def _after(self, running: asyncio.Task[Outcome], request: CompactionRequest) -> Outcome:
        """The outcome of the running compaction; of another one, if it was skipped."""
        self._needed[request.conversation_id] = request.coming
        outcome = await asyncio.shield(running)
        if isinstance(outcome, Compacted) or outcome.again:
            return outcome
        return await asyncio.shield(self.ask(request, first=True))

    async def _ask(self, caller: Caller, job: NewJob, *, first: bool) -> Outcome:
        """Enqueue a compaction and wait for its outcome. The job runs even if nobody waits."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[job.subject] = outcome
        try:
            stored = await self._worker.enqueue(caller, job, first=first)
            if stored.status is JobStatus.WAITING and stored.due_at > self._clock.now():
                return NotCompacted(
                    f"it did not work out a moment ago, and is tried again at {stored.due_at:%H:%M}", code=SILENT
                )
            return await self._heard(caller, stored, outcome)
        except StoreFailed as error:
            return NotCompacted(error.message)
        finally:
            self._waiting.pop(job.subject, None)
            self._asked.pop(job.subject, None)
            self._needed.pop(job.subject, None)

    async def _heard(self, caller: Caller, job: Job, outcome: asyncio.Future[Outcome]) -> Outcome:
        """The outcome of a compaction. One done by another process, or requested again when it ended, notifies
        nobody.
        """
        while True:
            await asyncio.wait({outcome}, timeout=LOOK_SECONDS)
            if outcome.done():
                await self._worker.put_down(job)  # else who asks again now is told that it still runs
                return outcome.result()
            now = await self._worker.job(caller, job.kind, job.subject)
            if now is None or now.id != job.id or now.status not in (JobStatus.WAITING, JobStatus.RUNNING):
                return NotCompacted("a compaction ended a moment ago", code=SILENT)

    async def do(self, job: Job) -> Retry | None:
        """Do a requested compaction, here or in another process."""
        self._doing.add(job.subject)
        outcome: Outcome = NotCompacted("it was broken off", code=SILENT)
        try:
            outcome = await self._outcome(job)
            if outcome != _DELETED:
                await self._tell(job, outcome)
        finally:
            self._doing.discard(job.subject)
            waiting = self._waiting.get(job.subject)
            if waiting is not None and not waiting.done():
                waiting.set_result(outcome)
        match outcome:
            case Compacted(session, before, parts):
                if self._recall is not None:
                    await self._recall.follow(job.caller, job.subject)
                log.info("compacted", conversation_id=job.subject, session=session.id, before=before, after=parts.total)
                return None
            case NotCompacted(why, again, code):
                log.warning("not compacted", conversation_id=job.subject, why=why)
                return Retry(why, retry=again, code=code)

    async def _outcome(self, job: Job) -> Outcome:
        """The outcome of a compaction. Raises `LeaseLost`, since another worker has the job then."""
        who, focus = str(job.payload.get("who")), str(job.payload.get("focus"))
        pays = bool(job.payload.get("if_it_pays")) and job.subject not in self._needed
        coming = self._needed.get(job.subject, 0)
        asked = CompactionRequest(job.caller, job.subject, who, job.cause, focus, job, pays, _numbers(job), coming)
        try:
            return await self._compactor.compact(asked)
        except LeaseLost:
            raise
        except NotFound:
            return _DELETED
        except LamellaError as error:
            return NotCompacted(error.message, again=True, hint=error.hint or WAY_OUT)

    async def _tell(self, job: Job, outcome: Outcome) -> None:
        """Notify the user of a compaction; of a failure once per reason, unless the user has just asked."""
        asked_for = str(job.payload.get("who")) != ENGINE
        match outcome:
            case Compacted():
                await self._notifications.compacted(job.caller, job.subject, outcome, asked_for=asked_for)
            case NotCompacted():
                asked_now = asked_for and job.attempts <= 1
                await self._notifications.not_compacted(job.caller, job.subject, outcome, asked_for=asked_now)

    def is_running(self, conversation_id: str) -> bool:
        """Whether a compaction of this conversation is about to run, or runs, in this process."""
        return conversation_id in self._asked or conversation_id in self._doing

    async def run_anywhere(self, caller: Caller, conversation_id: str) -> bool:
        """Whether a compaction of this conversation runs or is about to, in any process.

        A compaction of a dead process counts: the next worker continues it.
        """
        if self.is_running(conversation_id):
            return True
        job = await self._worker.job(caller, COMPACT, conversation_id)
        if job is None:
            return False
        due = job.status is JobStatus.WAITING and job.due_at <= self._clock.now()
        return job.status is JobStatus.RUNNING or due

    async def wait_until_idle(self, conversation_id: str) -> None:
        """Returns when no compaction that was requested here runs for this conversation."""
        task = self._asked.get(conversation_id)
        if task is not None:
            await asyncio.wait({task})

    async def close(self) -> None:
        """Release everybody who waits."""
        asked = list(self._asked.values())
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


def _numbers(job: Job) -> dict[str, float]:
    """The figures of the decision."""
    given = job.payload.get("numbers")
    return {name: float(str(value)) for name, value in given.items()} if isinstance(given, dict) else {}


_DELETED = NotCompacted("the conversation was deleted", code=SILENT)


def _is_given_up(job: Job, state: JsonObject) -> bool:
    """Whether the last compaction failed permanently and nothing has changed since, with a window less than a quarter
    larger.

    A compaction with nothing to do is requested again after each turn, which costs nothing.
    """
    code = (job.error or {}).get("code")
    if job.status is not JobStatus.FAILED or code in NOTHING_YET or job.payload.get("state") != state["state"]:
        return False
    return float(str(state["input"])) < float(str(job.payload.get("input"))) * GROWTH
