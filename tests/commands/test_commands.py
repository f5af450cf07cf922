"""Commands as somebody types them, over the API: answered at once, stored, unseen by models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.core.decisions import DecisionKind
from lamella.core.messages import StopReason
from lamella.core.tokens import Usage
from lamella.llm.scripted import FACTS, Gate, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.sessions.summariser import WAY_OUT
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

SUMMARY = "# Facts\n- The ship is the Aurora [msg_1]"
MUCH = "They spoke of ships and of harbours, of tides and of winds. " * 100


@asynccontextmanager
async def opened(folder: Path, model: ScriptedModel, **settings: Any) -> AsyncIterator[tuple[App, ServerClient, str]]:
    """A new conversation that keeps little of what is recent."""
    given = {"keep_recent_tokens": 1_200, **settings}
    async with served(read_settings(data=folder, **given), models=ScriptedModels(model)) as (app, client):
        yield app, client, await client.conversation()


async def talk(client: ServerClient, conversation: str, model: ScriptedModel, turns: int = 4) -> None:
    for number in range(turns):
        model.then(saying(f"Answer {number}. {MUCH}", usage=Usage(input=1_000 * number + 400, output=300)))
        await client.send(conversation, f"Question {number}?")


async def command(client: ServerClient, conversation: str, text: str, **options: Any) -> Object:
    return await client.post(f"/conversations/{conversation}/commands", {"text": text}, **options)


async def refused(client: ServerClient, conversation: str, text: str, where: str = "commands") -> tuple[int, Object]:
    answer = await client.call("POST", f"/conversations/{conversation}/{where}", json={"text": text})
    return answer.status_code, answer.json()["error"]


async def listed(client: ServerClient, conversation: str) -> list[Object]:
    found: list[Object] = (await client.get(f"/conversations/{conversation}/commands?order=asc"))["data"]
    return found


async def test_status_says_where_a_conversation_stands(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model, context_budget=100_000) as (_, client, conversation):
        model.then(saying("Hello.", usage=Usage(input=12_400, cache_read=9_000, cache_write_5m=1_200, output=10)))
        await client.send(conversation, "Hi")
        found = await command(client, conversation, "/status")
    assert (found["object"], found["name"], found["argument"]) == ("command", "status", "")
    assert found["data"]["session"]["number"] == 1
    assert found["answer"].splitlines() == [
        "scripted · thinking off",
        "Session 1 · 2 messages in the window",
        "Context 12.4k/100k (12%)",
        "Cache of the last request: 9k read, 1.2k written",
        "Compaction: automatic above 40k tokens, where a summary pays (balanced)",
        "The cache ends in 5 min; nothing is due: it has 12400 tokens, and up to 40000 nothing is compacted "
        "automatically",
        f"Cost of the conversation: ${found['data']['cost']:.4f}",
    ]
    assert found["data"]["cost"] > 0
    assert len(model.requests) == 1


async def test_status_of_a_conversation_that_has_said_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, ScriptedModel()) as (_, client, conversation):
        found = await command(client, conversation, "/status")
    assert "0 messages in the window" in found["answer"]
    assert "Context about" in found["answer"]
    assert "nothing was asked yet" in found["answer"]
    assert found["turn_id"] is None


async def test_status_and_the_list_say_that_a_model_is_unknown(tmp_path: Path) -> None:
    model = ScriptedModel(facts=replace(FACTS, known=False))
    async with opened(tmp_path, model) as (_, client, conversation):
        found = await command(client, conversation, "/status")
        [listed_model] = (await client.get("/models"))["data"]
    assert "The model table does not know “scripted”" in found["answer"]
    assert listed_model["caution"] == found["data"]["caution"]
    assert "LAMELLA_MODELS" in listed_model["caution"]


async def test_a_command_in_the_place_of_a_message(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model) as (_, client, conversation):
        [packet] = await client.send(conversation, "  /HELP ")
        assert (packet["type"], packet["name"]) == ("command", "help")
        assert "/compact [focus]: summarise old turns" in packet["answer"]
        answer = await client.call(
            "POST",
            f"/conversations/{conversation}/turns",
            json={"text": "/help"},
            headers={"accept": "application/json"},
        )
        assert (answer.status_code, answer.json()["object"]) == (200, "command")
        assert answer.json()["answer"] == packet["answer"]
        names = [one["name"] for one in (await client.get("/commands"))["data"]]
        assert names == [
            "status",
            "context",
            "why",
            "new",
            "clear",
            "compact",
            "prune",
            "resume",
            "undo",
            "abort",
            "stop",
            "cancel",
            "queue",
            "help",
        ]
        assert (await client.get(f"/conversations/{conversation}/turns"))["data"] == []
    assert model.requests == []


@pytest.mark.parametrize("where", ["commands", "turns"])
@pytest.mark.parametrize(
    ("text", "near"), [("/compat", "compact"), ("/prune-tools", "prune"), ("/statsu", "status"), ("/abort!", "abort")]
)
async def test_an_unknown_command_names_the_nearest(tmp_path: Path, where: str, text: str, near: str) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model) as (_, client, conversation):
        status, error = await refused(client, conversation, text, where)
        assert (status, error["code"]) == (400, "invalid_request")
        assert error["hint"] == f"Did you mean /{near}? To send it as text, write /{text}."
        assert await listed(client, conversation) == []
    assert model.requests == []


@pytest.mark.parametrize("where", ["commands", "turns"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/new\nfoo", "/new is a command, and a command is one line: nothing was run, and nothing was sent."),
        ("/status\r\nWhat is it?", "/status is a command, and a command is one line"),
        ("/compact ships\nand harbours", "/compact is a command, and a command is one line"),
        ("/abort please do not", "/abort takes no words after it (“please do not”): nothing was run."),
        ("/new start", "/new takes no words after it (“start”): nothing was run."),
    ],
)
async def test_words_that_a_command_would_drop_are_refused_with_it(
    tmp_path: Path, where: str, text: str, said: str
) -> None:
    """Nothing runs, nothing is stored, and the error says how to send either."""
    model = ScriptedModel()
    async with opened(tmp_path, model) as (_, client, conversation):
        status, error = await refused(client, conversation, text, where)
        assert (status, error["type"], error["param"]) == (400, "InvalidRequest", "text")
        assert error["message"].startswith(said)
        assert "//" in error["hint"]
        assert await listed(client, conversation) == []
        assert (await client.get(f"/conversations/{conversation}/turns"))["data"] == []
        assert len((await client.get(f"/conversations/{conversation}/sessions"))["data"]) == 1
    assert model.requests == []


async def test_an_abort_with_words_stops_nothing(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    async with opened(tmp_path, model) as (_, client, conversation):
        model.then([deltas.TextDelta(0, "Half"), gate, *saying(" an answer.")])
        async with client.sending(conversation, "Go") as events:
            await asyncio.wait_for(gate.reached.wait(), 10)
            assert (await refused(client, conversation, "/abort please do not"))[0] == 400
            gate.opened.set()
            packets = [event.packet async for event in events if event.n is not None]
        assert packets[-1]["status"] == "finished"


@pytest.mark.parametrize("text", ["/usr/bin/env python\nprint(1)", "/etc/hosts is wrong", "/index.html gives a 404"])
async def test_a_path_is_no_command_and_goes_to_the_model(tmp_path: Path, text: str) -> None:
    model = ScriptedModel([saying("I see.")])
    async with opened(tmp_path, model) as (_, client, conversation):
        await client.send(conversation, text)
        [turn] = (await client.get(f"/conversations/{conversation}/turns"))["data"]
        assert turn["text"] == text
    assert any(text in str(block.value.get("text")) for block in model.requests[0].blocks)


async def test_what_waits_is_not_rewritten_into_a_command_with_words(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    async with opened(tmp_path, model) as (_, client, conversation):
        model.then([gate, *saying("One.")], saying("Two."))
        async with client.sending(conversation, "First"):
            await asyncio.wait_for(gate.reached.wait(), 10)
            body = {"text": "Second", "debounce_ms": 0}
            path = f"/conversations/{conversation}"
            queued = (
                await client.call("POST", f"{path}/turns", json=body, headers={"accept": "application/json"})
            ).json()
            for text in ("/new\nfoo", "/abort now", "/statsu", "/status"):
                changed = await client.call("PATCH", f"{path}/queue/{queued['id']}", json={"text": text})
                assert (changed.status_code, changed.json()["error"]["code"]) == (400, "invalid_request")
            [waiting] = (await client.get(f"{path}/queue"))["data"]
            assert waiting["text"] == "Second"
            gate.opened.set()


@pytest.mark.parametrize("name", ["abort", "stop", "cancel"])
async def test_abort_goes_by_three_names(tmp_path: Path, name: str) -> None:
    model, gate = ScriptedModel(), Gate()
    async with opened(tmp_path, model) as (_, client, conversation):
        helped = (await command(client, conversation, "/help"))["answer"]
        assert f"/{name}: " in helped
        model.then([deltas.TextDelta(0, "Half"), gate])
        async with client.sending(conversation, "Go") as events:
            await asyncio.wait_for(gate.reached.wait(), 10)
            stopped = await command(client, conversation, f"/{name}")
            assert (stopped["name"], stopped["data"]["stopped"]) == (name, True)
            packets = [event.packet async for event in events if event.n is not None]
        assert packets[-1]["status"] == "stopped"


async def test_a_doubled_slash_is_sent_as_text(tmp_path: Path) -> None:
    model = ScriptedModel([saying("As you say.")])
    async with opened(tmp_path, model) as (_, client, conversation):
        await client.send(conversation, "//status of the ship")
        [turn] = (await client.get(f"/conversations/{conversation}/turns"))["data"]
        assert turn["text"] == "/status of the ship"
        status, error = await refused(client, conversation, "Hello")
        assert (status, error["message"]) == (400, "This is no command.")


async def test_commands_stand_behind_their_turn_and_no_model_reads_them(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model) as (_, client, conversation):
        await command(client, conversation, "/help")
        await talk(client, conversation, model, turns=1)
        await command(client, conversation, "/status")
        await talk(client, conversation, model, turns=1)
        [turn] = (await client.get(f"/conversations/{conversation}/turns?order=asc"))["data"][:1]
        assert [(one["name"], one["turn_id"]) for one in await listed(client, conversation)] == [
            ("help", None),
            ("status", turn["id"]),
        ]
    sent = str([block.data for request in model.requests for block in request.blocks])
    assert "/status" not in sent
    assert "Cost of the conversation" not in sent


async def test_new_empties_the_window_and_resume_goes_back(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model) as (_, client, conversation):
        await talk(client, conversation, model, turns=2)
        begun = await command(client, conversation, "/clear")
        assert begun["answer"] == "Session 2 begins, with an empty window. To go back: /resume 1"
        assert "0 messages" in (await command(client, conversation, "/status"))["answer"]
        model.then(saying("Fresh."), saying("Back."))
        await client.send(conversation, "Something else?")
        lines = (await command(client, conversation, "/resume"))["answer"].splitlines()
        assert re.fullmatch(
            r"2 · 20\S+ \S+ \(just now\) · 2 messages, about \d+ tokens · current · Something else\?", lines[0]
        )
        assert "4 messages" in lines[1]
        assert lines[1].endswith("Question 0?")
        assert "sess_" not in "".join(lines)
        resumed = await command(client, conversation, "/resume 1")
        assert resumed["answer"].startswith("Session 1 continues in full.")
        await client.send(conversation, "Where were we?")
        sent = str([block.data for block in model.requests[-1].blocks])
        assert "Question 1?" in sent
        assert "Something else?" not in sent
        status, error = await refused(client, conversation, "/resume 7")
        assert (status, error["message"]) == (400, "This conversation has no session 7.")


async def test_resume_by_a_number_that_was_said(tmp_path: Path) -> None:
    model = ScriptedModel([saying("Noted.")])
    async with opened(tmp_path, model) as (_, client, conversation):
        await client.send(conversation, "The invoice is 20931.")
        await command(client, conversation, "/new")
        async with asyncio.timeout(10):
            while True:
                answer = await client.call(
                    "POST", f"/conversations/{conversation}/commands", json={"text": "/resume 20931"}
                )
                if answer.status_code == 200:
                    break
                await asyncio.sleep(0.01)
        assert answer.json()["data"]["number"] == 1


@pytest.mark.parametrize("layout", ["lamella", "lis"])
async def test_compact_answers_at_once_and_tells_when_it_is_done(tmp_path: Path, layout: str) -> None:
    """One plain line with the session that has the summary; layout `lis` tells it as its seed does."""
    model, gate = ScriptedModel(), Gate()
    async with opened(tmp_path, model, context_budget=20_000) as (app, client, conversation):
        await client.call("PATCH", f"/conversations/{conversation}", json={"layout": layout})
        await talk(client, conversation, model)
        model.then([gate, *saying(SUMMARY)])
        started = await command(client, conversation, "/compact the ships")
        assert started["argument"] == "the ships"
        assert started["answer"].startswith("Summarising 3 of 4 turns (")
        await asyncio.wait_for(gate.reached.wait(), 10)
        assert "A compaction runs." in (await command(client, conversation, "/status"))["answer"]
        assert (await command(client, conversation, "/compact"))["answer"] == "A compaction runs already."
        gate.opened.set()
        await app.sessions.wait_until_idle(conversation)
        told = (await listed(client, conversation))[-1]
        assert (told["object"], told["name"]) == ("notification", "compacted")
        lines = told["text"].splitlines()
        if layout == "lis":
            assert lines[0].startswith("⚙️ Compacted (")
            parts = ["🔧 System", "📝 Summary", "💬 Kept context", "🛠️ Tools", "📊 Total"]
            assert [line.split(":")[0].strip() for line in lines[1:]] == parts
        else:
            assert re.fullmatch(r"Compacted \(\S+ → \S+ tokens\)\. Summary: session 1\.", told["text"])
        assert told["data"]["total"] < told["data"]["before"]
        assert told["data"]["summary"] > 0
        listing = (await command(client, conversation, "/resume"))["answer"]
        assert "The ship is the Aurora" in listing
        assert "msg_" not in listing, "ids are for models"
        first, second = (await client.get(f"/conversations/{conversation}/sessions?order=asc"))["data"]
        assert (told["data"]["summary_of"], told["data"]["session_id"]) == (first["id"], second["id"])
        assert (first["summary"], first["why"], second["current"]) == (SUMMARY, "/compact the ships", True)
        assert second["numbers"]["after"] < second["numbers"]["before"] == told["data"]["before"]
        assert second["numbers"]["after"] == told["data"]["total"], "the divider and the notification say one figure"
        assert (await client.get(f"/conversations/{conversation}/context"))["input"] == told["data"]["total"]
        assert (await client.get(f"/sessions/{first['id']}")) == first


async def test_nothing_to_compact_is_said_at_once(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model) as (_, client, conversation):
        empty = await client.post(f"/conversations/{conversation}/compact")
        assert empty["answer"] == "Nothing to compact: there are no messages yet."
        await talk(client, conversation, model, turns=1)
        found = await client.post(f"/conversations/{conversation}/compact", {"focus": "ships"})
        assert (found["data"]["started"], found["argument"]) == (False, "ships")
    assert len(model.requests) == 1


async def test_a_compaction_that_did_not_work_out_is_told(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model) as (app, client, conversation):
        await talk(client, conversation, model)
        model.then(saying(" "))
        await command(client, conversation, "/compact")
        await app.sessions.wait_until_idle(conversation)
        told = (await listed(client, conversation))[-1]
        assert (told["name"], told["text"]) == (
            "not_compacted",
            f"Not compacted: the summary is empty. Nothing has changed. {WAY_OUT}",
        )


async def test_notifications_can_be_switched_off(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model, compaction_notify=False) as (app, client, conversation):
        await talk(client, conversation, model)
        model.then(saying(SUMMARY))
        await app.sessions.compact(LOCAL_OWNER, conversation, who="engine", why="the window is full")
        assert await listed(client, conversation) == []
        assert len((await client.get(f"/conversations/{conversation}/sessions?order=asc"))["data"]) == 2


@pytest.mark.parametrize(("answer", "outcome"), [(SUMMARY, "compacted"), (" ", "not_compacted")])
async def test_who_asks_for_a_compaction_is_told_of_it_in_any_case(tmp_path: Path, answer: str, outcome: str) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model, compaction_notify=False) as (app, client, conversation):
        await talk(client, conversation, model)
        model.then(saying(answer))
        await command(client, conversation, "/compact")
        await app.sessions.wait_until_idle(conversation)
        assert [one["name"] for one in await listed(client, conversation)] == ["compact", outcome]


async def reading(client: ServerClient, conversation: str, model: ScriptedModel) -> None:
    """A turn that reads a long document."""
    file = await client.upload("long.txt", (MUCH * 20).encode())
    arguments = f'{{"file_id": "{file["id"]}"}}'
    model.then(
        [
            deltas.ToolCallOpened(0, "call_1", "read_file"),
            deltas.ToolArgsDelta(0, arguments),
            deltas.UsageReported(Usage(input=500, output=20)),
            deltas.Closed(StopReason.TOOL_CALLS),
        ],
        saying("I have read it."),
    )
    await client.send(conversation, "Read it.", file_ids=[file["id"]])


async def test_prune_says_what_it_freed(tmp_path: Path) -> None:
    model = ScriptedModel()
    settings = {"tool_prune_when": "full", "tool_prune_threshold": 1_000_000, "tool_keep_threshold": 0}
    async with opened(tmp_path, model, **settings) as (_, client, conversation):
        nothing = await command(client, conversation, "/prune")
        assert nothing["answer"] == "Nothing to prune: there are no old results of tools."
        await reading(client, conversation, model)
        found = await client.post(f"/conversations/{conversation}/prune")
        first, second = found["answer"].splitlines()
        assert first.startswith("🔧 Tool outputs pruned (")
        assert second.startswith("  📊 Context: ")
        assert found["data"]["after"] < found["data"]["before"]
        assert [one["name"] for one in await listed(client, conversation)] == ["prune", "prune"]


@pytest.mark.parametrize("layout", ["lamella", "lis"])
async def test_a_pruning_after_a_turn_is_told_in_layout_lis_alone(tmp_path: Path, layout: str) -> None:
    model = ScriptedModel()
    settings = {"tool_prune_threshold": 100, "tool_keep_threshold": 0}
    async with opened(tmp_path, model, **settings) as (app, client, conversation):
        await client.call("PATCH", f"/conversations/{conversation}", json={"layout": layout})
        await reading(client, conversation, model)
        model.then(saying("Yes."))
        await client.send(conversation, "Go on?")
        decided = [
            stored.decision.kind for stored in await app.store.conversations.decisions(LOCAL_OWNER, conversation)
        ]
        assert DecisionKind.PRUNE in decided
        if layout == "lamella":
            assert await listed(client, conversation) == []
            return
        told = (await listed(client, conversation))[0]
        assert (told["object"], told["name"]) == ("notification", "pruned")
        assert told["text"].startswith("🔧 Tool outputs pruned (")


async def test_nothing_is_pruned_between_turns_if_it_is_not_automatic(tmp_path: Path) -> None:
    model = ScriptedModel()
    settings = {"tool_prune_threshold": 100, "tool_keep_threshold": 0, "compaction_automatic": False}
    async with opened(tmp_path, model, **settings) as (app, client, conversation):
        await reading(client, conversation, model)
        model.then(saying("Yes."))
        await client.send(conversation, "Go on?")
        stored = await app.store.conversations.decisions(LOCAL_OWNER, conversation)
        assert DecisionKind.PRUNE not in [one.decision.kind for one in stored]
        assert (await command(client, conversation, "/prune"))["answer"].startswith("🔧 Tool outputs pruned (")


async def test_abort_stops_the_answer_that_runs_and_others_wait(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    async with opened(tmp_path, model) as (_, client, conversation):
        assert (await command(client, conversation, "/abort"))["answer"] == "No answer runs."
        model.then([deltas.TextDelta(0, "Half"), gate, *saying(" an answer.")])
        async with client.sending(conversation, "Go") as events:
            await asyncio.wait_for(gate.reached.wait(), 10)
            for text in ("/status", "/context", "/help"):
                assert (await command(client, conversation, text))["answer"]
            for text in ("/new", "/compact", "/prune", "/resume"):
                answer = await client.call(
                    "POST", f"/conversations/{conversation}/commands", json={"text": text, "queue": False}
                )
                assert (answer.status_code, answer.json()["error"]["code"]) == (409, "turn_in_progress")
                assert "/abort" in answer.json()["error"]["hint"]
            [aborted] = await client.send(conversation, "/abort")
            assert aborted["answer"] == "Stopped. The partial answer is kept."
            packets = [event.packet async for event in events if event.n is not None]
        assert [packet["reason"] for packet in packets if packet["type"] == "turn.stopped"] == ["user_cancelled"]
        assert packets[-1]["turn_id"] == aborted["data"]["turn_id"]


async def test_a_key_that_comes_again_runs_nothing_again(tmp_path: Path) -> None:
    async with opened(tmp_path, ScriptedModel()) as (_, client, conversation):
        key = {"Idempotency-Key": "once"}
        found = [await command(client, conversation, "/new", headers=key) for _ in range(2)]
        assert found[0] == found[1]
        assert len((await client.get(f"/conversations/{conversation}/sessions?order=asc"))["data"]) == 2
        other = await client.call(
            "POST", f"/conversations/{conversation}/commands", json={"text": "/help"}, headers=key
        )
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_mismatch")


async def test_a_session_is_resumed_by_its_own_address(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, model) as (_, client, conversation):
        await talk(client, conversation, model, turns=1)
        begun = await client.post(f"/conversations/{conversation}/new")
        resumed = await client.post(f"/sessions/{begun['data']['before']}/resume")
        assert (resumed["name"], resumed["data"]["number"]) == ("resume", 1)
        again = await client.call("POST", f"/sessions/{begun['data']['before']}/resume")
        assert (again.status_code, again.json()["error"]["hint"]) == (400, "Choose another one: /resume lists them.")
        assert (await client.call("POST", "/sessions/sess_none/resume")).status_code == 404


async def test_a_command_takes_no_files_and_has_no_preview(tmp_path: Path) -> None:
    async with opened(tmp_path, ScriptedModel()) as (_, client, conversation):
        file = await client.upload("a.txt", b"A")
        body = {"text": "/status", "file_ids": [file["id"]]}
        answer = await client.call("POST", f"/conversations/{conversation}/turns", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "file_ids")
        body = {"text": "/status", "conversation_id": conversation}
        assert (await client.call("POST", "/context/preview", json=body)).status_code == 400
