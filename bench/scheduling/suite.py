"""Many schedules, one after another, and what was wrong with each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lamella.storage.database import Rows
from scheduling.database import Disk
from scheduling.laws import broken_laws
from scheduling.loop import Stuck
from scheduling.plan import Plan, Told
from scheduling.story import Story, begin


@dataclass(frozen=True, slots=True)
class Outcome:
    """A schedule and the laws that it broke."""

    seed: int
    told: Told
    broken: list[str]


class Suite:
    """Runs schedules over one database file, which each begins anew."""

    def __init__(self, folder: Path) -> None:
        self._disk = Disk(folder / "schedule.db")
        self._beginning = begin(self._disk)

    def run(self, plan: Plan, fault: type[Rows] | None = None) -> Outcome:
        """One schedule."""
        story = Story(plan, self._beginning, self._disk, fault)
        try:
            told = story.run()
        except Stuck as error:
            return Outcome(plan.seed, story.told, [str(error)])
        with closing(self._disk.look()) as connection:
            return Outcome(plan.seed, told, broken_laws(told, connection))

    def seeds(
        self, seeds: Iterable[int], fault: type[Rows] | None = None, plan: Callable[[int], Plan] = Plan.of
    ) -> Iterator[Outcome]:
        """The schedules of some seeds."""
        for seed in seeds:
            yield self.run(plan(seed), fault)


@contextmanager
def suite() -> Iterator[Suite]:
    """A suite in a folder of its own."""
    with TemporaryDirectory(prefix="lamella-schedules-") as folder:
        yield Suite(Path(folder))
