"""What a turn's beginning costs against what is stored: reading the path, and building the window from it.

    python bench/stored.py [--stored 1000 10000 100000] [--window 1000] [--rounds 5] [--json]

Sizes are messages, two to a turn. Read *whole* is a conversation that never ended a session: its path is read from the
first turn on, and where it no longer fits the model it is refused. Read *window* is the same conversation whose newest
session began so many messages ago: what lies before is not read. The window is built whole, with nothing left over from
an earlier request.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import insert, select, update

from assemble import ACCOUNT, BEGUN, LAYOUT, POLICY, Conversation, model_of
from lamella.agent.request import draft, prepare
from lamella.cache.ledger import Ledger
from lamella.context.input import ContextInput
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded
from lamella.core.messages import Turn, TurnStatus, UserMessage
from lamella.core.ports import ChatModel
from lamella.core.prompt import Sampling
from lamella.core.records import (
    Caller,
    ConversationChange,
    ConversationSnapshot,
    NewRun,
    NewTurn,
    Place,
    RunEnd,
    TurnEnd,
)
from lamella.core.records import Conversation as Row
from lamella.storage import Store
from lamella.storage.conversations.messages import end_row, run_row, step_row, turn_row, user_message_row
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from lamella.storage.store import open_store
from lamella.storage.tables import conversations, messages, runs, turns
from tables import arguments, emit, middle, milliseconds, show

MODEL = "claude-opus-5-5"
OWNER = Caller("user_bench")
ID = "conv_bench"
BUDGET = 900_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Median seconds. `refused`: the whole conversation is more than the model takes."""

    stored: int
    window: int
    read_whole: float
    build_whole: float
    refused: bool
    read_window: float
    build_window: float


def turn_of(number: int, talk: Conversation) -> tuple[NewTurn, TurnEnd]:
    """A turn of two messages, as it is stored."""
    at = BEGUN + timedelta(minutes=3 * number)
    new = NewTurn(
        id=f"turn_{number:06d}",
        conversation_id=ID,
        user_message_id=f"msg_{number:06d}",
        runs=(NewRun(f"run_{number:06d}", MODEL),),
        text=talk.text(30),
        sent_at=at,
        timezone="UTC",
        tokens=40,
    )
    turn = Turn(new.id, UserMessage(new.user_message_id, new.text, at, "UTC", 40))
    step = talk.step(turn, "", last=True, thinks=False).steps[0]
    run = RunEnd(new.runs[0].id, TurnStatus.FINISHED, [step], [], at)
    return new, TurnEnd(new.id, TurnStatus.FINISHED, [run], at)


def fill(path: Path, count: int) -> None:
    """Write the turns as the store's verbs would, in one transaction."""
    talk, parent = Conversation(model_of(MODEL)), Place()
    engine = sqlite_engine(sqlite_url(path), writes=True)
    with engine.begin() as database:
        session = database.execute(select(conversations.c.session_id)).scalar_one()
        for number in range(count):
            new, end = turn_of(number, talk)
            [run] = end.runs
            steps = [step_row(OWNER.user_id, new.id, run.run_id, 1, step) for step in run.steps]
            rows = [
                (turns, turn_row(OWNER.user_id, new, parent, end.finished_at) | end_row(end)),
                (runs, run_row(OWNER.user_id, new.id, 0, new.runs[0]) | end_row(run)),
                *((messages, {**row, "session_id": session}) for row in (user_message_row(OWNER.user_id, new), *steps)),
            ]
            for table, row in rows:
                database.execute(insert(table), row)
            parent = Place(new.id, run.run_id)
        database.execute(update(conversations).values(head=parent.turn_id, head_run_id=parent.run_id))
    engine.dispose()


async def timed(rounds: int, work: Callable[[], Awaitable[object]]) -> float:
    """The median time of some runs, after one that is not counted."""
    await work()
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        await work()
        found.append(time.perf_counter() - begun)
    return middle(found)


async def measure(stored: int, window: int, rounds: int) -> Figures:
    """A conversation of so many messages, whole and from the beginning of its newest session on."""
    model = model_of(MODEL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lamella.db"
        now = BEGUN + timedelta(minutes=3 * stored)
        async with await open_store(path) as store:
            row = Row(ID, "", MODEL, "lamella", POLICY.value, "You are careful.", (), BEGUN, BEGUN)
            await store.conversations.create_conversation(OWNER, row)
        fill(path, stored // 2)
        async with await open_store(path) as store:
            few = 1 if stored >= 100_000 else rounds
            whole = await store.snapshots.snapshot(OWNER, ID, MODEL)
            read_whole = await timed(few, lambda: store.snapshots.snapshot(OWNER, ID, MODEL))
            build_whole, refused = await building(model, whole, now, few)
            await begin_session(store, max(stored - window, 0) // 2, now)
            begins = await store.snapshots.snapshot(OWNER, ID, MODEL)
            read_window = await timed(rounds, lambda: store.snapshots.snapshot(OWNER, ID, MODEL))
            build_window, _ = await building(model, begins, now, rounds)
    return Figures(stored, 2 * len(begins.path), read_whole, build_whole, refused, read_window, build_window)


async def begin_session(store: Store, behind: int, now: datetime) -> None:
    """A session that begins behind so many turns."""
    if behind:
        outcome = f"turn_{behind - 1:06d}"
        decision = Decision(DecisionKind.SESSION, ID, outcome, "bench", "a session was ended")
        await store.conversations.change_conversation(OWNER, ID, ConversationChange(decisions=(decision,)), now)


async def building(model: ChatModel, found: ConversationSnapshot, now: datetime, rounds: int) -> tuple[float, bool]:
    """Seconds to make the request of the next turn, and whether it is refused as too large."""
    context = ContextInput(
        model=model.facts,
        budget=BUDGET,
        sampling=Sampling(16_000, "off"),
        system=found.conversation.system_prompt,
        tools=(),
        history=found.path,
        turn=Turn("turn_next", UserMessage("msg_next", "And now?", now, "UTC", 4)),
        decisions=tuple(stored.decision for stored in found.decisions),
    )
    refused = False

    async def build() -> None:
        nonlocal refused
        try:
            prepare(draft(context, LAYOUT, model, ACCOUNT, None), POLICY, Ledger(), now)
        except ContextLengthExceeded:
            refused = True

    return await timed(rounds, build), refused


def table(found: Sequence[Figures]) -> list[list[str]]:
    """A line for each size."""
    rows = [["stored", "read whole", "build whole", "in the window", "read window", "build window"]]
    for f in found:
        built = "refused: too large" if f.refused else milliseconds(f.build_whole)
        window = [f"{f.window:,}", milliseconds(f.read_window), milliseconds(f.build_window)]
        rows.append([f"{f.stored:,}", milliseconds(f.read_whole), built, *window])
    return rows


async def measure_all(sizes: Sequence[int], window: int, rounds: int) -> list[Figures]:
    """Every size."""
    return [await measure(size, window, rounds) for size in sizes]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--stored", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--window", type=int, default=1_000, help="messages of the newest session")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    found = asyncio.run(measure_all(options.stored, options.window, options.rounds))
    if options.json:
        emit([asdict(f) for f in found])
    else:
        show(table(found))


if __name__ == "__main__":
    main()
