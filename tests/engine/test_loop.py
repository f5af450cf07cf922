"""The loop of a run, as packets, requests and rows show it: steps, calls, reminders, and the last step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.agent.loop import LIMIT_REACHED
from lamella.agent.reminders import CITATION, LAST_STEP, OPEN_PAGES
from lamella.app.app import LOCAL_OWNER, App
from lamella.app.toolbox import SHIPPED_TOOLS
from lamella.core import deltas
from lamella.core.messages import StopReason, ToolCall
from lamella.core.prompt import ToolSpec, WireRequest
from lamella.core.tokens import Usage
from lamella.llm.scripted import Happening, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Client, Object, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope

pytestmark = pytest.mark.anyio


class Wait:
    """Comes back after the milliseconds that a call names, with its id."""

    spec = ToolSpec("wait", "Waits.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        await asyncio.sleep(float(str(call.arguments.get("ms", 0))) / 1000)
        return f"result of {call.id}"


class WebSearch:
    """Finds what a call says it finds."""

    spec = ToolSpec("web_search", "Searches the web.", '{"type":"object"}')
    kind = ToolKind.SEARCH
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return str(call.arguments["finds"])


def finding(id: str, finds: str) -> ToolCall:
    return ToolCall(id, "web_search", json.dumps({"finds": finds}))


@asynccontextmanager
async def talking(folder: Path, model: ScriptedModel, **settings: Any) -> AsyncIterator[tuple[App, Client, str]]:
    """A server with this model and the waiting tool, and a conversation in it."""
    opened = read_settings(data=folder, **settings)
    async with served(opened, models=ScriptedModels(model), tools=(Wait(), WebSearch(), *SHIPPED_TOOLS)) as (
        app,
        client,
    ):
        yield app, client, await client.conversation()


def wait(id: str, ms: int = 0) -> ToolCall:
    return ToolCall(id, "wait", f'{{"ms":{ms}}}')


def of(packets: list[Object], kind: str) -> list[Object]:
    return [packet for packet in packets if packet["type"] == kind]


def reminders(request: WireRequest) -> list[str]:
    """What the request's last block reminds of."""
    last = str(request.blocks[-1].value.get("text", ""))
    found = [text for text in (CITATION, OPEN_PAGES, LAST_STEP) if text in last]
    assert sorted(found, key=last.index) == found
    return found


def results(request: WireRequest) -> list[tuple[str, str]]:
    blocks = [block.value for block in request.blocks if block.value.get("type") == "tool_result"]
    return [(str(block["tool_use_id"]), str(block.get("content", ""))) for block in blocks]


async def test_results_go_back_in_call_order_and_are_shown_as_they_come(tmp_path: Path) -> None:
    model = ScriptedModel([calling(wait("c1", 90), wait("c2"), wait("c3", 45), text="Let me see."), saying("Done.")])
    async with talking(tmp_path, model) as (app, client, conversation):
        packets = await client.send(conversation, "Go")
        assert [packet["call_id"] for packet in of(packets, "tool.result")] == ["c2", "c3", "c1"]
        assert results(model.requests[1]) == [(id, f"result of {id}") for id in ("c1", "c2", "c3")]
        first, second = (await app.store.turn(LOCAL_OWNER, packets[0]["turn_id"])).steps
        assert [result.call_id for result in first.results] == ["c1", "c2", "c3"]
        assert (first.text, second.text) == ("Let me see.", "Done.")
        assert (await client.get(f"/turns/{packets[0]['turn_id']}"))["answer"] == "Let me see.\n\nDone."


async def test_every_block_has_its_own_place(tmp_path: Path) -> None:
    thought = deltas.ReasoningDelta(0, "Hm.")
    first: list[Happening] = [thought, *calling(wait("c1"), wait("c2"))]
    model = ScriptedModel([first, saying("Done.")])
    async with talking(tmp_path, model) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
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


async def test_usage_is_that_of_all_steps(tmp_path: Path) -> None:
    model = ScriptedModel([calling(wait("c1")), saying("Done.", usage=Usage(input=300, cache_read=200, output=7))])
    async with talking(tmp_path, model) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
        assert [packet["usage"]["input"] for packet in of(packets, "usage")] == [100, 300]
        total = packets[-1]["usage"]
        assert (total["input"], total["cache_read"], total["fresh"], total["output"]) == (400, 200, 200, 17)
        assert packets[-1]["cost"] == pytest.approx(sum(packet["cost"] for packet in of(packets, "usage")))
        turn = await client.get(f"/turns/{packets[0]['turn_id']}")
        assert (turn["usage"], turn["cost"]) == (total, pytest.approx(packets[-1]["cost"]))


