"""Each verb works from another replica than the one that runs the turn: two apps on one PostgreSQL and one Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.clients import Client
from gateway.conftest import settings_of
from gateway.test_lines import lines
from lamella.core import deltas
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec
from lamella.llm.scripted import FACTS, Gate, ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope
from lamella_simulator.provider import simulated
from postgres import PostgresServer
from valkey_server import Valkey

pytestmark = [pytest.mark.anyio, pytest.mark.long]

JSON = {"accept": "application/json"}
SOON = 10.0
"""The most seconds that anything takes."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Pay:
    """Asks the user first."""

    spec = ToolSpec("pay", "Pays.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0
    needs_approval = True

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return "Paid."


@dataclass
class Two:
    """`here` runs the turns; `there` is asked. Both have the same models, which a test gives their scripts."""

    here: ServerClient
    there: ServerClient
    models: tuple[ScriptedModel, ScriptedModel]
    conversation: str
    reading: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/conversations/{self.conversation}"

    async def begins(self, *script: Sequence[ReplayEvent], **fields: Any) -> str:
        """The id of a turn that runs at `here`, with this script."""
        self.models[0].then(*script)
        begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def read() -> None:
            async with self.here.sending(self.conversation, "Hello?", **fields) as events:
                async for event in events:
                    if not begun.done() and event.packet.get("turn_id"):
                        begun.set_result(str(event.packet["turn_id"]))

        self.reading.append(asyncio.create_task(read()))
        return await asyncio.wait_for(begun, SOON)

    async def held(self, *after: Sequence[ReplayEvent]) -> tuple[str, Gate]:
        """A turn that runs at `here` until its gate is opened."""
        gate = Gate()
        turn = await self.begins([deltas.TextDelta(0, "Yes, "), gate, *saying("I do.")], *after)
        await asyncio.wait_for(gate.reached.wait(), SOON)
        return turn, gate

    async def waits(self, text: str, **fields: Any) -> str:
        """The id of a message that waits, sent to `there`."""
        queued = await self.there.post(f"{self.path}/turns", {"text": text, **fields}, headers=JSON)
        return str(queued["id"])

    async def ended(self, turn: str) -> Object:
        """The turn as the other one knows it, when it has ended."""
        found: Object = await until(
            lambda: self.there.get(f"/turns/{turn}"), lambda found: found["status"] != "running"
        )
        return found

    async def texts(self) -> list[str]:
        """What was asked, once nothing waits and nothing runs."""

        async def turns() -> list[Object]:
            waits = (await self.there.get(f"{self.path}/queue"))["data"]
            found: list[Object] = (await self.there.get(f"{self.path}/turns?order=asc"))["data"]
            return [] if waits or not all(turn["finished_at"] for turn in found) else found

        return [turn["text"] for turn in await until(turns, bool)]


async def until(ask: Callable[[], Awaitable[Any]], true: Callable[[Any], Any]) -> Any:
    """What is asked for, as soon as it is as wanted."""
    async with asyncio.timeout(SOON):
        while not true(found := await ask()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return found


@pytest.fixture
async def two(postgres: PostgresServer, valkey: Valkey, tmp_path: Path) -> AsyncIterator[Two]:
    url = postgres.url(postgres.copied())
    models = ScriptedModel(), ScriptedModel(facts=replace(FACTS, name="other"))
    clients = []
    async with AsyncExitStack() as stack:
        for name in ("here", "there"):
            settings = read_settings(
                data=tmp_path / name,
                database_url=url,
                redis_url=valkey.url,
                files=str(tmp_path / "files"),
                debounce_ms=0,
                titles=False,
            )
            app = served(settings, models=ScriptedModels(*models), tools=(Pay(),))
            _, client = await stack.enter_async_context(app)
            clients.append(client)
        here, there = clients
        both = Two(here, there, models, await here.conversation())
        yield both
        for task in both.reading:
            task.cancel()
        await asyncio.gather(*both.reading, return_exceptions=True)


async def test_stop(two: Two) -> None:
    turn, _ = await two.held()
    answer = await two.there.call("POST", f"/turns/{turn}/stop")
    assert answer.status_code == 202
    assert (await two.ended(turn))["status"] == "stopped"


async def test_stop_of_one_model_and_prefer(two: Two) -> None:
    slow, fast = Gate(), Gate()
    two.models[1].then([fast, *saying("Other.")])
    turn = await two.begins([slow, *saying("Mine.")], models=["scripted", "other"])
    await asyncio.wait_for(slow.reached.wait(), SOON)
    await asyncio.wait_for(fast.reached.wait(), SOON)
    mine, other = (await two.there.get(f"/turns/{turn}"))["runs"]
    answer = await two.there.call("POST", f"/turns/{turn}/prefer", json={"run_id": other["id"]})
    assert answer.status_code == 200, answer.text
    assert (await two.there.call("POST", f"/runs/{mine['id']}/stop")).status_code == 202
    fast.opened.set()
    found = await two.ended(turn)
    assert [run["status"] for run in found["runs"]] == ["stopped", "finished"]
    assert (await two.here.get(two.path))["head_run_id"] == other["id"]


@pytest.mark.parametrize("approved", [True, False])
async def test_approve(two: Two, approved: bool) -> None:
    turn = await two.begins(calling(ToolCall("c1", "pay", "{}")), saying("Done."))
    async with asyncio.timeout(SOON), two.there.following(turn) as events:
        seen = []
        async for event in events:
            seen.append(event.packet)
            if event.type == "tool.approval":
                body = {"approved": approved, "reason": "Too dear."}
                answer = await two.there.call("POST", f"/turns/{turn}/calls/c1/approval", json=body)
                assert answer.status_code == 200, answer.text
    [result] = [packet for packet in seen if packet["type"] == "tool.result"]
    assert ("Paid." in result["content"]) is approved
    assert seen[-1]["type"] == "turn.finished"


async def test_follow_and_resume(two: Two) -> None:
    turn, gate = await two.held()
    numbers: list[int] = []

    async def follow(after: int | None, most: int) -> None:
        async with asyncio.timeout(SOON), two.there.following(turn, after) as events:
            async for event in events:
                if event.n is not None:
                    numbers.append(event.n)
                    if len(numbers) == most:
                        return

    await follow(None, 2)
    gate.opened.set()
    await follow(numbers[-1], 10_000)
    assert numbers == list(range(1, numbers[-1] + 1))
    assert [packet["n"] for packet in await two.here.packets(turn)] == numbers


async def test_abort(two: Two) -> None:
    turn, _ = await two.held()
    answer = await two.there.post(f"{two.path}/turns", {"text": "/abort"}, headers=JSON)
    assert answer["data"]["stopped"] is True, answer
    assert (await two.ended(turn))["status"] == "stopped"


async def test_a_waiting_message_is_edited_dropped_and_followed(two: Two) -> None:
    turn, gate = await two.held(saying("Second."))
    kept, dropped = await two.waits("Second?"), await two.waits("Third?")
    assert [row["id"] for row in (await two.here.get(f"{two.path}/queue"))["data"]] == [kept, dropped]
    changed = await two.there.call("PATCH", f"{two.path}/queue/{kept}", json={"text": "Changed?"})
    assert changed.status_code == 200, changed.text
    assert (await two.there.call("DELETE", f"{two.path}/queue/{dropped}")).status_code == 204

    async def follow() -> list[str]:
        async with two.there.api.events("GET", f"{two.path}/queue/{kept}/events") as events:
            return [data async for _, data in events]

    following = asyncio.create_task(follow())
    gate.opened.set()
    assert '"turn.finished"' in (await asyncio.wait_for(following, SOON))[-1]
    assert await two.texts() == ["Hello?", "Changed?"]
    assert (await two.ended(turn))["status"] == "finished"


async def test_flush(two: Two) -> None:
    two.models[0].then(saying("Yes."))
    sending = asyncio.create_task(two.here.send(two.conversation, "Hello?", debounce_ms=60_000))
    await until(lambda: two.there.get(f"{two.path}/queue"), lambda found: found["data"])
    assert (await two.there.call("POST", f"{two.path}/queue/flush")).status_code == 200
    assert (await asyncio.wait_for(sending, SOON))[-1]["type"] == "turn.finished"
    assert await two.texts() == ["Hello?"]


async def test_commands_during_an_answer(two: Two) -> None:
    _, gate = await two.held()
    listed = await two.there.post(f"{two.path}/turns", {"text": "/context"}, headers=JSON)
    assert listed["name"] == "context"
    waiting = await two.there.post(f"{two.path}/turns", {"text": "/new"}, headers=JSON)
    assert waiting["object"] == "queued_message"
    gate.opened.set()
    assert await two.texts() == ["Hello?"]
    assert len((await two.there.get(f"{two.path}/sessions"))["data"]) == 2


async def test_rename_and_delete(two: Two) -> None:
    turn, gate = await two.held()
    renamed = await two.there.call("PATCH", two.path, json={"title": "Tides"})
    assert renamed.status_code == 200, renamed.text
    assert (await two.here.get(two.path))["title"] == "Tides"
    assert (await two.there.call("DELETE", two.path)).status_code == 409, "a turn runs"
    gate.opened.set()
    await two.ended(turn)
    assert (await two.there.call("DELETE", two.path)).status_code == 204
    assert (await two.here.call("GET", two.path)).status_code == 404
    assert (await two.here.call("GET", f"/turns/{turn}")).status_code == 404
    again = await two.here.conversation()
    two.models[0].then(saying("Yes."))
    assert (await two.there.send(again, "Hello?"))[-1]["status"] == "finished", "both serve on"


async def test_a_clients_line_is_forked_elsewhere_while_its_next_request_runs(
    postgres: PostgresServer, valkey: Valkey, tmp_path: Path
) -> None:
    url = postgres.url(postgres.copied())
    with simulated() as provider:
        async with AsyncExitStack() as stack:
            both = []
            for name in ("here", "there"):
                settings = settings_of(provider.url, provider.openai_url, tmp_path / name)
                shared = {"files": str(tmp_path / "files"), "titles": False}
                shared |= {"database_url": SecretStr(url), "redis_url": SecretStr(valkey.url)}
                both.append(await stack.enter_async_context(served(settings.model_copy(update=shared))))
            (app, here), (_, there) = both
            talking = Client("messages")
            await talking.send(here.http, "Hello there")
            [line] = await lines(app, here)
            assert [one["id"] for one in (await there.get("/lines"))["data"]] == [line["id"]]
            running = asyncio.create_task(talking.send(here.http, "And the ships?"))
            made = await there.post(f"/lines/{line['id']}/fork", {})
            await running
            asked = (await here.get(f"/conversations/{made['id']}/turns?order=asc"))["data"]
            assert asked[0]["text"] == "Hello there"
            packets = await there.send(made["id"], "Who keeps the lamp?")
            assert packets[-1]["status"] == "finished"
            assert [p["n"] for p in await here.packets(packets[-1]["turn_id"])] == [p["n"] for p in packets if "n" in p]
