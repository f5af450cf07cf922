"""`lamella simulate`: the provider simulator alone, for any client of the Anthropic or OpenAI protocols."""

from __future__ import annotations

import typer

from lamella.cli.main import cli
from lamella_simulator.__main__ import main

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@cli.command("simulate", context_settings=_PASSED_ON)
def simulate_command(context: typer.Context) -> None:
    """Serve the provider simulator: --port, --clock, --seed, --rate, --option NAME=VALUE.

    See docs/reference/simulator.md.
    """
    raise typer.Exit(main(context.args))
