"""Fills a store with very many passages in a few minutes: rows of one stored turn, copied under new ids.

The text is prose of Python's own manual (`pydoc_data.topics`), cut anew for each message, so that common words are
common and rare ones rare, as in a real store.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pydoc_data.topics import topics
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from lamella.core.ids import RandomIds
from lamella.core.messages import Step, StopReason, Text, TurnStatus
from lamella.core.ports import Embedder
from lamella.core.recall import Passage, Speaker
from lamella.core.records import Caller, Conversation, NewRun, NewTurn, RunEnd, TurnEnd
from lamella.search.passages import circumstances
from lamella.search.terms import terms_of
from lamella.storage.recall.sources import add_passages
from lamella.storage.store import Store
from lamella.storage.tables import conversations, messages, recall_turns, runs, sessions, turns

TURNS = 50
"""Turns of a conversation, each with a question and an answer of one passage."""

START = datetime(2026, 1, 1, tzinfo=UTC)


def texts(chance: random.Random) -> Iterator[str]:
    """Passages of 20 to 120 words, for ever."""
    words = re.findall(r"\S+", "\n".join(topics.values()))
    while True:
        start = chance.randrange(len(words) - 120)
        yield " ".join(words[start : start + chance.randint(20, 120)])


@dataclass(frozen=True, slots=True)
class Template:
    """The rows of one turn in a conversation of its own."""

    rows: Mapping[Table, Sequence[Mapping[str, Any]]]

    def copied(self, table: Table, **changes: Any) -> dict[str, Any]:
        """The first row of a table with other values."""
        return {**self.rows[table][0], **changes}


async def _template(store: Store, owner: Caller, ids: RandomIds) -> Template:
    conversation, turn, run = ids.new("conv"), ids.new("turn"), NewRun(ids.new("run"), "bench")
    made = Conversation(conversation, "bench", "bench", "lamella", "planner", "", (), START, START)
    await store.conversations.create_conversation(owner, made)
    new = NewTurn(turn, conversation, ids.new("msg"), (run,), "Question", START, "UTC", 1)
    await store.turns.begin_turn(owner, new, START)
    step = Step(ids.new("step"), "bench", (Text("Answer"),), StopReason.END_TURN, "", 1)
    end = RunEnd(run.id, TurnStatus.FINISHED, [step], (), START)
    await store.turns.finish_turn(owner, TurnEnd(turn, TurnStatus.FINISHED, [end], START))
    rows: dict[Table, Sequence[Mapping[str, Any]]] = {}

    def read(connection: Connection) -> None:
        for table in (conversations, sessions, turns, runs, messages):
            rows[table] = [dict(row) for row in connection.execute(select(table)).mappings()]

    await store.database.read(read)
    return Template(rows)


async def fill(store: Store, owner: Caller, embedder: Embedder, ids: RandomIds, count: int) -> None:
    """Store about `count` passages with their words and vectors, in conversations of `TURNS` turns."""
    template, said = await _template(store, owner, ids), texts(random.Random(1))
    for number in range(count // (2 * TURNS)):
        at = START + timedelta(hours=number)
        pieces = [next(said) for _ in range(2 * TURNS)]
        rows, passages = await asyncio.to_thread(_conversation, template, ids, at, pieces)
        vectors = (await embedder.embed(pieces)).vectors
        found = [replace(passage, vector=vector) for passage, vector in zip(passages, vectors, strict=True)]
        await store.database.write(partial(_store, owner=owner, rows=rows, found=found, model=embedder.space.model))


def _store(
    connection: Connection, owner: Caller, rows: Mapping[Table, Sequence[Any]], found: Sequence[Passage], model: str
) -> None:
    for table, made in rows.items():
        connection.execute(insert(table), made)
    connection.execute(insert(recall_turns), [{"turn_id": row["id"], "owner": owner.user_id} for row in rows[turns]])
    add_passages(connection, owner, rows[conversations][0]["id"], found, model)


def _conversation(
    template: Template, ids: RandomIds, at: datetime, pieces: Sequence[str]
) -> tuple[dict[Table, list[dict[str, Any]]], list[Passage]]:
    conversation, session, head = ids.new("conv"), ids.new("sess"), None
    rows: dict[Table, list[dict[str, Any]]] = {
        conversations: [template.copied(conversations, id=conversation, session_id=session)],
        sessions: [template.copied(sessions, id=session, conversation_id=conversation)],
        turns: [],
        runs: [],
        messages: [],
    }
    passages = []
    question, answer = template.rows[messages]
    for asked, answered in zip(pieces[::2], pieces[1::2], strict=True):
        turn, run = ids.new("turn"), ids.new("run")
        rows[turns].append(template.copied(turns, id=turn, conversation_id=conversation, parent_id=head))
        rows[runs].append(template.copied(runs, id=run, turn_id=turn))
        for row, speaker, text in ((question, Speaker.USER, asked), (answer, Speaker.ASSISTANT, answered)):
            id = ids.new("msg")
            run_id = run if row["run_id"] else None
            changes = {"id": id, "turn_id": turn, "session_id": session, "run_id": run_id, "parts": (Text(text),)}
            rows[messages].append({**row, **changes})
            terms = [*terms_of(text), *circumstances(speaker.value, at)]
            passages.append(Passage(id, "", speaker, "", at, 0, len(text), terms))
        head = turn
    rows[conversations][0] |= {"head": head}
    return rows, passages
