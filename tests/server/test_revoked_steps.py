"""A former reader keeps the steps that had nothing of the base; notices and error texts that quote it are withheld."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from lamella.app.app import App
from lamella.core.access import GrantLevel
from lamella.core.errors import ProviderRefusedRequest
from lamella.core.json import encode_text
from lamella.core.knowledge import ERASE, INGEST, WITHHELD, WITHHELD_ANSWER, WITHHELD_ERROR
from lamella.core.messages import ToolCall
from lamella.core.records import JobStatus
from lamella.llm.scripted import FACTS, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.storage.tables import jobs
from lamella.tools.knowledge_base_search import NAME
from leaking.restricted_base import ANN, grant, restricted_base, second_model
from sessions.test_ended import ended_job

from .test_erased import left
from .test_lowered_grants import new_session
from .test_revoked import CANARIES, SAYS, SECRET, everything, told

pytestmark = pytest.mark.anyio

QUERY = encode_text({"query": "What does the tenant owe?"})
LOOK = calling(ToolCall("c1", NAME, QUERY), text="Let me look at the leases.")
OTHER = ScriptedModel(facts=replace(FACTS, name="other"))
QUOTING = ProviderRefusedRequest(f"messages.3: “{SAYS}” is too long.", hint=f"Shorten “{SAYS}”.", param=SAYS)


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def world(tmp_path: Path, model: ScriptedModel) -> AsyncIterator[tuple[App, ServerClient]]:
    given = read_settings(data=tmp_path, restricted_model="second", debounce_ms=0, titles=False)
    async with served(given, models=ScriptedModels(model, second_model(), OTHER)) as opened:
        yield opened


async def answered(client: ServerClient, model: ScriptedModel, base: str) -> tuple[str, str]:
    """A conversation whose only turn searched the base and told what it found, and that turn."""
    conversation = await client.conversation()
    model.then(LOOK, saying(f"It is {SAYS} quagmire."))
    packets = await client.send(conversation, "What is owed?", knowledge_base_ids=[base])
    return conversation, str(packets[0]["turn_id"])


async def test_packets_of_steps_before_the_search_stay(world: tuple[App, ServerClient], model: ScriptedModel) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    await grant(app, base, GrantLevel.FULL)
    conversation, turn = await answered(client, model, base)
    await grant(app, base, None)
    packets = await client.packets(turn, 0)
    assert [one["text"] for one in packets if one["type"] == "text.delta"] == [
        "Let me look at the leases.",
        WITHHELD_ANSWER,
    ]
    assert [one["json"] for one in packets if one["type"] == "tool.args.delta"] == [QUERY]
    assert [one["content"] for one in packets if one["type"] == "tool.result"] == [WITHHELD]
    assert told({"events": encode_text(packets)}) == {}
    # The messages say the same: what stays of a step stays in both.
    [stored] = (await client.get(f"/conversations/{conversation}/turns"))["data"]
    assert stored["answer"] == f"Let me look at the leases.\n\n{WITHHELD_ANSWER}"


async def test_the_answer_of_a_model_that_searched_nothing_stays_beside_the_one_that_did(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    await grant(app, base, GrantLevel.FULL)
    conversation = await client.conversation()
    model.then(LOOK, saying(f"It is {SAYS} quagmire."))
    OTHER.then(saying("I know nothing of it."))
    packets = await client.send(conversation, "What is owed?", models=["scripted", "other"], knowledge_base_ids=[base])
    await grant(app, base, None)
    said = {0: "", 1: ""}
    for one in await client.packets(packets[0]["turn_id"], 0):
        if one["type"] == "text.delta":
            said[one["model_index"]] += one["text"]
    assert said == {0: f"Let me look at the leases.{WITHHELD_ANSWER}", 1: "I know nothing of it."}


async def failed(app: App, client: ServerClient, model: ScriptedModel, base: str) -> str:
    """A conversation in which a provider's error quotes the base, and a list of sessions quotes a summary of it."""
    await grant(app, base, GrantLevel.FULL)
    conversation, _ = await answered(client, model, base)
    model.then([QUOTING])
    packets = await client.send(conversation, "And the next one?", knowledge_base_ids=[base])
    assert told({"events": encode_text(packets)})
    model.then(saying(f"They spoke of {SAYS}."))
    summary = await new_session(client, conversation)
    assert CANARIES[1] in summary
    # No session has all of these words, so the command lists those that may be meant, with passages of them.
    found = await client.post(f"/conversations/{conversation}/commands", {"text": "/resume quagmire zebra giraffe"})
    assert CANARIES[2] in found["answer"]
    assert CANARIES[2] in encode_text(found["data"])
    return conversation


async def test_errors_and_notices_that_quote_a_base_leave_with_the_grant(
    world: tuple[App, ServerClient], model: ScriptedModel
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    conversation = await failed(app, client, model, base)
    whole = await everything(app, client, conversation)
    quoted = told(whole)
    for view in ("/events", "/requests", "/turns", "/commands", "/export"):
        assert any(view in path for path in quoted), f"{view} tells nothing while it may be read"
    await grant(app, base, GrantLevel.RESTRICTED)
    assert told(await everything(app, client, conversation)) == {}
    turn = (await client.get(f"/conversations/{conversation}/turns"))["data"][0]
    assert turn["runs"][0]["error"]["message"] == WITHHELD_ERROR
    assert turn["runs"][0]["error"]["type"] == "ProviderRefusedRequest"
    [error] = [one["error"] for one in await client.packets(turn["id"], 0) if one["type"] == "error"]
    assert (error["message"], error["hint"], error["code"]) == (WITHHELD_ERROR, None, "provider_error")
    # What is asked from now on quotes nothing, and stays. With the grant the rest comes back.
    await client.post(f"/conversations/{conversation}/commands", {"text": "/resume"})
    now, before = (await client.get(f"/conversations/{conversation}/commands?limit=2"))["data"]
    assert now["answer"] != WITHHELD_ANSWER == before["answer"]
    assert "sessions" in now["data"]
    assert "sessions" not in before["data"]
    await grant(app, base, GrantLevel.FULL)
    assert told(await everything(app, client, conversation)).items() >= quoted.items()


async def test_errors_and_notices_are_erased_with_the_base(
    world: tuple[App, ServerClient], model: ScriptedModel, tmp_path: Path
) -> None:
    app, client = world
    base = await restricted_base(app, SECRET)
    await failed(app, client, model, base)
    # A job of the ended session, and the one that read the document, may have failed with such words, too.
    quoted = update(jobs).where(jobs.c.kind.in_(("summarise", INGEST))).values(error=QUOTING.as_dict())
    assert await app.store.database.write(lambda connection: connection.execute(quoted).rowcount) == 2
    where = {place for place, _ in left(tmp_path)}
    assert {f"table {name}" for name in ("notices", "runs", "requests", "jobs")} <= where
    await app.bases.delete(ANN, base)
    assert (await ended_job(app, base, ERASE, ANN)).status is JobStatus.FINISHED
    assert list(left(tmp_path)) == []
