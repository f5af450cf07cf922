"""Steps to the next session in one process after another, each killed at a later statement, until one survives.

Run as a program with the path of a database and a folder for copies of it; prints the path of each copy.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import event

from lamella.storage import open_store
from storage.examples import ANN, session_step


async def compact(path: Path, most: int) -> None:
    """Step to the next session; the process dies before its statement number `most`, or as the last one is kept."""
    async with await open_store(path) as store:
        first = (await store.conversations.conversation(ANN, "conv_1")).session_id
        run = itertools.count()

        def die(*_: object) -> None:
            if next(run) == most:
                os.kill(os.getpid(), signal.SIGKILL)

        engine = store.database._write
        event.listen(engine, "before_cursor_execute", die)
        event.listen(engine, "commit", die)
        await store.sessions.next_session(ANN, session_step(first, "sess_2", "turn_2", summary="They met."))


def dies(path: Path, most: int) -> bool:
    """Whether a process of its own was killed."""
    child = os.fork()
    if child == 0:
        asyncio.run(compact(path, most))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main(path: Path, folder: Path) -> None:
    """Kill processes at each statement, then let one live."""
    for most in itertools.count():
        copy = Path(shutil.copy(path, folder / f"{most}.db"))
        killed = dies(copy, most)
        sys.stdout.write(f"{copy}\n")
        if not killed:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
