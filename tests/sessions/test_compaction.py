"""Compaction as a conversation sees it: nobody waits, nothing is lost, and whoever was quicker wins."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core import deltas
from lamella.core.decisions import DecisionKind
from lamella.core.errors import ProviderUnreachable
from lamella.core.messages import StopReason
from lamella.core.prompt import WireRequest
from lamella.core.sessions import Session, SessionCause
from lamella.core.tokens import Usage
from lamella.llm.scripted import Gate, ReplayEvent, ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.sessions.compaction import Compacted
from lamella.sessions.summariser import NotCompacted
from lamella.sessions.summary import STAYS
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

SUMMARY = "# Facts\nThe ship is the Aurora (msg_1)."
MUCH = "They spoke of ships and of harbours, of tides and of winds. " * 100


@asynccontextmanager
async def talking(
    folder: Path, model: ScriptedModel, *, turns: int = 4, **settings: Any
) -> AsyncIterator[tuple[App, ServerClient, str]]:
    """A conversation of some long turns."""
    async with served(read_settings(data=folder, **settings), models=ScriptedModels(model)) as (app, client):
        conversation = await client.conversation()
        for number in range(turns):
            model.then(saying(f"Answer {number}. {MUCH}"))
            await client.send(conversation, f"Question {number}?")
        yield app, client, conversation


def texts(request: WireRequest) -> list[str]:
    return [str(block.value.get("text")) for block in request.blocks if block.level == "messages"]


async def summarised(app: App, session: str) -> Session:
    """The session once it has its summary."""
    async with asyncio.timeout(10):
        while True:
            found = await app.store.sessions.session(LOCAL_OWNER, session)
            if found.summary is not None:
                return found
            await asyncio.sleep(0.01)


async def compact(app: App, conversation: str, focus: str = "") -> Compacted | NotCompacted:
    return await app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for", focus=focus)


async def told(client: ServerClient, conversation: str) -> list[str]:
    listed = (await client.get(f"/conversations/{conversation}/commands"))["data"]
    return [one["name"] for one in listed]


async def test_what_is_old_becomes_a_summary_and_what_is_recent_stays(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, client, conversation):
        model.then(saying(SUMMARY), saying("The Aurora."))
        found = await compact(app, conversation, focus="ships")
        assert isinstance(found, Compacted)
        asked = model.requests[4]
        assert texts(asked)[:2] == texts(model.requests[3])[:2]
        assert "Summarise this conversation now." in texts(asked)[-1]
        assert "Give most room to this: ships" in texts(asked)[-1]
        await client.send(conversation, "Which ship?")
        window = texts(model.requests[5])
        assert SUMMARY in window[0]
        assert not any("Question 0?" in text or "Answer 0." in text for text in window)
        assert any("Question 3?" in text for text in window)
        path = await app.store.turns.path(LOCAL_OWNER, conversation)
        assert [turn.user.text for turn in path][:2] == ["Question 0?", "Question 1?"]


async def test_the_session_that_ends_keeps_its_messages_and_the_next_gets_the_rest(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, _, conversation):
        model.then(saying(SUMMARY, usage=Usage(input=900, output=30)))
        found = await compact(app, conversation)
        assert isinstance(found, Compacted)
        first, second = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
        assert (first.summary, first.closed_by, first.why) == (SUMMARY, SessionCause.COMPACTION, "asked for")
        assert first.usage["summary"].input == 900
        assert (second.parent_id, second.inherits, second.summary) == (first.id, True, None)
        decisions = [s.decision for s in await app.store.conversations.decisions(LOCAL_OWNER, conversation)]
        (decided,) = [d for d in decisions if d.kind is DecisionKind.SESSION]
        assert (decided.subject, decided.outcome) == (second.id, second.begins_after)
        assert decided.numbers["after"] < decided.numbers["before"]
        requests = await app.store.requests.requests(LOCAL_OWNER, str(second.begins_after))
        assert [request.purpose for request in requests] == ["chat", "summary"]
        assert requests[1].usage == Usage(input=900, output=30)


async def test_the_summary_reads_the_prefix_from_the_cache(tmp_path: Path) -> None:
    """All bytes of the conversation's last request, its answer, and the instruction: what was cached last is read."""
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, _, conversation):
        model.then(saying(SUMMARY))
        await compact(app, conversation)
    live, asked = model.requests[3], model.requests[4]
    assert [block.data for block in live.blocks] == [block.data for block in asked.blocks[: len(live.blocks)]]
    assert len(asked.blocks) == len(live.blocks) + 2


