"""Protocols between the layers that have more than one implementation: models, files, jobs, embedders, packets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
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
        """The wire blocks of `prompt`, in cache order. Blocks that are equal in `previous` are reused."""
        ...

    def request(self, prompt: Prompt, blocks: tuple[WireBlock, ...], markers: Sequence[Marker]) -> WireRequest:
        """The request of these blocks with these cache markers; at most 4, each on a markable block."""
        ...

    def salts(self, sampling: Sampling) -> Mapping[Level, str]:
        """The settings outside of the blocks that are part of the cache key, by the first level that they change."""
        ...

    def body(self, request: WireRequest) -> dict[str, object]:
        """The JSON body, as it is sent."""
        ...

    def stream(self, request: WireRequest, headers: dict[str, str]) -> AsyncIterator[Delta]:
        """Send the request and yield deltas. Raises only `ProviderError`.

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
    """An open model, and the account whose cache it shares."""

    model: ChatModel
    account: str


class ModelSource(Protocol):
    """Opens models by name (`app`)."""

    async def open(self, name: str) -> OpenModel:
        """Open the model `name`. Raises `InvalidRequest` if no configured provider serves it."""
        ...


class Jobs(Protocol):
    """Background jobs. Each method is one transaction and raises `StoreFailed` on failure.

    A worker claims a job for a limited time (a lease), then renews, finishes or fails it. After the lease another
    worker may claim the job, and the late worker's calls raise `LeaseLost`.
    """

    async def enqueue(self, caller: Caller, job: NewJob, at: datetime) -> Job:
        """Store a job, or return the waiting or running job of the same kind and subject.

        `job.follows`: if it is running, it becomes due once more after it ends. `job.takes_over`: if it is waiting, it
        gets this job's payload, cause and due time.
        """
        ...

    async def begin(
        self, caller: Caller, job: NewJob, at: datetime, lease_seconds: float, *, first: bool = False
    ) -> tuple[Job, bool]:
        """As `enqueue`, and claim the job if it is due; whether this call claimed it.

        `first`: somebody waits for it. Any other may also be left to a later `claim`.
        """
        ...

    async def job(self, caller: Caller, kind: str, subject: str) -> Job | None:
        """The newest job of a kind for a subject, ended ones included."""
        ...

    async def open_subjects(self, caller: Caller, kind: str) -> Sequence[str]:
        """The subjects of a user's jobs of a kind that wait or run."""
        ...

    async def claim(
        self,
        kinds: Sequence[str],
        now: datetime,
        lease_seconds: float,
        busy: Sequence[tuple[str, str]] = (),
    ) -> Job | None:
        """Claim a due job for `lease_seconds`: of the owner with the fewest running jobs of its kind, the one that is
        due longest. Returns None if none is due.

        `busy` lists kinds, each with an owner who may not run more of them.
        """
        ...

    async def clock_set_back(self, now: datetime, reached: datetime | None) -> int:
        """Make due the jobs whose waiting began after `now`, but not after `reached`; returns their number.

        The clock of this process showed `reached` and was set back, so their waiting time is unknown. A job that waits
        since a later time was stored by another process, whose clock is ahead: it waits on. Without `reached`, at a
        start, a process that has the database alone takes all jobs, and one of several takes none.

        Running jobs are left to their workers, whose next renewal corrects the lease.
        """
        ...

    async def next_due(self, kinds: Sequence[str]) -> datetime | None:
        """When the next job can be claimed, by its own time or because its lease has ended."""
        ...

    async def renew(self, job: Job, now: datetime, lease_seconds: float) -> None:
        """Extend the lease by `lease_seconds` from now. Raises `LeaseLost`."""
        ...

    async def finish(self, job: Job, at: datetime) -> bool:
        """The job is done; whether it is due again, since it was asked for while it ran. Raises `LeaseLost`."""
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
    """Whether it runs in this process. If so, vectors are made with the index, otherwise later."""

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of these texts, all of one dimension; raises a `ProviderError`."""
        ...

    async def close(self) -> None:
        """Let its connections go."""
        ...


Batch = Sequence[tuple[int, bytes]]
"""Packets with their numbers, as JSON."""


class StreamBus(Protocol):
    """Live packets of running turns. Several processes may share a bus."""

    @property
    def problem(self) -> str | None:
        """Why packets of other processes come late: what carries them is away. None while it works."""
        ...

    def open(self, turn_id: str) -> None:
        """A turn begins."""
        ...

    def publish(self, turn_id: str, n: int, data: bytes) -> None:
        """Packet `n`, as JSON."""
        ...

    def close(self, turn_id: str) -> None:
        """End the turn's stream for all its followers."""
        ...

    def is_live(self, turn_id: str) -> bool:
        """Whether this turn can be followed here."""
        ...

    def follow(self, turn_id: str, after: int) -> AsyncIterator[Batch]:
        """Packets after number `after`, stored ones at once, then live ones, to the end of the turn, also of one that
        ends before they are read.
        """
        ...


class Doorbell(Protocol):
    """Wakes another process, so that it reads its signals now and not at its next look, a second later at most.

    The signals themselves are rows of the database. So a ring may be lost, or come twice.
    """

    def ring(self, process_id: str) -> None:
        """Wake a process; never waits and never fails."""
        ...

    async def rung(self, process_id: str, seconds: float) -> None:
        """Returns when this process is rung, or was since the last call; after `seconds` at the latest."""
        ...
