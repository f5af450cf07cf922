"""The ports between the layers, where more than one implementation exists: models, files, jobs, embedders, packets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from lamella.core.deltas import Delta
from lamella.core.models import ModelFacts
from lamella.core.prompt import Level, Marker, Prompt, Sampling, WireBlock, Wired, WireRequest
from lamella.core.recall import Embedded, Space
from lamella.core.records import (
    Caller,
    Job,
    NewJob,
)


class ChatModel(Protocol):
    """A provider's wire protocol (`llm/`). Knows nothing of conversations."""

    facts: ModelFacts

    def wire(self, prompt: Prompt, previous: Wired | None = None) -> Wired:
        """The wire blocks of `prompt`, in cache order; `previous` only saves work where it is the same."""
        ...

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """The request of these blocks with these cache markers; at most 4, each on a markable block."""
        ...

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """What of the settings beside the blocks is part of the cache key, by the level that it changes first."""
        ...

    def body(self, request: WireRequest) -> dict[str, object]:
        """The JSON body, as it is handed to the provider's SDK."""
        ...

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """Send it and yield what comes back; raises a `ProviderError` and nothing else.

        Closing the iterator closes the connection.
        """
        ...

    async def count(self, request: WireRequest) -> int:
        """The provider's own count of the input, in tokens; raises a `ProviderError`."""
        ...

    async def close(self) -> None:
        """Let its connections go."""
        ...


@dataclass(frozen=True, slots=True)
class OpenModel:
    """A model that can be asked, and the account whose cache it shares."""

    model: ChatModel
    account: str


class ModelSource(Protocol):
    """Where models come from (`app`)."""

    async def open(self, name: str) -> OpenModel:
        """The model of this name; raises `InvalidRequest` when none is configured that serves it."""
        ...


class Jobs(Protocol):
    """Background work. Every verb is one transaction. Raises `StoreFailed` on failure.

    A worker claims a job for a while and says when it goes on, is done or has failed; when its lease has ended another
    may claim the job, and whatever the late worker says then raises `LeaseLost`.
    """

    async def enqueue(self, caller: Caller, job: NewJob, at: datetime) -> Job:
        """Store work to do, or give the job of the same kind and subject that waits or runs already, as it is.

        With `job.follows`, one that runs is due once more when it has ended, as if it were new. With `job.takes_over`,
        one that waits gets the payload and the cause of this one, and is due when this one is, as if it were new.
        """
        ...

    async def job(self, caller: Caller, kind: str, subject: str) -> Job | None:
        """The newest job of a kind for a subject, ended ones included."""
        ...

    async def claim(
        self,
        kinds: Sequence[str],
        now: datetime,
        lease_seconds: float,
        busy: Sequence[tuple[str, str]] = (),
        only: str | None = None,
    ) -> Job | None:
        """A job that is due, leased for so long: of the owner who has the fewest running of its kind, the one that is
        due longest. None when none is due.

        `busy` are kinds, each with an owner for whom no more of them may run. With `only`, an id, that job or none.
        """
        ...

    async def clock_set_back(self, now: datetime) -> int:
        """Make due what began to wait later than now, and give how much that was.

        The clock was set back since, so nobody knows how long it has waited. What runs is left to its worker, whose
        next sign of life corrects its lease.
        """
        ...

    async def next_due(self, kinds: Sequence[str]) -> datetime | None:
        """When the next job can be claimed, by its own time or because its lease has ended."""
        ...

    async def renew(self, job: Job, now: datetime, lease_seconds: float) -> None:
        """Keep a job for so long from now; raises `LeaseLost`."""
        ...

    async def finish(self, job: Job, at: datetime) -> None:
        """The job is done; raises `LeaseLost`."""
        ...

    async def fail(
        self, job: Job, error: Mapping[str, str | None], at: datetime, retry_at: datetime | None = None
    ) -> None:
        """The job failed, with this error object: it waits until `retry_at`, or has ended; raises `LeaseLost`."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Texts as vectors, so that near ones mean about the same."""

    space: Space
    is_local: bool
    """Whether it asks nobody: then vectors are made with the index, else afterwards."""

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of these texts, all of one dimension; raises a `ProviderError`."""
        ...

    async def close(self) -> None:
        """Let its connections go."""
        ...


Batch = Sequence[tuple[int, bytes]]
"""Packets with their numbers, as JSON."""

Stop = tuple[str, str | None]
"""A turn that is to stop, and which of its runs; None: all of it."""


class StreamBus(Protocol):
    """Live packets of running turns, and who asked them to stop; processes may share one."""

    def open(self, turn_id: str) -> None:
        """A turn begins; a stop sent from now on is not lost."""
        ...

    def publish(self, turn_id: str, n: int, data: bytes) -> None:
        """Packet `n`, as JSON."""
        ...

    def close(self, turn_id: str) -> None:
        """No packet follows; who follows the turn comes to its end. Its stops are forgotten."""
        ...

    def is_live(self, turn_id: str) -> bool:
        """Whether this turn can be followed here."""
        ...

    def follow(self, turn_id: str, after: int) -> AsyncIterator[Batch]:
        """Packets behind `after`, from memory and as they come, to the end of the turn; those there are at once."""
        ...

    def stop(self, turn_id: str, run_id: str | None = None) -> None:
        """Ask a turn to stop, or one of its runs, in whichever process it runs; nothing for one that is not open."""
        ...

    async def stops(self, turn_ids: Collection[str]) -> Collection[Stop]:
        """Which of these turns, or runs of them, were asked to stop since they were opened. One look for all of them:
        whoever runs turns looks every 50 ms at most.

        Raises a `LamellaError` where the bus can't be reached.
        """
        ...
