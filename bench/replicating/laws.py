"""What has to be true after replicas were killed under speaking conversations."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import httpx2
import msgspec
from sqlalchemy import create_engine, text

from replicating.clients import Heard

STUCK_SECONDS = 15.0
"""A turn that says nothing for longer is stuck."""

SAVED_SECONDS = 0.25
"""The longest part of a stream that a killed replica may lose."""

GAP = 1_000_000
"""Packets after a recovery are numbered from the next multiple of this."""

LONG = 300
"""Characters of a message that is no question of a user, whatever it quotes."""

ROWS = {
    "packets are stored twice": "SELECT count(*) FROM journal a JOIN journal b USING (turn_id)"
    " WHERE a.first < b.first AND b.first <= a.last",
    "a turn runs that nobody runs": "SELECT count(*) FROM turns WHERE status = 'running'",
    "a run runs that nobody runs": "SELECT count(*) FROM runs WHERE status = 'running'",
    "a turn has not one message of its user": "SELECT count(*) FROM turns WHERE 1 !="
    " (SELECT count(*) FROM messages WHERE messages.turn_id = turns.id AND role = 'user')",
    "a conversation is marked as answering": "SELECT count(*) FROM conversations WHERE running_turn IS NOT NULL",
    "two turns follow the same one": "SELECT count(*) FROM (SELECT conversation_id, parent_run_id FROM turns"
    " GROUP BY conversation_id, parent_run_id HAVING count(*) > 1) doubled",
}


def of_rows(url: str) -> list[str]:
    """Laws of the whole database, once everything is quiet."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = [law for law, query in ROWS.items() if connection.execute(text(query)).scalar_one()]
    engine.dispose()
    return found


async def of_conversations(
    http: httpx2.AsyncClient, heard: Sequence[Heard], silence: float = STUCK_SECONDS
) -> list[str]:
    """No message is lost or doubled, and what a client heard stays true; nothing was silent for longer than that."""
    by_conversation: dict[str, list[Heard]] = {}
    for one in heard:
        by_conversation.setdefault(one.conversation, []).append(one)
    limit = asyncio.Semaphore(6)

    async def looked(id: str, ones: list[Heard]) -> list[str]:
        async with limit:
            return await _conversation(http, id, ones, silence)

    found = await asyncio.gather(*(looked(id, ones) for id, ones in by_conversation.items()))
    return [law for laws in found for law in laws]


async def turns_of(http: httpx2.AsyncClient, id: str) -> list[dict[str, Any]]:
    """All turns of a conversation's path, the oldest first."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        query = f"order=asc&limit=100{after}"
        page = (await http.get(f"/api/v1/conversations/{id}/turns?{query}")).raise_for_status().json()
        found += page["data"]
        if not page["has_more"]:
            return found
        after = f"&after={page['last_id']}"


async def _conversation(http: httpx2.AsyncClient, id: str, heard: Sequence[Heard], silence: float) -> list[str]:
    turns, broken = await turns_of(http, id), []
    for one in heard:
        if one.refused:
            broken.append(f"{one.key}: {one.refused}")
        if one.silence > silence:
            broken.append(f"{one.key}: silent for {one.silence:.1f} s")
        if one.command:
            continue
        mine = [turn for turn in turns if one.text in turn["text"].split("\n\n")]
        if len(mine) != 1:
            broken.append(f"{one.key}: it is there {len(mine)} times")
            continue
        broken += [f"{one.key}: {law}" for law in await _turn(http, one, mine[0])]
    return broken


async def _turn(http: httpx2.AsyncClient, one: Heard, turn: dict[str, Any]) -> list[str]:
    broken = []
    if one.turn_id != turn["id"]:
        broken.append("its turn has another id")
    if one.ended != turn["status"]:
        broken.append(f"it was {one.ended} and is {turn['status']}")
    answer = turn["runs"][0]["answer"]
    if turn["status"] == "finished" and one.said != answer:
        broken.append("other words were heard than are stored")
    if not one.said.startswith(answer):
        broken.append("words are stored that were not heard")
    stored = await packets_of(http, one.turn_id)
    return broken + of_numbers(one, stored) + of_saved(one, stored)


async def packets_of(http: httpx2.AsyncClient, turn_id: str) -> list[int]:
    """The numbers of the packets that are stored."""
    answer = (await http.get(f"/api/v1/turns/{turn_id}/events")).raise_for_status()
    lines = answer.text.splitlines()
    return [msgspec.json.decode(line[6:])["n"] for line in lines if line.startswith("data: ")]


def of_numbers(one: Heard, stored: Sequence[int]) -> list[str]:
    """Every packet came once, in order, from the first: but for those that were lost with their replica."""
    numbers, broken = one.numbers, []
    if numbers != sorted(set(numbers)):
        broken.append("packets came twice or out of order")
    if numbers[:1] != [1] and not (stored and numbers[:1] == [stored[0]] and stored[0] >= GAP):
        broken.append(f"the first packet is {numbers[:1]}")
    missed = [(before, n) for before, n in pairwise(numbers) if n != before + 1 and not (n >= GAP > before)]
    if missed:
        broken.append(f"between packets {missed[0]} some were not heard")
    if not set(stored) <= set(numbers):
        broken.append(f"packets are stored that were not heard: {sorted(set(stored) - set(numbers))[:5]}")
    return broken


def lost_seconds(one: Heard, stored: Sequence[int]) -> float:
    """How long before the last word of a killed replica the first one was heard that was not stored."""
    kept = set(stored)
    before = [(n, at) for n, kind, at in one.packets if n < GAP and kind not in ("turn.stopped", "turn.finished")]
    lost = [at for n, at in before if n not in kept]
    return before[-1][1] - lost[0] if lost else 0.0


def of_saved(one: Heard, stored: Sequence[int], slack: float = 1.0) -> list[str]:
    """What was streamed is stored, but for the last quarter of a second; `slack` is for a busy machine."""
    seconds = lost_seconds(one, stored)
    return [f"{seconds * 1000:.0f} ms of its stream are lost"] if seconds > SAVED_SECONDS + slack else []


_QUESTION = re.compile(r"Question ([\w-]+?)\.")


def of_windows(requests: Sequence[dict[str, Any]]) -> list[str]:
    """Laws of context: in a window no question is doubled or out of order, and a later window goes on from an earlier
    one of its conversation, unless it begins later (a compaction).
    """
    broken = []
    windows: dict[str, list[list[str]]] = {}
    for request in sorted(requests, key=lambda one: int(one["serial"])):
        messages = (request.get("body") or {}).get("messages") or []
        said = [_text(one["content"]) for one in messages if one["role"] == "user"]
        # A summary, and what asks for one, quotes questions in a long text.
        asked = [name for one in said if len(_QUESTION.sub("", one)) < LONG for name in _QUESTION.findall(one)]
        if not asked or len(_QUESTION.sub("", said[-1])) >= LONG:
            continue
        if len(set(asked)) != len(asked):
            broken.append(f"request {request['serial']}: a question is there twice: {asked}")
        windows.setdefault(asked[-1].partition(":")[0].rsplit("-", 2)[0], []).append(asked)
    for name, all_asked in windows.items():
        for before, after in pairwise(all_asked):
            if after[0] == before[0] and after[: len(before)] != before and before[: len(after)] != after:
                broken.append(f"{name}: the window {before} is followed by {after}")
    return broken


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(one.get("text", "") for one in content if isinstance(one, dict) and one.get("type") == "text")
