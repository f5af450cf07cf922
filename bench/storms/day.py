"""Plays cases on a server over a store of its own, and says which laws each broke."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from pydantic import SecretStr

from lamella.app.app import App
from lamella.core.errors import LamellaError
from lamella.server.testing import Event, ServerClient, served
from lamella.settings import read_settings
from storms.case import RETRIES, Case

PATIENCE = 20.0
"""Seconds after which a turn is stuck."""
HEALS = 0.3
"""Seconds that the database refuses."""

FULL = "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
TRIGGERS = {
    "no_end": f"CREATE TRIGGER refuse BEFORE UPDATE OF status ON turns {FULL}",
    "no_journal": f"CREATE TRIGGER refuse BEFORE INSERT ON journal {FULL}",
}
ENDING = ("turn.stopped", "turn.finished")
NAMES = {"openai-chat": "gpt-6.1-terra"}


class Script:
    """Names the reply of each request of the turn that runs."""

    def __init__(self) -> None:
        self.name = ""
        self.rate = 0

    def __call__(self, turn_id: str, purpose: str, number: int) -> Mapping[str, str]:
        reply = f"{self.name}-{number}" if purpose == "chat" else f"{self.name}-0"
        return {"x-sim-reply": reply, "x-sim-rate": str(self.rate)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a case came to; `broken` are the laws that did not hold."""

    case: Case
    status: str
    packets: int
    broken: tuple[str, ...]


class Day:
    """One server, one provider."""

    def __init__(
        self, app: App, client: ServerClient, simulator: httpx2.AsyncClient, script: Script, data: Path
    ) -> None:
        self.app = app
        self._client = client
        self._simulator = simulator
        self._script = script
        self._data = data

    async def play(self, case: Case) -> Outcome:
        """One turn that goes wrong, and one after it that must not."""
        conversation = await self._client.conversation(model=NAMES.get(case.model, case.model))
        await self._says(f"s{case.seed}", case.replies, case.rate)
        broken: list[str] = []
        packets: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(PATIENCE):
                packets = await self._turn(case, conversation)
        except TimeoutError:
            return Outcome(case, "stuck", 0, ("the turn did not end",))
        turn_id = str(packets[0]["turn_id"])
        turn = await self._client.get(f"/turns/{turn_id}")
        status = str(turn["status"])
        broken += of_packets(case, packets, status)
        broken += await self._of_rows(turn_id)
        broken += await self._of_upstream()
        broken += await self._of_the_next(case, conversation)
        return Outcome(case, status, len(packets), tuple(broken))

    async def _says(self, name: str, replies: list[Any], rate: int) -> None:
        self._script.name, self._script.rate = name, rate
        (await self._simulator.post("/_sim/reset")).raise_for_status()
        named = {f"{name}-{number}": reply for number, reply in enumerate(replies)}
        (await self._simulator.post("/_sim/replies", json=named)).raise_for_status()

    async def _turn(self, case: Case, conversation: str) -> list[dict[str, Any]]:
        healing = None
        if case.kind in TRIGGERS:
            # The user's message has to be stored first: what can't be stored is refused, and nothing begins.
            healing = asyncio.create_task(self._sick(case.kind))
        try:
            async with self._client.sending(conversation, "When does it open?") as events:
                seen = await self._read(case, events)
            if seen and seen[-1]["type"] == "turn.finished":
                return seen
            return await self._client.packets(str(seen[0]["turn_id"]))
        finally:
            if healing is not None:
                await healing

    async def _read(self, case: Case, events: AsyncIterator[Event]) -> list[dict[str, Any]]:
        """The packets; a user who acts does so once so many characters of the step have come."""
        seen: list[dict[str, Any]] = []
        steps, characters, acted = -1, 0, False
        async for event in events:
            if event.n is None:
                continue
            if not event.packet.get("turn_id"):
                continue  # the message waits for a moment, and has no turn yet
            seen.append(event.packet)
            steps += event.type == "request.started"
            if steps != case.step or case.kind not in ("stop", "leave") or acted:
                continue
            characters += len(event.packet.get("text") or event.packet.get("json") or "")
            if characters >= case.when:
                acted = True
                if case.kind == "leave":
                    return seen
                await self._client.call("POST", f"/turns/{seen[0]['turn_id']}/stop")
                await self._client.call("POST", f"/turns/{seen[0]['turn_id']}/stop")
        return seen

    async def _sick(self, kind: str) -> None:
        await asyncio.sleep(0.05)
        await asyncio.to_thread(self._run, TRIGGERS[kind])
        await asyncio.sleep(HEALS)
        await asyncio.to_thread(self._run, "DROP TRIGGER refuse")

    def _run(self, statement: str) -> None:
        with closing(sqlite3.connect(self._data / "lamella.db", timeout=10)) as connection:
            connection.execute(statement)
            connection.commit()

    async def _of_rows(self, turn_id: str) -> list[str]:
        """Stored once: each packet has one row that holds it, each message one, no step twice."""
        broken = []
        stored = await self._client.packets(turn_id)
        again = await self._client.packets(turn_id)
        if stored != again:
            broken.append("two readings of the turn differ")
        with closing(sqlite3.connect(self._data / "lamella.db", timeout=10)) as connection:
            doubled = connection.execute(
                "SELECT count(*) FROM journal a JOIN journal b USING (turn_id)"
                " WHERE turn_id = ? AND a.first < b.first AND b.first <= a.last",
                (turn_id,),
            ).fetchone()[0]
            users = connection.execute(
                "SELECT count(*) FROM messages WHERE turn_id = ? AND role = 'user'", (turn_id,)
            ).fetchone()[0]
            running = connection.execute("SELECT count(*) FROM turns WHERE status = 'running'").fetchone()[0]
        if doubled:
            broken.append("packets are stored twice")
        if users != 1:
            broken.append(f"{users} messages of the user are stored")
        if running:
            broken.append("a turn still runs in the database")
        return broken

    async def _of_upstream(self) -> list[str]:
        """No answer streams on: whatever is not whole has stopped growing."""
        before = await self._streamed()
        if all(finished for _, finished in before.values()):
            return []
        await asyncio.sleep(0.1)
        after = await self._streamed()
        grown = [serial for serial, (count, _) in after.items() if before.get(serial, (count, True))[0] != count]
        return ["the provider streams on"] if grown else []

    async def _streamed(self) -> dict[int, tuple[int, bool]]:
        records = (await self._simulator.get("/_sim/requests")).json()["requests"]
        return {record["serial"]: (record["streamed"], record["finished"]) for record in records}

    async def _of_the_next(self, case: Case, conversation: str) -> list[str]:
        """The conversation goes on: the provider takes the window that the bad turn left behind."""
        await self._says(f"n{case.seed}", [{"text": "Of course."}], 0)
        try:
            async with asyncio.timeout(PATIENCE):
                packets = await self._client.send(conversation, "Go on.")
        except (TimeoutError, LamellaError, httpx2.HTTPError) as error:
            return [f"the next message is not answered: {error!r}"]
        said = "".join(packet["text"] for packet in packets if packet["type"] == "text.delta")
        if packets[-1]["status"] != "finished" or said != "Of course.":
            errors = [packet["error"]["message"] for packet in packets if packet["type"] == "error"]
            return [f"the next turn is {packets[-1]['status']}: {errors}"]
        return []


