"""`lamella inspect`: what stood in the window of a request, segment by segment, and what did not and why (X-WHY)."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from lamella.cli.api import Api, open_api
from lamella.cli.api_commands import WHOLE
from lamella.cli.logs import configure_logs
from lamella.cli.main import DataOption, KeyOption, cli
from lamella.cli.timezone import local_zone
from lamella.client import Object
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.json import encode_text
from lamella.settings import Settings, read_settings

NAMED = 34
"""Characters of a segment's label and source in the table."""


@cli.command("inspect")
def inspect_command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONVERSATION | REQUEST]",
            help="A request, or a conversation for its newest one. Default: the newest conversation that has one.",
        ),
    ] = None,
    preview: Annotated[
        str | None, typer.Option(help="Show the request that this message would make; nothing is sent or stored.")
    ] = None,
    data: DataOption = None,
    key: KeyOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print the map as JSON.")] = False,
) -> None:
    """Show the window of a request: its segments and tokens, what was read from the cache, what is absent and why."""
    configure_logs()
    found = asyncio.run(_found(read_settings(data=data, key=key), what, preview))
    typer.echo(encode_text(found) if json else "\n".join(lines(found)))


@cli.command("why")
def why_command(
    request: Annotated[
        str | None,
        typer.Argument(metavar="[REQUEST]", help="The id of a request. Default: the newest of this server's chats."),
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest request of a client.")] = False,
    data: DataOption = None,
    key: KeyOption = None,
) -> None:
    """Show what a request read from the cache, what it cost, and why not more was read."""
    configure_logs()
    typer.echo(asyncio.run(_why(read_settings(data=data, key=key), request, of_client=last)))


async def _why(settings: Settings, request: str | None, *, of_client: bool) -> str:
    async with open_api(settings) as api:
        if request is None:
            request = await (_newest_of_clients if of_client else _newest_request)(api)
        return str((await api.get(f"/requests/{request}/why"))["text"])


async def _found(settings: Settings, what: str | None, preview: str | None) -> Object:
    """The map that is asked for; raises `InvalidRequest` or `NotFound`."""
    if what is not None and not what.startswith(("conv_", "req_")):
        raise InvalidRequest(
            f"“{what}” is no id of a conversation or a request.", hint="Ids begin with conv_ or req_.", param=what
        )
    if preview is not None and what is not None and what.startswith("req_"):
        raise InvalidRequest("--preview takes a conversation, not a request.", hint="Name a conversation, or none.")
    async with open_api(settings) as api:
        if what is not None and what.startswith("req_"):
            return await api.get(f"/requests/{what}/map")
        if preview is not None:
            message = {"conversation_id": what or await newest(api), "text": preview, "timezone": local_zone()}
            return await api.post("/context/preview", message)
        request = await _newest_request(api) if what is None else await _request_of(api, what)
        return await api.get(f"/requests/{request}/map")


async def newest(api: Api) -> str:
    """The id of the conversation that was last written in; raises `NotFound`."""
    found = (await api.get("/conversations", limit=1))["data"]
    if not found:
        raise NotFound("There is no conversation yet.", hint="Begin one with lamella chat.")
    return str(found[0]["id"])


async def _newest_of_clients(api: Api) -> str:
    """The newest request that a client sent; raises `NotFound`."""
    lines = (await api.get("/lines", limit=WHOLE))["data"]
    if not lines:
        raise NotFound("No client has sent anything yet.", hint="Set the base URL of one to this server.")
    return str(max(lines, key=lambda line: line["at"])["request_id"])


async def _newest_request(api: Api) -> str:
    """The newest request of the newest conversation that has made one; raises `NotFound`."""
    page: Object = {"has_more": True, "last_id": None}
    while page["has_more"]:
        after = {} if page["last_id"] is None else {"after": page["last_id"]}
        page = await api.get("/conversations", limit=WHOLE, **after)
        for conversation in page["data"]:
            found = await _last_request(api, conversation["id"])
            if found is not None:
                return found
    raise NotFound("No request has been made yet.", hint="Send a message with lamella chat.")


async def _request_of(api: Api, conversation: str) -> str:
    """The newest request of a conversation; raises `NotFound`."""
    found = await _last_request(api, conversation)
    if found is None:
        raise NotFound(
            f"{conversation} has made no request yet.", hint="Show what a message would send with --preview TEXT."
        )
    return found


async def _last_request(api: Api, conversation: str) -> str | None:
    """The newest request of a conversation, None if it has made none; a turn may have failed before its first."""
    for turn in (await api.get(f"/conversations/{conversation}/turns", limit=20))["data"]:
        requests = (await api.get(f"/turns/{turn['id']}/requests"))["data"]
        if requests:
            return str(requests[-1]["id"])
    return None


def lines(found: Object) -> list[str]:
    """A map as text."""
    head = found["id"] or "not sent: this is what the message would send"
    if found.get("turn_id"):
        head += f" · {found['turn_id']}, step {found['step']} · {found['purpose']} · {found['at']}"
    expired = found.get("expired")
    return [
        head,
        *([f"Its body expired on {expired['at'][:10]}, after {expired['kept_days']} days."] if expired else []),
        f"model {found['model']} · layout {found['layout']} · markers by {found['marker_policy']}",
        found["letters"],
        "",
        *_table(found["segments"]),
        "",
        *_figures(found),
        *_part("Markers", [_marker(segment, m) for segment in found["segments"] for m in segment["markers"]]),
        *_part("Notes", [_note(note, found["segments"]) for note in found["notes"]]),
        *_part("Not in this request", [f"{a['kind']}: {a['why']}" for a in found["absent"]]),
    ]


def _table(segments: list[Object]) -> list[str]:
    """The segments in order; ≈ stands before a figure that was estimated here."""
    rows = [["letters", "segment", "zone", "tokens", "read", "written", "fresh", "owner", "source"]]
    for s in segments:
        tokens = f"{'' if s['measured'] else '≈'}{s['tokens']:,}"
        counts = [f"{s[name]:,}" for name in ("read", "written", "fresh")]
        marked = "▸" if s["markers"] else ""
        label = f"{marked}{s['label'] or s['kind']}"
        rows.append([s["letters"], label[:NAMED], s["zone"], tokens, *counts, s["owner"], s["source"][:NAMED]])
    sums = [f"{sum(s[name] for s in segments):,}" for name in ("tokens", "read", "written", "fresh")]
    rows.append(["", "total", "", *sums, "", ""])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [_aligned(row, widths).rstrip() for row in rows]


def _aligned(row: list[str], widths: list[int]) -> str:
    cells = zip(row, widths, strict=True)
    return "  ".join(c.rjust(w) if 3 <= column <= 6 else c.ljust(w) for column, (c, w) in enumerate(cells))


def _figures(found: Object) -> list[str]:
    usage, predicted = found["usage"], found["predicted"]
    expected = f"predicted: {predicted['read']:,} read, {predicted['written']:,} written"
    if not usage:
        return [f"≈{found['estimate']:,} of {found['budget']:,} tokens, an estimate · {expected}"]
    share = usage["cache_read"] / usage["input"] if usage["input"] else 0.0
    about, guessed = "≈" if usage["estimated"] else "", "≈" if usage["input_estimated"] else ""
    billed = f"{guessed}{usage['input']:,} of {found['budget']:,} tokens, {share:.0%} read from the cache"
    output = f" · {about}{usage['output']:,} out"
    cost = f" · {about}${found['cost']:.6f}" if found["cost"] is not None else ""
    return [
        f"{billed}{output}{cost}",
        f"{expected} · billed: {usage['cache_read']:,} read, {usage['cache_write']:,} written",
    ]


def _marker(segment: Object, marker: Object) -> str:
    return f"after {segment['label'] or segment['kind']} ({marker['ttl']}): {marker['why']}"


def _note(note: Object, segments: list[Object]) -> str:
    label = next((s["label"] for s in segments if s["id"] == note["segment"]), None)
    return f"{label}: {note['text']}" if label else str(note["text"])


def _part(title: str, items: list[str]) -> list[str]:
    return ["", title, *(f"  {item}" for item in items)] if items else []
