"""What fits no single request is summarised in pieces that fit, whatever the provider counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.counting import count_tokens
from lamella.core.errors import ProviderUnreachable
from lamella.core.records import RequestRecord
from lamella.core.tokens import Usage
from lamella.llm.scripted import ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.sessions.compaction import Compacted
from lamella.sessions.summariser import NotCompacted
from lamella.sessions.summary import LONGEST
from lamella.settings import read_settings

from .provider import Provider, facts, sentences, shown
from .test_compaction import compact

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def talking(
    folder: Path, *models: Provider, sizes: list[int], **settings: Any
) -> AsyncIterator[tuple[App, ServerClient, str]]:
    """A conversation whose messages have about these sizes, each with a fact of its own."""
    given = {"compaction_when": "full", "compaction_threshold": "100%", **settings}
    async with served(read_settings(data=folder, **given), models=ScriptedModels(*models)) as (app, client):
        conversation = await client.conversation()
        for number, size in enumerate(sizes):
            packets = await client.send(conversation, sentences(number, size))
            assert packets[-1]["status"] == "finished"
        yield app, client, conversation


async def summary_requests(app: App, conversation: str) -> list[RequestRecord]:
    turns = [turn.id for turn in await app.store.turns.path(LOCAL_OWNER, conversation)]
    stored = [request for turn in turns for request in await app.store.requests.requests(LOCAL_OWNER, turn)]
    return [request for request in stored if request.purpose == "summary"]


async def first_summary(app: App, conversation: str) -> tuple[str, dict[str, Any]]:
    first = (await app.store.sessions.sessions(LOCAL_OWNER, conversation))[0]
    return str(first.summary), dict(first.check)


async def test_a_conversation_larger_than_its_model_is_compacted(tmp_path: Path) -> None:
    """246k tokens are stored when the conversation goes to a model of 200k; whatever is asked of it works."""
    large, small = Provider("large", 1_000_000), Provider("small", 200_000)
    async with talking(tmp_path, large, small, sizes=[61_000] * 4 + [2_000]) as (app, client, conversation):
        changed = await client.call("PATCH", f"/conversations/{conversation}", json={"model": "small"})
        assert changed.status_code == 200
        path = f"/conversations/{conversation}"
        status = (await client.post(f"{path}/commands", {"text": "/status"}))["data"]
        context = (await client.post(f"{path}/commands", {"text": "/context"}))["data"]
        gauge = await client.get(f"{path}/context")
        assert status["context"] == context["total"] > status["budget"] == gauge["budget"]
        assert context["total"] > 240_000
        answer = await client.post(f"{path}/commands", {"text": "/compact"})
        assert answer["data"]["started"], answer
        await app.sessions.wait_until_idle(conversation)
        text, check = await first_summary(app, conversation)
        assert [fact for fact in facts(range(4)) if fact not in text] == []
        assert check["pieces"] == 2
        assert not small.refused
        requests = await summary_requests(app, conversation)
        assert [(one.model, one.step, one.purpose) for one in requests] == [("small", n, "summary") for n in (0, 1)]
        assert all(one.estimate <= one.budget for one in requests)
        usage = (await app.store.sessions.sessions(LOCAL_OWNER, conversation))[0].usage["summary"]
        assert usage.input == sum(one.usage.input for one in requests if one.usage is not None)
        packets = await client.send(conversation, "Hi")
        assert packets[-1]["status"] == "finished"
        assert (await client.get(f"{path}/context"))["input"] < 20_000


async def test_a_lowered_budget_and_a_message_are_enough(tmp_path: Path) -> None:
    """Nobody types a command: the next message has the conversation compacted, and is answered."""
    async with talking(tmp_path, Provider(), sizes=[6_000] * 8):
        pass
    again = Provider()
    settings = read_settings(data=tmp_path, context_budget=20_000, compaction_threshold="100%")
    async with served(settings, models=ScriptedModels(again)) as (app, client):
        [conversation] = (await client.get("/conversations"))["data"]
        packets = await client.send(conversation["id"], "Hi")
        assert packets[-1]["status"] == "finished"
        text, check = await first_summary(app, conversation["id"])
        assert [fact for fact in facts(range(8)) if fact not in text] == []
        assert check["pieces"] >= 3
        assert text in "".join(shown(again.requests[-1]))


@pytest.mark.parametrize(
    ("factor", "tells", "most"), [(1.0, False, 0), (1.28, False, 1), (2.5, False, 2), (1.28, True, 1), (2.5, True, 1)]
)
@pytest.mark.parametrize("second", [False, True])
async def test_whatever_the_tokenizer_the_pieces_fit(
    tmp_path: Path, factor: float, tells: bool, most: int, second: bool
) -> None:
    """A model whose tokens nobody has measured refuses, is asked with less, and loses nothing."""
    main, strict = Provider("main", 1_000_000), Provider("strict", 40_000, factor, tells=tells)
    settings = {"compaction_model": "strict"} if second else {}
    async with talking(tmp_path, main, strict, sizes=[7_000] * 10 + [100], **settings) as (app, client, conversation):
        if not second:
            await client.call("PATCH", f"/conversations/{conversation}", json={"model": "strict"})
        assert isinstance(await compact(app, conversation), Compacted)
        text, _ = await first_summary(app, conversation)
        assert [fact for fact in facts(range(10)) if fact not in text] == []
        assert len(strict.refused) <= most
        requests = await summary_requests(app, conversation)
        assert [one.step for one in requests] == list(range(len(requests)))
        refused = [one for one in requests if one.error is not None]
        assert [one.error["code"] for one in refused if one.error] == ["context_length_exceeded"] * len(strict.refused)


async def test_one_message_larger_than_the_window_is_split(tmp_path: Path) -> None:
    large, small = Provider("large", 1_000_000), Provider("small", 30_000)
    async with talking(tmp_path, large, small, sizes=[60_000]) as (app, client, conversation):
        await client.call("PATCH", f"/conversations/{conversation}", json={"model": "small"})
        assert isinstance(await compact(app, conversation), Compacted)
        read = "".join("".join(shown(request)) for request in small.summaries)
        assert read.count("harbours") == sentences(0, 60_000).count("harbours")
        assert facts([0])[0] in (await first_summary(app, conversation))[0]
        assert "continued:" in "".join(shown(small.summaries[1]))


def wordy(asked: str) -> str:
    """The summary of somebody who says much of each fact, and little if told to condense."""
    much = "" if "Make one summary of them now." in asked else " And more was said of it." * 90
    return "# Facts\n" + "\n".join(f"- {fact}{much}" for fact in facts(range(20)) if fact in asked)


async def test_partial_summaries_that_are_too_long_are_condensed(tmp_path: Path) -> None:
    large, small = Provider("large", 1_000_000), Provider("small", 60_000, summary=wordy)
    async with talking(tmp_path, large, small, sizes=[13_000] * 10 + [100]) as (app, client, conversation):
        await client.call("PATCH", f"/conversations/{conversation}", json={"model": "small"})
        assert isinstance(await compact(app, conversation), Compacted)
        text, check = await first_summary(app, conversation)
        assert [fact for fact in facts(range(10)) if fact not in text] == []
        assert "lines_left_out" not in check
        assert check["asked"] == check["pieces"] + 1
        assert "Make one summary of them now." in shown(small.summaries[-1])[-1]


async def test_partial_summaries_that_can_not_be_condensed_are_kept_as_far_as_they_fit(tmp_path: Path) -> None:
    """They were paid for, and the check says what of them is missing."""
    large = Provider("large", 1_000_000)
    small = Provider("small", 60_000, summary=lambda asked: wordy(asked.replace("Make one", "")))
    async with talking(tmp_path, large, small, sizes=[13_000] * 10 + [100]) as (app, client, conversation):
        await client.call("PATCH", f"/conversations/{conversation}", json={"model": "small"})
        assert isinstance(await compact(app, conversation), Compacted)
        text, check = await first_summary(app, conversation)
        assert check["lines_left_out"] > 0
        assert count_tokens(text) <= LONGEST
        assert facts([0])[0] in text


@pytest.mark.parametrize("again", [ProviderUnreachable("down"), None])
async def test_a_good_first_summary_is_kept_when_the_second_try_fails(
    tmp_path: Path, again: ProviderUnreachable | None
) -> None:
    """Also when the second request is too large by then, since it says what the first one lacked."""
    model = Provider()
    async with talking(tmp_path, model, sizes=[500] * 2, keep_recent_tokens=100) as (app, client, conversation):
        await client.send(conversation, "Always answer in German. " + sentences(3, 500))
        await client.send(conversation, "And?")
        model.then(saying("# Facts\n- There are 99 ships.", usage=Usage(input=900, output=20)))
        if again is not None:
            model.then([again])
        else:
            model.limit = 1
        assert isinstance(await compact(app, conversation), Compacted)
        text, check = await first_summary(app, conversation)
        assert text.startswith("# Facts\n- There are 99 ships.")
        assert "Always answer in German." in text
        assert check["asked"] == 2


async def test_a_piece_that_fails_changes_nothing_and_what_was_spent_is_told(tmp_path: Path) -> None:
    large, small = Provider("large", 1_000_000), Provider("small", 40_000)
    async with talking(tmp_path, large, small, sizes=[7_000] * 10) as (app, client, conversation):
        await client.call("PATCH", f"/conversations/{conversation}", json={"model": "small"})
        small.then(saying("# Facts\n- One.", usage=Usage(input=900, output=20)), [ProviderUnreachable("down")])
        assert await compact(app, conversation) == NotCompacted("the summary could not be made: down", again=True)
        [only] = await app.store.sessions.sessions(LOCAL_OWNER, conversation)
        assert (only.summary, only.usage["summary"].output) == (None, 20)


async def test_many_short_messages_are_summarised_in_one_request(tmp_path: Path) -> None:
    """The index of their ids takes a small share of the window, however many they are."""
    large, small = Provider("large", 1_000_000), Provider("small", 30_000)
    async with talking(tmp_path, large, small, sizes=[40] * 120, keep_recent_tokens=100) as (app, client, conversation):
        await client.call("PATCH", f"/conversations/{conversation}", json={"model": "small"})
        assert isinstance(await compact(app, conversation), Compacted)
        text, check = await first_summary(app, conversation)
        assert ("pieces" in check, len(small.summaries)) == (False, 1)
        asked = shown(small.summaries[0])[-1]
        index = asked[asked.index("<index>") : asked.index("</index>")]
        assert count_tokens(index) < 900
        assert "after it: “" in index
        assert [fact for fact in facts(range(110)) if fact not in text] == []