def of_packets(case: Case, packets: list[dict[str, Any]], status: str) -> list[str]:
    """The laws of a turn's packets that do not hold."""
    broken = []
    numbers = [packet["n"] for packet in packets]
    kinds = [packet["type"] for packet in packets]
    if status not in case.statuses:
        broken.append(f"the turn is {status}, not {' or '.join(sorted(case.statuses))}")
    if numbers != sorted(set(numbers)):
        broken.append("packets are out of order or doubled")
    if kinds.count("turn.finished") != 1 or kinds[-1] != "turn.finished":
        broken.append(f"the packets end with {kinds[-3:]}")
    elif packets[-1]["status"] != status:
        broken.append(f"the last packet says {packets[-1]['status']}, the row {status}")
    if status == "stopped" and kinds[-2:] != list(ENDING):
        broken.append(f"a stopped turn ends with {kinds[-2:]}")
    if status == "failed":
        errors = [packet["error"] for packet in packets if packet["type"] == "error"]
        if not errors or not errors[-1].get("hint"):
            broken.append("a failed turn does not say what to do")
    return broken


@asynccontextmanager
async def days(provider: str, **changes: Any) -> AsyncIterator[tuple[Day, Day]]:
    """Two servers: one that speaks to each model as its vendor does, one to GPT by Chat Completions.

    `changes` are settings that differ: a deliberate fault.
    """
    with tempfile.TemporaryDirectory(prefix="lamella-storms-") as folder:
        async with (
            _day(provider, Path(folder) / "a", "responses", changes) as own,
            _day(provider, Path(folder) / "b", "chat", changes) as chat,
        ):
            yield own, chat


@asynccontextmanager
async def _day(provider: str, data: Path, api: str, changes: Mapping[str, Any]) -> AsyncIterator[Day]:
    script = Script()
    usual = {
        "anthropic_base_url": provider,
        "anthropic_api_key": SecretStr("storm"),
        "openai_base_url": f"{provider}/v1",
        "openai_api_key": SecretStr("storm"),
        "openai_api": api,
        "model": "claude-opus-4-8",
        "thinking_effort": "low",
        "provider_retries": RETRIES,
        "provider_timeout": 10.0,
        "debounce_ms": 0,
        "titles": False,
    }
    settings = read_settings(data=data, **{**usual, **changes})
    async with (
        served(settings, checked=False, headers=script) as (app, client),
        httpx2.AsyncClient(base_url=provider, trust_env=False, timeout=30) as simulator,
    ):
        yield Day(app, client, simulator, script, data)


async def play(case: Case, both: tuple[Day, Day]) -> Outcome:
    """The case on the server that it belongs to."""
    own, chat = both
    return await (chat if case.model == "openai-chat" else own).play(case)
