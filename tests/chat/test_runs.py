"""Several models answer one message: packets side by side, one that fails or is stopped, the answer that is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.errors import ProviderOverloaded
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec
from lamella.llm.scripted import FACTS, Gate, ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope

pytestmark = pytest.mark.anyio

NAMES = ["one", "two", "three"]


class Send:
    """A tool that changes something outside."""

    spec = ToolSpec("send", "Sends.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0
    side_effects = True
    needs_approval = False

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        self.sent.append(call.id)
        return "sent"


class Trio:
    """A server over three scripted models, and a tool with side effects."""

    def __init__(self, app: App, client: ServerClient, models: list[ScriptedModel], tool: Send) -> None:
        self.app, self.client, self.models, self.tool = app, client, models, tool

    async def ask(
        self, conversation: str, text: str, *scripts: list[list[ReplayEvent]], **fields: object
    ) -> list[Object]:
        """A turn that as many models answer as there are scripts."""
        for model, steps in zip(self.models, scripts, strict=False):
            model.then(*steps)
        return await self.client.send(conversation, text, models=list(NAMES[: len(scripts)]))


@pytest.fixture
async def trio(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Trio]:
    models, tool = [ScriptedModel(facts=replace(FACTS, name=name)) for name in NAMES], Send()
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(*models), tools=(tool,)) as (app, client):
        yield Trio(app, client, models, tool)


def of(packets: list[Object], index: int) -> list[str]:
    """What one model's packets say, in order."""
    shown = []
    for packet in packets:
        if packet["model_index"] == index and not str(packet["type"]).startswith("turn."):
            detail = packet.get("text") or packet.get("status") or packet.get("model") or ""
            shown.append(f"{packet['type']} {detail}".strip())
    return shown


