"""What has to be true of the conversations of a server that was killed, once the next one is up."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from killing.people import Sent, send
from lamella.server.testing import ServerClient

LOOKS = 0.4
"""Seconds between two looks at a conversation: many are looked at, by a server that has to answer them."""

PATIENCE = 180.0
"""Seconds after which a turn is stuck; most of them are for a busy machine."""


async def after(client: ServerClient, sent: Sequence[Sequence[Sent]]) -> list[str]:
    """The laws that are broken; sends again, with its key, what nobody knows to have arrived."""
    found = await asyncio.gather(*(_conversation(client, one) for one in sent if one))
    return [law for broken in found for law in broken]


async def _conversation(client: ServerClient, sent: Sequence[Sent]) -> list[str]:
    id = sent[0].conversation
    turns = await _quiet(client, sent)
    if turns is None:
        return [f"{id}: a turn is stuck, or something waits for ever"]
    broken = []
    for one in sent:
        count = _count(turns, one)
        if one.known and count != 1:
            row = await _row(client, one)
            broken.append(f"{one.key}: a message that was acknowledged is there {count} times{row}")
        if not one.known and count > 1:
            broken.append(f"{one.key}: it is there {count} times")
    again = [one for one in sent if not one.known]
    for one in again:
        await send(client, one)
    if again:
        turns = await _quiet(client, sent)
        if turns is None:
            return [*broken, f"{id}: a turn is stuck behind a message that was sent again"]
    broken += [
        f"{one.key}: sent again, it is there {_count(turns, one)} times" for one in again if _count(turns, one) != 1
    ]
    for one in sent:
        broken += await _turn(client, turns, one)
    return broken


async def _row(client: ServerClient, sent: Sent) -> str:
    """What became of a message that waited, for whoever reads that it is lost."""
    if not sent.queued_id:
        return ""
    answer = await client.call("GET", f"/conversations/{sent.conversation}/queue/{sent.queued_id}")
    return f"; its row: {answer.text}"


def _count(turns: Sequence[dict[str, Any]], sent: Sent) -> int:
    """Messages that waited together are one turn."""
    return sum(turn["text"].split("\n\n").count(sent.text) for turn in turns)


async def _quiet(client: ServerClient, sent: Sequence[Sent]) -> list[dict[str, Any]] | None:
    """The turns of a conversation when nothing waits and none runs; None where that never comes.

    What is just being taken from the queue is in neither list for a moment.
    """
    id, waited = sent[0].conversation, [one.queued_id for one in sent if one.queued_id]
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                rows = [await client.get(f"/conversations/{id}/queue/{row}") for row in waited]
                waiting = [row for row in rows if row["status"] == "queued"]
                turns: list[dict[str, Any]] = (await client.get(f"/conversations/{id}/turns?order=asc"))["data"]
                if not waiting and not any(turn["status"] == "running" for turn in turns):
                    return turns
                await asyncio.sleep(LOOKS)
    except TimeoutError:
        return None


async def _turn(client: ServerClient, turns: Sequence[dict[str, Any]], sent: Sent) -> list[str]:
    """What a client saw of a turn stays true: its end, its words, its numbers."""
    turn = next((turn for turn in turns if sent.text in turn["text"].split("\n\n")), None)
    if turn is None:
        return []
    broken = []
    packets = await client.packets(turn["id"])
    numbers = [packet["n"] for packet in packets]
    if numbers != sorted(set(numbers)) or [packet["type"] for packet in packets].count("turn.finished") != 1:
        broken.append(f"{sent.key}: packets are doubled or have no end")
    if packets[-1]["type"] != "turn.finished" or packets[-1]["status"] != turn["status"]:
        broken.append(f"{sent.key}: the last packet does not say how the turn ended ({turn['status']})")
    if sent.turn_id and sent.turn_id != turn["id"]:
        broken.append(f"{sent.key}: its turn has another id")
    if sent.ended and sent.ended != turn["status"]:
        broken.append(f"{sent.key}: it was {sent.ended} and is {turn['status']}")
    answer = turn["runs"][0]["answer"]
    if sent.ended and "".join(sent.said) != answer:
        broken.append(f"{sent.key}: the answer that was finished has changed")
    # The last packets may not have been stored, and the last that were may not have come through.
    seen = "".join(sent.said)
    if not sent.ended and not seen.startswith(answer) and not answer.startswith(seen):
        broken.append(f"{sent.key}: other words are kept than were seen")
    if any(run["status"] == "running" for run in turn["runs"]):
        broken.append(f"{sent.key}: a run of it is stuck")
    return broken


def of_rows(data: Path) -> list[str]:
    """Laws of the whole database, once everything is quiet."""
    queries = {
        "packets are stored twice": "SELECT count(*) FROM journal a JOIN journal b USING (turn_id)"
        " WHERE a.first < b.first AND b.first <= a.last",
        "a turn runs that nobody runs": "SELECT count(*) FROM turns WHERE status = 'running'",
        "a run runs that nobody runs": "SELECT count(*) FROM runs WHERE status = 'running'",
        "a turn has not one message of its user": "SELECT count(*) FROM turns WHERE 1 !="
        " (SELECT count(*) FROM messages WHERE messages.turn_id = turns.id AND role = 'user')",
    }
    with closing(sqlite3.connect(data / "lamella.db", timeout=10)) as connection:
        return [law for law, query in queries.items() if connection.execute(query).fetchone()[0]]
