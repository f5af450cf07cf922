"""Commands that ask the API once and print the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from lamella.cli.api import Api, open_api
from lamella.cli.logs import configure_logs
from lamella.client import Object
from lamella.core.errors import NotFound
from lamella.core.json import encode_text
from lamella.settings import read_settings

BaseArgument = Annotated[str, typer.Argument(metavar="BASE", help="The name or the id of a knowledge base.")]

JsonOption = Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")]

WHOLE = 100
"""How many rows of a list are asked for at once."""


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """Whose data folder, with which key, and how the answer is printed; `as_nobody` where no key can be there yet."""

    data: Path | None
    key: str | None
    json: bool
    as_nobody: bool = False


def show(
    asking: CommandOptions, ask: Callable[[Api], Coroutine[Any, Any, Object]], lines: Callable[[Object], list[str]]
) -> None:
    """Ask the server of the data folder, or the app itself, and print the answer."""
    configure_logs()

    settings = read_settings(data=asking.data, key=asking.key)

    async def found() -> Object:
        async with open_api(settings, as_nobody=asking.as_nobody) as api:
            return await ask(api)

    answer = asyncio.run(found())
    typer.echo(encode_text(answer) if asking.json else "\n".join(lines(answer)))


async def whole(api: Api, path: str) -> Object:
    """Every row of a list, oldest first."""
    found = await api.get(path, limit=WHOLE, order="asc")
    rows = found["data"]
    while found["has_more"]:
        found = await api.get(path, limit=WHOLE, order="asc", after=found["last_id"])
        rows += found["data"]
    return {**found, "data": rows}


async def id_of(api: Api, paths: Iterable[str], named: str) -> str:
    """The id of the row of these lists that has this id or this name; raises `NotFound`."""
    for path in paths:
        for row in (await whole(api, path))["data"]:
            if row["id"] == named or row["name"].casefold() == named.casefold():
                return str(row["id"])
    what = " or ".join(path.strip("/").replace("-", " ").removesuffix("s") for path in paths)
    raise NotFound(f"There is no {what} “{named}”.", hint="Names are listed by the command `list`.")


def moment(at: str | None) -> str:
    """A moment as people read it; – for none."""
    return "–" if at is None else f"{datetime.fromisoformat(at):%Y-%m-%d %H:%M}"
