"""`lamella migrate --to`: a whole deployment goes to PostgreSQL, to another folder and back, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from time import sleep

import pytest
from sqlalchemy import text

from lamella.cli.migrate import Deployment
from lamella.core.errors import StoreFailed
from lamella.storage.copying import TABLES, DatabaseCopy, TableSum, read_rows
from lamella.storage.failures import plain_errors
from lamella.storage.folder import FolderLock
from lamella.storage.migrate import database_url
from lamella.storage.migrate import migrate as upgrade
from lamella.storage.postgresql import ONE_STATE, postgres_engine
from postgres import PostgresServer

from .carrying import assert_carried, carrier
from .moving import Seen, filled_folder, seen
from .test_export_random import TIGHT

LAMELLA = str(Path(sys.executable).with_name("lamella"))


def migrate(*arguments: object, status: int = 0, **environment: str) -> str:
    """Run the command; returns what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAMELLA")}
    done = subprocess.run(
        [LAMELLA, "migrate", *map(str, arguments)], env=kept | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seen]:
    """A folder with something of everything, and what is seen of it."""
    folder = tmp_path_factory.mktemp("filled") / "data"
    return folder, filled_folder(folder)


@pytest.fixture(autouse=True)
def places_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test names its databases, whatever `--database` asks for."""
    monkeypatch.delenv("LAMELLA_DATABASE_URL", raising=False)


@pytest.fixture
def folder(filled: tuple[Path, Seen], tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(filled[0], tmp_path / "data"))


def empty_database(server: PostgresServer, name: str) -> str:
    """The URL of a new database without tables."""
    server.run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    return server.url(name)


def bytes_of(folder: Path) -> Mapping[str, bytes]:
    """Every file of a folder but the lock's."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lamella.lock"
    }


def look(folder: Path, url: str | None = None, *, files: str | None = None, replays: bool = False) -> Seen:
    """What is seen of a deployment; with `replays` each conversation is exported and replayed, too."""

    async def looking() -> Seen:
        settings = TIGHT | {"database_url": url, "files": files}
        async with carrier(folder, **settings) as (_, client):
            all = await seen(client)
            for id in all.trees if replays else ():
                if all.bodies[id]:
                    await assert_carried(client, id)
            return all

    return asyncio.run(looking())


def schema(url: str) -> list[tuple[object, ...]]:
    """Constraints and indexes of a PostgreSQL database."""
    engine = postgres_engine(database_url(url), ONE_STATE)
    with engine.connect() as connection:
        constraints = connection.execute(
            text(
                "SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) FROM pg_constraint "
                "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"
            )
        )
        indexes = connection.execute(
            text(
                "SELECT tablename::text, indexname::text, indexdef FROM pg_indexes "
                "WHERE schemaname = 'public' ORDER BY 2"
            )
        )
        found = [tuple(row) for row in (*constraints, *indexes)]
    engine.dispose()
    return found


