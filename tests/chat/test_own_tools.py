"""Tools of a caller's own: a call is handed out, and the caller's next request brings its result."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamella.app.accounts import LOCAL_IDENTITY
from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.chat.message import ExecutionRequest, Message, OutgoingMessage
from lamella.chat.packets import expired_packets
from lamella.context.results import NOT_ANSWERED
from lamella.core import deltas
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.messages import StopReason, ToolCall, ToolResult, ToolSpec, TurnStatus
from lamella.core.packets import AnyPacket, ToolHandedOut, decode_packet, encode_packet
from lamella.core.prompt import WireRequest
from lamella.core.recall import Source
from lamella.core.records import AnswerChoices, Expired, TurnRecord
from lamella.core.withheld_packets import packets_held_back
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, calling, saying
from lamella.sessions.compaction import Compacted
from lamella.sessions.recall.recall import Recall
from lamella.settings import read_settings
from scripted_tools import Wait, results, wait

from .stage import Playback

pytestmark = pytest.mark.anyio

LIST = ToolSpec("list_files", "Lists the files of the caller.", '{"type":"object","properties":{}}')
READ = ToolSpec("read_own", "Reads a file of the caller.", '{"type":"object","properties":{"name":{"type":"string"}}}')


def listing(id: str) -> ToolCall:
    return ToolCall(id, "list_files", "{}")


class Own:
    """A conversation whose caller has tools."""

    def __init__(self, app: App, model: ScriptedModel) -> None:
        self.app, self.model, self.conversation = app, model, ""
        self.packets: list[AnyPacket] = []

    async def say(
        self, text: str, *steps: Any, tools: tuple[ToolSpec, ...] | None = (LIST, READ), **fields: Any
    ) -> TurnRecord:
        """A turn with these steps, as it is stored."""
        self.model.then(*steps)
        asked = ExecutionRequest(text=text, conversation_id=self.conversation or None, tools=tools, **fields)
        turn_id = await self.app.begin(asked)
        self.packets = [packet async for packet in self.app.packets(turn_id)]
        turn = await self.app.store.turns.turn(LOCAL_OWNER, turn_id)
        self.conversation = turn.conversation_id
        return turn

    async def give(self, *given: tuple[str, str], then: Any, text: str = "", **fields: Any) -> TurnRecord:
        """A turn with these results of calls."""
        brought = tuple(ToolResult(id, "", content) for id, content in given)
        return await self.say(text, *then, results=brought, **{"tools": None, **fields})


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def own(model: ScriptedModel, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Own]:
    settings = read_settings(data=tmp_path)
    async with open_app(settings, models=ScriptedModels(model), tools=[Wait()]) as app:
        yield Own(app, model)


def begins_with(later: WireRequest, earlier: WireRequest) -> bool:
    """Whether a request has all blocks of an earlier one, in its place, and more."""
    return later.blocks[: len(earlier.blocks)] == earlier.blocks and len(later.blocks) > len(earlier.blocks)


def offered(request: WireRequest) -> list[str]:
    return [str(block.value["name"]) for block in request.blocks if block.level == "tools"]


async def test_a_call_is_handed_out_and_goes_on_with_its_result(own: Own, model: ScriptedModel) -> None:
    first = await own.say("What is there?", calling(listing("c1"), text="I look."))
    assert first.status is TurnStatus.FINISHED
    assert first.steps[-1].stop_reason is StopReason.TOOL_CALLS
    assert [packet.call_id for packet in own.packets if isinstance(packet, ToolHandedOut)] == ["c1"]
    assert offered(model.requests[0]) == ["list_files", "read_own", "wait"]
    second = await own.give(("c1", "letter.txt"), then=[saying("A letter.")])
    assert second.run.answer == "A letter."
    assert second.parent.turn_id == first.id
    assert begins_with(model.requests[1], model.requests[0])
    assert results(model.requests[1]) == [("c1", "letter.txt")]
    third = await own.say("Thanks", saying("You're welcome."))
    assert third.run.answer == "You're welcome."
    assert begins_with(model.requests[2], model.requests[1])


async def test_the_server_s_tools_of_the_same_step_run_first(own: Own, model: ScriptedModel) -> None:
    first = await own.say("Both", calling(listing("c1"), wait("c2"), listing("c3")))
    assert [result.call_id for result in first.steps[-1].results] == ["c2"]
    assert [packet.call_id for packet in own.packets if isinstance(packet, ToolHandedOut)] == ["c1", "c3"]
    await own.give(("c3", "three"), ("c1", "one"), then=[saying("Done.")])
    assert results(model.requests[1]) == [("c1", "one"), ("c2", "result of c2"), ("c3", "three")]


async def test_several_rounds_are_one_turn_to_the_window(own: Own, model: ScriptedModel) -> None:
    first = await own.say("Look", calling(wait("c0")), calling(listing("c1")))
    await own.give(("c1", "letter.txt"), then=[calling(wait("c2")), calling(ToolCall("c3", "read_own", "{}"))])
    last = await own.give(("c3", "Dear Ann"), then=[saying("A letter to Ann.")])
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert begins_with(after, before)
    [turn] = await own.app.store.turns.path(LOCAL_OWNER, own.conversation)
    assert (turn.id, turn.ends_with, turn.status) == (first.id, last.id, TurnStatus.FINISHED)
    assert len(turn.steps) == 5
    assert all(len(step.results) == len(step.calls) for step in turn.steps)


async def test_results_may_come_with_a_message(own: Own, model: ScriptedModel) -> None:
    await own.say("Look", calling(listing("c1")))
    await own.give(("c1", "letter.txt"), text="And tell me who wrote it.", then=[saying("Ann.")])
    assert begins_with(model.requests[1], model.requests[0])
    assert results(model.requests[1]) == [("c1", "letter.txt")]
    turns = await own.app.store.turns.path(LOCAL_OWNER, own.conversation)
    assert [turn.user.text for turn in turns] == ["Look", "And tell me who wrote it."]
    assert turns[0].steps[-1].results[0].content == "letter.txt"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([("c1", "one")], "No tool output found for function call c2."),
        (
            [("c1", "one"), ("c2", "two"), ("c9", "nine")],
            "No tool call found for function call output with call_id c9.",
        ),
        ([("c1", "one"), ("c2", "two"), ("c1", "again")], "Two tool outputs found for function call c1."),
    ],
)
async def test_results_that_do_not_fit_are_refused(
    own: Own, model: ScriptedModel, given: list[tuple[str, str]], says: str
) -> None:
    first = await own.say("Look", calling(listing("c1"), listing("c2")))
    with pytest.raises(InvalidRequest) as caught:
        await own.give(*given, then=[])
    assert caught.value.message == says
    assert len(model.requests) == 1
    conversation = await own.app.store.conversations.conversation(LOCAL_OWNER, own.conversation)
    assert conversation.head == first.id
    second = await own.give(("c1", "one"), ("c2", "two"), then=[saying("Done.")])
    assert second.run.answer == "Done."
    with pytest.raises(InvalidRequest) as caught:
        await own.give(("c1", "one"), ("c2", "two"), then=[])
    assert "No tool call found" in caught.value.message


async def test_the_same_results_sent_again_are_a_sibling(own: Own, model: ScriptedModel) -> None:
    first = await own.say("Look", calling(listing("c1")))
    second = await own.give(("c1", "letter.txt"), then=[saying("A letter.")], parent_message_id=first.run.id)
    again = await own.give(("c1", "letter.txt"), then=[saying("One letter.")], parent_message_id=first.run.id)
    assert second.parent == again.parent
    assert model.requests[1].blocks == model.requests[2].blocks
    [turn] = await own.app.store.turns.path(LOCAL_OWNER, own.conversation)
    assert turn.steps[-1].text == "One letter."


async def test_a_plain_message_goes_on_while_calls_wait(own: Own, model: ScriptedModel) -> None:
    await own.say("Look", calling(listing("c1")))
    second = await own.say("Never mind", saying("Fine."))
    assert second.run.answer == "Fine."
    assert begins_with(model.requests[1], model.requests[0])
    assert results(model.requests[1]) == [("c1", NOT_ANSWERED)]
    await own.say("And now?", saying("Nothing."))
    assert begins_with(model.requests[2], model.requests[1])


async def test_a_restart_between_call_and_result_loses_nothing(model: ScriptedModel, tmp_path: Path) -> None:
    settings = read_settings(data=tmp_path)
    async with open_app(settings, models=ScriptedModels(model), tools=[Wait()]) as app:
        before = Own(app, model)
        await before.say("Look", calling(listing("c1")))
    async with open_app(settings, models=ScriptedModels(model), tools=[Wait()]) as app:
        after = Own(app, model)
        after.conversation = before.conversation
        second = await after.give(("c1", "letter.txt"), then=[saying("A letter.")])
    assert second.run.answer == "A letter."
    assert begins_with(model.requests[1], model.requests[0])
    assert offered(model.requests[1]) == offered(model.requests[0])


async def test_tools_are_those_of_the_request(own: Own, model: ScriptedModel) -> None:
    await own.say("Look", calling(listing("c1")))
    await own.give(("c1", "letter.txt"), then=[saying("A letter.")], tools=(LIST,))
    await own.say("Thanks", saying("Fine."), tools=None)
    assert offered(model.requests[1]) == ["list_files", "wait"]
    assert offered(model.requests[2]) == ["wait"]


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ((replace(LIST, name="wait"),), "The server has a tool named “wait”"),
        ((LIST, LIST), "There are two tools named “list_files”"),
    ],
)
async def test_names_that_are_taken_are_refused(
    own: Own, model: ScriptedModel, tools: tuple[ToolSpec, ...], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        await own.say("Look", tools=tools)
    assert model.requests == []


async def test_several_models_can_have_no_tools_of_the_caller(own: Own) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await own.say("Look", models=("scripted", "other"))
    assert caught.value.param == "models"


async def test_calls_that_are_not_made_do_not_reach_the_caller(own: Own, model: ScriptedModel) -> None:
    bad = ToolCall("c1", "list_files", "{not JSON")
    turn = await own.say("Look", calling(bad), saying("I could not."))
    assert turn.run.answer == "I could not."
    assert "not a JSON object" in results(model.requests[1])[0][1]
    assert not any(isinstance(packet, ToolHandedOut) for packet in own.packets)
    none = AnswerChoices(tool_choice="none")
    refused = await own.say("Look", calling(listing("c2")), saying("I may not."), answer=none)
    assert refused.run.answer == "I may not."
    assert model.requests[2].head["tool_choice"] == model.requests[3].head["tool_choice"] == {"type": "none"}


async def test_a_tool_that_must_be_called_is_asked_for_once(own: Own, model: ScriptedModel) -> None:
    must = AnswerChoices(tool_choice="required", max_output=200, temperature=0.5)
    await own.say("Look", calling(wait("c1")), saying("Waited."), answer=must)
    assert model.requests[0].head["tool_choice"] == {"type": "required"}
    assert "tool_choice" not in model.requests[1].head
    assert [request.head["max_tokens"] for request in model.requests] == [200, 200]
    with pytest.raises(InvalidRequest) as caught:
        await own.say("Look", answer=AnswerChoices(tool_choice="function no_such"))
    assert caught.value.param == "tool_choice"


async def test_the_server_s_calls_can_be_limited(own: Own, model: ScriptedModel) -> None:
    await own.say("Wait", calling(wait("c1"), wait("c2")), saying("Once."), answer=AnswerChoices(max_calls=1))
    assert [content for _, content in results(model.requests[1])] == [
        "result of c1",
        "The limit of calls for this request is reached; this call did not run.",
    ]


async def test_the_limit_of_steps_holds_for_each_request(model: ScriptedModel, tmp_path: Path) -> None:
    settings = read_settings(data=tmp_path, step_limit=2)
    async with open_app(settings, models=ScriptedModels(model), tools=[Wait()]) as app:
        own = Own(app, model)
        await own.say("Look", calling(wait("c0")), calling(listing("c1")))
        assert (
            "limit of steps"
            in (await app.store.turns.path(LOCAL_OWNER, own.conversation))[0].steps[-1].results[0].content
        )
        await own.say("Look", calling(listing("c2")))
        last = await own.give(("c2", "letter.txt"), then=[calling(wait("c3")), saying("A letter.")])
        assert last.run.answer == "A letter."


async def test_instructions_of_a_continuation_are_a_reminder(own: Own, model: ScriptedModel) -> None:
    await own.say("Look", calling(listing("c1")), dynamic_context=("Be brief.",))
    await own.give(("c1", "a"), then=[calling(listing("c2"))], dynamic_context=("Be brief.",))
    assert begins_with(model.requests[1], model.requests[0])
    assert sum(b"Be brief." in block.data for block in model.requests[1].blocks) == 1
    await own.give(("c2", "b"), then=[saying("Done.")], dynamic_context=("Be long.",))
    assert b"Be long." in model.requests[2].blocks[-1].data


async def test_a_stop_while_calls_are_made_leaves_none_to_be_answered(own: Own, model: ScriptedModel) -> None:
    gate = Gate()
    opened = deltas.ToolCallOpened(1, "c1", "list_files")
    model.then([deltas.TextDelta(0, "I look."), opened, deltas.ToolArgsDelta(1, "{}"), gate])
    turn_id = await own.app.begin(ExecutionRequest(text="Look", tools=(LIST,)))
    await gate.reached.wait()
    await own.app.chat.stop(LOCAL_OWNER, turn_id)
    _ = [packet async for packet in own.app.packets(turn_id)]
    own.conversation = (await own.app.store.turns.turn(LOCAL_OWNER, turn_id)).conversation_id
    with pytest.raises(InvalidRequest, match="No tool call found"):
        await own.give(("c1", "letter.txt"), then=[])
    assert (await own.say("Go on", saying("Fine."))).run.answer == "Fine."


async def test_a_turn_with_results_can_be_asked_again(own: Own, model: ScriptedModel) -> None:
    await own.say("Look", calling(listing("c1")))
    second = await own.give(("c1", "letter.txt"), then=[saying("A letter.")])
    model.then(saying("One letter."))
    asked = OutgoingMessage(Message(""), regenerate=second.id)
    done = await own.app.chat.sender.send(LOCAL_IDENTITY, own.conversation, asked)
    _ = [packet async for packet in own.app.packets(str(done))]
    assert model.requests[1].blocks == model.requests[2].blocks
    [turn] = await own.app.store.turns.path(LOCAL_OWNER, own.conversation)
    assert turn.steps[-1].text == "One letter."


async def test_a_new_session_between_call_and_result_keeps_the_turn(own: Own, model: ScriptedModel) -> None:
    await own.say("Hello", saying("Hi."))
    first = await own.say("Look", calling(listing("c1")))
    await own.app.sessions.begin_anew(LOCAL_OWNER, own.conversation, why="asked")
    await own.give(("c1", "letter.txt"), then=[calling(listing("c2"))])
    await own.app.sessions.begin_anew(LOCAL_OWNER, own.conversation, why="asked")
    await own.give(("c2", "note.txt"), then=[saying("Two files.")])
    snapshot = await own.app.store.snapshots.snapshot(LOCAL_OWNER, own.conversation, "scripted")
    assert [turn.id for turn in snapshot.path] == [first.id]
    assert results(model.requests[3]) == [("c1", "letter.txt"), ("c2", "note.txt")]
    assert not any(b"Hello" in block.data for block in model.requests[3].blocks)
    await own.app.sessions.begin_anew(LOCAL_OWNER, own.conversation, why="asked")
    await own.say("What now?", saying("Nothing."))
    assert results(model.requests[4]) == []


async def test_packets_that_expired_tell_of_a_call_too(own: Own) -> None:
    turn = await own.say("Look", calling(wait("c0"), listing("c1")))
    expired = [decode_packet(data) for _, data in expired_packets(turn, Expired(turn.started_at, 1), 0)]
    assert [packet.call_id for packet in expired if isinstance(packet, ToolHandedOut)] == ["c1"]


async def test_a_reader_who_lost_a_base_gets_no_arguments(own: Own) -> None:
    await own.say("Look", calling(ToolCall("c1", "read_own", '{"name":"canary"}')))
    lines = [encode_packet(packet) for packet in own.packets]
    given = b"".join(packets_held_back(lines, {"kb_1"}, {}))
    assert b"tool.handed_out" in given
    assert b"canary" not in given


BODY: Any = {"name": "list_files", "description": "Lists files.", "input_schema": {"type": "object", "properties": {}}}


async def test_a_continuation_reads_the_cache_and_its_map_is_one_prefix(stage: Playback) -> None:
    client = stage.client
    conversation = await client.conversation()
    called: Any = {"tool_calls": [{"name": "list_files", "arguments": {}, "id": "c1"}]}
    first = await stage.turn(conversation, "What is there? " * 500, called, tools=[BODY])
    results: Any = [{"call_id": "c1", "content": "letter.txt " * 300}]
    second = await stage.turn(conversation, "", {"text": "A letter."}, results=results)
    usages = [next(packet["usage"] for packet in turn if packet["type"] == "usage") for turn in (first, second)]
    assert usages[1]["cache_read"] >= usages[0]["input"] - 50
    requests = [(await client.get(f"/turns/{turn[0]['turn_id']}/requests"))["data"][0] for turn in (first, second)]
    maps = [(await client.get(f"/requests/{request['id']}/map"))["segments"] for request in requests]
    shown = [[(segment["id"], segment["tokens"]) for segment in found] for found in maps]
    assert shown[1][: len(shown[0])] == shown[0]
    why = await client.get(f"/requests/{requests[1]['id']}/why")
    assert (why["lost"], why["first_changed"]) == (0, None), why


@pytest.mark.parametrize("when", ["between", "after"])
async def test_a_compaction_takes_a_turn_with_all_its_parts_or_none(
    model: ScriptedModel, tmp_path: Path, when: str
) -> None:
    """The turn is huge, so that even the newest one is summarised."""
    settings = read_settings(
        data=tmp_path, context_budget=6_000, keep_recent_tokens=100, compaction_automatic=False, titles=False
    )
    async with open_app(settings, models=ScriptedModels(model), tools=[Wait()]) as app:
        own = Own(app, model)
        await own.say("Hello", saying("Hi."))
        first = await own.say("Look there, please. " * 800, calling(listing("c1")))
        if when == "after":
            await own.give(("c1", "letter.txt"), then=[saying("A letter.")])
        model.then(saying("# Facts\nThere is a disk. " * 3))
        outcome = await app.sessions.compact(LOCAL_OWNER, own.conversation, who="user", why="asked")
        assert isinstance(outcome, Compacted), outcome
        if when == "between":
            second = await own.give(("c1", "letter.txt"), then=[saying("A letter.")])
            assert second.run.answer == "A letter."
            assert results(model.requests[-1]) == [("c1", "letter.txt")]
        snapshot = await app.store.snapshots.snapshot(LOCAL_OWNER, own.conversation, "scripted")
        assert [turn.id for turn in snapshot.path] == ([first.id] if when == "between" else [])
        last = await own.say("And now?", saying("Nothing."))
        assert last.run.answer == "Nothing."
        calls = sum(block.value.get("type") == "tool_use" for block in model.requests[-1].blocks)
        assert calls == len(results(model.requests[-1])) == (1 if when == "between" else 0)


async def test_a_result_can_be_read_again_and_is_found(own: Own) -> None:
    await own.say("Look", calling(listing("c1")))
    await own.give(("c1", "The harbour master keeps the ledger."), then=[saying("I see.")])
    recall = own.app.sessions.recall
    assert recall is not None
    async with asyncio.timeout(20):
        while True:
            source = await _found(recall, own.conversation)
            if source is not None:
                break
            await asyncio.sleep(0.05)
    assert (source.content, source.name) == ("The harbour master keeps the ledger.", "list_files")


async def _found(recall: Recall, conversation: str) -> Source | None:
    try:
        return await recall.source(LOCAL_OWNER, conversation, "c1")
    except NotFound:
        return None


async def test_random_rounds_keep_one_prefix_and_pair_every_call(model: ScriptedModel, tmp_path: Path) -> None:
    """Whatever a caller does next: outputs, outputs with a message, a message alone, or the same once more."""
    choose = random.Random(7)
    settings = read_settings(data=tmp_path, titles=False)
    async with open_app(settings, models=ScriptedModels(model), tools=[Wait()]) as app:
        own = Own(app, model)
        waiting: tuple[str, ...] = ("c0",)
        turn = await own.say("Begin", calling(listing("c0")))
        for number in range(1, 40):
            calls = tuple(f"c{number}_{n}" for n in range(choose.randrange(3)))
            step = calling(*map(listing, calls), text="So.") if calls else saying(f"Answer {number}.")
            before, way = len(model.requests), choose.randrange(4)
            given = [(id, f"result of {id}") for id in waiting]
            if given and way in (0, 1):
                turn = await own.give(*given, then=[step], text="And?" * (way == 1), tools=(LIST, READ))
            else:
                turn = await own.say(f"Message {number}", step)
            assert begins_with(model.requests[before], model.requests[before - 1])
            waiting = calls
        [*_, last] = model.requests
        called = [str(block.value["id"]) for block in last.blocks if block.value.get("type") == "tool_use"]
        assert called == [id for id, _ in results(last)]
        assert turn.status is TurnStatus.FINISHED