async def test_the_last_step_is_told_and_its_calls_are_not_run(tmp_path: Path) -> None:
    """A turn has no more steps than its limit says."""
    model = ScriptedModel([*(calling(wait(f"c{n}"), text=f"Step {n}.") for n in range(3)), saying("Never asked for.")])
    async with talking(tmp_path, model, step_limit=3) as (app, client, conversation):
        packets = await client.send(conversation, "Go")
        assert [reminders(request) for request in model.requests] == [[], [], [LAST_STEP]]
        assert [request.head.get("tool_choice") for request in model.requests] == [None, None, None]
        assert [(p["call_id"], p["content"] == LIMIT_REACHED) for p in of(packets, "tool.result")] == [
            ("c0", False),
            ("c1", False),
            ("c2", True),
        ]
        assert of(packets, "answer.partial")[0]["reason"] == "step_limit"
        turn = await app.store.turn(LOCAL_OWNER, packets[0]["turn_id"])
        assert [step.stop_reason for step in turn.steps] == [StopReason.TOOL_CALLS] * 3
        tools = {len([block for block in request.blocks if block.level == "tools"]) for request in model.requests}
        assert tools == {3}
        model.then(saying("An answer after all."))
        await client.send(conversation, "Go on")
        assert results(model.requests[-1])[-1] == ("c2", LIMIT_REACHED)


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_a_turn_has_as_many_steps_as_it_may(tmp_path: Path, limit: int) -> None:
    model = ScriptedModel([calling(wait(f"c{n}")) for n in range(9)])
    async with talking(tmp_path, model, step_limit=limit) as (_, client, conversation):
        await client.send(conversation, "Go")
    assert len(model.requests) == limit


@pytest.mark.parametrize("times", [1, 2])
async def test_arguments_that_were_encoded_twice_are_read_and_kept(tmp_path: Path, times: int) -> None:
    """The tool runs; what the model sent is stored and shown as it was, the same in every later request."""
    written = '{"ms": 1}'
    for _ in range(times):
        written = json.dumps(written)
    model = ScriptedModel([calling(ToolCall("c1", "wait", written)), saying("Done."), saying("Yes.")])
    async with talking(tmp_path, model) as (app, client, conversation):
        packets = await client.send(conversation, "Go")
        assert [(p["content"], p["is_error"]) for p in of(packets, "tool.result")] == [("result of c1", False)]
        await client.send(conversation, "Sure?")
        [call] = (await app.store.turn(LOCAL_OWNER, packets[0]["turn_id"])).steps[0].calls
        assert call.arguments == written
    sent = [[block.data for block in request.blocks if b"tool_use" in block.data] for request in model.requests]
    assert sent[1] == sent[2] != []
    assert b'"input":{"ms":1}' in sent[1][0]


async def test_a_string_that_holds_no_object_is_still_refused(tmp_path: Path) -> None:
    model = ScriptedModel([calling(ToolCall("c1", "wait", '"[1]"')), saying("Done.")])
    async with talking(tmp_path, model) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
    [result] = of(packets, "tool.result")
    assert (result["is_error"], "not a JSON object" in result["content"]) == (True, True)


HITS = '{"documents": [{"document": 1, "title": "Ships", "url": "https://ships.example/", "contents": "Ships are…"}]}'
PASSAGE = '{"documents": [{"document": 1, "title": "Notes", "contents": "See https://ships.example/ for more."}]}'


@pytest.mark.parametrize(
    ("calls", "fields", "expected"),
    [
        (finding("c1", HITS), {}, [CITATION, OPEN_PAGES]),
        (finding("c1", "Ships, https://ships.example/: Ships are…"), {}, [CITATION, OPEN_PAGES]),
        (finding("c1", '[{"link": "http://ships.example/a", "snippet": "…"}]'), {}, [CITATION, OPEN_PAGES]),
        (finding("c1", PASSAGE), {}, [CITATION]),
        (finding("c1", "Nothing was found."), {}, [CITATION]),
        (finding("c1", HITS), {"open_url": False}, [CITATION]),
        (finding("c1", HITS), {"step_limit": 2}, [CITATION, LAST_STEP]),
        (wait("c1"), {}, []),
    ],
)
async def test_the_tool_to_call_after_web_hits(
    tmp_path: Path, calls: ToolCall, fields: dict[str, Any], expected: list[str]
) -> None:
    model = ScriptedModel([calling(calls), saying("Done.")])
    async with talking(tmp_path, model, **{"open_url": True, **fields}) as (_, client, conversation):
        await client.send(conversation, "Go")
    assert reminders(model.requests[1]) == expected


async def test_pages_that_were_opened_are_not_asked_for_again(tmp_path: Path) -> None:
    opened = ToolCall("c2", "open_url", '{"url":"http://127.0.0.1/"}')
    model = ScriptedModel([calling(finding("c1", HITS)), calling(opened), saying("Done.")])
    async with talking(tmp_path, model, open_url=True) as (_, client, conversation):
        await client.send(conversation, "Go")
    assert [reminders(request) for request in model.requests] == [[], [CITATION, OPEN_PAGES], [CITATION]]


async def test_a_model_that_calls_for_ever_is_ended(tmp_path: Path) -> None:
    model = ScriptedModel([*(calling(wait(f"c{n}")) for n in range(10)), saying("Never.")])
    async with talking(tmp_path, model, step_limit=2) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
        assert len(model.requests) == 2
        assert packets[-1]["status"] == "finished"
        await client.send(conversation, "And now?")
        sent = results(model.requests[-1])
    assert [id for id, _ in sent][:2] == ["c0", "c1"]


