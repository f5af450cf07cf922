"""Windows that are too large, as a user and a provider see them: what gives way, what is said, what is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.core.decisions import DecisionKind
from lamella.core.errors import ProviderContextOverflow, ProviderRefusedRequest
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec, WireRequest
from lamella.core.records import ProviderLimit
from lamella.core.tokens import Usage
from lamella.llm.scripted import FACTS, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolOutput, ToolScope

pytestmark = pytest.mark.anyio

NO_SUMMARY = ProviderRefusedRequest("It does not summarise.")
TOO_LONG = ProviderContextOverflow("prompt is too long: 210000 tokens > 200000 maximum")


class Words:
    """Gives back as many words as a call asks for, each with its number."""

    kind = ToolKind.OTHER
    timeout = 5.0

    def __init__(self, when_old: Any = "prune") -> None:
        self.spec = ToolSpec("words", "Gives words.", '{"type":"object"}', when_old)

    async def run(self, scope: ToolScope, call: Invocation) -> str | ToolOutput:
        count = int(str(call.arguments["count"]))
        text = " ".join(f"word{number}" for number in range(count))
        queries = call.arguments.get("queries")
        return ToolOutput(text, tuple(map(str, queries))) if isinstance(queries, list) else text


@asynccontextmanager
async def talking(
    folder: Path, model: ScriptedModel, tool: Words, layout: str = "lamella", **settings: Any
) -> AsyncIterator[tuple[App, ServerClient, str]]:
    """A server with this model and the wordy tool, and a conversation in it."""
    opened = read_settings(data=folder, tool_prune_when="full", tool_prune_threshold=1_000_000, **settings)
    async with served(opened, models=ScriptedModels(model), tools=(tool,)) as (app, client):
        yield app, client, await client.conversation(layout=layout)


def words(id: str, count: int, more: str = "") -> ToolCall:
    return ToolCall(id, "words", f'{{"count":{count}{more}}}')


def results(request: WireRequest) -> dict[str, str]:
    values = [block.value for block in request.blocks]
    return {str(v["tool_use_id"]): str(v.get("content")) for v in values if v.get("type") == "tool_result"}


def degraded(packets: list[Object]) -> list[str]:
    return [packet["why"] for packet in packets if packet["type"] == "context.degraded"]


async def kinds_of_decisions(app: App, conversation: str) -> list[DecisionKind]:
    stored = await app.store.conversations.decisions(LOCAL_OWNER, conversation)
    return [s.decision.kind for s in stored if s.decision.kind is not DecisionKind.SETTING]


async def test_a_refused_window_is_made_smaller_and_sent_once_more(tmp_path: Path) -> None:
    model = ScriptedModel([calling(words("c1", 2_000)), saying("Many."), [TOO_LONG], [NO_SUMMARY], saying("Again.")])
    async with talking(tmp_path, model, Words(), context_budget=10_000) as (app, client, conversation):
        await client.send(conversation, "Go")
        packets = await client.send(conversation, "And now?")
        assert packets[-1]["status"] == "finished"
        refused, _, taken = model.requests[2:]
        assert results(refused)["c1"].startswith("word0 word1")
        assert results(taken) == {"c1": "words"}
        first, second = await app.store.requests.requests(LOCAL_OWNER, packets[0]["turn_id"])
        assert first.error is not None
        assert first.error["code"] == "context_length_exceeded"
        assert (first.step, second.step, second.error) == (0, 0, None)
        assert "refused a request of about" in degraded(packets)[0]
        assert "it is made smaller and sent again (until " in degraded(packets)[0]
        assert "the results of 1 earlier calls are left out" in degraded(packets)[1]
        assert await kinds_of_decisions(app, conversation) == [DecisionKind.PRUNE]
        assert "Again." in [
            step.text for step in (await app.store.turns.turn(LOCAL_OWNER, packets[0]["turn_id"])).steps
        ]


async def test_who_refuses_to_be_asked_of_the_cache_is_asked_without_that(tmp_path: Path) -> None:
    refusal = ProviderRefusedRequest("It answered 400: diagnostics: Extra inputs are not permitted")
    named = [deltas.AnswerNamed("msg_1"), *saying("Yes.")]
    model = ScriptedModel([named, [refusal], saying("Here.")], replace(FACTS, diagnoses=True))
    async with talking(tmp_path, model, Words()) as (app, client, conversation):
        await client.send(conversation, "Go")
        packets = await client.send(conversation, "And now?")
        assert packets[-1]["status"] == "finished"
        assert [request.head.get("diagnostics") for request in model.requests] == [
            None,
            {"previous_message_id": "msg_1"},
            None,
        ]
        assert ["refused to be asked" in why for why in degraded(packets)] == [True]
        refused, taken = await app.store.requests.requests(LOCAL_OWNER, packets[0]["turn_id"])
        assert (refused.error is None, taken.error) == (False, None)


async def test_where_nothing_can_give_way_the_refusal_is_told(tmp_path: Path) -> None:
    model = ScriptedModel([[TOO_LONG], [TOO_LONG], saying("never said")])
    async with talking(tmp_path, model, Words(), context_budget=10_000) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
    assert packets[-1]["status"] == "failed"
    (error,) = [packet["error"] for packet in packets if packet["type"] == "error"]
    assert error["message"] == TOO_LONG.message
    assert len(model.requests) == 2


async def test_a_second_refusal_is_final(tmp_path: Path) -> None:
    model = ScriptedModel([calling(words("c1", 2_000)), saying("Many.")])
    model.then([TOO_LONG], [NO_SUMMARY], [TOO_LONG], saying("never said"))
    async with talking(tmp_path, model, Words(), context_budget=10_000) as (_, client, conversation):
        await client.send(conversation, "Go")
        packets = await client.send(conversation, "And now?")
    assert packets[-1]["status"] == "failed"
    assert len(model.requests) == 5


async def test_results_that_exceed_the_window_are_cut_to_head_and_tail_for_good(tmp_path: Path) -> None:
    script = [
        calling(words("small", 10), words("large", 9_000), words("larger", 12_000)),
        saying("I see."),
        saying("Yes."),
    ]
    model = ScriptedModel(script)
    async with talking(tmp_path, model, Words(), context_budget=12_000) as (app, client, conversation):
        packets = await client.send(conversation, "Go")
        shown = results(model.requests[1])
        assert shown["small"] == " ".join(f"word{n}" for n in range(10))
        for name, last in (("large", "word8999"), ("larger", "word11999")):
            notice, begin, *_, end = shown[name].split("\n")
            assert notice.startswith("[Cut to fit the window: ")
            assert begin.startswith("word0 word1 word2")
            assert end.endswith(last)
        assert packets[-1]["status"] == "finished"
        assert sum("is left out" in why for why in degraded(packets)) == 2
        stored = (await app.store.turns.turn(LOCAL_OWNER, packets[0]["turn_id"])).steps[0].results
        assert stored[2].content.endswith("word11999")
        assert len(stored[2].content) > 90_000
        again = await client.send(conversation, "Really?")
        assert results(model.requests[2]) == shown
        assert degraded(again) == []


async def test_an_expanded_search_shows_every_query_that_ran(tmp_path: Path) -> None:
    expanding = words("c1", 3, ',"queries":["red ships","scarlet boats"]')
    model = ScriptedModel([calling(expanding), saying("Done."), saying("More.")])
    async with talking(tmp_path, model, Words(), layout="onyx") as (_, client, conversation):
        await client.send(conversation, "Go")
        await client.send(conversation, "And?")
    for request in model.requests[1:]:
        (call,) = [block.value for block in request.blocks if block.value.get("type") == "tool_use"]
        given: Any = call["input"]
        assert given["expanded_queries"] == ["red ships", "scarlet boats"]


@pytest.mark.parametrize(("layout", "shown"), [("onyx", "Words up to 500."), ("wegent", "word0")])
async def test_a_digest_stands_in_place_of_an_old_result(tmp_path: Path, layout: str, shown: str) -> None:
    """It is asked for once, at the end of the turn, and billed to it."""
    model = ScriptedModel([calling(words("c1", 500)), saying("Done."), saying("Words up to 500."), saying("More.")])
    async with talking(tmp_path, model, Words("digest"), layout=layout) as (app, client, conversation):
        packets = await client.send(conversation, "Go")
        requests = await app.store.requests.requests(LOCAL_OWNER, packets[0]["turn_id"])
        assert [request.purpose for request in requests] == ["chat", "chat", "digest"]
        assert packets[-1]["usage"]["input"] == 300
        await client.send(conversation, "And?")
        assert results(model.requests[3])["c1"].startswith(shown)
        (stored,) = (await app.store.turns.turn(LOCAL_OWNER, packets[0]["turn_id"])).steps[0].results
        assert (stored.digest, stored.content[:5]) == ("Words up to 500.", "word0")


async def test_a_short_result_is_its_own_digest_and_a_failed_one_leaves_the_fixed_string(tmp_path: Path) -> None:
    model = ScriptedModel([calling(words("c1", 5), words("c2", 500)), saying("Done."), [TOO_LONG], saying("More.")])
    async with talking(tmp_path, model, Words("digest"), layout="onyx") as (_, client, conversation):
        packets = await client.send(conversation, "Go")
        assert packets[-1]["status"] == "finished"
        await client.send(conversation, "And?")
    old = results(model.requests[3])
    assert old["c1"] == "word0 word1 word2 word3 word4"
    assert old["c2"].startswith("The result of this call is no longer available.")


async def test_the_last_step_of_layout_onyx_has_no_tools_and_says_why(tmp_path: Path) -> None:
    model = ScriptedModel([calling(words("c1", 5)), saying("Done.")])
    async with talking(tmp_path, model, Words(), layout="onyx", step_limit=2) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
        assert ["words" in [b.value.get("name") for b in r.blocks if b.level == "tools"] for r in model.requests] == [
            True,
            False,
        ]
        last = [packet["request_id"] for packet in packets if packet["type"] == "request.started"][-1]
        absent = (await client.get(f"/requests/{last}/map"))["absent"]
        assert {"kind": "tools", "why": "layout onyx sends no tools with the last step"} in absent


async def test_after_a_refusal_the_next_message_is_answered(tmp_path: Path) -> None:
    """What was too large and can't be summarised leaves the window, stays stored, and window and notice say so."""
    model = ScriptedModel([[TOO_LONG], [TOO_LONG], saying("Hello.")])
    async with talking(tmp_path, model, Words(), context_budget=4_000) as (_, client, conversation):
        long = " ".join(f"word{number}" for number in range(700))
        assert (await client.send(conversation, long))[-1]["status"] == "failed"
        packets = await client.send(conversation, "Hello?")
        assert packets[-1]["status"] == "finished"
        assert "are left out of it" in degraded(packets)[-1]
        sent = [block.data for block in model.requests[-1].blocks]
        assert not [data for data in sent if b"word699" in data]
        assert [data for data in sent if b"Left out here for want of room" in data]
        assert long in str(await client.get(f"/conversations/{conversation}/turns"))


