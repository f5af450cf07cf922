"""Descriptions of knowledge bases: written by a model in the background after documents were indexed. A person's text
is never replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from itertools import islice

import msgspec
import structlog

from lamella.agent.request import side_prompt
from lamella.agent.side import SideAnswer
from lamella.app.auxiliary_models import SummaryModel
from lamella.app.providers import Models
from lamella.background import Retry, Worker
from lamella.core.access import GrantLevel
from lamella.core.clock import Clock
from lamella.core.errors import NotFound, PermissionDenied
from lamella.core.json import digest, encode_text
from lamella.core.knowledge import Document, Shelf
from lamella.core.messages import StopReason
from lamella.core.models import OFF
from lamella.core.ports import Jobs, OpenModel
from lamella.core.prompt import Sampling
from lamella.core.records import Caller, Job, NewJob, PageQuery
from lamella.core.tokens import Usage
from lamella.sessions.summary_input import framed
from lamella.sessions.summary_models import answer_within
from lamella.storage.bases import AccessRows
from lamella.storage.knowledge.store import KnowledgeStore

log = structlog.get_logger()

DESCRIBE = "knowledge_describe"
"""The kind of the job."""

QUIET_SECONDS = 3.0
"""Seconds after the last indexed document before the model is asked, so that many documents cause one description."""

MOST_DOCUMENTS, SHOWN = 40, 12_000
"""Documents that the model sees the beginnings of, and their characters together."""

LEAST_SHOWN = 300
"""Characters of the beginning of each document, at least."""

LONGEST_SUMMARY, LONGEST_TOPIC, MOST_TOPICS = 1_500, 100, 12
MAX_OUTPUT = 1_024
SECONDS = 90.0
PROMPT = files("lamella.app").joinpath("prompts", "describe_base.md").read_text("utf-8").strip()

_EXPECTED = Usage(input=4_000, output=150)
"""The approximate usage of a description, to compare two models."""


@dataclass(frozen=True, slots=True)
class NoDescription:
    """The answer is not a description, and why."""

    why: str


class Description(msgspec.Struct, frozen=True):
    """A model's description of a base."""

    summary: str
    topics: tuple[str, ...]


def description_of(answer: SideAnswer) -> Description | NoDescription:
    """The description in an answer, or why there is none."""
    if answer.called_tools or answer.stop_reason is not StopReason.END_TURN:
        return NoDescription(
            f"the answer is not whole ({answer.stop_reason.value if answer.stop_reason else 'broken'})"
        )
    text = answer.text
    try:
        made = msgspec.json.decode(text[text.find("{") : text.rfind("}") + 1], type=Description)
    except msgspec.DecodeError:
        return NoDescription("the answer is not the JSON that was asked for")
    summary = " ".join(made.summary.split())
    topics = tuple(dict.fromkeys(topic for one in made.topics if (topic := " ".join(one.split()))))
    if not summary or len(summary) > LONGEST_SUMMARY:
        return NoDescription(f"the summary has {len(summary)} characters")
    if len(topics) > MOST_TOPICS or any(len(topic) > LONGEST_TOPIC for topic in topics):
        return NoDescription("the topics are too many or too long")
    return Description(summary, topics)


OpenDescriber = Callable[[], Awaitable[OpenModel]]
"""Opens the model that describes, without logging."""


def describer(models: Models, second: SummaryModel | None) -> OpenDescriber:
    """The summaries' model if there is one, or the default model if that is cheaper and the cheaper one is wanted."""

    async def opened() -> OpenModel:
        main = await models.open_silent(models.default)
        if second is None:
            return main
        other = await second.open_silent()
        if second.choice == "configured":
            return other
        return min(main, other, key=lambda one: one.model.facts.cost(_EXPECTED))

    return opened


