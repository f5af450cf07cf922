"""`lamella migrate`: bring a database up to date, or copy everything to another database or folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from sqlalchemy import URL, Connection, Engine, func, select

from lamella.app.app import database_path
from lamella.cli.main import DataOption, cli
from lamella.core.errors import ConfigurationError, StoreFailed
from lamella.settings import Settings, read_settings
from lamella.storage.copying import TABLES, DatabaseCopy, TargetState, check_source, database_id, state_of
from lamella.storage.failures import plain_errors
from lamella.storage.file_store import claim, copy_file, open_files
from lamella.storage.files import known_files
from lamella.storage.folder import FolderLock
from lamella.storage.migrate import HEAD, database_url, migrate
from lamella.storage.postgresql import COMMITTED, ONE_STATE, check_server, held_database, postgres_engine, postgres_url
from lamella.storage.sqlite import sqlite_engine, untouched_engine
from lamella.storage.unfit_rows import unfit_rows


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where a database is: in a folder, or on a server."""

    url: URL
    folder: Path | None

    @classmethod
    def of(cls, given: str) -> Deployment:
        """That of a URL or of a folder's path; raises `ConfigurationError`."""
        if (url := postgres_url(given)) is not None:
            return cls(url, None)
        if "://" in given:
            raise ConfigurationError(f"{given} is no place for a database.", hint="Name a folder or postgresql://….")
        folder = Path(given).expanduser().absolute()
        return cls(database_url(database_path(folder)), folder)

    @property
    def shown(self) -> str:
        """How it is called in lines of progress."""
        return self.url.render_as_string(hide_password=True) if self.folder is None else str(self.folder)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the place to this process. Raises `ConfigurationError` while a server uses it."""
        with ExitStack() as stack:
            if self.folder is not None:
                stack.enter_context(FolderLock(self.folder))
                yield
                return
            runner = stack.enter_context(asyncio.Runner())
            holding = held_database(self.url.render_as_string(hide_password=False))
            runner.run(holding.__aenter__())
            stack.callback(lambda: runner.run(holding.__aexit__(None, None, None)))
            yield

    def reading(self) -> Engine:
        """An engine that changes nothing."""
        return postgres_engine(self.url, ONE_STATE) if self.folder is None else untouched_engine(self.url)

    def writing(self) -> Engine:
        """An engine for one writer, who looks at foreign keys in the end."""
        if self.folder is not None:
            return sqlite_engine(self.url, writes=True, foreign_keys=False)
        return postgres_engine(self.url, COMMITTED)


@cli.command("migrate")
def migrate_command(
    to: Annotated[
        str | None,
        typer.Option(help="Copy to this place: a folder, or postgresql://…. Left out, the database is upgraded."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="Copy from this folder or URL. Default: what the settings name.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be copied, and copy nothing.")] = False,
    files: Annotated[
        str | None,
        typer.Option(
            help="Copy uploads to this place: a folder, or s3://BUCKET/PREFIX. Default: with the database into a "
            "folder; to PostgreSQL they stay where they are."
        ),
    ] = None,
    data: DataOption = None,
) -> None:
    """Upgrade the database to this version, or copy it whole with --to. No server may use either place.

    A copy leaves its source as it is. If it is interrupted, the same command goes on. Exit status 0: all is copied and
    compared. 1: it failed, and can be continued. 2: a place can't be used.
    """
    settings = read_settings(data=data)
    place = Deployment.of(source) if source is not None else _place_of(settings)
    if to is None:
        _upgrade(place)
        return
    target = Deployment.of(to)
    moving = _moving(settings, None if source is None else place, target, files)
    if target.url == place.url:
        raise ConfigurationError("Source and target are the same.", hint="Name the source with --from.")
    _check_folder(target)
    with ExitStack() as stack:
        for each in (place, target):
            if not dry_run or each.folder is None or each.folder.is_dir():
                stack.enter_context(each.held())
        if dry_run:
            _preview(place, target, moving)
        else:
            _copy(place, target, moving)


def _place_of(settings: Settings) -> Deployment:
    given = settings.database_url
    return Deployment.of(given.get_secret_value() if given is not None else str(settings.data))


@dataclass(frozen=True, slots=True)
class Moving:
    """Where uploads are, and where they go."""

    source: str
    target: str


def _moving(settings: Settings, source: Deployment | None, target: Deployment, files: str | None) -> Moving | None:
    """How uploads are copied; None if they stay where they are."""
    own = settings.files or str(settings.data / "files")
    there = own if source is None or source.folder is None else str(source.folder / "files")
    goal = files or (None if target.folder is None else str(target.folder / "files"))
    return None if goal is None or goal == there else Moving(there, goal)


def _upgrade(place: Deployment) -> None:
    asyncio.run(migrate(place.url))
    typer.echo(f"{place.shown}: revision {HEAD}")


def _check_folder(target: Deployment) -> None:
    """Raises `ConfigurationError` for a folder that holds other things than data of a server."""
    if target.folder is not None and target.folder.is_file():
        raise ConfigurationError(f"{target.folder} is a file.", hint="Name a folder.")


def _preview(place: Deployment, target: Deployment, moving: Moving | None) -> None:
    """Say what would be copied. Raises what copying would raise before its first row."""
    with plain_errors(), _opened(place.reading()) as reading, reading.connect() as source:
        check_source(source)
        total = 0
        for table in TABLES:
            count = source.execute(select(func.count()).select_from(table)).scalar_one()
            total += count
            if count:
                typer.echo(f"{table.name:<24} {count:>12,} rows")
        _check_rows(place, target, source)
        if target.folder is None or target.folder.is_dir():
            _check_target(target, database_id(source))
        if moving is not None:
            typer.echo(f"{len(known_files(source)):,} uploads would be copied from {moving.source} to {moving.target}.")
        typer.echo(f"{total:,} rows would be copied from {place.shown} to {target.shown}.")


def _check_target(target: Deployment, source_id: str) -> None:
    if target.folder is not None and not database_path(target.folder).exists():
        return
    with _opened(target.reading()) as engine, engine.connect() as connection:
        _check_server(target, engine)
        state_of(connection, source_id)


def _check_rows(place: Deployment, target: Deployment, source: Connection) -> None:
    """Raises `StoreFailed` for rows that PostgreSQL can't hold, after naming them."""
    if place.folder is None or target.folder is not None:
        return
    found = list(unfit_rows(source))
    for row in found:
        typer.echo(f"can't be copied: {row}", err=True)
    if found:
        raise StoreFailed(
            f"{len(found)} rows can't be stored in PostgreSQL; nothing was copied.",
            hint="Remove or change them in the source, then copy again.",
        )


