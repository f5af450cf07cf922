"""Recall through whole turns: the model's tools, the search route, restarts, and whose words they are (X-RECALL)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.json import decode_object, encode_text
from lamella.core.messages import ToolCall
from lamella.core.records import Caller, JobStatus
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.sessions.recall.recall import INDEX
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def talking(folder: Path, model: ScriptedModel, **settings: Any) -> AsyncIterator[tuple[App, ServerClient]]:
    async with served(read_settings(data=folder, **settings), models=ScriptedModels(model)) as (app, client):
        yield app, client


async def say(client: ServerClient, model: ScriptedModel, conversation: str, text: str, reply: str = "Noted.") -> None:
    model.then(saying(reply))
    await client.send(conversation, text)


async def called(client: ServerClient, model: ScriptedModel, conversation: str, name: str, **arguments: Any) -> Object:
    """What the model is given for a call of a tool, as the result that it reads."""
    model.then(calling(ToolCall("call_x", name, encode_text(arguments))), saying("I see."))
    packets = await client.send(conversation, "Look it up.")
    [result] = [packet for packet in packets if packet["type"] == "tool.result"]
    return {"is_error": result["is_error"], "text": result["content"]}


def passages_of(found: Object) -> list[Object]:
    """The passages of a search, as the model reads them."""
    passages: Any = decode_object(found["text"])["passages"]
    return list(passages)


async def settled(app: App, conversation: str) -> None:
    """Come back when nothing waits to be indexed."""
    while True:
        job = await app.store.jobs.job(LOCAL_OWNER, INDEX, conversation)
        if job is not None and job.status not in (JobStatus.WAITING, JobStatus.RUNNING):
            assert job.status is JobStatus.FINISHED, job.error
            return
        await asyncio.sleep(0.02)


async def test_the_model_finds_what_lies_before_its_window(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation = await client.conversation()
        await say(client, model, conversation, "The code of the safe is 7-3-9-1.", "I will remember it.")
        await say(client, model, conversation, "Let us speak of gardens.")
        for _ in range(3):
            await client.post(f"/conversations/{conversation}/new")
        found = await called(client, model, conversation, "search_conversation", query="code of the safe")
        [first, *_] = passages_of(found)
        assert (first["text"], first["from"], first["session"]) == ("The code of the safe is 7-3-9-1.", "user", 1)
        read = await called(client, model, conversation, "read_message", id=first["id"])
        assert decode_object(read["text"])["text"] == "The code of the safe is 7-3-9-1."


async def test_a_long_message_is_read_piece_by_piece(tmp_path: Path) -> None:
    model, long = ScriptedModel(), " ".join(f"word{number}" for number in range(4_000))
    async with talking(tmp_path, model) as (_, client):
        conversation = await client.conversation()
        await say(client, model, conversation, long)
        found = await called(client, model, conversation, "search_conversation", query="word3999", limit=1)
        [passage] = passages_of(found)
        assert "word3999" in passage["text"]
        assert len(passage["text"]) <= 1_600
        pieces, offset = "", 0
        while True:
            read = await called(client, model, conversation, "read_message", id=passage["id"], offset=offset)
            piece = decode_object(read["text"])
            pieces += str(piece["text"])
            if "next_offset" not in piece:
                break
            offset = int(str(piece["next_offset"]))
        assert pieces == long


async def test_what_a_search_gave_is_not_found_again(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (app, client):
        conversation = await client.conversation()
        await say(client, model, conversation, "A lighthouse stands on the cliff.")
        for _ in range(2):
            await called(client, model, conversation, "search_conversation", query="lighthouse")
        found = await app.recall.search(LOCAL_OWNER, "lighthouse on the cliff", conversation)
        assert [hit.source.content for hit in found.hits if "cliff" in hit.source.content] == [
            "A lighthouse stands on the cliff."
        ]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search_conversation", {"query": "  "}, "The query is empty"),
        ("search_conversation", {"query": "x", "limit": 99}, "limit"),
        ("search_conversation", {"query": "x", "all_conversations": True}, "all_conversations"),
        ("read_message", {"id": "msg_nobody"}, "no message or call msg_nobody"),
        ("read_message", {"id": ""}, "no message or call"),
    ],
)
async def test_what_a_tool_cannot_do_it_says(tmp_path: Path, name: str, arguments: Any, said: str) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation = await client.conversation()
        found = await called(client, model, conversation, name, **arguments)
        assert found["is_error"]
        assert said in found["text"]


@pytest.mark.parametrize("recall", ["off", "conversation", "user"])
async def test_a_deployment_says_what_can_be_searched(tmp_path: Path, recall: str) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, recall=recall) as (app, client):
        tools = {spec.name for spec in app.registry.specs()} & {"search_conversation", "read_message"}
        assert len(tools) == (0 if recall == "off" else 2)
        one, other = await client.conversation(), await client.conversation()
        await say(client, model, one, "A walrus was seen.")
        if recall == "off":
            return
        everywhere = {"all_conversations": True} if recall == "user" else {}
        found = await called(client, model, other, "search_conversation", query="walrus", **everywhere)
        passages = passages_of(found)
        assert any(passage["text"] == "A walrus was seen." for passage in passages) == (recall == "user")
        if recall == "user":
            read = await called(client, model, other, "read_message", id=passages[0]["id"])
            assert decode_object(read["text"])["text"] == passages[0]["text"]


async def test_the_route_gives_places_marks_and_sessions(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation = await client.conversation()
        await say(client, model, conversation, "We met near the old lighthouse, " + "far away. " * 60)
        await client.post(f"/conversations/{conversation}/new")
        await say(client, model, conversation, "Now of soup.")
        found = await client.get(f"/sessions/search?q=lighthouses&conversation_id={conversation}&limit=3")
        [hit, *_] = found["data"]
        assert (hit["role"], hit["conversation_id"], hit["score"] > 0.5) == ("user", conversation, True)
        [mark] = hit["snippet"]["marks"]
        assert hit["snippet"]["text"][mark["start"] : mark["end"]] == "lighthouse"
        assert found["sessions"][0]["number"] == 1
        everywhere = await client.get("/sessions/search?q=lighthouse")
        assert everywhere["data"][0]["message_id"] == hit["message_id"]
        assert (await client.get("/sessions/search?q=zebra"))["data"] == []
        for query, status in (
            ("q=", 422),
            ("", 422),
            ("q=%20", 400),
            ("q=x&conversation_id=conv_no", 404),
            ("q=x&limit=0", 422),
        ):
            answer = await client.call("GET", f"/sessions/search?{query}")
            assert answer.status_code in (status, 400), query
            assert answer.json()["error"]["message"]


async def test_a_stranger_finds_nothing(tmp_path: Path) -> None:
    model, bob = ScriptedModel(), Caller("user_bob")
    async with talking(tmp_path, model) as (app, client):
        conversation = await client.conversation()
        await say(client, model, conversation, "A walrus was seen.")
        await settled(app, conversation)
        assert (await app.recall.search(bob, "walrus")).hits == ()


async def test_what_was_said_before_a_restart_is_found_after_it(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (app, client):
        conversation = await client.conversation()
        await say(client, model, conversation, "A walrus was seen.")
        await settled(app, conversation)
    async with talking(tmp_path, model) as (_, client):
        found = await client.get("/sessions/search?q=walrus")
        assert found["data"][0]["snippet"]["text"] == "A walrus was seen."


async def test_a_file_from_before_the_window_can_be_read(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation, other = await client.conversation(), await client.conversation()
        file = await client.upload("plan.txt", b"The plan is to sail at dawn.")
        model.then(saying("Read."))
        await client.send(conversation, "Here is the plan.", file_ids=[file["id"]])
        await client.post(f"/conversations/{conversation}/new")
        read = await called(client, model, conversation, "read_file", file_id=file["id"])
        assert "sail at dawn" in read["text"]
        foreign = await called(client, model, other, "read_file", file_id=file["id"])
        assert foreign["is_error"]


async def resume(client: ServerClient, conversation: str, argument: str) -> Object:
    return await client.post(f"/conversations/{conversation}/commands", {"text": f"/resume {argument}"})


async def three_sessions(client: ServerClient, model: ScriptedModel) -> str:
    """A conversation of lighthouses, of gardens with a lighthouse, and of nothing yet."""
    conversation = await client.conversation()
    await say(client, model, conversation, "Tell me of Rembrandt and the lighthouse.", "He never painted one.")
    await client.post(f"/conversations/{conversation}/new")
    await say(client, model, conversation, "A lighthouse in my garden, with tulips.", "Charming.")
    await client.post(f"/conversations/{conversation}/new")
    return conversation


async def test_words_resume_the_one_session_that_has_them(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation = await three_sessions(client, model)
        answer = await resume(client, conversation, "what about Rembrandt")
        assert (answer["data"]["number"], answer["data"]["in_full"]) == (1, True)
        assert "Session 1 continues" in answer["answer"]


UNSURE = [
    ("lighthouse", [1, 2], "several sessions have it"),
    ("lighthouse of Rembrandt and Vermeer", [1, 2], "another has half of the words that are anywhere"),
    ("the", [1], "a stop word, in one session alone"),
    ("he", [1], "another"),
    ("a", [2], "a letter"),
    ("one in my", [1], "stop words alone"),
    ("Rembrandt and the zebras of Mombasa", [1], "a weak match: most of its words are nowhere"),
]


@pytest.mark.parametrize(("text", "numbers"), [(text, numbers) for text, numbers, _ in UNSURE])
async def test_a_text_that_is_not_sure_lists_what_may_be_meant(tmp_path: Path, text: str, numbers: list[int]) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation = await three_sessions(client, model)
        answer = await resume(client, conversation, text)
        assert sorted(session["number"] for session in answer["data"]["sessions"]) == sorted(numbers)
        for line in (one for one in answer["answer"].splitlines() if one[0].isdigit()):
            assert re.fullmatch(r"[12] · 20\S+ \S+ \(just now\) · 2 messages, about \d+ tokens · .*", line), line
        assert "sess_" not in answer["answer"]
        current = [
            one for one in (await client.get(f"/conversations/{conversation}/sessions"))["data"] if one["current"]
        ]
        assert [one["number"] for one in current] == [3]
        chosen = await resume(client, conversation, str(numbers[0]))
        assert chosen["data"]["number"] == numbers[0]


@pytest.mark.parametrize(
    ("said", "stop_word"),
    [
        ("Die Ernte und der Wein sind dieses Jahr nicht gut.", "nicht"),
        ("Le vin de cette année est aussi bon que celui de mon père.", "cette"),
        ("Урожай в этом году был лучше, потому что шёл дождь.", "потому"),
        ("今年的葡萄酒是很好的。", "是"),
        ("El vino de este año también es bueno porque llovió.", "porque"),
        ("Viini on hyvää, koska satoi paljon, mutta kallista.", "mutta"),
        ("Wino w tym roku jest dobre, ponieważ padało.", "ponieważ"),
        ("Bu yıl şarap çok iyi, çünkü yağmur yağdı.", "çünkü"),
    ],
)
async def test_a_stop_word_of_any_language_resumes_nothing(tmp_path: Path, said: str, stop_word: str) -> None:
    """It stands in one session alone because the others are in another language."""
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation = await client.conversation()
        await say(client, model, conversation, said)
        await client.post(f"/conversations/{conversation}/new")
        await say(client, model, conversation, "Let us speak of gardens.")
        await client.post(f"/conversations/{conversation}/new")
        answer = await resume(client, conversation, stop_word)
        assert [session["number"] for session in answer["data"]["sessions"]] == [1]


@pytest.mark.parametrize(
    ("text", "number"), [("Mombasa", 1), ("INV-20931", 2), ("郁金香花园", 3), ("tulips of Haarlem", 2)]
)
async def test_a_text_that_one_session_alone_has_resumes_it(tmp_path: Path, text: str, number: int) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation = await client.conversation()
        for said in ("The ship left Mombasa.", "The bill INV-20931 is for tulips from Haarlem.", "郁金香花园很美。"):
            await say(client, model, conversation, said)
            await client.post(f"/conversations/{conversation}/new")
        answer = await resume(client, conversation, text)
        assert answer["data"]["number"] == number


async def test_words_that_several_sessions_have_give_a_choice(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation = await three_sessions(client, model)
        answer = await resume(client, conversation, "lighthouse")
        assert sorted(session["number"] for session in answer["data"]["sessions"]) == [1, 2]
        assert all("lighthouse" in session["snippet"] for session in answer["data"]["sessions"])
        assert "/resume with its number" in answer["answer"]
        current = await client.get(f"/conversations/{conversation}/sessions")
        assert len(current["data"]) == 3


@pytest.mark.parametrize("argument", ["zebras", "99", "sess_nobody"])
async def test_what_no_session_has_is_said(tmp_path: Path, argument: str) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model) as (_, client):
        conversation = await three_sessions(client, model)
        answer = await client.call(
            "POST", f"/conversations/{conversation}/commands", json={"text": f"/resume {argument}"}
        )
        assert (answer.status_code, "/resume lists them" in str(answer.json()["error"]["hint"])) == (400, True)


async def test_a_session_over_the_budget_goes_on_by_its_summary(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, resume_token_budget="1000") as (app, client):
        conversation = await client.conversation()
        model.then(saying("Long indeed.", usage=Usage(input=1_200, output=10)))
        await client.send(conversation, "Rembrandt. " * 40)
        await client.post(f"/conversations/{conversation}/new")
        first, *_ = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
        while first.summary is None:
            await asyncio.sleep(0.02)
            first, *_ = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
        await say(client, model, conversation, "Of gardens.")
        answer = await resume(client, conversation, "1")
        assert (answer["data"]["in_full"], answer["data"]["summary_of"]) == (False, first.id)
        assert "too large" in answer["answer"]
        await say(client, model, conversation, "And now?")
        window = str([block.value for block in model.requests[-1].blocks])
        assert "Of gardens." not in window
        assert first.summary.splitlines()[1][:20] in window
