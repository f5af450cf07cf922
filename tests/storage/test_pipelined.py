"""Statements that are sent together: when, in what order, and what becomes of their errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.exc import DBAPIError

import lamella.storage
from lamella.storage.database import rows_changed
from lamella.storage.migrate import database_url
from lamella.storage.postgresql import SERIALIZABLE, postgres_engine
from lamella.storage.tables import process_beats, processes
from postgres import PostgresServer
from round_trips import Count, counted

from .examples import NOON


@pytest.fixture
def count() -> Iterator[Count]:
    with counted() as found:
        found.counting = True
        yield found


@pytest.fixture
def engine(postgres: PostgresServer, count: Count) -> Iterator[Engine]:
    """Two processes, of which "one" has beaten 7 times; each statement of the tests has run before."""
    made = postgres_engine(database_url(postgres.url(postgres.copied())), SERIALIZABLE, 2)
    with made.begin() as connection:
        connection.execute(insert(processes), [{"id": id, "name": "", "started_at": NOON} for id in ("one", "two")])
        connection.execute(insert(process_beats), [{"process_id": "one", "beat": 7}])
        connection.execute(select(processes.c.id)).all()
        connection.execute(select(process_beats.c.beat)).all()
    yield made
    made.dispose()


def trips(count: Count) -> int:
    """How many there were since the last time."""
    found = sum(count.trips.values())
    count.trips.clear()
    return found


def test_what_is_asked_for_is_sent_when_it_is_looked_at(engine: Engine, count: Count) -> None:
    trips(count)
    with engine.begin() as connection:
        ids = connection.execute(select(processes.c.id)).scalars()
        connection.execute(update(process_beats).values(beat=8))
        beats = connection.execute(select(process_beats.c.beat)).scalars()
        assert trips(count) == 0
        assert sorted(ids) == ["one", "two"]
        assert trips(count) == 1
        assert list(beats) == [8]
        connection.execute(update(process_beats).values(beat=process_beats.c.beat + 1))
        assert trips(count) == 0
    assert trips(count) == 1
    with engine.begin() as connection:
        assert connection.execute(select(process_beats.c.beat)).scalar_one() == 9


def test_a_transaction_that_only_changes_knows_its_id_before_it_commits(engine: Engine, count: Count) -> None:
    trips(count)
    with engine.begin() as connection:
        connection.execute(update(process_beats).values(beat=1))
    assert trips(count) == 2


def test_one_that_does_nothing_is_not_sent(engine: Engine, count: Count) -> None:
    trips(count)
    with engine.begin():
        pass
    assert trips(count) == 0


def test_the_number_of_changed_rows_is_asked_for_at_once(engine: Engine) -> None:
    with engine.begin() as connection:
        assert rows_changed(connection, update(processes).values(name="x")) == 2
        assert rows_changed(connection, delete(processes).where(processes.c.id == "three")) == 0


def test_nobody_else_asks_for_it() -> None:
    """A statement that waits does not know it yet."""
    folder = Path(lamella.storage.__file__).parent
    asking = {path.name for path in folder.rglob("*.py") if "rowcount" in path.read_text("utf-8")}
    assert asking == {"database.py", "pipelined.py"}


def _doubled(engine: Engine, *, looks: bool) -> None:
    """A transaction with a row that is there already, whose error comes with what it looks at, or with the commit."""
    with engine.begin() as connection:
        connection.execute(select(process_beats.c.beat)).all()
        connection.execute(update(process_beats).values(beat=100))
        connection.execute(insert(processes), {"id": "one", "name": "", "started_at": NOON})
        connection.execute(update(process_beats).values(beat=101))
        if looks:
            connection.execute(select(processes.c.id)).all()


@pytest.mark.parametrize("looks", [True, False])
def test_an_error_of_what_waited_undoes_all_and_leaves_the_connection_usable(
    engine: Engine, caplog: pytest.LogCaptureFixture, looks: bool
) -> None:
    for _ in range(3):
        with pytest.raises(DBAPIError, match="duplicate key"):
            _doubled(engine, looks=looks)
    with engine.begin() as connection:
        assert connection.execute(select(process_beats.c.beat)).scalar_one() == 7
    assert caplog.text == ""


def test_what_waits_when_a_transaction_is_undone_is_never_sent(engine: Engine, count: Count) -> None:
    with engine.connect() as connection:
        transaction = connection.begin()
        connection.execute(update(process_beats).values(beat=100))
        trips(count)
        transaction.rollback()
        assert trips(count) == 0
    with engine.begin() as connection:
        assert connection.execute(select(process_beats.c.beat)).scalar_one() == 7


def test_the_answer_to_a_rollback_comes_with_the_next_transaction(engine: Engine, count: Count) -> None:
    for _ in range(5):
        with engine.connect() as connection:
            transaction = connection.begin()
            assert connection.execute(select(process_beats.c.beat)).scalar_one() == 7
            trips(count)
            transaction.rollback()
            assert trips(count) == 0
            transaction = connection.begin()
            assert connection.execute(select(process_beats.c.beat)).scalar_one() == 7
            assert trips(count) == 1
            transaction.rollback()


def test_many_rows_wait_together(engine: Engine) -> None:
    with engine.begin() as connection:
        rows = [{"id": f"more {n}", "name": "", "started_at": NOON} for n in range(20)]
        connection.execute(insert(processes), rows)
        assert len(connection.execute(select(processes.c.id)).all()) == 22