@contextmanager
def _opened(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


def _copy(place: Deployment, target: Deployment, moving: Moving | None) -> None:
    with plain_errors(), ExitStack() as stack:
        writing = stack.enter_context(_opened(target.writing()))
        source = stack.enter_context(stack.enter_context(_opened(place.reading())).connect())
        _check_server(target, writing)
        check_source(source)
        _check_rows(place, target, source)
        typer.echo(f"copying {place.shown} to {target.shown}")
        started, copy = monotonic(), DatabaseCopy(source, writing, typer.echo)
        state = copy.begin()
        if state is not TargetState.WHOLE:
            rows = copy.rows()
            typer.echo(f"{rows:,} rows copied in {monotonic() - started:.0f} s; comparing")
        compared = copy.compare()
        if moving is not None:
            asyncio.run(_copy_files(moving, known_files(source), database_id(source)))
        if state is not TargetState.WHOLE:
            copy.finish()
        typer.echo(f"{compared:,} rows in {len(TABLES)} tables compared: counts and checksums are the same")
    asyncio.run(migrate(target.url))
    typer.echo("uploads stay where they are" if moving is None else f"uploads are at {moving.target}")


async def _copy_files(moving: Moving, ids: frozenset[str], database: str) -> None:
    """Copy the uploads of rows. Says which have no bytes, since their rows are copied all the same."""
    source, target = open_files(moving.source), open_files(moving.target)

    async def known() -> frozenset[str]:
        return ids

    await claim(target, database, known)
    total, missing = 0, []
    for file_id in sorted(ids):
        size = await copy_file(source, target, file_id)
        total += size or 0
        if size is None:
            missing.append(file_id)
    for file_id in missing:
        typer.echo(f"has no bytes in the source: {file_id}", err=True)
    typer.echo(f"{len(ids) - len(missing):,} uploads copied and compared, {total:,} bytes")


def _check_server(target: Deployment, engine: Engine) -> None:
    if target.folder is None:
        with engine.connect() as connection:
            check_server(connection)
