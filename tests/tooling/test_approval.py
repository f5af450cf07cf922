"""Calls that wait for the user: approved, denied, stopped, foreign, and cut off by the end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lamella.app.app import SHIPPED_TOOLS, App
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope

pytestmark = pytest.mark.anyio


class Pay:
    """Does something that the user is asked about; its time is shorter than people think."""

    spec = ToolSpec("pay", "Pays.", '{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}')
    kind = ToolKind.OTHER
    timeout = 0.3
    needs_approval = True

    def __init__(self) -> None:
        self.paid: list[str] = []

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        self.paid.append(call.id)
        return "Paid."


class Look:
    """Asks nobody."""

    spec = ToolSpec("look", "Looks.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return "Seen."


def pay(id: str, sum: str = "5") -> ToolCall:
    return ToolCall(id, "pay", f'{{"sum":{sum}}}')


class Shop:
    """A server with both tools, and a turn in it whose packets are collected."""

    def __init__(self, app: App, client: ServerClient, model: ScriptedModel, tool: Pay) -> None:
        self.app, self.client, self.model, self.tool = app, client, model, tool
        self.packets: list[Object] = []

    async def follow(self, *, until: str, times: int = 1, conversation: str) -> None:
        """Send, and read on in a task of its own until such a packet came so often."""
        came = asyncio.Event()

        async def read() -> None:
            async with self.client.sending(conversation, "Pay") as events:
                async for event in events:
                    self.packets.append(event.packet)
                    if len(self.of(until)) >= times:
                        came.set()

        self.reading = asyncio.create_task(read())
        async with asyncio.timeout(30):
            await came.wait()

    def of(self, kind: str) -> list[Object]:
        return [packet for packet in self.packets if packet["type"] == kind]

    def results(self) -> dict[str, tuple[bool, str]]:
        return {str(p["call_id"]): (bool(p["is_error"]), str(p["content"])) for p in self.of("tool.result")}

    @property
    def turn(self) -> str:
        return str(self.packets[0]["turn_id"])

    async def say(self, call_id: str, approved: bool, reason: str = "") -> int:
        path = f"/turns/{self.turn}/calls/{call_id}/approval"
        answer = await self.client.call("POST", path, json={"approved": approved, "reason": reason})
        return answer.status_code


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    model, tool = ScriptedModel(), Pay()
    tools = (tool, Look(), *SHIPPED_TOOLS)
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), tools=tools) as (app, client):
        yield Shop(app, client, model, tool)


async def test_a_call_runs_once_it_is_approved_and_a_denial_is_told_with_its_reason(shop: Shop) -> None:
    look = ToolCall("look", "look", "{}")
    shop.model.then(calling(pay("yes"), pay("no"), pay("odd", '"x"'), look), saying("Done."))
    await shop.follow(until="tool.approval", times=2, conversation=await shop.client.conversation())
    asked = {packet["call_id"]: (packet["name"], packet["arguments"]) for packet in shop.of("tool.approval")}
    assert asked == {"yes": ("pay", '{"sum":5}'), "no": ("pay", '{"sum":5}')}
    await asyncio.sleep(0.5)
    assert shop.tool.paid == []
    assert await shop.say("yes", approved=True) == 200
    assert await shop.say("no", approved=False, reason="Too dear.") == 200
    await shop.reading
    results = shop.results()
    assert {p["call_id"]: p["approved"] for p in shop.of("tool.verdict")} == {"yes": True, "no": False}
    ran = {p["call_id"]: p["seconds"] is not None for p in shop.of("tool.result")}
    assert ran == {"yes": True, "no": False, "odd": False, "look": True}
    assert all(p["seconds"] < 5 for p in shop.of("tool.result") if p["call_id"] == "yes")
    assert results["yes"] == (False, "Paid.")
    assert results["look"] == (False, "Seen.")
    assert results["no"][0]
    assert results["no"][1].startswith("The user did not approve this call of pay: Too dear. It did not run.")
    assert results["odd"][0]
    assert shop.tool.paid == ["yes"]
    assert shop.packets[-1]["status"] == "finished"
    assert await shop.say("yes", approved=True) == 400


async def test_a_stop_ends_the_waiting(shop: Shop) -> None:
    shop.model.then(calling(pay("c1")))
    await shop.follow(until="tool.approval", conversation=await shop.client.conversation())
    assert await shop.say("c2", approved=True) == 400
    await shop.client.post(f"/turns/{shop.turn}/stop")
    await shop.reading
    assert shop.packets[-1]["status"] == "stopped"
    assert shop.of("tool.verdict") == []
    assert await shop.say("c1", approved=True) == 400
    assert shop.tool.paid == []


async def test_the_end_of_the_process_interrupts_the_turn_and_nothing_ran(tmp_path: Path) -> None:
    model, tool = ScriptedModel([calling(pay("c1"))]), Pay()
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(model), tools=(tool, *SHIPPED_TOOLS)) as (app, client):
        shop = Shop(app, client, model, tool)
        conversation = await client.conversation()
        await shop.follow(until="tool.approval", conversation=conversation)
        await app.chat.close()
        await shop.reading
        assert shop.packets[-1]["status"] == "interrupted"
    model.then(saying("It was not paid."))
    async with served(settings, models=ScriptedModels(model), tools=(tool, *SHIPPED_TOOLS)) as (_, client):
        assert (await client.get(f"/turns/{shop.turn}"))["status"] == "interrupted"
        packets = await client.send(conversation, "Did you pay?")
        assert packets[-1]["status"] == "finished"
    blocks = [block.value for block in model.requests[-1].blocks if block.value.get("type") == "tool_result"]
    assert "interrupted" in str(blocks)
    assert tool.paid == []
