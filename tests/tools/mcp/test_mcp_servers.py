"""Real MCP servers in whole turns: called, crashed, hung, changed, and gone when we are."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, SHIPPED_TOOLS, App
from lamella.core.decisions import Decision
from lamella.core.json import Json, encode_text
from lamella.core.messages import ToolCall
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

SERVER = str(Path(__file__).with_name("toy_server.py"))


@asynccontextmanager
async def with_servers(folder: Path, model: ScriptedModel, **servers: Any) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server with these MCP servers, each of them connected or down: a new conversation waits only so long."""
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    settings = read_settings(data=folder / "data", mcp_servers=path)
    async with served(settings, models=ScriptedModels(model), tools=SHIPPED_TOOLS) as (app, client):
        for _ in range(600):
            if all(one["status"] != "connecting" for one in (await client.get("/mcp-servers"))["data"]):
                break
            await asyncio.sleep(0.1)
        yield app, client


def toy(*args: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SERVER, *args], **more}


def call(id: str, name: str, **arguments: Json) -> ToolCall:
    return ToolCall(id, name, encode_text(arguments))


def results(packets: list[Object]) -> dict[str, tuple[bool, str]]:
    shown = (packet for packet in packets if packet["type"] == "tool.result")
    return {str(packet["call_id"]): (bool(packet["is_error"]), str(packet["content"])) for packet in shown}


async def until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        await asyncio.sleep(0.1)
    raise AssertionError


async def server_of(client: ServerClient, name: str = "toy") -> Object:
    found: Object = next(one for one in (await client.get("/mcp-servers"))["data"] if one["name"] == name)
    return found


async def test_tools_of_a_process_are_called_and_its_failures_are_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    model = ScriptedModel()
    async with with_servers(
        tmp_path,
        model,
        toy=toy(env={"GIVEN": "1"}, timeout=20),
        lazy=toy(timeout=0.5, tools=["hang"]),
        broken={"command": str(tmp_path / "nothing")},
    ) as (_, client):
        conversation = await client.conversation()
        names = [tool["name"] for tool in (await client.get("/tools"))["data"]]
        assert names == sorted(names)
        assert {"toy__add", "lazy__hang", "read_file"} <= set(names)
        odd = next(name for name in names if name.startswith("toy__with_a_blank_"))
        broken = await server_of(client, "broken")
        assert (broken["status"], broken["error"]) == ("down", f"there is no program {tmp_path / 'nothing'}")
        model.then(
            calling(
                call("sum", "toy__add", a=2, b=3),
                call("wrong", "toy__add", a="two"),
                call("odd", odd),
                call("env", "toy__environment"),
                call("mixed", "toy__mixed"),
                call("huge", "toy__huge"),
                call("fail", "toy__fail"),
                call("hang", "lazy__hang"),
                call("broken", "broken__thing"),
            ),
            saying("Done."),
        )
        packets = await client.send(conversation, "Go")
        assert packets[-1]["status"] == "finished"
        shown = results(packets)
        assert shown["sum"] == (False, "5")
        assert shown["wrong"][0]
        assert '- a: "two" is not of type "integer"' in shown["wrong"][1]
        assert shown["odd"] == (False, "called")
        variables = shown["env"][1].split()
        assert "GIVEN" in variables
        assert "ANTHROPIC_API_KEY" not in variables
        assert shown["mixed"] == (
            False,
            "Words.\n\n[image, image/png, about 3 bytes: it can't be shown in a result.]\n\n"
            "[Resource plan: file:///plan.md] The plan.\n\n"
            "[resource file:///b, a/b, about 3 bytes: it can't be shown in a result.]",
        )
        assert "are kept: read on with read_file" in shown["huge"][1]
        assert shown["fail"][0]
        assert "the disk is full" in shown["fail"][1]
        assert shown["hang"] == (True, "lazy__hang gave no result within 0.5 s and was cut off.")
        assert shown["broken"][1].startswith("There is no tool named broken__thing.")
        assert "a word on stderr" in (await server_of(client))["stderr"]
        key = await client.set_up()
        admin = {"authorization": f"Bearer {key}"}
        bob = (await client.post("/users", {"name": "Bob"}, headers=admin))["key"]["secret"]
        order = {"name": "reader", "scopes": ["read"]}
        reader = (await client.post("/keys", order, headers=admin))["secret"]
        for secret, shown_to in ((key, True), (bob, False), (reader, False)):
            answer = await client.call("GET", "/mcp-servers", headers={"authorization": f"Bearer {secret}"})
            assert ("a word on stderr" in answer.text) is shown_to
            assert "ready" in {one["status"] for one in answer.json()["data"]}


