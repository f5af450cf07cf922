"""`lamella groups`: users who are granted access together."""

from __future__ import annotations

from typing import Annotated

import typer

from lamella.cli.api import Api
from lamella.cli.api_commands import CommandOptions, JsonOption, id_of, show, whole
from lamella.cli.main import DataOption, KeyOption, cli
from lamella.client import Object

groups = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Groups of users, for grants on knowledge bases."
)
cli.add_typer(groups, name="groups")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The name or the id of a group.")]
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The name or the id of a user.")]


@groups.command("list")
def list_command(data: DataOption = None, key: KeyOption = None, json: JsonOption = False) -> None:
    """List the groups, the oldest first."""
    show(
        CommandOptions(data, key, json),
        lambda api: whole(api, "/groups"),
        lambda found: [_line(one) for one in found["data"]],
    )


@groups.command("create")
def create_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A unique name.")],
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Create a group."""

    async def ask(api: Api) -> Object:
        return await api.post("/groups", {"name": name})

    show(CommandOptions(data, key, json), ask, lambda found: [_line(found)])


@groups.command("add")
def add_command(
    group: GroupArgument, user: UserArgument, data: DataOption = None, key: KeyOption = None, json: JsonOption = False
) -> None:
    """Add a user to a group."""
    show(CommandOptions(data, key, json), lambda api: _member(api, "PUT", group, user), lambda found: [_line(found)])


@groups.command("remove")
def remove_command(
    group: GroupArgument, user: UserArgument, data: DataOption = None, key: KeyOption = None, json: JsonOption = False
) -> None:
    """Remove a user from a group."""
    show(CommandOptions(data, key, json), lambda api: _member(api, "DELETE", group, user), lambda found: [_line(found)])


@groups.command("delete")
def delete_command(
    group: GroupArgument, data: DataOption = None, key: KeyOption = None, json: JsonOption = False
) -> None:
    """Delete a group with its grants."""

    async def ask(api: Api) -> Object:
        return await api.ask("DELETE", f"/groups/{await id_of(api, ['/groups'], group)}")

    show(CommandOptions(data, key, json), ask, lambda _: [f"{group} is gone."])


async def _member(api: Api, method: str, group: str, user: str) -> Object:
    found = await id_of(api, ["/groups"], group)
    return await api.ask(method, f"/groups/{found}/members/{await id_of(api, ['/users'], user)}")


def _line(one: Object) -> str:
    members = ", ".join(user["name"] for user in one.get("members", ()))
    return " · ".join([one["id"], one["name"], *([members or "nobody"] if "members" in one else [])])
