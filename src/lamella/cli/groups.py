"""`lamella groups`: users who are granted access together."""

from __future__ import annotations

from typing import Annotated

import typer

from lamella.cli.api import Api
from lamella.cli.api_commands import Answer, asks, id_of, whole
from lamella.cli.main import cli
from lamella.client import Object

groups = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Groups of users, for grants on knowledge bases."
)
cli.add_typer(groups, name="groups")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The name or the id of a group.")]
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The name or the id of a user.")]


@asks(groups, "list")
async def list_command(api: Api) -> Answer:
    """List the groups, the oldest first."""
    found = await whole(api, "/groups")
    return found, [_line(one) for one in found["data"]]


@asks(groups, "create")
async def create_command(
    api: Api,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A unique name.")],
) -> Answer:
    """Create a group."""
    found = await api.post("/groups", {"name": name})
    return found, [_line(found)]


@asks(groups, "add")
async def add_command(api: Api, group: GroupArgument, user: UserArgument) -> Answer:
    """Add a user to a group."""
    return await _member(api, "PUT", group, user)


@asks(groups, "remove")
async def remove_command(api: Api, group: GroupArgument, user: UserArgument) -> Answer:
    """Remove a user from a group."""
    return await _member(api, "DELETE", group, user)


@asks(groups, "delete")
async def delete_command(api: Api, group: GroupArgument) -> Answer:
    """Delete a group with its grants."""
    found = await api.ask("DELETE", f"/groups/{await id_of(api, ['/groups'], group)}")
    return found, [f"{group} is gone."]


async def _member(api: Api, method: str, group: str, user: str) -> Answer:
    path = f"/groups/{await id_of(api, ['/groups'], group)}/members/{await id_of(api, ['/users'], user)}"
    found = await api.ask(method, path)
    return found, [_line(found)]


def _line(one: Object) -> str:
    members = ", ".join(user["name"] for user in one.get("members", ()))
    return " · ".join([one["id"], one["name"], *([members or "nobody"] if "members" in one else [])])
