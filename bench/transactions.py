"""What transactions of the store cost: `python bench/transactions.py`. Prints wall time (median) and CPU (mean) in ms.

Rows are those of a message's way, on a database file in a folder of its own with a conversation of some turns.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from lamella.core.ids import CountingIds
from lamella.storage import Store, open_store
from storage.examples import ANN, NOON, conversation, entry, minutes, new_turn, step, turn_end

ROUNDS = 300


async def measured(verb: Callable[[int], Awaitable[object]]) -> tuple[float, float]:
    """Median wall time and mean CPU of one call, in ms."""
    walls, began = [], time.process_time()
    for number in range(ROUNDS):
        at = time.perf_counter()
        await verb(number)
        walls.append(time.perf_counter() - at)
    return statistics.median(walls) * 1e3, (time.process_time() - began) / ROUNDS * 1e3


def verbs(store: Store) -> Mapping[str, Callable[[int], Awaitable[object]]]:
    """The verbs by name, each for the number of its call."""
    at = NOON + timedelta(hours=1)
    return {
        "conversation (1 statement)": lambda _: store.conversations.conversation(ANN, "conv_1"),
        "beginning": lambda _: store.snapshots.snapshot(ANN, "conv_1", "m-1"),
        "claim_key (3, writes)": lambda n: store.keys.claim_key(ANN, f"key {n}", "POST /", "f", f"turn_{n}", at),
        "append_journal (1, writes)": lambda n: store.turns.append_journal([entry(n + 1)]),
    }


async def main() -> None:
    """Measure each verb alone, then four beginnings at once."""
    with TemporaryDirectory() as folder:
        async with await open_store(Path(folder) / "a.db", CountingIds()) as store:
            await store.conversations.create_conversation(ANN, conversation())
            await store.turns.begin_turn(ANN, new_turn(), minutes(0))
            await store.turns.finish_turn(ANN, turn_end(steps=[step()]))
            for name, verb in verbs(store).items():
                wall, cpu = await measured(verb)
                print(f"{name:30} {wall:6.2f} ms {cpu:6.2f} ms CPU")
            wall, cpu = await measured(
                lambda _: asyncio.gather(*(store.snapshots.snapshot(ANN, "conv_1", "m-1") for _ in range(4)))
            )
            print(f"{'beginning, 4 at once':30} {wall:6.2f} ms {cpu:6.2f} ms CPU")


if __name__ == "__main__":
    asyncio.run(main())
