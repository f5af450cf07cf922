"""A server whose erasing job hangs before its statement number N, so that it can be killed there.

Run with a data folder and N. It prints `hung N`, or `finished N` with the number of statements once the job has ended.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "bench")]

from sqlalchemy import event

from lamella.app.app import App, open_app
from lamella.core.knowledge import ERASE
from lamella.core.records import JobStatus
from lamella.llm.scripted import ScriptedModel, ScriptedModels
from lamella.server.testing import serving
from lamella.server.web import create_web
from lamella.settings import read_settings
from lamella.storage.store import Store
from leaking.restricted_base import ANN, second_model

FIRST = "UPDATE blocks"
"""How the first statement begins that erases anything."""


def said(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Watch:
    """Counts the statements and the commits of the job, and hangs before one of them."""

    def __init__(self, store: Store, most: int) -> None:
        self.count = -1
        self._most = most
        event.listen(store.database._write, "before_cursor_execute", self._statement)
        event.listen(store.database._write, "commit", self._commit)

    def _statement(self, *about: object) -> None:
        if self.count >= 0 or str(about[2]).startswith(FIRST):
            self._step()

    def _commit(self, _: object) -> None:
        if self.count >= 0:
            self._step()

    def _step(self) -> None:
        self.count += 1
        if self.count == self._most:
            said(f"hung {self.count}")
            time.sleep(600)


async def ended(app: App, base: str) -> None:
    while True:
        job = await app.store.jobs.job(ANN, ERASE, base)
        if job is not None and job.status in (JobStatus.FINISHED, JobStatus.FAILED):
            return
        await asyncio.sleep(0.05)


async def main(data: Path, base: str, most: int) -> None:
    given = read_settings(data=data, restricted_model="second", titles=False, knowledge_summaries=False)
    app_of = open_app(given, models=ScriptedModels(ScriptedModel(), second_model()))
    async with app_of as app, serving(create_web(app)):
        watch = Watch(app.store, most)
        await ended(app, base)
        said(f"finished {watch.count}")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
