"""`lamella sessions`: the sessions of a conversation, what was said in them, and the way back to one."""

from __future__ import annotations

from typing import Annotated

import typer

from lamella.cli.api import Api
from lamella.cli.api_commands import Answer, asks, moment, whole
from lamella.cli.inspect import newest
from lamella.cli.main import cli
from lamella.client import Object
from lamella.core.tokens import short

sessions = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The sessions of a conversation.")
cli.add_typer(sessions, name="sessions")

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="The id of a session.")]


@asks(sessions, "list")
async def list_command(
    api: Api,
    conversation: Annotated[
        str | None, typer.Argument(metavar="[CONVERSATION]", help="Default: the newest conversation.")
    ] = None,
) -> Answer:
    """List the sessions of a conversation, the oldest first."""
    found = await whole(api, f"/conversations/{conversation or await newest(api)}/sessions")
    return found, [_session(one) for one in found["data"]]


@asks(sessions, "search")
async def search_command(
    api: Api,
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
) -> Answer:
    """Search messages by words and by meaning."""
    query = {"q": " ".join(words), "limit": limit} | ({"conversation_id": conversation} if conversation else {})
    found = await api.get("/sessions/search", **query)
    return found, _hits(found)


@asks(sessions, "resume")
async def resume_command(api: Api, session: SessionArgument) -> Answer:
    """Continue an earlier session, as /resume does."""
    found = await api.post(f"/sessions/{session}/resume", {})
    return found, _answered(found)


@asks(sessions, "undo")
async def undo_command(api: Api, session: SessionArgument) -> Answer:
    """Take the newest compaction back. Name the session that it closed or opened."""
    found = await api.post(f"/sessions/{session}/undo", {})
    return found, _answered(found)


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