async def test_where_all_of_it_leaves_no_room_for_what_is_asked_only_what_goes_is_sent(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200, context_budget=4_000) as (app, _, conversation):
        model.then(saying(SUMMARY))
        assert isinstance(await compact(app, conversation, "ships " * 700), Compacted)
    live, asked = (texts(model.requests[index]) for index in (3, 4))
    assert asked[:-1] == live[:-1]
    assert STAYS not in asked[-1]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (saying("  "), "the summary is empty"),
        ([deltas.TextDelta(0, "x"), deltas.Closed(StopReason.MAX_TOKENS)], "the summary was cut off (max_tokens)"),
        (saying(MUCH * 20), "more than 4000"),
        ([ProviderUnreachable("down")], "the summary could not be made: down"),
        (
            [deltas.ToolCallOpened(0, "c", "read_file"), deltas.Closed(StopReason.TOOL_CALLS)],
            "the model called a tool instead of answering",
        ),
    ],
)
async def test_what_is_no_summary_changes_nothing(tmp_path: Path, answer: Sequence[ReplayEvent], why: str) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, client, conversation):
        model.then(answer, saying("Yes."))
        found = await compact(app, conversation)
        assert isinstance(found, NotCompacted)
        assert why in found.why
        assert len(await app.store.sessions.sessions(LOCAL_OWNER, conversation)) == 1
        packets = await client.send(conversation, "Still there?")
        assert packets[-1]["status"] == "finished"
        assert any("Question 0?" in text for text in texts(model.requests[-1]))


async def test_nothing_to_compact_says_so_and_asks_no_model(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=1) as (app, client, conversation):
        found = await compact(app, conversation)
        assert found == NotCompacted("all of it is recent", code="recent")
        empty = await client.conversation()
        assert await compact(app, empty) == NotCompacted("there are no messages yet", code="empty")
    assert len(model.requests) == 1


async def test_the_conversation_goes_on_while_it_is_compacted(tmp_path: Path) -> None:
    """A turn that begins and ends meanwhile is in the next session, once, behind what was kept."""
    model, gate = ScriptedModel(), Gate()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, client, conversation):
        model.then([gate, *saying(SUMMARY)], saying("Meanwhile."), saying("Later."))
        task = app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        await asyncio.wait_for(gate.reached.wait(), 10)
        assert app.sessions.is_compacting(conversation)
        await client.send(conversation, "And meanwhile?")
        gate.opened.set()
        assert isinstance(await task, Compacted)
        await client.send(conversation, "And later?")
        window = texts(model.requests[-1])
        assert SUMMARY in window[0]
        order = [text.split("\n")[0] for text in window if text.startswith(("And", "Meanwhile", "Question 3"))]
        assert order == ["Question 3?", "And meanwhile?", "Meanwhile.", "And later?"]


async def test_a_new_session_that_is_begun_meanwhile_wins(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, client, conversation):
        model.then([gate, *saying(SUMMARY)], saying("Fresh."))
        task = app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        await asyncio.wait_for(gate.reached.wait(), 10)
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        gate.opened.set()
        assert await task == NotCompacted("another session was opened meanwhile", code="silent")
        await client.send(conversation, "Hello?")
        assert [text.split("\n")[0] for text in texts(model.requests[-1])] == ["Hello?"]
        assert [s.closed_by for s in await app.store.sessions.sessions(LOCAL_OWNER, conversation)] == [
            SessionCause.NEW,
            None,
        ]


async def test_two_compactions_of_one_conversation_are_one(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, _, conversation):
        model.then(saying(SUMMARY))
        both = await asyncio.gather(compact(app, conversation), compact(app, conversation))
        assert both[0] is both[1]
    assert len(model.requests) == 5


async def test_an_answer_that_read_too_much_starts_it(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"keep_recent_tokens": 1_200, "compaction_threshold": "5000", "context_budget": 10_000}
    model = ScriptedModel()
    async with talking(tmp_path, model, **settings) as (app, client, conversation):
        model.then(saying("Large.", usage=Usage(input=6_000, output=5)), saying(SUMMARY), saying(SUMMARY))
        await client.send(conversation, "How large?")
        model.then(saying("Small."))
        await client.send(conversation, "And now?")
        await app.sessions.wait_until_idle(conversation)
        first = (await app.store.sessions.sessions(LOCAL_OWNER, conversation))[0]
        assert first.why == "the window has 6000 tokens, more than 5000 of 10000"


async def test_an_earlier_session_is_resumed_in_full(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=2) as (app, client, conversation):
        first = (await app.sessions.view(LOCAL_OWNER, conversation)).current
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        model.then(saying("Fresh."), saying("Back."))
        await client.send(conversation, "Something else?")
        await app.sessions.resume(LOCAL_OWNER, conversation, first.id, why="/resume")
        await client.send(conversation, "Where were we?")
        asked = [text.split("\n")[0] for text in texts(model.requests[-1]) if "?" in text.split("\n")[0]]
        assert asked == ["Question 0?", "Question 1?", "Where were we?"]


