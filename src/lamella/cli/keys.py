"""`lamella keys`: one's own API keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import typer

from lamella.cli.api import Api
from lamella.cli.api_commands import Answer, asks, moment, whole
from lamella.cli.main import cli
from lamella.client import Object

keys = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Your API keys.")
cli.add_typer(keys, name="keys")

StorageOption = Annotated[
    Literal["full", "hashes", "off", "default"] | None,
    typer.Option(help="What is stored of its client's requests: all, no text, nothing, or as the server says."),
]

ContextChoice = Annotated[
    Literal["manage", "off", "default"] | None,
    typer.Option("--context", help="Whether the histories that its client sends are kept short if that pays."),
]

ONCE = "This key is shown only once. Store it in a safe place."


@asks(keys, "list")
async def list_command(api: Api) -> Answer:
    """List your keys, the oldest first; a revoked one stays in the list."""
    found = await whole(api, "/keys")
    return found, [key_line(one) for one in found["data"]]


@asks(keys, "create")
async def create_command(
    api: Api,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for the key, such as the device.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="read, write or manage; may be repeated. Default: all scopes of your key.")
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Days until it expires. Default: never.")] = None,
    storage: StorageOption = None,
    context: ContextChoice = None,
) -> Answer:
    """Create a key. It is printed only once."""
    body: Object = {"name": name} | options_of(storage, context)
    if scope:
        body["scopes"] = scope
    if days is not None:
        body["expires_at"] = (datetime.now(UTC) + timedelta(days=days)).isoformat()
    found = await api.post("/keys", body)
    return found, new_key(found)


@asks(keys, "set")
async def set_command(
    api: Api,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="The id of a key.")],
    storage: StorageOption = None,
    context: ContextChoice = None,
) -> Answer:
    """Change the options of a key. What is not named stays."""
    found = await api.ask("PATCH", f"/keys/{key_id}", json=options_of(storage, context))
    return found, [key_line(found)]


@asks(keys, "revoke")
async def revoke_command(
    api: Api,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="The id of a key.")],
) -> Answer:
    """Revoke a key. It stops working at once."""
    found = await api.ask("DELETE", f"/keys/{key_id}")
    return found, [key_line(found)]


def options_of(storage: str | None, context: str | None) -> Object:
    """The fields of the options that were named."""
    named = {"storage": storage, "context": context}
    return {name: None if value == "default" else value for name, value in named.items() if value is not None}


def new_key(found: Object) -> list[str]:
    """A new key, and that it is shown once."""
    return [found["secret"], f"{found['id']} · {', '.join(found['scopes'])} · {ONCE}"]


def key_line(one: Object) -> str:
    """`key_… · laptop · lam_abcd1234… · manage, read, write · last used 2026-11-22 05:30`."""
    parts = [one["id"], one["name"], f"{one['prefix']}…", ", ".join(one["scopes"])]
    parts.append(f"last used {moment(one['last_used_at'])}")
    if one["expires_at"]:
        parts.append(f"until {moment(one['expires_at'])}")
    if one["revoked_at"]:
        parts.append(f"revoked {moment(one['revoked_at'])}")
    if one["storage"] is not None:
        parts.append(f"stores {one['storage']}")
    if one["context"] is not None:
        parts.append(f"context {one['context']}")
    if one["issued_by"] != one["user_id"]:
        parts.append(f"issued by {one['issued_by']}")
    return " · ".join(parts)
