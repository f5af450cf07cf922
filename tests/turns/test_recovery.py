"""What a journal tells of a turn that was cut off, at whatever packet, and whatever became of its bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from databases import binary, change, place, refusing
from lamella.app.app import LOCAL_OWNER
from lamella.context.results import INTERRUPTED
from lamella.core import deltas
from lamella.core.clock import SystemClock
from lamella.core.counting import ApproximateCounter
from lamella.core.errors import ProviderStreamBroken, StoreFailed
from lamella.core.handover import pending
from lamella.core.messages import Step, StopReason, ToolCall, TurnStatus
from lamella.core.models import ModelFacts
from lamella.core.packets import (
    AnyPacket,
    ReasoningPacket,
    RequestStarted,
    RunFinished,
    TextPacket,
    ToolCallPacket,
    ToolHandedOut,
    UsagePacket,
    decode_packet,
)
from lamella.core.prompt import ToolSpec
from lamella.core.tokens import Usage
from lamella.llm.scripted import FACTS, ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, served
from lamella.settings import read_settings
from lamella.storage.store import open_store
from lamella.tooling.tool import Invocation, ToolKind, ToolOutput, ToolScope
from lamella.turns.recovery import rebuild, recover

pytestmark = pytest.mark.anyio

COUNTER = ApproximateCounter()


class Look:
    """A tool that answers."""

    spec = ToolSpec("look", "Looks.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> ToolOutput:
        return ToolOutput(f"seen {call.id}", ("one", "two"), '{"documents":[{"knowledge_base_id":"kb_1"}]}')


async def played(folder: Path) -> tuple[list[Object], tuple[Step, ...]]:
    """A turn of two steps with calls and an answer: its packets and its steps."""
    model = ScriptedModel(
        [
            [deltas.ReasoningDelta(9, "Hm."), *calling(ToolCall("c1", "look", '{"a": 1}'), text="First.")],
            calling(ToolCall("c2", "look", "{}"), ToolCall("c3", "look", '{"b":\t[2]}')),
            saying("An ", "answer."),
        ]
    )
    async with served(read_settings(data=folder), models=ScriptedModels(model), tools=(Look(),)) as (app, client):
        conversation = await client.conversation()
        packets = await client.send(conversation, "Go")
        return packets, (await app.store.turns.turn(LOCAL_OWNER, packets[0]["turn_id"])).steps


async def journal_of(folder: Path) -> list[AnyPacket]:
    packets, _ = await played(folder)
    async with await open_store(place(folder)) as store:
        return [decode_packet(data) for _, data in await store.turns.journal(LOCAL_OWNER, packets[0]["turn_id"], 0)]


async def test_a_whole_journal_gives_the_steps_that_were_saved(tmp_path: Path) -> None:
    packets, steps = await played(tmp_path)
    async with await open_store(place(tmp_path)) as store:
        stored = [decode_packet(data) for _, data in await store.turns.journal(LOCAL_OWNER, packets[0]["turn_id"], 0)]
    rebuilt = rebuild(stored, COUNTER).steps
    assert [(set(a.parts), a.results) for a in rebuilt] == [(set(b.parts), b.results) for b in steps]
    assert [step.tokens for step in rebuilt] == [step.tokens for step in steps]
    assert [step.made_from for step in rebuilt] == [step.made_from for step in steps] == [(), ("kb_1",), ("kb_1",)]
    assert [end.usage.input for end in rebuild(stored, COUNTER).ends] == [100, 100, 100]


async def test_a_journal_cut_anywhere_gives_valid_steps(tmp_path: Path) -> None:
    stored = await journal_of(tmp_path)
    texts = []
    for cut in range(len(stored) + 1):
        container = rebuild(stored[:cut], COUNTER)
        requests = {p.request_id for p in stored[:cut] if isinstance(p, RequestStarted)}
        assert {end.request_id for end in container.ends} == requests
        for step in container.steps:
            calls = [call.id for call in step.calls]
            assert len(set(calls)) == len(calls)
            assert {result.call_id for result in step.results} <= set(calls)
            assert step.parts
        if len(container.steps) == len(requests) > 0:
            over = any(isinstance(packet, RunFinished) for packet in stored[:cut])
            last = StopReason.END_TURN if over else StopReason.INTERRUPTED
            assert container.steps[-1].stop_reason is last
        said = "".join(p.text for p in stored[:cut] if isinstance(p, TextPacket))
        texts.append("".join(step.text for step in container.steps))
        assert texts[-1] == said


async def test_a_call_that_was_handed_out_before_a_crash_waits_for_its_caller(tmp_path: Path) -> None:
    """The server's own call of the same step was still running."""
    own: Any = {"name": "mine", "input_schema": {"type": "object"}}
    model = ScriptedModel([calling(ToolCall("c1", "mine", "{}"), ToolCall("c2", "look", "{}"))])
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), tools=(Look(),)) as (app, client):
        packets = await client.send(await client.conversation(), "Go", tools=[own])
        turn_id = str(packets[0]["turn_id"])
        stored = [decode_packet(data) for _, data in await app.store.turns.journal(LOCAL_OWNER, turn_id, 0)]
    at = next(n for n, packet in enumerate(stored) if isinstance(packet, ToolHandedOut))
    [before] = rebuild(stored[:at], COUNTER).steps
    assert (before.stop_reason, pending([before])) == (StopReason.INTERRUPTED, ())
    [after] = rebuild(stored[: at + 1], COUNTER).steps
    assert [call.id for call in pending([after])] == ["c1"]
    assert [(result.call_id, result.content) for result in after.results] == [("c2", INTERRUPTED)]
    [whole] = rebuild(stored, COUNTER).steps
    assert [call.id for call in pending([whole])] == ["c1"]
    assert [result.content for result in whole.results] == ["seen c2"]


