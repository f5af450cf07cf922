"""Commands that ask the API once and print the answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from inspect import Parameter
from typing import Annotated, Any

import typer

from lamella.cli.api import Api, open_api
from lamella.cli.logs import configure_logs
from lamella.cli.main import DataOption, KeyOption
from lamella.client import Object
from lamella.core.errors import NotFound
from lamella.core.json import encode_text
from lamella.settings import Settings, read_settings

BaseArgument = Annotated[str, typer.Argument(metavar="BASE", help="The name or the id of a knowledge base.")]

WHOLE = 100
"""How many rows of a list are asked for at once."""


JsonOption = Annotated[bool, typer.Option("--json", help="Print the API's answer as JSON.")]

Answer = tuple[Object, list[str]]
"""The API's answer, and the lines that it is printed as."""

Ask = Callable[..., Coroutine[Any, Any, Answer]]


def asks(group: typer.Typer, name: str, *, as_nobody: bool = False) -> Callable[[Ask], Ask]:
    """Makes a command of a function that asks the API.

    Its options are the parameters of the function after `api`, then `--data`, `--key` and `--json`; what the function
    names itself is handed to it too. With `as_nobody` no key can be there yet.
    """
    shared = {"data": (DataOption, None), "key": (KeyOption, None), "json": (JsonOption, False)}
    if as_nobody:
        del shared["key"]

    def register(ask: Ask) -> Ask:
        own = {one.name: one for one in list(inspect.signature(ask, eval_str=True).parameters.values())[1:]}
        added = {
            option: Parameter(option, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for option, (kind, default) in shared.items()
            if option not in own
        }

        def command(**given: Any) -> None:
            settings = read_settings(data=given["data"], key=given.get("key"))
            asked = {option: value for option, value in given.items() if option in own}
            answer, lines = asyncio.run(_asked(settings, ask, asked, as_nobody))
            typer.echo(encode_text(answer) if given["json"] else "\n".join(lines))

        parameters = own | added
        command.__doc__ = ask.__doc__
        command.__annotations__ = {option: one.annotation for option, one in parameters.items()}
        command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        group.command(name)(command)
        return ask

    return register


async def _asked(settings: Settings, ask: Ask, given: Mapping[str, Any], as_nobody: bool) -> Answer:
    """What the server of the data folder answers, or the app itself if none runs."""
    configure_logs()
    async with open_api(settings, as_nobody=as_nobody) as api:
        return await ask(api, **given)


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
