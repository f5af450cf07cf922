"""Stopping a turn: at once, whatever it is doing; what was there is kept, and the provider's connection is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.core.messages import StopReason, ToolCall, TurnStatus
from lamella.core.prompt import ToolSpec
from lamella.llm.scripted import Gate, ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Event, Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope
from measures import ticks

from .stage import Playback, only, text_of, types

pytestmark = pytest.mark.anyio

ENDLESS = "All work and no play makes a long answer. " * 2_000
AT_ONCE = 1.0
"""Seconds that a stop may take here, of a loop that may have to wait for the machine: the rule is 50 ms."""


async def until(events: AsyncIterator[Event], kind: str, count: int = 1) -> list[Object]:
    """The packets up to the `count`th of this type."""
    seen: list[Object] = []
    async for event in events:
        if event.n is not None:
            seen.append(event.packet)
        count -= event.type == kind
        if not count:
            return seen
    raise AssertionError(f"no {kind} came: {types(seen)}")


async def stopped(client: ServerClient, events: AsyncIterator[Event], turn_id: str) -> tuple[list[Object], float]:
    """Stop a turn; the packets that still came, and the seconds that it took, in sleeps of the event loop."""
    async with ticks() as seconds:
        answer = await client.call("POST", f"/turns/{turn_id}/stop")
        assert answer.status_code == 202
        rest = [event.packet async for event in events if event.n is not None]
        return rest, seconds()


async def test_stopping_while_tokens_flow_keeps_what_came(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.script({"text": ENDLESS, "chunk": 3}, rate=3_000)
    async with stage.client.sending(conversation, "Write!") as events:
        seen = await until(events, "text.delta", 30)
        rest, seconds = await stopped(stage.client, events, seen[0]["turn_id"])
    assert seconds < AT_ONCE
    assert types(rest)[-2:] == ["turn.stopped", "turn.finished"]
    assert only(rest, "turn.stopped")["reason"] == "user_cancelled"
    assert only(rest, "turn.finished")["status"] == "stopped"
    said = text_of(seen + rest)
    assert ENDLESS.startswith(said)
    assert [packet["n"] for packet in seen + rest] == list(range(1, len(seen + rest) + 1))
    turn = await stage.client.get(f"/turns/{seen[0]['turn_id']}")
    assert (turn["status"], turn["answer"], turn["error"]) == ("stopped", said, None)
    assert turn["usage"]["input"] > 0

    at_provider = await stage.rest()
    assert not at_provider["finished"]
    assert at_provider["streamed"] < len(said) + 2_000

    await stage.turn(conversation, "Go on.", {"text": "No."})
    messages = (await stage.seen())[-1]["body"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == [{"type": "text", "text": said}]


async def test_stopping_while_the_provider_is_silent(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.script({"text": "First words. " + "x" * 50, "chunk": 13}, rate=20)
    async with stage.client.sending(conversation, "Write!") as events:
        seen = await until(events, "text.delta")
        rest, seconds = await stopped(stage.client, events, seen[0]["turn_id"])
    assert seconds < AT_ONCE
    assert types(rest) == ["turn.stopped", "turn.finished"]
    assert (await stage.client.get(f"/turns/{seen[0]['turn_id']}"))["answer"] == "First words. "
    assert not (await stage.rest())["finished"]


async def test_stopping_before_the_first_token(stage: Playback) -> None:
    conversation = await stage.client.conversation()
    await stage.script({"text": "Too late.", "fault": {"kind": "slow", "ms": 60_000}})
    async with stage.client.sending(conversation, "Write!") as events:
        seen = await until(events, "request.started")
        rest, seconds = await stopped(stage.client, events, seen[0]["turn_id"])
    assert seconds < AT_ONCE
    assert types(rest) == ["turn.stopped", "turn.finished"]
    packets = await stage.turn(conversation, "Hello?", {"text": "Hi."})
    assert text_of(packets) == "Hi."
    sent = (await stage.seen())[-1]["body"]["messages"]
    assert all(message["content"] for message in sent)
    assert sent[0]["role"] == "user"


async def test_stopping_as_soon_as_there_is_a_turn(app: App, client: ServerClient, model: ScriptedModel) -> None:
    gate = Gate()
    model.then([gate, *saying("Never.")])
    conversation = await client.conversation()
    async with client.sending(conversation, "Write!") as events:
        seen = await until(events, "turn.started")
        rest, seconds = await stopped(client, events, seen[0]["turn_id"])
    assert seconds < AT_ONCE
    assert types(rest)[-2:] == ["turn.stopped", "turn.finished"]
    record = await app.store.turns.turn(LOCAL_OWNER, seen[0]["turn_id"])
    assert (record.status, record.steps) == (TurnStatus.STOPPED, ())


async def test_stopping_twice_and_after_the_end_changes_nothing(client: ServerClient, model: ScriptedModel) -> None:
    model.then([deltas.TextDelta(0, "Half an"), Gate()])
    conversation = await client.conversation()
    async with client.sending(conversation, "Write!") as events:
        seen = await until(events, "text.delta")
        turn_id = seen[0]["turn_id"]
        answers = await asyncio.gather(*(client.call("POST", f"/turns/{turn_id}/stop") for _ in range(5)))
        rest = [event.packet async for event in events if event.n is not None]
    assert {answer.status_code for answer in answers} == {202}
    assert types(rest) == ["turn.stopped", "turn.finished"]
    whole = await client.packets(turn_id)
    late = await client.post(f"/turns/{turn_id}/stop")
    assert late["status"] == "stopped"
    assert await client.packets(turn_id) == whole == seen + rest
    assert model.left == 1


async def test_stopping_a_finished_turn_leaves_it_finished(client: ServerClient, model: ScriptedModel) -> None:
    model.then(saying("Done."), saying("Done again."))
    conversation = await client.conversation()
    packets = await client.send(conversation, "Write!")
    assert (await client.post(f"/turns/{packets[0]['turn_id']}/stop"))["status"] == "finished"
    assert only(await client.send(conversation, "Again!"), "turn.finished")["status"] == "finished"


class Endless:
    """A tool that never comes back."""

    spec = ToolSpec("endless", "Never ends.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 60.0

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.cancelled = False

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return ""


class Quick:
    """A tool that answers at once."""

    spec = ToolSpec("quick", "Answers.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 60.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return "quickly"


async def test_stopping_within_a_tool_call(tmp_path: Path) -> None:
    model, tool = ScriptedModel(), Endless()
    calls = (ToolCall("c1", "quick", "{}"), ToolCall("c2", "endless", "{}"))
    model.then(calling(*calls, text="Let me look."), saying("Never mind."))
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), tools=(tool, Quick())) as (
        app,
        client,
    ):
        conversation = await client.conversation()
        async with client.sending(conversation, "Look!") as events:
            seen = await until(events, "tool.result")
            await tool.began.wait()
            rest, seconds = await stopped(client, events, seen[0]["turn_id"])
        assert seconds < AT_ONCE
        assert tool.cancelled
        assert types(rest) == ["turn.stopped", "turn.finished"]
        [step] = (await app.store.turns.turn(LOCAL_OWNER, seen[0]["turn_id"])).steps
        assert step.stop_reason is StopReason.USER_CANCELLED
        assert [call.id for call in step.calls] == ["c1", "c2"]
        assert [(result.call_id, result.content) for result in step.results] == [("c1", "quickly")]
        assert only(rest, "turn.finished")["usage"]["input"] == 100

        await client.send(conversation, "And now?")
        results = [block.value for block in model.requests[-1].blocks if block.value.get("type") == "tool_result"]
        assert [result["tool_use_id"] for result in results] == ["c1", "c2"]
        assert "nterrupted" in str(results[1]["content"])


@pytest.mark.parametrize("came", [[], [deltas.TextDelta(0, "")], [deltas.ReasoningDelta(0, "Let me think.")]])
async def test_stopping_between_two_steps_is_told_to_the_model(tmp_path: Path, came: list[ReplayEvent]) -> None:
    """The call and its result stay as they are; behind them stands that the answer was stopped."""
    model, gate = ScriptedModel(), Gate()
    model.then(calling(ToolCall("c1", "quick", "{}")), [*came, gate, *saying("Late.")], saying("I see."))
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), tools=(Quick(),)) as (app, client):
        conversation = await client.conversation()
        async with client.sending(conversation, "Look!") as events:
            seen = await until(events, "tool.result")
            await gate.reached.wait()
            await stopped(client, events, seen[0]["turn_id"])
        turn = await app.store.turns.turn(LOCAL_OWNER, seen[0]["turn_id"])
        assert {step.stop_reason for step in turn.steps} == {StopReason.USER_CANCELLED}
        await client.send(conversation, "And now?")
    before, after = (b"\n".join(block.data for block in request.blocks) for request in model.requests[1:])
    assert b"The user stopped the answer above before it was finished." not in before
    assert b"quickly" in after
    assert after.index(b"quickly") < after.index(b"The user stopped the answer above before it was finished.")
