"""A start reads what it needs by indexes: it looks through no table of turns, however many there are."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from lamella.app.app import open_app
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import served
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

LARGE = (
    "turns",
    "runs",
    "messages",
    "requests",
    "blocks",
    "recall_entries",
    "recall_vectors",
    "recall_turns",
    "sessions",
)


@contextmanager
def watched() -> Iterator[list[tuple[str, Any]]]:
    """The statements of every engine."""
    found: list[tuple[str, Any]] = []

    def executed(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        found.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", executed)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", executed)


@pytest.mark.only_sqlite("PostgreSQL reads small tables whole, whatever indexes they have")
async def test_a_start_scans_no_table_of_turns(tmp_path: Path) -> None:
    model, given = ScriptedModel(), read_settings(data=tmp_path, titles=False)
    async with served(given, models=ScriptedModels(model)) as (app, client):
        model.then(saying("A mill."))
        await client.send(await client.conversation(), "What is it?")
        await app.store.recall.waiting(app.recall.embedder)
    with closing(sqlite3.connect(tmp_path / "lamella.db")) as database, database:
        database.execute("INSERT INTO recall_marks VALUES ('lexical-1-384', 'turn_', 0)")
    with watched() as statements:
        async with open_app(given, models=ScriptedModels(model)) as app:
            await asyncio.sleep(0.5)  # what begins beside
    assert any("FROM turns" in statement for statement, _ in statements)
    scans: set[tuple[str, str]] = set()
    with closing(sqlite3.connect(tmp_path / "lamella.db")) as database:
        for statement, parameters in statements:
            if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
                for *_, detail in database.execute(f"EXPLAIN QUERY PLAN {statement}", parameters):
                    is_short = (
                        "uq_turns_running" in detail or "ix_sessions_unembedded" in detail or " LIMIT " in statement
                    )
                    scans.update((table, statement) for table in LARGE if f"SCAN {table}" in detail and not is_short)
    assert scans == set()
