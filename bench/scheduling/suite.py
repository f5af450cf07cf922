"""Many schedules, one after another, and what was wrong with each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lamella.storage.database import Rows
from lamella.storage.migrate import migrate
from scheduling.database import Disk, PostgresDisk, SqliteDisk
from scheduling.laws import broken_laws
from scheduling.loop import Stuck
from scheduling.plan import Plan, Told
from scheduling.stored import Stored
from scheduling.story import Story, begin


@dataclass(frozen=True, slots=True)
class Outcome:
    """A schedule and the laws that it broke."""

    seed: int
    told: Told
    broken: list[str]


class Suite:
    """Runs schedules over one database, which each begins anew."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._beginning = begin(disk)

    def run(self, plan: Plan, fault: type[Rows] | None = None) -> Outcome:
        """One schedule."""
        story = Story(plan, self._beginning, self._disk, fault)
        try:
            told = story.run()
        except Stuck as error:
            return Outcome(plan.seed, story.told, [str(error)])
        return Outcome(plan.seed, told, broken_laws(told, Stored.of(self._disk)))

    def seeds(
        self, seeds: Iterable[int], fault: type[Rows] | None = None, plan: Callable[[int], Plan] = Plan.of
    ) -> Iterator[Outcome]:
        """The schedules of some seeds."""
        for seed in seeds:
            yield self.run(plan(seed), fault)


@contextmanager
def suite() -> Iterator[Suite]:
    """A suite over a file in a folder of its own."""
    with TemporaryDirectory(prefix="lamella-schedules-") as folder:
        path = Path(folder) / "schedule.db"
        asyncio.run(migrate(path))
        yield Suite(SqliteDisk(path))


@contextmanager
def postgres_suite(url: str) -> Iterator[Suite]:
    """A suite over a migrated database of PostgreSQL without rows."""
    disk = PostgresDisk(url)
    try:
        yield Suite(disk)
    finally:
        disk.close()