async def test_a_compaction_that_a_process_left_is_done_by_the_next_one(tmp_path: Path) -> None:
    model, gate = ScriptedModel(), Gate()
    settings: dict[str, Any] = {"keep_recent_tokens": 1_200}
    async with talking(tmp_path, model, **settings) as (app, _, conversation):
        model.then([gate, *saying("never said")])
        app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        await asyncio.wait_for(gate.reached.wait(), 10)
    again, done = ScriptedModel(), Gate()
    again.then([done, *saying(SUMMARY)])
    async with served(read_settings(data=tmp_path, **settings), models=ScriptedModels(again)) as (app, _):
        await asyncio.wait_for(done.reached.wait(), 10)
        assert app.sessions.is_compacting(conversation)
        found = app.sessions.compact(LOCAL_OWNER, conversation, who="user_local", why="asked for")
        done.opened.set()
        assert isinstance(await asyncio.wait_for(found, 10), Compacted)
        assert len(await app.store.sessions.sessions(LOCAL_OWNER, conversation)) == 2


async def test_a_failed_summary_backs_off(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, _, conversation):
        model.then(saying(" "), saying(SUMMARY))
        assert await compact(app, conversation) == NotCompacted("the summary is empty", again=True, code="no_summary")
        found = await app.sessions.compact(LOCAL_OWNER, conversation, who="engine", why="the window is full")
        assert isinstance(found, NotCompacted)
        assert "did not work out a moment ago" in found.why
        assert len(model.requests) == 5


async def test_a_user_who_asks_after_a_failure_does_not_wait_and_is_heard(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, client, conversation):
        model.then(saying(" "))
        await app.sessions.compact(LOCAL_OWNER, conversation, who="engine", why="the window is full")
        model.then(saying(SUMMARY))
        answer = await client.post(f"/conversations/{conversation}/compact", {"focus": "the harbour"})
        assert answer["data"]["started"]
        await app.sessions.wait_until_idle(conversation)
        assert "Give most room to this: the harbour" in texts(model.requests[-1])[-1]
        first, second = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
        assert (first.why, second.opened_by) == ("/compact the harbour", SessionCause.COMPACTION)


async def test_an_answer_that_read_the_window_before_a_compaction_starts_no_other(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"keep_recent_tokens": 1_200, "compaction_threshold": "3000", "context_budget": 10_000}
    model, gate = ScriptedModel(), Gate()
    async with talking(tmp_path, model, **settings) as (app, client, conversation):
        await app.sessions.wait_until_idle(conversation)
        model.then([gate, *saying("Slow. " * 300, usage=Usage(input=4_300, output=10))])
        answering = asyncio.create_task(client.send(conversation, "Slow?"))
        await asyncio.wait_for(gate.reached.wait(), 10)
        model.then(saying(SUMMARY))
        assert isinstance(await compact(app, conversation), Compacted)
        asked = len(model.requests)
        gate.opened.set()
        model.then(saying("Small."))
        await answering
        await client.send(conversation, "And now?")
        await app.sessions.wait_until_idle(conversation)
        assert len(model.requests) == asked + 1
        assert len(await app.store.sessions.sessions(LOCAL_OWNER, conversation)) == 2
        assert await told(client, conversation) == ["compacted"]


async def test_a_session_that_ended_with_nothing_is_resumed_with_nothing(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=0) as (app, client, conversation):
        first = (await app.sessions.view(LOCAL_OWNER, conversation)).current
        await app.sessions.begin_anew(LOCAL_OWNER, conversation, why="/new")
        model.then(saying("An apple."), saying("A pear."), saying("Fresh."), saying("Back."))
        await client.send(conversation, "One?")
        second = (await app.sessions.view(LOCAL_OWNER, conversation)).current
        await app.sessions.resume(LOCAL_OWNER, conversation, first.id, why="/resume")
        view = await app.sessions.view(LOCAL_OWNER, conversation)
        assert (view.current.id, view.figures.messages) == (first.id, {second.id: 2})
        await client.send(conversation, "Fresh?")
        assert [text.split("\n")[0] for text in texts(model.requests[-1])] == ["Fresh?"]
        await app.sessions.resume(LOCAL_OWNER, conversation, second.id, why="/resume")
        await client.send(conversation, "Two?")
        asked = [text.split("\n")[0] for text in texts(model.requests[-1])]
        assert [line for line in asked if line.endswith("?")] == ["One?", "Two?"]


async def test_a_conversation_that_no_longer_fits_is_compacted_first_and_then_answered(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"keep_recent_tokens": 1_200, "compaction_threshold": "100%", "context_budget": 3_400}
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=3, **settings) as (app, client, conversation):
        model.then(saying(SUMMARY), saying("Answered."))
        packets = await client.send(conversation, "And? " + MUCH)
        assert packets[-1]["status"] == "finished"
        window = texts(model.requests[-1])
        assert SUMMARY in window[0]
        assert window[-1].startswith("And? They spoke")
        first, _ = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
        assert first.why == "the next message would not fit the window"