def refusing(counted: int | None = None, limit: int | None = None) -> ProviderContextOverflow:
    """A refusal with what the provider says of it."""
    error = ProviderContextOverflow("prompt is too long")
    error.counted, error.limit = counted, limit
    return error


LONG = " ".join(f"word{number}" for number in range(600))


async def test_a_refusal_is_followed_by_one_compaction_and_one_retry(tmp_path: Path) -> None:
    """The provider takes less than the budget: what stands before the turn is summarised while it runs."""
    model = ScriptedModel([saying(f"Answer {n}.", usage=Usage(input=1_250 * n, output=5)) for n in (1, 2, 3)])
    settings = read_settings(data=tmp_path, context_budget=20_000, keep_recent_tokens=100)
    async with served(settings, models=ScriptedModels(model)) as (app, client):
        conversation = await client.conversation()
        for number in range(3):
            await client.send(conversation, f"Question {number}? {LONG}")
        pieces = [saying(f"They counted words, as part {n} says.") for n in (1, 2, 3)]
        model.then([refusing(3_900, 2_000)], *pieces, saying("Here."))
        packets = await client.send(conversation, "hi")
        assert packets[-1]["status"] == "finished"
        assert len(model.requests) == 8
        assert len(await app.store.sessions.sessions(LOCAL_OWNER, conversation)) == 2
        last = b"".join(block.data for block in model.requests[-1].blocks)
        assert all(f"They counted words, as part {n} says.".encode() in last for n in (1, 2, 3))
        assert b"Question 0?" not in last
        stored = await app.store.requests.provider_limit("scripted", "scripted", app.clock.now())
        assert stored is not None
        assert stored.tokens == 2_000
        model.then(saying("More."))
        after = await client.send(conversation, "And now?")
        assert [packet["why"] for packet in after if packet["type"] == "context.degraded"] == []
        assert after[-1]["status"] == "finished"


