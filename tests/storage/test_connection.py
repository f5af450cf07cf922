"""The quick connection behaves as the usual one: transactions, rows and counts, with one question per statement."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lamella.storage.connection import QuickConnection, connect

pytestmark = pytest.mark.anyio


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[QuickConnection]:
    opened = connect(str(tmp_path / "a.db"), timeout=0.1)
    await opened
    await _run(opened, "CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT UNIQUE)")
    try:
        yield opened
    finally:
        await opened.close()


async def _run(connection: QuickConnection, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    cursor = await connection.cursor().execute(sql, parameters)
    return list(await cursor.fetchall())


async def test_what_a_statement_did_is_at_hand(connection: QuickConnection) -> None:
    cursor = await connection.cursor().executemany("INSERT INTO words (word) VALUES (?)", [("a",), ("b",)])
    assert (cursor.rowcount, cursor.description, await cursor.fetchall()) == (2, None, ())
    cursor = await connection.cursor().execute("SELECT id, word FROM words WHERE word > ?", ("a",))
    assert [column[0] for column in cursor.description] == ["id", "word"]
    assert await cursor.fetchall() == [(2, "b")]
    assert await cursor.fetchall() == ()


async def test_a_transaction_is_kept_or_undone_whole(connection: QuickConnection) -> None:
    connection.begin("BEGIN IMMEDIATE")
    await _run(connection, "INSERT INTO words (word) VALUES ('kept')")
    await connection.commit()
    connection.begin("BEGIN IMMEDIATE")
    await _run(connection, "INSERT INTO words (word) VALUES ('undone')")
    with pytest.raises(sqlite3.IntegrityError):
        await _run(connection, "INSERT INTO words (word) VALUES ('kept')")
    await connection.rollback()
    assert await _run(connection, "SELECT word FROM words") == [("kept",)]


async def test_a_transaction_without_a_statement_locks_nobody_out(connection: QuickConnection, tmp_path: Path) -> None:
    connection.begin("BEGIN IMMEDIATE")
    with sqlite3.connect(tmp_path / "a.db", timeout=0) as other:
        other.execute("INSERT INTO words (word) VALUES ('theirs')")
    other.close()
    await connection.commit()
    connection.begin("BEGIN IMMEDIATE")
    await connection.rollback()
    assert await _run(connection, "SELECT word FROM words") == [("theirs",)]


async def test_a_lock_that_another_holds_fails_the_first_statement(connection: QuickConnection, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    connection.begin("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await _run(connection, "INSERT INTO words (word) VALUES ('ours')")
    await connection.rollback()
    other.close()
    assert await _run(connection, "SELECT word FROM words") == []


async def test_a_closed_connection_says_so(connection: QuickConnection) -> None:
    await connection.close()
    with pytest.raises(ValueError, match="no active connection"):
        await _run(connection, "SELECT 1")
