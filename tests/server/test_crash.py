"""A server that dies in the middle of a turn, and one that is asked to end: what its clients and its rows say after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from lamella.app.app import LOCAL_OWNER
from lamella.core.messages import Reasoning, StopReason, Text, ToolCall, TurnStatus
from lamella.server.testing import Event, Object
from lamella.storage.store import open_store
from lamella_simulator.testing import running

from .processes import Server, lamella, started, stuck

pytestmark = [pytest.mark.anyio, pytest.mark.long]

STORY = "Once upon a time there was a server that was asked to tell a very long story. " * 100


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """A provider that tells a long story slowly, whoever asks."""
    with running("--clock", "system", "--rate", "150", "--option", "default_reply=story") as url:
        httpx2.post(f"{url}/_sim/replies", json={"story": {"text": STORY, "chunk": 5}}, trust_env=False)
        yield url


async def read(events: AsyncIterator[Event], seen: list[Object], count: int) -> None:
    """Read on until `count` pieces of text were seen."""
    async for event in events:
        seen.append(event.packet)
        if sum(packet["type"] == "text.delta" for packet in seen) >= count:
            return


async def read_to_the_end(events: AsyncIterator[Event], seen: list[Object]) -> None:
    seen.extend([event.packet async for event in events if event.n is not None])


def text_of(packets: list[Object]) -> str:
    return "".join(packet["text"] for packet in packets if packet["type"] == "text.delta")


async def last_request(provider: str) -> Any:
    async with httpx2.AsyncClient(base_url=provider, trust_env=False) as http:
        return (await http.get("/_sim/requests?last=1")).json()["requests"][-1]


async def begin(server: Server, seen: list[Object], count: int, *, die: bool) -> str:
    """Begin a turn, read some of it, and end the server; gives the conversation's id."""
    conversation = await server.client.conversation()
    async with server.client.sending(conversation, "Tell me a story.") as events:
        await read(events, seen, count)
        if die:
            server.kill()
            with pytest.raises(httpx2.TransportError):
                await read_to_the_end(events, seen)
        else:
            ending = asyncio.create_task(server.terminate())
            await read_to_the_end(events, seen)
            assert await ending == 0
    return conversation


async def test_a_killed_server_keeps_what_its_clients_saw(provider: str, tmp_path: Path) -> None:
    command, environment = lamella(tmp_path, provider)
    seen: list[Object] = []
    async with started(*command, **environment) as server:
        conversation = await begin(server, seen, 40, die=True)
    turn_id = seen[0]["turn_id"]
    async with started(*command, **environment) as server:
        turn = await server.client.get(f"/turns/{turn_id}")
        assert turn["status"] == "interrupted"
        assert STORY.startswith(turn["answer"])
        assert text_of(seen).startswith(turn["answer"])
        # The journal is written every 250 ms: at 30 pieces a second that is at most 8, and the rest for a busy machine.
        assert len(turn["answer"]) > len(text_of(seen)) - 5 * 20
        packets = await server.client.packets(turn_id)
        *kept, stopped, finished = packets
        assert kept == seen[: len(kept)]
        assert (stopped["type"], stopped["reason"]) == ("turn.stopped", "interrupted")
        assert (finished["type"], finished["status"]) == ("turn.finished", "interrupted")
        assert max(packet["n"] for packet in seen) < stopped["n"] < finished["n"]
        assert await server.client.packets(turn_id, after=seen[-1]["n"]) == [stopped, finished]

        async with server.client.sending(conversation, "Go on.") as events:
            await read(events, [], 1)
        messages = (await last_request(provider))["body"]["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant", "user"]
        assert messages[1]["content"][0]["text"] == turn["answer"]


async def test_a_server_killed_in_a_tool_call_keeps_the_steps_before(tmp_path: Path) -> None:
    seen: list[Object] = []
    async with started(*stuck(tmp_path)) as server:
        conversation = await server.client.conversation()
        async with server.client.sending(conversation, "Look!") as events:
            async for event in events:
                seen.append(event.packet)
                if event.packet.get("call_id") == "c2" and event.type == "tool.result":
                    break
            await asyncio.sleep(0.4)
            server.kill()
    async with await open_store(tmp_path / "lamella.db") as store:
        assert (await store.turns.turn(LOCAL_OWNER, seen[0]["turn_id"])).status is TurnStatus.RUNNING
    async with started(*stuck(tmp_path, "It goes on.")) as server:
        packets = await server.client.packets(seen[0]["turn_id"])
        assert packets[: len(seen)] == seen
        assert [packet["type"] for packet in packets[-2:]] == ["turn.stopped", "turn.finished"]
        assert packets[-1]["usage"]["input"] == 200
        answer = await server.client.send(conversation, "And now?")
        assert text_of(answer) == "It goes on."
        requests = (await server.client.get(f"/turns/{answer[0]['turn_id']}/requests"))["data"]
        body = (await server.client.call("GET", f"/requests/{requests[0]['id']}/raw")).json()
    # The next request shows the model both steps; a provider would refuse a call without a result.
    parts = [part for message in body["messages"] for part in message["content"]]
    calls = [part["id"] for part in parts if part["type"] == "tool_use"]
    results = [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
    assert calls == results == ["c1", "c2", "c3"]
    async with await open_store(tmp_path / "lamella.db") as store:
        first, second = (await store.turns.turn(LOCAL_OWNER, seen[0]["turn_id"])).steps
    assert first.parts == (Text("First."), ToolCall("c1", "look", "{}"), Reasoning("Hm."))
    assert (first.stop_reason, second.stop_reason) == (StopReason.TOOL_CALLS, StopReason.INTERRUPTED)
    assert [result.call_id for result in (*first.results, *second.results)] == ["c1", "c2"]


async def test_a_server_that_is_asked_to_end_tells_its_clients_and_stores_the_turn(
    provider: str, tmp_path: Path
) -> None:
    command, environment = lamella(tmp_path, provider)
    seen: list[Object] = []
    async with started(*command, **environment) as server:
        await begin(server, seen, 10, die=False)
    assert [packet["type"] for packet in seen[-2:]] == ["turn.stopped", "turn.finished"]
    assert (seen[-2]["reason"], seen[-1]["status"]) == ("interrupted", "interrupted")
    assert [packet["n"] for packet in seen] == list(range(1, len(seen) + 1))
    async with await open_store(tmp_path / "lamella.db") as store:
        record = await store.turns.turn(LOCAL_OWNER, seen[0]["turn_id"])
        assert (record.status, record.steps[0].text) == (TurnStatus.INTERRUPTED, text_of(seen))
        assert record.usage.input > 0


async def test_a_folder_belongs_to_one_server_at_a_time(tmp_path: Path) -> None:
    command, environment = lamella(tmp_path)
    async with started(*command, **environment) as server:
        status = await server.client.get("/status")
        assert (status["demonstration"], status["data_dir"]) == (True, str(tmp_path))
        second = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        _, errors = await second.communicate()
        assert second.returncode == 2
        assert b"Another lamella serves this data folder" in errors
        assert b"Traceback" not in errors
        assert await server.terminate() == 0