async def test_a_limit_is_shared_by_conversations_and_ends(tmp_path: Path) -> None:
    """Another conversation of the account is kept below it; a larger bill lifts it."""
    model = ScriptedModel([saying("One.", usage=Usage(input=1_250, output=1))])
    async with talking(tmp_path, model, Words(), context_budget=20_000, keep_recent_tokens=100) as (
        app,
        client,
        conversation,
    ):
        await client.send(conversation, LONG)
        model.then([refusing(None, 1_400)], [ProviderRefusedRequest("no summary")], saying("Two."))
        assert (await client.send(conversation, LONG))[-1]["status"] == "finished"
        assert await app.store.requests.provider_limit("scripted", "scripted", app.clock.now()) is not None
        other = await client.conversation()
        model.then(saying("Three.", usage=Usage(input=1_500, output=1)))
        assert (await client.send(other, LONG))[-1]["status"] == "finished"
        assert await app.store.requests.provider_limit("scripted", "scripted", app.clock.now()) is None


async def test_what_left_for_a_limit_comes_back_when_the_limit_is_gone(tmp_path: Path) -> None:
    model = ScriptedModel([saying(f"Answer {n}.", usage=Usage(input=1_250 * n, output=5)) for n in (1, 2)])
    async with talking(tmp_path, model, Words(), context_budget=20_000, keep_recent_tokens=100) as (
        app,
        client,
        conversation,
    ):
        for number in range(2):
            await client.send(conversation, f"Question {number}? {LONG}")
        model.then([refusing(None, 900)], [ProviderRefusedRequest("no summary")], saying("Here."))
        packets = await client.send(conversation, "hi")
        assert packets[-1]["status"] == "finished"
        assert b"Question 0?" not in b"".join(block.data for block in model.requests[-1].blocks)
        await app.store.requests.keep_provider_limit(ProviderLimit("scripted", "scripted", 900, app.clock.now()))
        model.then(saying("All of it."))
        await client.send(conversation, "And now?")
        assert b"Question 0?" in b"".join(block.data for block in model.requests[-1].blocks)
        assert (await kinds_of_decisions(app, conversation))[-2:] == [DecisionKind.LEFT_OUT] * 2