async def test_a_crash_is_a_result_and_the_server_comes_back(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    model = ScriptedModel(
        [
            calling(call("crash", "toy__crash")),
            calling(call("after", "toy__add", a=1, b=1)),
            saying("Done."),
        ]
    )
    async with with_servers(tmp_path, model, toy=toy("--note", str(pids))) as (_, client):
        packets = await client.send(await client.conversation(), "Go")
        shown = results(packets)
        assert shown["crash"][0]
        assert "went away during this call; whether it did its work is not known" in shown["crash"][1]
        assert shown["after"] == (False, "2")
        assert packets[-1]["status"] == "finished"
        first, second = map(int, pids.read_text().split())
    for pid in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_the_user_is_asked_where_the_file_says_so(tmp_path: Path) -> None:
    model = ScriptedModel([calling(call("c1", "toy__add", a=1, b=2)), saying("Done.")])
    async with with_servers(tmp_path, model, toy=toy(approval=["add"], tools=["add"])) as (_, client):
        packets: list[Object] = []
        async with client.sending(await client.conversation(), "Go") as events:
            async for event in events:
                packets.append(event.packet)
                if event.packet["type"] == "tool.approval":
                    path = f"/turns/{event.packet['turn_id']}/calls/c1/approval"
                    await client.post(path, {"approved": True})
        assert results(packets)["c1"] == (False, "3")


async def test_the_file_says_what_becomes_of_old_results(tmp_path: Path) -> None:
    async with with_servers(tmp_path, ScriptedModel(), toy=toy(when_old={"add": "summarize"})) as (app, client):
        conversation = await app.store.conversations.conversation(LOCAL_OWNER, await client.conversation())
        said = {tool.name: tool.when_old for tool in conversation.tools if tool.name.startswith("toy__")}
        assert {name for name, when in said.items() if when != "prune"} == {"toy__add"}
        assert said["toy__add"] == "summarize"


async def test_a_changed_list_is_announced_and_taken_only_when_it_is_asked_for(tmp_path: Path) -> None:
    model = ScriptedModel([calling(call("grow", "toy__grow")), saying("Done."), saying("Again.")])

    def told(decisions: list[Decision], subject: str) -> list[Decision]:
        return [decision for decision in decisions if decision.subject == subject]

    async with with_servers(tmp_path, model, toy=toy()) as (app, client):
        conversation = await client.conversation()
        await client.send(conversation, "Go")
        await until(lambda: any(spec.name == "toy__added" for spec in app.registry.specs()))
        model.then(calling(call("new", "toy__added")), saying("No."))
        await client.send(conversation, "Again")
        decisions = [stored.decision for stored in await app.store.conversations.decisions(LOCAL_OWNER, conversation)]
        [news] = told(decisions, "offered tools")
        assert (news.outcome, news.first_changed) == ("added toy__added", None)
        assert (await client.get(f"/conversations/{conversation}/tools"))["changes"] == "added toy__added"
        assert model.requests[0].blocks[0].data == model.requests[-1].blocks[0].data
        shown = results(await client.send(conversation, "Use it"))
        assert shown["new"][1].startswith("There is no tool named toy__added.")
        await client.post(f"/conversations/{conversation}/tools/refresh")
        model.then(calling(call("now", "toy__added")), saying("Yes."))
        assert results(await client.send(conversation, "Use it now"))["now"] == (False, "I am new.")
        decisions = [stored.decision for stored in await app.store.conversations.decisions(LOCAL_OWNER, conversation)]
        [refreshed] = told(decisions, "tools")
        assert refreshed.first_changed == "tools"
        assert "added toy__added" in refreshed.why
        assert (await client.get(f"/conversations/{conversation}/tools"))["changes"] == ""


async def test_a_server_over_http_comes_and_goes(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def started() -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, SERVER, str(port), stderr=asyncio.subprocess.DEVNULL
        )
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return process
            except OSError:
                await asyncio.sleep(0.1)

    process = await started()
    model = ScriptedModel()
    try:
        async with with_servers(
            tmp_path, model, toy={"url": f"http://127.0.0.1:{port}/mcp", "timeout": 10, "tools": ["add"]}
        ) as (_, client):
            conversation = await client.conversation()
            model.then(calling(call("c1", "toy__add", a=2, b=3)), saying("Five."))
            assert results(await client.send(conversation, "Add"))["c1"] == (False, "5")
            process.kill()
            await process.wait()
            model.then(calling(call("c2", "toy__add", a=2, b=3)), saying("Gone."))
            packets = await client.send(conversation, "Add")
            assert packets[-1]["status"] == "finished"
            gone, words = results(packets)["c2"]
            assert gone
            assert "The MCP server toy" in words
            process = await started()
            for number in range(30):
                model.then(calling(call(f"d{number}", "toy__add", a=1, b=1)), saying("Well?"))
                failed, words = results(await client.send(conversation, "Add"))[f"d{number}"]
                if not failed:
                    break
                await asyncio.sleep(0.5)
            assert words == "2"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