class BaseDescriptions:
    """Writes summaries and topics of bases; failing leaves those that are there."""

    def __init__(
        self,
        access: AccessRows,
        store: KnowledgeStore,
        jobs: Jobs,
        opened: OpenDescriber,
        clock: Clock,
        quiet: float = QUIET_SECONDS,
    ) -> None:
        self._access = access
        self._store = store
        self._opened = opened
        self._clock = clock
        self._quiet = timedelta(seconds=quiet)
        self._worker = Worker(jobs, clock, {DESCRIBE: self._describe})
        self._looking: set[asyncio.Task[None]] = set()
        self._due = clock.monotonic()

    def start(self) -> None:
        """Start, including the work of an ended process."""
        self._worker.start()

    async def close(self) -> None:
        """Stop. The next start continues."""
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)
        await self._worker.close()

    async def changed(self, shelf: Shelf) -> None:
        """A base's documents changed: describe it again after a quiet period."""
        if not shelf.id:
            return
        due = self._clock.now() + self._quiet
        job = NewJob(DESCRIBE, shelf.id, "its documents changed", due, follows=True, takes_over=True)
        await self._worker.enqueue(Caller(shelf.owner), job)
        self._due = self._clock.monotonic() + self._quiet.total_seconds()
        if not self._looking:
            task = asyncio.create_task(self._look_later())
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _look_later(self) -> None:
        """Wake the worker when the newest job is due."""
        while (left := self._due - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        self._worker.wake()

    async def _describe(self, job: Job) -> Retry | None:
        try:
            known = await self._access.described_from(job.caller, job.subject)
        except (NotFound, PermissionDenied):
            return None
        shelf = Shelf(job.caller.user_id, job.subject)
        if known is None or (await self._store.shelf_totals(shelf)).unfinished:
            return None  # a person has said it; or the last document that becomes ready asks again
        documents = [one for one in await self._documents(shelf) if one.found is not None]
        made_from = digest(encode_text([[one.id, one.found] for one in documents]).encode()) if documents else ""
        if made_from == known:
            return None
        if not documents:
            await self._access.describe_base(job.caller, job.subject, "", (), "", self._clock.now())
            return None
        if await self._is_protected(job):
            log.info("a base with restricted readers is described by people alone", base_id=job.subject)
            return None
        answer = await self._ask(await self._material(job.caller, documents))
        if answer.error is not None:
            # Its text may quote the request, and so the documents: only what kind of error it is may be told or kept.
            kind = type(answer.error).__name__
            log.warning("no description of a base", base_id=job.subject, why=kind)
            return Retry(f"The model that describes knowledge bases failed: {kind}.")
        made = description_of(answer)
        if isinstance(made, NoDescription):
            log.warning("no description of a base", base_id=job.subject, why=made.why)
            return None
        now = self._clock.now()
        await self._access.describe_base(job.caller, job.subject, made.summary, made.topics, made_from, now)
        return None

    async def _is_protected(self, job: Job) -> bool:
        """Whether a user has restricted access to the base: then only the restricted model reads it."""
        grants = await self._access.grants(job.caller, job.subject)
        return any(grant.level is GrantLevel.RESTRICTED for grant in grants)

    async def _documents(self, shelf: Shelf) -> list[Document]:
        found: list[Document] = []
        after: str | None = None
        while True:
            page = await self._store.documents_on_shelf(shelf, PageQuery(100, after, "asc"))
            found += page.data
            if not page.has_more:
                return found
            after = page.data[-1].id

    async def _material(self, caller: Caller, documents: Sequence[Document]) -> str:
        """The names and beginnings of documents, an even sample if there are many."""
        step = max(len(documents) / MOST_DOCUMENTS, 1)
        chosen = [documents[int(at * step)] for at in range(min(len(documents), MOST_DOCUMENTS))]
        each = max(SHOWN // len(chosen), LEAST_SHOWN)
        pieces = []
        for document in chosen:
            passages = await self._store.passages_of(caller, document.id, 0, 1 + each // 1_000)
            text = "".join(passage.text for passage in passages)[:each]
            pieces.append(f"{document.name}\n{text}")
        left = [one.name for one in islice((d for d in documents if d not in chosen), 100)]
        more = [f"{len(documents)} documents in all, also: {', '.join(left)}"] if left else []
        return "\n\n---\n\n".join([*pieces, *more])

    async def _ask(self, material: str) -> SideAnswer:
        """The request is not recorded, because not everybody may read its body."""
        model = (await self._opened()).model
        facts = model.facts
        sampling = Sampling(min(MAX_OUTPUT, facts.max_output), OFF)
        prompt = await asyncio.to_thread(side_prompt, facts.name, PROMPT, framed("documents", material), sampling)
        request = model.request(prompt, model.wire(prompt).blocks, ())
        return await answer_within(self._clock, model, request, {}, SECONDS, "description")