async def test_an_odd_bill_inflates_no_estimate_for_ever(tmp_path: Path) -> None:
    model = ScriptedModel([saying("One.", usage=Usage(input=9_000, output=1)), saying("Two.")])
    async with talking(tmp_path, model, Words(), context_budget=10_000) as (_, client, conversation):
        await client.send(conversation, LONG)
        packets = await client.send(conversation, "hi")
        assert packets[-1]["status"] == "finished"
        assert degraded(packets) == []


async def test_thinking_that_the_provider_left_out_is_told_and_kept(tmp_path: Path) -> None:
    model = ScriptedModel([[deltas.ThinkingDropped(2), *saying("Hm.")]])
    async with talking(tmp_path, model, Words()) as (_, client, conversation):
        packets = await client.send(conversation, "Hello?")
        assert degraded(packets) == ["the provider left out 2 blocks of earlier thinking: what stood before changed"]
        started = next(packet for packet in packets if packet["type"] == "request.started")
        assert (await client.get(f"/requests/{started['request_id']}/map"))["dropped_thinking"] == 2


async def test_queries_that_a_call_shows_are_counted(tmp_path: Path) -> None:
    many = ",".join(f'"a longer query about ships number {number}"' for number in range(40))
    model = ScriptedModel([calling(words("c1", 3, f',"queries":[{many}]')), saying("Done.")])
    async with talking(tmp_path, model, Words()) as (app, client, conversation):
        packets = await client.send(conversation, "Go")
        last = [packet["request_id"] for packet in packets if packet["type"] == "request.started"][-1]
        record = await app.store.requests.request(LOCAL_OWNER, last)
        (called,) = [segment for segment in record.segments if segment.letters == "TC TR"]
        assert called.tokens > 250


async def test_a_turn_of_forty_large_steps_gives_way_step_by_step(tmp_path: Path) -> None:
    """Old results of its own steps become stubs, oldest first; the newest is whole, and no call lacks its result."""
    model = ScriptedModel([*(calling(words(f"c{n}", 900)) for n in range(40)), saying("Done."), saying("More.")])
    async with talking(tmp_path, model, Words(), context_budget=12_000, step_limit=50) as (app, client, conversation):
        packets = await client.send(conversation, "Go")
        assert packets[-1]["status"] == "finished"
        assert len(model.requests) == 41
        for number, request in enumerate(model.requests):
            shown = list(results(request).values())
            roles = [block.role for block in request.blocks if block.level == "messages"]
            stubs = [text == "words" for text in shown]
            assert len(shown) == number
            assert stubs == sorted(stubs, reverse=True)
            assert number == 0 or shown[-1].endswith("word899")
            assert roles[0] == "user"
        stored = await app.store.requests.requests(LOCAL_OWNER, next(p["turn_id"] for p in packets if p["turn_id"]))
        assert all(record.estimate * 1.05 <= record.budget for record in stored)
        assert (await client.send(conversation, "And?"))[-1]["status"] == "finished"


async def test_a_turn_whose_calls_alone_are_too_large_ends_with_what_to_do(tmp_path: Path) -> None:
    script = [calling(words(f"c{n}", 1, ',"note":"' + f"note{n} " * 500 + '"')) for n in range(40)]
    model = ScriptedModel(script)
    async with talking(tmp_path, model, Words(), context_budget=12_000, step_limit=50) as (_, client, conversation):
        packets = await client.send(conversation, "Go")
        assert packets[-1]["status"] == "failed"
        (error,) = [packet["error"] for packet in packets if packet["type"] == "error"]
        assert error["code"] == "context_length_exceeded"
        assert "steps of this answer have" in error["message"]
        assert error["hint"].startswith("Ask for less at once")
        model.then(saying("Here."))
        assert (await client.send(conversation, "/compact"))[-1]["type"] != "error"
