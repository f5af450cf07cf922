"""`lamella sessions`: the sessions of a conversation, what was said in them, and the way back to one."""

from __future__ import annotations

from typing import Annotated

import typer

from lamella.cli.api import Api
from lamella.cli.api_commands import CommandOptions, JsonOption, moment, show, whole
from lamella.cli.inspect import newest
from lamella.cli.main import DataOption, KeyOption, cli
from lamella.client import Object
from lamella.core.tokens import short

sessions = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The sessions of a conversation.")
cli.add_typer(sessions, name="sessions")

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The id of a session.")]


@sessions.command("list")
def list_command(
    conversation: Annotated[
        str | None, typer.Argument(metavar="[CONVERSATION]", help="Default: the newest conversation.")
    ] = None,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """List the sessions of a conversation, the oldest first."""

    async def ask(api: Api) -> Object:
        return await whole(api, f"/conversations/{conversation or await newest(api)}/sessions")

    show(CommandOptions(data, key, json), ask, lambda found: [_session(one) for one in found["data"]])


@sessions.command("search")
def search_command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS", help="Words to search for; passages with other words of the same meaning are found too."
        ),
    ],
    conversation: Annotated[
        str | None, typer.Option("-c", "--conversation", help="Search this one. Default: all.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Passages at most.")] = 20,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Search messages by words and by meaning."""
    query = {"q": " ".join(words), "limit": limit} | ({"conversation_id": conversation} if conversation else {})

    async def ask(api: Api) -> Object:
        return await api.get("/sessions/search", **query)

    show(CommandOptions(data, key, json), ask, _hits)


@sessions.command("resume")
def resume_command(
    session: SessionArgument, data: DataOption = None, key: KeyOption = None, json: JsonOption = False
) -> None:
    """Continue an earlier session, as /resume does."""

    async def ask(api: Api) -> Object:
        return await api.post(f"/sessions/{session}/resume", {})

    show(CommandOptions(data, key, json), ask, _answered)


@sessions.command("undo")
def undo_command(
    session: SessionArgument, data: DataOption = None, key: KeyOption = None, json: JsonOption = False
) -> None:
    """Take the newest compaction back. Name the session that it closed or opened."""

    async def ask(api: Api) -> Object:
        return await api.post(f"/sessions/{session}/undo", {})

    show(CommandOptions(data, key, json), ask, _answered)


def _session(one: Object) -> str:
    """`* 2 · sess_… · 2026-11-22 05:30 · compaction · 4 messages · 3.3k → 1.2k tokens`; * is the current one."""
    numbers = one["numbers"]
    parts = [
        f"{'*' if one['current'] else ' '} {one['number']}",
        one["id"],
        moment(one["opened_at"]),
        one["opened_by"],
        "1 message" if one["messages"] == 1 else f"{one['messages']} messages",
    ]
    if "before" in numbers and "after" in numbers:
        parts.append(f"{short(numbers['before'])} → {short(numbers['after'])} tokens")
    if one["why"]:
        parts.append(f"ended: {one['why']}")
    return " · ".join(parts)


def _hits(found: Object) -> list[str]:
    numbers = {session["id"]: session["number"] for session in found["sessions"]}
    lines = [f"Searched by words alone: {found['lexical_only_reason']}"] if found["lexical_only_reason"] else []
    for hit in found["data"]:
        number = f"session {numbers[hit['session_id']]} " if hit["session_id"] in numbers else ""
        where = f"{number}({hit['session_id']}) of {hit['conversation_id']}"
        lines += [f"{where} · {hit['role']} · {moment(hit['at'])}", f"  {' '.join(hit['snippet']['text'].split())}"]
    return lines if found["data"] else ["Nothing was found.", *lines]


def _answered(answer: Object) -> list[str]:
    if answer["object"] == "queued_message":
        return [f"It waits in the queue, at place {answer['place']}: the conversation answers."]
    return [str(answer["answer"])]