def test_everything_is_the_same_on_postgresql_and_in_a_folder_again(
    filled: tuple[Path, Seen], folder: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    with closing(sqlite3.connect(folder / "lamella.db")) as connection, connection:
        # SQLite keeps a text in a column of bytes, if another program wrote it there.
        plain = "typeof(markers) = 'blob' AND substr(markers, 1, 1) != x'01'"
        assert connection.execute(f"UPDATE requests SET markers = CAST(markers AS TEXT) WHERE {plain}").rowcount
    url, before = empty_database(postgres, "moved_1"), bytes_of(folder)
    said = migrate("--data", folder, "--to", url)
    assert "counts and checksums are the same" in said
    assert bytes_of(folder) == before
    assert schema(url) == schema(postgres.url(postgres.copied()))
    assert look(folder, url, replays=True) == filled[1]
    said = migrate("--to", tmp_path / "back", "--from", url, LAMELLA_DATA=str(folder))
    assert f"{len(filled[1].files) + len(filled[1].documents)} uploads copied and compared" in said
    assert look(tmp_path / "back", replays=True) == filled[1]


def killed_until_done(random: Random, *arguments: object) -> int:
    """Run the command and kill it again and again, each time a little later; returns how often that was."""
    for kills in range(60):
        running = subprocess.Popen([LAMELLA, "migrate", *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None
        with running.stdout as lines:
            for _ in range(random.randint(1, 12 + kills)):
                if not lines.readline():
                    break
            sleep(random.uniform(0, 0.05))
            running.send_signal(signal.SIGKILL)
        if running.wait(60) == 0:
            return kills
    raise AssertionError("it never came to its end")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_copy_that_is_killed_again_and_again_goes_on(
    filled: tuple[Path, Seen], folder: Path, tmp_path: Path, postgres: PostgresServer, seed: int
) -> None:
    random, url, before = Random(seed), empty_database(postgres, f"killed_{seed}"), bytes_of(folder)
    assert killed_until_done(random, "--data", folder, "--to", url) > 0
    assert bytes_of(folder) == before
    assert rows_of(url) == rows_of(folder)
    assert schema(url) == schema(postgres.url(postgres.copied()))
    assert killed_until_done(random, "--from", url, "--to", tmp_path / "back", "--data", folder) > 0
    assert rows_of(tmp_path / "back") == rows_of(folder)


def rows_of(place: Path | str) -> Mapping[str, tuple[int, int]]:
    """The number of rows of each table and their sum, by the code that copies them."""
    engine = Deployment.of(str(place)).reading()
    with engine.connect() as connection:
        sums = {table.name: TableSum().plus(read_rows(connection, table)) for table in TABLES}
    engine.dispose()
    assert sums["messages"].rows > 10
    return {name: (found.rows, found.sum) for name, found in sums.items()}


def test_what_postgresql_can_not_hold_is_named_before_anything_is_copied(
    folder: Path, postgres: PostgresServer
) -> None:
    url = empty_database(postgres, "unfit")
    with closing(sqlite3.connect(folder / "lamella.db")) as connection, connection:
        [(message,), (other,)] = connection.execute("SELECT id FROM messages ORDER BY id LIMIT 2").fetchall()
        connection.execute("UPDATE messages SET reminder = ? WHERE id = ?", ("half\0half", message))
        connection.execute("UPDATE messages SET tokens = ? WHERE id = ?", (1 << 40, other))
        key = "k" * 3_000
        connection.execute("INSERT INTO idempotency_keys VALUES ('user_local', ?, 'turns', 'f', 'turn_1', '')", (key,))
        before = connection.execute("SELECT count(*) FROM messages").fetchone()
    for dry in ([], ["--dry-run"]):
        said = migrate("--data", folder, "--to", url, *dry, status=1)
        assert f"messages {message}: reminder holds NUL" in said
        assert f"messages {other}: tokens is over 32 bits" in said
        assert "idempotency_keys user_local kkk" in said
        assert "3 rows can't be stored in PostgreSQL; nothing was copied" in said
    assert schema(url) == []
    with closing(sqlite3.connect(folder / "lamella.db")) as connection:
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == before


def test_a_dry_run_counts_and_writes_nothing(folder: Path, tmp_path: Path, postgres: PostgresServer) -> None:
    url, before = empty_database(postgres, "dry"), bytes_of(folder)
    said = migrate("--data", folder, "--to", url, "--dry-run")
    assert "rows would be copied" in said
    assert schema(url) == []
    migrate("--data", folder, "--to", tmp_path / "new", "--dry-run")
    assert not (tmp_path / "new").exists()
    assert bytes_of(folder) == before


def test_places_that_can_not_be_used_are_refused(folder: Path, tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.url(postgres.copied())
    assert "The target is not empty" in migrate("--data", folder, "--to", url, status=2)
    assert "Source and target are the same" in migrate("--data", folder, "--to", folder, status=2)
    assert "There is no database" in migrate("--data", tmp_path / "nothing", "--to", tmp_path / "new", status=2)
    assert "no place for a database" in migrate("--data", folder, "--to", "mysql://host/db", status=2)
    with FolderLock(folder):
        assert "Another lamella serves this data folder" in migrate("--data", folder, "--to", tmp_path / "a", status=2)
    with closing(sqlite3.connect(folder / "lamella.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0050'")
    said = migrate("--data", folder, "--to", tmp_path / "b", status=2)
    assert "revision 0050" in said
    assert "`lamella migrate` without --to" in said


def test_an_unfinished_copy_is_not_served_and_takes_no_other_source(
    folder: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    url = empty_database(postgres, "half")
    engine = Deployment.of(url).writing()
    reading = Deployment.of(str(folder)).reading()
    with reading.connect() as source:
        DatabaseCopy(source, engine, lambda line: None).begin()
    reading.dispose()
    engine.dispose()
    assert "unfinished copy" in migrate("--from", url, status=2)
    asyncio.run(upgrade(tmp_path / "lamella.db"))
    said = migrate("--from", tmp_path, "--to", url, status=2)
    assert "unfinished copy of another database" in said
    migrate("--data", folder, "--to", url)
    assert rows_of(url) == rows_of(folder)


def test_a_source_that_changed_after_the_copy_began_is_told(folder: Path, tmp_path: Path) -> None:
    killed = subprocess.Popen(
        [LAMELLA, "migrate", "--data", folder, "--to", tmp_path / "new"], stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout is not None
    with killed.stdout as lines:
        while not (line := lines.readline()).startswith("recall_vectors"):
            assert line
        killed.kill()
    killed.wait()
    with closing(sqlite3.connect(folder / "lamella.db")) as connection, connection:
        connection.execute("UPDATE messages SET tokens = tokens + 1")
    said = migrate("--data", folder, "--to", tmp_path / "new", status=1)
    assert "The copy differs from its source: messages" in said


def test_uploads_go_to_s3_and_come_back(
    filled: tuple[Path, Seen], folder: Path, tmp_path: Path, postgres: PostgresServer, bucket: str
) -> None:
    url, place = empty_database(postgres, "with_files"), f"s3://{bucket}/lamella"
    count = len(filled[1].files) + len(filled[1].documents)
    assert f"{count} uploads would be copied" in migrate("--data", folder, "--to", url, "--files", place, "--dry-run")
    for _ in range(2):
        said = migrate("--data", folder, "--to", url, "--files", place)
        assert f"{count} uploads copied and compared" in said
    assert "counts and checksums are the same" in said
    assert look(tmp_path / "replica", url, files=place) == filled[1]
    assert not list((tmp_path / "replica").glob("files/*"))
    migrate("--from", url, "--to", tmp_path / "back", LAMELLA_FILES=place, LAMELLA_DATA=str(tmp_path / "replica"))
    assert look(tmp_path / "back") == filled[1]
    first = min(path for path in (folder / "files").glob("file_*"))
    first.unlink()
    said = migrate("--data", folder, "--to", tmp_path / "other", "--files", tmp_path / "files")
    assert f"has no bytes in the source: {first.name}" in said
    assert f"{count - 1} uploads copied and compared" in said


def test_a_copy_that_was_finished_is_compared_again_and_one_that_was_used_is_told(folder: Path, tmp_path: Path) -> None:
    migrate("--data", folder, "--to", tmp_path / "new")
    assert "counts and checksums are the same" in migrate("--data", folder, "--to", tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "new" / "lamella.db")) as connection, connection:
        connection.execute("UPDATE messages SET tokens = tokens + 1")
    said = migrate("--data", folder, "--to", tmp_path / "new", status=1)
    assert "The copy differs from its source: messages" in said


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "move-to-postgresql.md"


def shape(line: str) -> str:
    """A line of output without its numbers and blanks."""
    return re.sub(r"[\d,]+", "#", " ".join(line.split()))


def test_the_commands_of_the_page_do_what_it_says(
    folder: Path, tmp_path: Path, postgres: PostgresServer, bucket: str
) -> None:
    url = empty_database(postgres, "page")
    shown = database_url(url).render_as_string(hide_password=True)
    page = PAGE.read_text()
    for written, here in (
        ("postgresql+psycopg://lamella:***@db.example/lamella", shown),
        ("postgresql://lamella:secret@db.example/lamella", url),
        ("s3://uploads/", f"s3://{bucket}/"),
        ("/backup/lamella", str(tmp_path / "back")),
        ("/home/ann/.local/share/lamella", str(folder)),
    ):
        page = page.replace(written, here)
    blocks = re.findall(r"```\n\$ lamella migrate (.*?)```", page, re.S)
    assert len(blocks) == 4
    for block in blocks:
        command, *expected = block.splitlines()
        moved = "--from" in command
        files = f"s3://{bucket}/lamella" if moved else ""
        done = migrate(*command.split(), LAMELLA_DATA=str(folder), LAMELLA_FILES=files)
        said = {shape(line) for line in done.splitlines()}
        assert {shape(line) for line in expected if line != "…"} <= said


def test_one_postgresql_goes_to_another(folder: Path, tmp_path: Path, postgres: PostgresServer) -> None:
    one, other = empty_database(postgres, "one"), empty_database(postgres, "other")
    migrate("--data", folder, "--to", one)
    said = migrate("--from", one, "--to", other, LAMELLA_DATA=str(folder))
    assert "uploads stay where they are" in said
    assert rows_of(other) == rows_of(folder)
    assert numbers_of(other) == numbers_of(one)
    assert max(numbers_of(one)) > 0
    with closing(sqlite3.connect(folder / "lamella.db")) as connection:
        given = connection.execute("SELECT seq FROM sqlite_sequence").fetchall()
    assert sorted(number for (number,) in given if number) == sorted(filter(None, numbers_of(one)))


def numbers_of(url: str) -> list[int]:
    """The newest number that each sequence gave."""
    engine = postgres_engine(database_url(url), ONE_STATE)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT coalesce(last_value, 0) FROM pg_sequences ORDER BY sequencename"))
        numbers = [int(number) for (number,) in found]
    engine.dispose()
    return numbers


def test_what_a_killed_server_left_in_its_log_is_copied_and_the_log_stays(folder: Path, tmp_path: Path) -> None:
    writing = sqlite3.connect(folder / "lamella.db")
    with closing(writing):
        writing.execute("PRAGMA wal_autocheckpoint = 0")
        with writing:
            writing.execute("UPDATE conversations SET title = 'Only in the log'")
        killed = Path(shutil.copytree(folder, tmp_path / "killed", ignore=shutil.ignore_patterns("*-shm")))
    log = (killed / "lamella.db-wal").read_bytes()
    assert b"Only in the log" in log
    before = (killed / "lamella.db").read_bytes()
    migrate("--data", killed, "--to", tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "new" / "lamella.db")) as connection:
        assert set(connection.execute("SELECT title FROM conversations")) == {("Only in the log",)}
    assert (killed / "lamella.db").read_bytes() == before
    assert (killed / "lamella.db-wal").read_bytes() == log


def test_a_copy_whose_connection_is_cut_says_so_and_goes_on(folder: Path, postgres: PostgresServer) -> None:
    url = empty_database(postgres, "cut_off")
    reading, writing = Deployment.of(str(folder)).reading(), Deployment.of(url).writing()

    def cut(line: str) -> None:
        if line.startswith("conversations"):
            postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'cut_off'")

    with reading.connect() as source:
        copy = DatabaseCopy(source, writing, cut)
        copy.begin()
        with pytest.raises(StoreFailed, match="PostgreSQL can't be reached"), plain_errors():
            copy.rows()
    reading.dispose()
    writing.dispose()
    assert "of them before" in migrate("--data", folder, "--to", url)
    assert rows_of(url) == rows_of(folder)