async def test_arguments_that_are_no_json_are_told_to_the_model(tmp_path: Path) -> None:
    broken: list[Happening] = [
        deltas.ToolCallOpened(0, "c1", "wait"),
        deltas.ToolArgsDelta(0, '{"ms": 1'),
        deltas.UsageReported(Usage(input=1, output=1)),
        deltas.Closed(StopReason.TOOL_CALLS),
    ]
    model = ScriptedModel([broken, saying("I see.")])
    async with talking(tmp_path, model) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
    [result] = of(packets, "tool.result")
    assert (result["is_error"], result["content"]) == (True, 'The arguments are not a JSON object: {"ms": 1')
    calls = [block.value for block in model.requests[1].blocks if block.value.get("type") == "tool_use"]
    assert calls[0]["input"] == {}
    assert packets[-1]["status"] == "finished"


@pytest.mark.parametrize("arguments", ["", "  ", "{}", "[]", "7", "null"])
async def test_a_call_without_an_object_of_arguments_does_no_harm(tmp_path: Path, arguments: str) -> None:
    call: list[Happening] = [deltas.ToolCallOpened(0, "c1", "wait"), deltas.ToolArgsDelta(0, arguments)]
    call += calling()
    model = ScriptedModel([call, saying("I see.")])
    async with talking(tmp_path, model) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
    assert of(packets, "tool.result")[0]["is_error"] is (arguments.strip() not in ("", "{}"))
    assert packets[-1]["status"] == "finished"


async def test_ids_that_a_provider_uses_again_are_made_different(tmp_path: Path) -> None:
    model = ScriptedModel([calling(wait("0"), wait("0")), calling(wait("0")), saying("Done."), calling(wait("0"))])
    model.then(saying("Done again."))
    async with talking(tmp_path, model) as (_, client, conversation):
        await client.send(conversation, "Go")
        await client.send(conversation, "Again")
    for request in model.requests:
        ids = [str(block.value["id"]) for block in request.blocks if block.value.get("type") == "tool_use"]
        assert len(set(ids)) == len(ids)
        assert [id for id, _ in results(request)] == ids


async def test_a_file_too_large_for_the_window_is_read_in_pieces_and_cited(tmp_path: Path) -> None:
    """Listed, read by the tool, and from then on the model is reminded to cite."""
    model = ScriptedModel()
    async with talking(tmp_path, model, context_budget=4_000) as (_, client, conversation):
        text = "Nothing of interest stands here. " * 2_000 + "The treasure lies under the oak. " + "Nor here. " * 500
        file = await client.upload("map.txt", text.encode())
        assert (file["status"], file["fits"]) == ("ready", False)
        assert "read in pieces" in file["reason"]
        call = ToolCall("c1", "read_file", f'{{"file_id":"{file["id"]}","query":"treasure"}}')
        model.then(calling(call), saying("The treasure lies under the oak [1]."))
        packets = await client.send(conversation, "Where is the treasure?", file_ids=[file["id"]])
        assert packets[-1]["status"] == "finished"
        [degraded] = of(packets, "context.degraded")
        assert degraded["subject"].startswith(file["id"])
        assert "map.txt" in degraded["why"]
        assert "under the oak" in of(packets, "tool.result")[0]["content"]
        assert [reminders(request) for request in model.requests] == [[], [CITATION]]
        [source], [citation] = of(packets, "source"), of(packets, "citation")
        assert (source["document"], source["title"], source["file_id"]) == (1, "map.txt", file["id"])
        content = await client.get(f"/files/{file['id']}/text")
        passage = content["text"][citation["passage_start"] : citation["passage_end"]]
        assert passage == "The treasure lies under the oak"
        model.then(saying("Yes [1]."))
        packets = await client.send(conversation, "Is that so?")
        assert of(packets, "citation")[0]["document"] == 1


async def test_a_failure_after_some_steps_keeps_them(tmp_path: Path) -> None:
    model = ScriptedModel([calling(wait("c1"), text="First.")])
    async with talking(tmp_path, model) as (app, client, conversation):
        packets = await client.send(conversation, "Go")
        assert packets[-1]["status"] == "failed"
        [step] = (await app.store.turn(LOCAL_OWNER, packets[0]["turn_id"])).steps
        assert (step.text, step.results[0].content) == ("First.", "result of c1")
        model.then(saying("Better."))
        await client.send(conversation, "Once more")
        assert results(model.requests[-1]) == [("c1", "result of c1")]


async def test_a_failure_inside_the_engine_is_told_without_its_cause(tmp_path: Path) -> None:
    class Odd(ScriptedModel):
        def salts(self, sampling: object) -> Any:
            raise RuntimeError("secret in /etc/passwd")

    async with talking(tmp_path, Odd([saying("Never.")])) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
    [error] = of(packets, "error")
    assert error["error"]["code"] == "internal_error"
    assert "log" in error["error"]["hint"]
    assert "secret" not in str(packets)
    assert packets[-1]["status"] == "failed"
