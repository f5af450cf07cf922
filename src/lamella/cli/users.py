"""`lamella users`: who may ask, and the one step that turns accounts on."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from lamella.cli.api import Api, first_run_token
from lamella.cli.api_commands import Answer, asks, id_of, whole
from lamella.cli.keys import new_key
from lamella.cli.main import DataOption, cli
from lamella.client import Object
from lamella.settings import read_settings

users = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Users and their keys.")
cli.add_typer(users, name="users")

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The name or the id of a user.")]


@asks(users, "setup", as_nobody=True)
async def setup_command(
    api: Api,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Your name: you become the first admin.")],
    token: Annotated[
        str | None,
        typer.Option(help="The token that the server printed when it started; left out, it is read from the folder."),
    ] = None,
    data: DataOption = None,
) -> Answer:
    """Set up accounts. From then on everybody needs a key; yours is printed only once."""
    found = token or first_run_token(read_settings(data=data).data)
    made = await api.post("/setup", {"name": name} | ({"token": found} if found else {}))
    return made, _new_user(made)


@asks(users, "list")
async def list_command(api: Api) -> Answer:
    """List the users, the oldest first."""
    found = await whole(api, "/users")
    return found, [_line(one) for one in found["data"]]


@asks(users, "add")
async def add_command(
    api: Api,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A unique name.")],
    admin: Annotated[bool, typer.Option("--admin", help="Make the user an admin, who manages users and keys.")] = False,
) -> Answer:
    """Add a user. Their first key is printed only once: pass it on."""
    found = await api.post("/users", {"name": name, "role": "admin" if admin else "member"})
    return found, _new_user(found)


@asks(users, "set")
async def set_command(
    api: Api,
    user: UserArgument,
    name: Annotated[str | None, typer.Option(help="Another name.")] = None,
    role: Annotated[Literal["admin", "member"] | None, typer.Option(help="Another role.")] = None,
    disabled: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Disable or enable the user's keys and grants.")
    ] = None,
) -> Answer:
    """Change a user."""
    sent = {"name": name, "role": role, "disabled": disabled}
    path = f"/users/{await id_of(api, ['/users'], user)}"
    found = await api.ask("PATCH", path, json={n: v for n, v in sent.items() if v is not None})
    return found, [_line(found)]


@asks(users, "issue-key")
async def issue_command(
    api: Api,
    user: UserArgument,
    name: Annotated[str, typer.Option(help="A name for the key, such as the device.")] = "issued",
) -> Answer:
    """Create a key for a user who lost theirs. It is printed only once, and records who issued it."""
    found = await api.post(f"/users/{await id_of(api, ['/users'], user)}/keys", {"name": name})
    return found, new_key(found)


def _new_user(found: Object) -> list[str]:
    return [_line(found), *new_key(found["key"])]


def _line(one: Object) -> str:
    parts = [one["id"], one["name"], *([one["role"]] if "role" in one else [])]
    return " · ".join([*parts, "disabled"] if one.get("disabled") else parts)
