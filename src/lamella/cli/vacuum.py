"""`lamella vacuum`: write the database of a data folder anew."""

from __future__ import annotations

import shutil

import typer

from lamella.app.app import database_path
from lamella.cli.main import DataOption, cli
from lamella.core.errors import ConfigurationError
from lamella.settings import read_settings
from lamella.storage.folder import FolderLock
from lamella.storage.sqlite import sqlite_url, vacuum

ROOM = 2
"""How many times the size of the database has to be free on its disk."""


@cli.command("vacuum")
def vacuum_command(data: DataOption = None) -> None:
    """Write the database anew, without free pages. The server of the data folder must not run.

    A folder of an earlier version needs it once: from then on, what is removed makes the file smaller.
    """
    path = database_path(read_settings(data=data).data)
    if not path.is_file():
        raise ConfigurationError(f"There is no database in {path.parent}.", hint="Set LAMELLA_DATA or --data.")
    with FolderLock(path.parent):
        before, free = path.stat().st_size, shutil.disk_usage(path.parent).free
        if free < ROOM * before:
            raise ConfigurationError(
                f"{path} has {before:,} bytes, and only {free:,} are free on its disk.",
                hint=f"Free {ROOM} times its size.",
            )
        vacuum(sqlite_url(path))
        typer.echo(f"{path}: {before:,} bytes before, {path.stat().st_size:,} now.")