async def test_each_model_has_its_packets_and_its_place(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    packets = await trio.ask(conversation, "Hello?", [saying("I ", "am one.")], [saying("I am two.")])
    assert of(packets, 0) == [
        *("run.started one", "request.started", "text.delta I", "text.delta am one.", "usage", "run.finished end_turn")
    ]
    assert of(packets, 1) == [
        *("run.started two", "request.started", "text.delta I am two.", "usage", "run.finished end_turn")
    ]
    assert [packet["n"] for packet in packets] == list(range(1, len(packets) + 1))
    last = packets[-1]
    assert (last["type"], last["status"], last["usage"]["input"]) == ("turn.finished", "finished", 200)
    turn = await trio.client.get(f"/turns/{last['turn_id']}")
    assert [(run["model"], run["status"], run["answer"]) for run in turn["runs"]] == [
        ("one", "finished", "I am one."),
        ("two", "finished", "I am two."),
    ]
    assert turn["cost"] == pytest.approx(sum(run["cost"] for run in turn["runs"]))
    assert await trio.client.packets(last["turn_id"]) == packets


async def test_a_slow_model_holds_nobody_up(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    gate = Gate()
    asking = asyncio.create_task(trio.ask(conversation, "Hello?", [[gate, *saying("Late.")]], [saying("Soon.")]))
    await gate.reached.wait()
    turn_id = (await trio.client.get(f"/conversations/{conversation}"))["running_turn"]
    seen: list[bytes] = []
    async for batch in trio.app.chat.stream(LOCAL_OWNER, turn_id):
        seen += [data for _, data in batch]
        if any(b'"run.finished"' in data for data in seen):
            break
    assert any(b"Soon." in data for data in seen)
    gate.opened.set()
    packets = await asking
    assert of(packets, 0)[-1] == "run.finished end_turn"


async def test_one_that_fails_is_an_error_and_the_others_answer(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    packets = await trio.ask(conversation, "Hello?", [[ProviderOverloaded("Too busy.")]], [saying("I answer.")])
    assert of(packets, 0)[-2:] == ["error", "run.finished error"]
    [finished] = [p for p in packets if p["type"] == "run.finished" and p["model_index"] == 0]
    assert finished["error"]["message"] == "Too busy."
    assert packets[-1]["status"] == "finished"
    turn = await trio.client.get(f"/turns/{packets[0]['turn_id']}")
    assert (turn["error"], turn["answer"], turn["runs"][0]["error"]["code"]) == (None, "I answer.", "overloaded")
    await trio.ask(conversation, "And?", [saying("Yes.")])
    assert b"I answer." in trio.models[0].requests[-1].blocks[-2].data


async def test_nobody_goes_on_from_an_answer_that_failed_beside_others(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    packets = await trio.ask(conversation, "Hello?", [[ProviderOverloaded("Too busy.")]], [saying("I answer.")])
    turn = await trio.client.get(f"/turns/{packets[0]['turn_id']}")
    answer = await trio.client.call("POST", f"/turns/{turn['id']}/prefer", json={"run_id": turn["runs"][0]["id"]})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "The answer of one failed: a conversation can't go on from it."
    assert (await trio.client.get(f"/conversations/{conversation}"))["head_run_id"] == turn["runs"][1]["id"]


async def test_where_all_failed_a_conversation_goes_on_from_any(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    busy = [ProviderOverloaded("Too busy.")]
    packets = await trio.ask(conversation, "Hello?", [list(busy)], [list(busy)])
    turn = await trio.client.get(f"/turns/{packets[0]['turn_id']}")
    await trio.client.post(f"/turns/{turn['id']}/prefer", {"run_id": turn["runs"][1]["id"]})
    assert (await trio.client.get(f"/conversations/{conversation}"))["head_run_id"] == turn["runs"][1]["id"]


async def test_one_that_is_kept_and_then_fails_is_left_for_one_that_answered(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    gate = Gate()
    failing: list[ReplayEvent] = [gate, ProviderOverloaded("Too busy.")]
    asking = asyncio.create_task(trio.ask(conversation, "Hello?", [failing], [saying("I answer.")]))
    await gate.reached.wait()
    turn_id = (await trio.client.get(f"/conversations/{conversation}"))["running_turn"]
    first, second = (await trio.client.get(f"/turns/{turn_id}"))["runs"]
    await trio.client.post(f"/turns/{turn_id}/prefer", {"run_id": first["id"]})
    gate.opened.set()
    await asking
    assert (await trio.client.get(f"/conversations/{conversation}"))["head_run_id"] == second["id"]
    await trio.ask(conversation, "And?", [saying("Yes.")])
    assert b"I answer." in trio.models[0].requests[-1].blocks[-2].data


async def test_a_turn_fails_when_all_fail(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    packets = await trio.ask(
        conversation, "Hello?", [[ProviderOverloaded("First.")]], [[ProviderOverloaded("Second.")]]
    )
    assert packets[-1]["status"] == "failed"
    turn = await trio.client.get(f"/turns/{packets[0]['turn_id']}")
    assert turn["error"]["message"] == "First."


async def test_one_is_stopped_and_the_other_goes_on(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    gate, other = Gate(), Gate()
    first: list[ReplayEvent] = [*saying("Half")[:1], gate, *saying(" more")]
    asking = asyncio.create_task(trio.ask(conversation, "Hello?", [first], [[other, *saying("Whole.")]]))
    await asyncio.gather(gate.reached.wait(), other.reached.wait())
    turn_id = (await trio.client.get(f"/conversations/{conversation}"))["running_turn"]
    runs = (await trio.client.get(f"/turns/{turn_id}"))["runs"]
    assert (await trio.client.call("POST", f"/runs/{runs[0]['id']}/stop")).status_code == 202
    await asyncio.sleep(0.05)
    other.opened.set()
    packets = await asking
    assert of(packets, 0)[-1] == "run.finished user_cancelled"
    assert packets[-1]["status"] == "finished"
    runs = (await trio.client.get(f"/turns/{turn_id}"))["runs"]
    assert [(run["status"], run["answer"]) for run in runs] == [("stopped", "Half"), ("finished", "Whole.")]
    conversation_now = await trio.client.get(f"/conversations/{conversation}")
    assert conversation_now["head_run_id"] == runs[1]["id"]


async def test_only_the_first_changes_anything(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    script = [calling(ToolCall("c1", "send", "{}")), saying("Done.")]
    packets = await trio.ask(conversation, "Send it.", script, script)
    results = {p["model_index"]: p for p in packets if p["type"] == "tool.result"}
    assert (results[0]["content"], results[0]["is_error"]) == ("sent", False)
    assert results[1]["is_error"]
    assert "several models" in results[1]["content"]
    assert trio.tool.sent == ["c1"]


async def test_what_the_user_approves_runs_for_each_model(trio: Trio) -> None:
    """Also where two providers count their calls alike: a call is answered by its id."""
    trio.tool.needs_approval = True
    conversation = await trio.client.conversation()
    for model in trio.models[:2]:
        model.then(calling(ToolCall("c1", "send", "{}")), saying("Done."))
    packets: list[Object] = []
    async with trio.client.sending(conversation, "Send it.", models=list(NAMES[:2])) as events:
        async for event in events:
            packets.append(event.packet)
            asked = [packet for packet in packets if packet["type"] == "tool.approval"]
            if event.packet["type"] == "tool.approval" and len(asked) == 2:
                for packet in asked:
                    path = f"/turns/{packet['turn_id']}/calls/{packet['call_id']}/approval"
                    await trio.client.post(path, {"approved": packet["model_index"] == 1})
    results = {p["model_index"]: p for p in packets if p["type"] == "tool.result"}
    assert (results[0]["is_error"], results[1]["content"]) == (True, "sent")
    assert trio.tool.sent == [results[1]["call_id"]]
    assert results[0]["call_id"] != results[1]["call_id"]


async def test_the_next_turn_continues_the_answer_that_is_kept(trio: Trio) -> None:
    conversation = await trio.client.conversation()
    packets = await trio.ask(conversation, "Hello?", [saying("First answer.")], [saying("Second answer.")])
    turn_id = packets[0]["turn_id"]
    runs = (await trio.client.get(f"/turns/{turn_id}"))["runs"]
    kept = await trio.client.call("POST", f"/turns/{turn_id}/prefer", json={"run_id": runs[1]["id"]})
    assert (kept.status_code, kept.json()["head_run_id"]) == (200, runs[1]["id"])
    gauge = await trio.client.get(f"/conversations/{conversation}/context")
    assert gauge["estimate"], "the bill of the model's own answer is not that of the one that goes on"
    await trio.ask(conversation, "And?", [saying("Next.")])
    sent = b"".join(block.data for block in trio.models[0].requests[-1].blocks)
    assert b"Second answer." in sent
    assert b"First answer." not in sent
    decided = await trio.client.get(f"/conversations/{conversation}/decisions?order=asc")
    assert [d["outcome"] for d in decided["data"] if d["kind"] == "preferred"] == [runs[1]["id"]]
    # Back to the other answer: what followed stays, as a branch of its own.
    await trio.client.call("POST", f"/turns/{turn_id}/prefer", json={"run_id": runs[0]["id"]})
    await trio.ask(conversation, "And?", [saying("Other.")])
    sent = b"".join(block.data for block in trio.models[0].requests[-1].blocks)
    assert b"First answer." in sent
    assert b"Next." not in sent
    back = await trio.client.call("POST", f"/turns/{turn_id}/prefer", json={"run_id": runs[1]["id"], "latest": True})
    shown = await trio.client.get(f"/conversations/{conversation}/turns?order=asc")
    assert [turn["answer"] for turn in shown["data"]] == ["First answer.", "Next."]
    assert [turn["run_id"] for turn in shown["data"]] == [runs[1]["id"], back.json()["head_run_id"]]


@pytest.mark.parametrize(
    ("models", "message"),
    [(["one", "none"], "No configured provider"), (["one", "one"], "named twice")],
)
async def test_a_model_that_can_t_be_asked_refuses_the_message(trio: Trio, models: list[str], message: str) -> None:
    conversation = await trio.client.conversation()
    answer = await trio.client.call(
        "POST", f"/conversations/{conversation}/turns", json={"text": "Hello?", "models": models}
    )
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
    assert (await trio.client.get(f"/conversations/{conversation}/turns"))["data"] == []


async def test_a_message_too_large_for_one_is_answered_by_the_other(tmp_path: Path) -> None:
    small = ScriptedModel(facts=replace(FACTS, name="one", window=20_000, max_output=4_000))
    large = ScriptedModel([saying("It fits.")], facts=replace(FACTS, name="two"))
    async with served(read_settings(data=tmp_path), models=ScriptedModels(small, large)) as (_, client):
        conversation = await client.conversation()
        packets = await client.send(conversation, "word " * 30_000, models=["one", "two"])
        assert of(packets, 0) == ["run.started one", "error", "run.finished error"]
        assert of(packets, 1)[-1] == "run.finished end_turn"
        assert small.requests == []
        turn = await client.get(f"/turns/{packets[0]['turn_id']}")
        assert [run["status"] for run in turn["runs"]] == ["failed", "finished"]
        assert turn["runs"][0]["error"]["code"] == "context_length_exceeded"
