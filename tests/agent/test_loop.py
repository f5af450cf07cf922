"""The loop of a run, as packets, requests and steps show it: calls, reminders, and the last step. No store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lamella.agent.loop import LIMIT_REACHED
from lamella.agent.reminders import LAST_STEP
from lamella.core import deltas
from lamella.core.messages import StopReason, ToolCall
from lamella.core.tokens import Usage
from lamella.llm.scripted import ReplayEvent, ScriptedModel, calling, saying
from scripted_tools import Wait, WebSearch, reminders, results, wait

from .talking import Talk, of

pytestmark = pytest.mark.anyio


async def test_results_go_back_in_call_order_and_are_shown_as_they_come() -> None:
    model = ScriptedModel([calling(wait("c1", 90), wait("c2"), wait("c3", 45), text="Let me see."), saying("Done.")])
    talk = Talk(model, Wait(), WebSearch())
    packets = await talk.send("Go")
    assert [packet["call_id"] for packet in of(packets, "tool.result")] == ["c2", "c3", "c1"]
    assert results(model.requests[1]) == [(id, f"result of {id}") for id in ("c1", "c2", "c3")]
    first, second = talk.turn.steps
    assert [result.call_id for result in first.results] == ["c1", "c2", "c3"]
    assert (first.text, second.text) == ("Let me see.", "Done.")


async def test_every_block_has_its_own_place() -> None:
    thought = deltas.ReasoningDelta(0, "Hm.")
    first: list[ReplayEvent] = [thought, *calling(wait("c1"), wait("c2"))]
    model = ScriptedModel([first, saying("Done.")])
    talk = Talk(model, Wait(), WebSearch())
    packets = await talk.send("Go")
    places = {
        (packet["type"], packet.get("call_id")): packet["block_index"]
        for packet in packets
        if packet["block_index"] is not None
    }
    assert places == {
        ("reasoning.delta", None): 0,
        ("tool.call", "c1"): 1,
        ("tool.args.delta", "c1"): 1,
        ("tool.result", "c1"): 1,
        ("tool.call", "c2"): 2,
        ("tool.args.delta", "c2"): 2,
        ("tool.result", "c2"): 2,
        ("text.delta", None): 3,
    }
    assert [packet["step"] for packet in of(packets, "request.started")] == [0, 1]


async def test_the_last_step_is_told_and_its_calls_are_not_run() -> None:
    """A turn has no more steps than its limit says."""
    model = ScriptedModel([*(calling(wait(f"c{n}"), text=f"Step {n}.") for n in range(3)), saying("Never asked for.")])
    talk = Talk(model, Wait(), WebSearch(), step_limit=3)
    packets = await talk.send("Go")
    assert [reminders(request) for request in model.requests] == [[], [], [LAST_STEP]]
    assert [request.head.get("tool_choice") for request in model.requests] == [None, None, None]
    assert [(p["call_id"], p["content"] == LIMIT_REACHED) for p in of(packets, "tool.result")] == [
        ("c0", False),
        ("c1", False),
        ("c2", True),
    ]
    assert of(packets, "answer.partial")[0]["reason"] == "step_limit"
    turn = talk.turn
    assert [step.stop_reason for step in turn.steps] == [StopReason.TOOL_CALLS] * 3
    tools = {len([block for block in request.blocks if block.level == "tools"]) for request in model.requests}
    assert tools == {2}
    model.then(saying("An answer after all."))
    await talk.send("Go on")
    assert results(model.requests[-1])[-1] == ("c2", LIMIT_REACHED)


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_a_turn_has_as_many_steps_as_it_may(limit: int) -> None:
    model = ScriptedModel([calling(wait(f"c{n}")) for n in range(9)])
    talk = Talk(model, Wait(), WebSearch(), step_limit=limit)
    await talk.send("Go")
    assert len(model.requests) == limit


@pytest.mark.parametrize("times", [1, 2])
async def test_arguments_that_were_encoded_twice_are_read_and_kept(times: int) -> None:
    """The tool runs; what the model sent is stored and shown as it was, the same in every later request."""
    written = '{"ms": 1}'
    for _ in range(times):
        written = json.dumps(written)
    model = ScriptedModel([calling(ToolCall("c1", "wait", written)), saying("Done."), saying("Yes.")])
    talk = Talk(model, Wait(), WebSearch())
    packets = await talk.send("Go")
    assert [(p["content"], p["is_error"]) for p in of(packets, "tool.result")] == [("result of c1", False)]
    [call] = talk.turn.steps[0].calls
    await talk.send("Sure?")
    assert call.arguments == written
    sent = [[block.data for block in request.blocks if b"tool_use" in block.data] for request in model.requests]
    assert sent[1] == sent[2] != []
    assert b'"input":{"ms":1}' in sent[1][0]


async def test_a_string_that_holds_no_object_is_still_refused() -> None:
    model = ScriptedModel([calling(ToolCall("c1", "wait", '"[1]"')), saying("Done.")])
    talk = Talk(model, Wait(), WebSearch())
    packets = await talk.send("Go")
    [result] = of(packets, "tool.result")
    assert (result["is_error"], "not a JSON object" in result["content"]) == (True, True)


async def test_a_model_that_calls_for_ever_is_ended() -> None:
    model = ScriptedModel([*(calling(wait(f"c{n}")) for n in range(10)), saying("Never.")])
    talk = Talk(model, Wait(), WebSearch(), step_limit=2)
    packets = await talk.send("Go")
    assert len(model.requests) == 2
    assert packets[-1]["status"] == "end_turn"
    await talk.send("And now?")
    sent = results(model.requests[-1])
    assert [id for id, _ in sent][:2] == ["c0", "c1"]


async def test_arguments_that_are_no_json_are_told_to_the_model() -> None:
    broken: list[ReplayEvent] = [
        deltas.ToolCallOpened(0, "c1", "wait"),
        deltas.ToolArgsDelta(0, '{"ms": 1'),
        deltas.UsageReported(Usage(input=1, output=1)),
        deltas.Closed(StopReason.TOOL_CALLS),
    ]
    model = ScriptedModel([broken, saying("I see.")])
    talk = Talk(model, Wait(), WebSearch())
    packets = await talk.send("Go")
    [result] = of(packets, "tool.result")
    assert (result["is_error"], result["content"]) == (True, 'The arguments are not a JSON object: {"ms": 1')
    calls = [block.value for block in model.requests[1].blocks if block.value.get("type") == "tool_use"]
    assert calls[0]["input"] == {}
    assert packets[-1]["status"] == "end_turn"


@pytest.mark.parametrize("arguments", ["", "  ", "{}", "[]", "7", "null"])
async def test_a_call_without_an_object_of_arguments_does_no_harm(arguments: str) -> None:
    call: list[ReplayEvent] = [deltas.ToolCallOpened(0, "c1", "wait"), deltas.ToolArgsDelta(0, arguments)]
    call += calling()
    model = ScriptedModel([call, saying("I see.")])
    talk = Talk(model, Wait(), WebSearch())
    packets = await talk.send("Go")
    assert of(packets, "tool.result")[0]["is_error"] is (arguments.strip() not in ("", "{}"))
    assert packets[-1]["status"] == "end_turn"


async def test_ids_that_a_provider_uses_again_are_made_different() -> None:
    model = ScriptedModel([calling(wait("0"), wait("0")), calling(wait("0")), saying("Done."), calling(wait("0"))])
    model.then(saying("Done again."))
    talk = Talk(model, Wait(), WebSearch())
    await talk.send("Go")
    await talk.send("Again")
    for request in model.requests:
        ids = [str(block.value["id"]) for block in request.blocks if block.value.get("type") == "tool_use"]
        assert len(set(ids)) == len(ids)
        assert [id for id, _ in results(request)] == ids


async def test_a_failure_after_some_steps_keeps_them() -> None:
    model = ScriptedModel([calling(wait("c1"), text="First.")])
    talk = Talk(model, Wait(), WebSearch())
    packets = await talk.send("Go")
    assert packets[-1]["status"] == "error"
    [step] = talk.turn.steps
    assert (step.text, step.results[0].content) == ("First.", "result of c1")
    model.then(saying("Better."))
    await talk.send("Once more")
    assert results(model.requests[-1]) == [("c1", "result of c1")]


async def test_a_failure_inside_the_engine_is_told_without_its_cause() -> None:
    class Odd(ScriptedModel):
        def salts(self, sampling: object) -> Any:
            raise RuntimeError("secret in /etc/passwd")

    talk = Talk(Odd([saying("Never.")]), Wait(), WebSearch())
    packets = await talk.send("Go")
    [error] = of(packets, "error")
    assert error["error"]["code"] == "internal_error"
    assert "log" in error["error"]["hint"]
    assert "secret" not in str(packets)
    assert packets[-1]["status"] == "error"
