"""Begins a turn, keeps writing, and waits to be killed; run as a program with the path of a database."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import Connection

from lamella.storage import open_store
from storage.examples import ANN, conversation, entry, minutes, new_turn


async def write(path: str) -> None:
    """Store a turn and packets, then hang in the middle of another transaction."""
    store = await open_store(path)
    await store.conversations.create_conversation(ANN, conversation())
    await store.turns.begin_turn(ANN, new_turn(), minutes(0))
    await store.turns.append_journal([entry(1, 2)])
    await store.turns.append_journal([entry(3)])

    def hang(connection: Connection) -> None:
        connection.exec_driver_sql("DELETE FROM journal")
        sys.stdout.write("written\n")
        sys.stdout.flush()
        time.sleep(60)

    await store.database.write(hang)


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]))
