"""`lamella users`: who may ask, and the one step that turns accounts on."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from lamella.cli.api import Api, first_run_token
from lamella.cli.api_commands import CommandOptions, JsonOption, id_of, show, whole
from lamella.cli.keys import new_key
from lamella.cli.main import DataOption, KeyOption, cli
from lamella.client import Object
from lamella.settings import read_settings

users = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Users and their keys.")
cli.add_typer(users, name="users")

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The name or the id of a user.")]


@users.command("setup")
def setup_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Your name: you become the first admin.")],
    token: Annotated[
        str | None,
        typer.Option(help="The token that the server printed when it started; left out, it is read from the folder."),
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Set up accounts. From then on everybody needs a key; yours is printed only once."""
    found = token or first_run_token(read_settings(data=data).data)
    body: Object = {"name": name} | ({"token": found} if found else {})

    async def ask(api: Api) -> Object:
        return await api.post("/setup", body)

    show(CommandOptions(data, None, json, as_nobody=True), ask, _new_user)


@users.command("list")
def list_command(data: DataOption = None, key: KeyOption = None, json: JsonOption = False) -> None:
    """List the users, the oldest first."""
    show(
        CommandOptions(data, key, json),
        lambda api: whole(api, "/users"),
        lambda found: [_line(one) for one in found["data"]],
    )


@users.command("add")
def add_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A unique name.")],
    admin: Annotated[bool, typer.Option("--admin", help="Make the user an admin, who manages users and keys.")] = False,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Add a user. Their first key is printed only once: pass it on."""

    async def ask(api: Api) -> Object:
        return await api.post("/users", {"name": name, "role": "admin" if admin else "member"})

    show(CommandOptions(data, key, json), ask, _new_user)


@users.command("set")
def set_command(
    user: UserArgument,
    name: Annotated[str | None, typer.Option(help="Another name.")] = None,
    role: Annotated[Literal["admin", "member"] | None, typer.Option(help="Another role.")] = None,
    disabled: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Disable or enable the user's keys and grants.")
    ] = None,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Change a user."""
    sent = {"name": name, "role": role, "disabled": disabled}

    async def ask(api: Api) -> Object:
        found = await id_of(api, ["/users"], user)
        return await api.ask("PATCH", f"/users/{found}", json={n: v for n, v in sent.items() if v is not None})

    show(CommandOptions(data, key, json), ask, lambda found: [_line(found)])


@users.command("issue-key")
def issue_command(
    user: UserArgument,
    name: Annotated[str, typer.Option(help="A name for the key, such as the device.")] = "issued",
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Create a key for a user who lost theirs. It is printed only once, and records who issued it."""

    async def ask(api: Api) -> Object:
        found = await id_of(api, ["/users"], user)
        return await api.post(f"/users/{found}/keys", {"name": name})

    show(CommandOptions(data, key, json), ask, new_key)


def _new_user(found: Object) -> list[str]:
    return [_line(found), *new_key(found["key"])]


def _line(one: Object) -> str:
    parts = [one["id"], one["name"], *([one["role"]] if "role" in one else [])]
    return " · ".join([*parts, "disabled"] if one.get("disabled") else parts)
