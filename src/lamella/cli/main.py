"""The command line's entry: options in, one of the doors opened, errors out as one line and a hint."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from lamella import __version__
from lamella.cli.failures import exit_code_of, report
from lamella.core.errors import LamellaError

NAMES = (
    "chat",
    "clients",
    "export",
    "groups",
    "inspect",
    "kb",
    "keys",
    "migrate",
    "replay",
    "serve",
    "sessions",
    "simulate",
    "users",
    "vacuum",
)
COMMANDS = {name: f"lamella.cli.{name}" for name in NAMES}
COMMANDS |= {"why": COMMANDS["inspect"], "tail": COMMANDS["clients"]}
"""Where each command is; only the one that is asked for is loaded, so that the others cost no start time."""

cli = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def main() -> None:
    """Run a command; exit codes are 0, 1 (it failed) and 2 (it was asked for wrongly)."""
    asked = [COMMANDS[name] for name in sys.argv[1:2] if name in COMMANDS] or list(COMMANDS.values())
    try:
        if sys.argv[1:] != ["--version"]:
            for module in asked:
                importlib.import_module(module)
        cli()
    except LamellaError as error:
        report(error)
        sys.exit(exit_code_of(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lamella {__version__}")
        raise typer.Exit


@cli.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A chat engine and server that shows, orders and caches every token of the model's window."""


DataOption = Annotated[Path | None, typer.Option(help="The data folder. Default: LAMELLA_DATA.")]
ModelOption = Annotated[str | None, typer.Option(help="The model that answers. Default: LAMELLA_MODEL.")]
KeyOption = Annotated[
    str | None, typer.Option(help="The API key. Other users can see it in the list of processes. Default: LAMELLA_KEY.")
]