async def test_a_queued_message_that_waits_for_its_compaction_is_still_in_the_queue(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"keep_recent_tokens": 1_200, "compaction_threshold": "100%", "context_budget": 3_400}
    answering, summarising = Gate(), Gate()
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=2, **settings) as (_, client, conversation):
        model.then([answering, *saying("Third." + MUCH)], [summarising, *saying(SUMMARY)], saying("Answered."))
        running = asyncio.create_task(client.send(conversation, "Third?"))
        await answering.reached.wait()
        path = f"/conversations/{conversation}"
        async with client.sending(conversation, "And? " + MUCH) as events:
            assert (await anext(events)).type == "turn.queued"
            answering.opened.set()
            await summarising.reached.wait()
            [waits] = (await client.get(f"{path}/queue"))["data"]
            assert (waits["text"][:4], waits["position"], waits["starting"]) == ("And?", 1, True)
            assert len((await client.get(f"{path}/turns"))["data"]) == 3
            late = await client.http.request("PATCH", f"/api/v1{path}/queue/{waits['id']}", json={"text": "Another"})
            assert late.json()["error"]["code"] == "not_waiting"
            summarising.opened.set()
            assert [event.type async for event in events][-1] == "turn.finished"
        await running
        assert (await client.get(f"{path}/queue"))["data"] == []
        assert len((await client.get(f"{path}/turns"))["data"]) == 4


async def test_with_the_summariser_down_the_message_is_answered_all_the_same(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"keep_recent_tokens": 1_200, "compaction_threshold": "100%", "context_budget": 3_400}
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=3, **settings) as (app, client, conversation):
        model.then([ProviderUnreachable("down")], saying("Yes."))
        packets = await client.send(conversation, "And? " + MUCH)
        assert packets[-1]["status"] == "finished"
        assert any("are left out of it" in packet["why"] for packet in packets if packet["type"] == "context.degraded")
        assert len(await app.store.sessions.sessions(LOCAL_OWNER, conversation)) == 1


async def test_what_left_without_a_summary_gets_one_from_the_next_compaction(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"keep_recent_tokens": 1_200, "compaction_threshold": "100%", "context_budget": 3_400}
    model = ScriptedModel()
    async with talking(tmp_path, model, turns=3, **settings) as (app, client, conversation):
        model.then([ProviderUnreachable("down")], saying("Yes."), saying(SUMMARY), saying("There."))
        await client.send(conversation, "And? " + MUCH)
        await client.send(conversation, "/compact")
        await app.sessions.wait_until_idle(conversation)
        await client.send(conversation, "Still there?")
        last = "".join(texts(model.requests[-1]))
        assert SUMMARY in last
        assert "Left out here" not in last


async def test_a_session_that_is_resumed_has_the_tail_that_its_compaction_carried_on(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200) as (app, client, conversation):
        first = (await app.sessions.view(LOCAL_OWNER, conversation)).current
        model.then(saying(SUMMARY), saying("Later."), saying(SUMMARY))
        assert isinstance(await compact(app, conversation), Compacted)
        await client.send(conversation, "And later?")
        left = (await app.sessions.view(LOCAL_OWNER, conversation)).current
        await app.sessions.resume(LOCAL_OWNER, conversation, first.id, why="/resume")
        assert (await summarised(app, left.id)).summary == SUMMARY
        model.then(saying("Back."))
        await client.send(conversation, "Where were we?")
        asked = [
            text.split("\n")[0] for text in texts(model.requests[-1]) if text.startswith(("Quest", "And", "Where"))
        ]
        assert asked == ["Question 0?", "Question 1?", "Question 2?", "Question 3?", "Where were we?"]


@pytest.mark.parametrize(("settings", "words"), [({"compaction_threshold": "10000"}, 560), ({}, 1_500)])
async def test_a_summary_takes_half_of_what_summaries_may_hold_of_a_window(
    tmp_path: Path, settings: dict[str, Any], words: int
) -> None:
    """All of them hold 15 % of the threshold, the newest half of that: 750 of 10,000 tokens. The scripted model bills
    one token for two of the local counter, so that is 1,500 there, or 560 words."""
    model = ScriptedModel()
    async with talking(tmp_path, model, keep_recent_tokens=1_200, **settings) as (app, _, conversation):
        model.then(saying(SUMMARY))
        assert isinstance(await compact(app, conversation), Compacted)
        assert re.findall(r"At most ([\d,]+) words", texts(model.requests[-1])[-1]) == [f"{words:,}"]
