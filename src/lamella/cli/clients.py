"""`lamella clients` and `lamella tail`: what other programs sent through this server, and what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from lamella.cli.api import Api, open_api
from lamella.cli.api_commands import Answer, asks, moment
from lamella.cli.logs import configure_logs
from lamella.cli.main import DataOption, KeyOption, cli
from lamella.client import Object
from lamella.core.json import decode_object
from lamella.core.tokens import percent, short
from lamella.settings import Settings, read_settings

NOT_RECORDED = "{} requests were answered and not recorded since the server started: too many waited."

TITLE = 40
"""Characters of a line's title in the list."""


@asks(cli, "clients")
async def clients_command(
    api: Api, limit: Annotated[int, typer.Option(min=1, max=100, help="Lines at most.")] = 20
) -> Answer:
    """List the conversations of clients, the newest first: turns, share read from the cache, breaks, cost."""
    found = await api.get("/lines", limit=limit)
    dropped = (await api.get("/status"))["dropped_records"]
    return found, [*_listed(found["data"]), *([NOT_RECORDED.format(dropped)] if dropped else [])]


@cli.command("tail")
def tail_command(data: DataOption = None, key: KeyOption = None) -> None:
    """Show clients' requests as they come, each with why it read what it read, and loops. Ctrl-C ends it."""
    configure_logs()
    asyncio.run(_tail(read_settings(data=data, key=key)))


async def _tail(settings: Settings) -> None:
    async with (
        open_api(settings) as api,
        api.events("GET", "/lines/live", timeout=None) as events,
    ):
        async for _, text in events:
            if text:
                typer.echo("\n".join(told(decode_object(text))))


def _listed(lines: list[Object]) -> Iterator[str]:
    """The lines by session: side calls stand under the conversation that they belong to."""
    if not lines:
        yield "No client has sent anything yet. Set the base URL of one to this server."
    shown: set[str] = set()
    for line in lines:
        if line["id"] in shown:
            continue
        together = [one for one in lines if line["session"] and one["session"] == line["session"]] or [line]
        together.sort(key=lambda one: (_is_side_call(one), one["begun_at"]))
        for place, one in enumerate(together):
            shown.add(one["id"])
            yield ("  " if place and _is_side_call(one) else "") + _line(one)


def _is_side_call(line: Object) -> bool:
    return line["label"] != "conversation" and not line["label"].startswith("agent:")


def _line(line: Object) -> str:
    usage = line["usage"] or {}
    read = percent(usage.get("cache_read", 0), usage.get("input", 0))
    breaks = f", {line['breaks']} breaks (${line['lost_cost']:.4f})" if line["breaks"] else ""
    saved = f", markers saved ${line['saved']:.4f}" if line["saved"] > 0 else ""
    count, less = line["compactions"], line["context_saved"]
    saved += f", {count} compaction{'s' if count > 1 else ''} by Lamella saved ${less:.4f}" if count else ""
    alarm = line["alarm"]
    loops = f", looping: {alarm['times']} times the same" if alarm and alarm["active"] else ", looped" if alarm else ""
    title = line["title"] if len(line["title"]) <= TITLE else f"{line['title'][: TITLE - 1]}…"
    name = "" if line["label"] == "conversation" else f"{line['label']}: "
    return (
        f"{line['id']}  {moment(line['at'])}  {line['client']}  {name}{title}  "
        f"{line['turns']} turns, {short(usage.get('input', 0))} tokens, {read} read{breaks}{saved}{loops}, "
        f"{'≈ ' if usage.get('estimated') else ''}${line['cost']:.4f}"
    )


def told(recorded: Object) -> list[str]:
    """A request as it was recorded, in two lines of text."""
    line, request = recorded["line"], recorded["request"]
    at = datetime.fromisoformat(request["at"]).astimezone().strftime("%H:%M:%S")
    label = "" if line["label"] == "conversation" else f" ({line['label']})"
    return [
        f"{at}  {line['client']}{label}  {request['model']}  {line['id']}  {request['id']}  {request['letters']}",
        f"          {recorded['why']}",
        *([f"          {line['alarm']['text']}"] if line["alarm"] and line["alarm"]["active"] else []),
    ]
