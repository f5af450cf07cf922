"""`lamella export`: a conversation as a trace, with what was written in it or with lengths alone."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from lamella.cli.api import open_api
from lamella.cli.inspect import newest
from lamella.cli.logs import configure_logs
from lamella.cli.main import DataOption, KeyOption, cli
from lamella.client import Object
from lamella.core.errors import ConfigurationError
from lamella.core.json import encode
from lamella.settings import Settings, read_settings


@cli.command("export")
def export_command(
    conversation: Annotated[
        str | None, typer.Argument(metavar="[CONVERSATION]", help="Default: the newest conversation.")
    ] = None,
    without_content: Annotated[
        bool,
        typer.Option("--without-content", help="Replace all texts by lengths and fingerprints."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write it to this file. Default: standard output.")] = None,
    data: DataOption = None,
    key: KeyOption = None,
) -> None:
    """Write a conversation as a trace: lamella replay runs it again, with the same requests."""
    configure_logs()
    found = asyncio.run(_exported(read_settings(data=data, key=key), conversation, content=not without_content))
    written = encode(found)
    if out is None:
        typer.echo(written)
    else:
        _write(out, written)
        typer.echo(f"Wrote {out}: {len(written):,} bytes, {len(found['turns'])} entries.", err=True)
    for what in found["exported"]["not_carried"]:
        typer.echo(f"Not carried: {what}.", err=True)


async def _exported(settings: Settings, conversation: str | None, *, content: bool) -> Object:
    async with open_api(settings) as api:
        query = {} if content else {"content": False}
        return await api.get(f"/conversations/{conversation or await newest(api)}/export", **query)


def _write(path: Path, data: bytes) -> None:
    """Write a file that nobody else on this machine may read."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error.strerror}.") from None