PRICES = {FACTS.name: FACTS}


async def test_a_request_whose_bill_was_not_told_gets_an_estimate_that_is_marked(tmp_path: Path) -> None:
    """As of a turn that is stopped: once something of the answer came, its input and what came are billed."""
    stored = await journal_of(tmp_path)
    for cut in range(len(stored) + 1):
        packets = stored[:cut]
        for end in rebuild(packets, COUNTER, PRICES).ends:
            mine = packets[next(i for i, p in enumerate(packets) if getattr(p, "request_id", "") == end.request_id) :]
            billed = any(isinstance(p, UsagePacket) and p.request_id == end.request_id for p in mine)
            came = any(isinstance(p, TextPacket | ReasoningPacket | ToolCallPacket) for p in mine)
            assert end.usage.estimated == (came and not billed)
            assert (end.usage.input > 0) == (end.cost > 0) == (came or billed)
            if end.usage.estimated:
                [started] = [p for p in mine if isinstance(p, RequestStarted) and p.request_id == end.request_id]
                assert end.usage.input == started.estimate
                assert end.cost == pytest.approx(FACTS.cost(end.usage))


async def test_writes_keep_the_life_that_they_were_billed_for(tmp_path: Path) -> None:
    told = Usage(input=100, cache_read=10, cache_write_5m=20, cache_write_1h=30, output=4, reasoning=1)
    model = ScriptedModel([saying("Hi.", usage=told)])
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (app, client):
        packets = await client.send(await client.conversation(), "Go")
        rows = await app.store.turns.journal(LOCAL_OWNER, str(packets[0]["turn_id"]), 0)
    container = rebuild([decode_packet(data) for _, data in rows], COUNTER)
    assert [end.usage for end in container.ends] == [told]


async def test_a_run_that_failed_before_the_process_died_keeps_its_own_bill(tmp_path: Path) -> None:
    told = Usage(input=70, cache_write_1h=50, output=2)
    broken_off: list[ReplayEvent] = [
        deltas.TextDelta(0, "Half"),
        deltas.UsageReported(told),
        ProviderStreamBroken("It broke."),
    ]
    model = ScriptedModel([calling(ToolCall("c1", "look", "{}")), broken_off])
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model), tools=(Look(),)) as (app, client):
        packets = await client.send(await client.conversation(), "Go")
        rows = await app.store.turns.journal(LOCAL_OWNER, str(packets[0]["turn_id"]), 0)
    container = rebuild([decode_packet(data) for _, data in rows], COUNTER, PRICES)
    assert [end.usage for end in container.ends] == [Usage(input=100, output=10), told]
    assert [end.cost for end in container.ends] == pytest.approx([FACTS.cost(end.usage) for end in container.ends])


async def broken(folder: Path, statement: str) -> None:
    """Put the turn back to where it was while it ran, and change its journal."""
    put_back = """
        UPDATE turns SET status = 'running', finished_at = NULL;
        DELETE FROM messages WHERE seq > 0;
        UPDATE conversations SET running_turn = head;
    """
    await change(folder, put_back + statement)


@pytest.mark.parametrize("data", [b"", b"nonsense", None, b'{"type":"of.tomorrow","n":1}', b"\xff\xfe\xfd"])
async def test_no_journal_keeps_a_server_from_starting(tmp_path: Path, data: bytes | None) -> None:
    packets, _ = await played(tmp_path)
    written = "substr(data, 1, 700)" if data is None else binary(data)
    await broken(tmp_path, "DELETE FROM journal" if data == b"" else f"UPDATE journal SET data = {written}")
    model = ScriptedModel([saying("It goes on.")])
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (_, client):
        turn = await client.get(f"/turns/{packets[0]['turn_id']}")
        assert turn["status"] == "interrupted"
        conversation = turn["conversation_id"]
        assert (await client.get(f"/conversations/{conversation}"))["running_turn"] is None
        answer = await client.send(conversation, "And now?")
        assert answer[-1]["status"] == "finished"


async def facts(model: str) -> ModelFacts:
    return PRICES[model]


async def test_a_turn_ends_together_with_its_last_packets(tmp_path: Path) -> None:
    """If one could be stored without the other, a follower in between would be given an end of its own."""
    packets, _ = await played(tmp_path)
    await broken(tmp_path, "DELETE FROM journal WHERE first > 1")
    await broken(tmp_path, refusing("INSERT", "journal"))
    async with await open_store(place(tmp_path)) as store:
        with pytest.raises(StoreFailed):
            await recover(store, SystemClock(), COUNTER, facts)
        turn = await store.turns.turn(LOCAL_OWNER, packets[0]["turn_id"])
        assert turn.status is TurnStatus.RUNNING


async def test_what_was_recovered_stays_as_it_is(tmp_path: Path) -> None:
    packets, _ = await played(tmp_path)
    await broken(tmp_path, "DELETE FROM journal WHERE first > 1")
    async with await open_store(place(tmp_path)) as store:
        assert await recover(store, SystemClock(), COUNTER, facts) == 1
        once = await store.turns.journal(LOCAL_OWNER, packets[0]["turn_id"], 0)
        turn = await store.turns.turn(LOCAL_OWNER, packets[0]["turn_id"])
        assert await recover(store, SystemClock(), COUNTER, facts) == 0
        assert await store.turns.journal(LOCAL_OWNER, packets[0]["turn_id"], 0) == once
        assert await store.turns.turn(LOCAL_OWNER, packets[0]["turn_id"]) == turn
