"""Bases that give restricted readers less than a summary: choices of a form, or whether there is something."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import BaseContent, FormField, RestrictedLevel
from lamella.core.errors import InvalidRequest
from lamella.core.json import encode_text
from lamella.core.messages import ToolCall
from lamella.core.records import PageQuery
from lamella.knowledge.restricted.safe_answers import Answered
from lamella.knowledge.restricted.searching import RestrictedBase, RestrictedQuestion
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.tools.knowledge_base_search import NAME
from leaking.restricted_base import ANN, reply, restricted_base, second_model

pytestmark = pytest.mark.anyio

TEXT = "The tenant pays 4711 euros and may leave after a month. Geese stay out of the yard."
FORM = (FormField("Notice", ("a month", "longer", "not said")), FormField("Animals", ("allowed", "not allowed")))


@pytest.fixture
def second() -> ScriptedModel:
    return second_model()


@pytest.fixture
async def scripted(
    model: ScriptedModel, second: ScriptedModel, tmp_path: Path
) -> AsyncIterator[tuple[App, ServerClient]]:
    given = read_settings(data=tmp_path, restricted_model="second", debounce_ms=0)
    async with served(given, models=ScriptedModels(model, second)) as opened:
        yield opened


async def levelled(app: App, level: RestrictedLevel, form: tuple[FormField, ...] = (), contact: str = "") -> str:
    base = await restricted_base(app, TEXT)

    def edit(now: BaseContent) -> BaseContent:
        return replace(now, restricted_level=level, form=form, contact=contact)

    await app.bases.change(ANN, base, edit)
    return base


async def answered(app: App, base: str, second: ScriptedModel, said: str, question: str) -> Answered:
    second.then(saying(said))
    asked = RestrictedQuestion(LOCAL_OWNER, question, 8)
    [one] = await app.knowledge.restricted.answers_of(asked, [RestrictedBase(base, ANN.user_id, "Contracts")])
    return one


async def test_a_form_is_answered_in_the_words_of_the_owner(app: App, second: ScriptedModel) -> None:
    base = await levelled(app, RestrictedLevel.FORM, FORM)
    picked = encode_text({"choices": [0, 1], "confidence": 0.9})
    made = await answered(app, base, second, picked, "When may the tenant leave?")
    assert (made.safe.decision, made.safe.text) == ("answer", "Notice: a month. Animals: not allowed.")
    [asked] = second.requests
    assert "4711" not in encode_text(second.body(asked))
    [use] = (await app.knowledge.restricted_uses(ANN, base, PageQuery())).data
    assert (use.released, use.counted, use.short) == (made.safe.text, True, False)


OTHER = {
    "a summary": reply("The tenant may leave."),
    "words": "The first one.",
    "a number too high": encode_text({"choices": [3, 0], "confidence": 0.9}),
    "a number below": encode_text({"choices": [-1, 0], "confidence": 0.9}),
    "too few": encode_text({"choices": [0], "confidence": 0.9}),
    "words of its own": encode_text({"choices": [0, 1], "confidence": 0.9, "note": "4711"}),
    "a choice in words": encode_text({"choices": ["a month", "allowed"], "confidence": 0.9}),
}


@pytest.mark.parametrize("said", OTHER.values(), ids=OTHER.keys())
async def test_whatever_is_no_choice_is_refused(app: App, second: ScriptedModel, said: str) -> None:
    base = await levelled(app, RestrictedLevel.FORM, FORM)
    made = await answered(app, base, second, said, "When may the tenant leave?")
    assert (made.safe.decision, made.safe.reason, made.safe.text) == ("refuse", "bad_output", "")


async def test_a_base_tells_that_there_is_something_and_whom_to_ask(app: App, second: ScriptedModel) -> None:
    base = await levelled(app, RestrictedLevel.EXISTENCE)
    yes, no = (encode_text({"choices": [pick], "confidence": 0.9}) for pick in (1, 0))
    there = await answered(app, base, second, yes, "When may the tenant leave?")
    assert there.safe.text == "There is something about this in the knowledge base. Whom to ask: Ann"
    german = await answered(app, base, second, yes, "Wann darf der Mieter aus dem Haus ausziehen?")
    assert german.safe.text == "Dazu gibt es etwas in der Wissensbasis. Wen Sie fragen können: Ann"
    not_there = await answered(app, base, second, no, "How are ships painted?")
    assert (not_there.safe.decision, not_there.safe.reason) == ("refuse", "not_in_documents")
    # Either is a yes or a no, and counts as a short answer.
    assert [use.short for use in (await app.knowledge.restricted_uses(ANN, base, PageQuery())).data] == [
        True,
        True,
        True,
    ]


async def test_a_form_has_at_most_twenty_bits(app: App) -> None:
    wide = tuple(FormField(f"Field {at}", tuple(map(str, range(32)))) for at in range(5))
    with pytest.raises(InvalidRequest, match="20 bits"):
        await levelled(app, RestrictedLevel.FORM, wide)
    await levelled(app, RestrictedLevel.FORM, wide[:4])
    with pytest.raises(InvalidRequest, match="needs fields"):
        await levelled(app, RestrictedLevel.FORM)


async def test_the_level_over_http(app: App, client: ServerClient) -> None:
    base = (await client.post("/knowledge-bases", {"name": "Mine"}))["id"]
    form = [{"name": "Notice", "choices": ["a month", "longer"]}]
    said = {"restricted_level": "form", "form": form, "contact": "Bob"}
    changed = await client.api.ask("PATCH", f"/knowledge-bases/{base}", json=said)
    assert {name: changed[name] for name in said} == said
    assert (await client.api.ask("PATCH", f"/knowledge-bases/{base}", json={"name": "Ours"}))["form"] == form
    made = await client.api.ask("POST", "/knowledge-bases", json={"name": "Theirs"} | said)
    assert {name: made[name] for name in said} == said
    refused = await client.call("POST", "/knowledge-bases", json={"name": "None", "restricted_level": "form"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "form")


async def test_the_tool_says_at_which_level_a_base_answers(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    levels = {}
    for level, form in ((RestrictedLevel.FORM, FORM), (RestrictedLevel.EXISTENCE, ()), (RestrictedLevel.SUMMARY, ())):
        base = await levelled(app, level, form)
        said = reply("The tenant may leave.") if level is RestrictedLevel.SUMMARY else ""
        picks = [0] * max(len(form), 1)
        second.then(saying(said or encode_text({"choices": picks, "confidence": 0.9})))
        model.then(calling(ToolCall(f"c_{level}", NAME, encode_text({"query": "May tenants leave?"}))), saying("So."))
        packets = await client.send(await client.conversation(), "May they?", knowledge_base_ids=[base])
        [result] = [packet for packet in packets if packet["type"] == "tool.result"]
        [part] = json.loads(result["content"])["restricted"]
        levels[level] = (part.get("level"), part["decision"], part["reason"])
    assert levels == {
        RestrictedLevel.FORM: ("form", "answer", "answered"),
        RestrictedLevel.EXISTENCE: ("existence", "refuse", "not_in_documents"),
        RestrictedLevel.SUMMARY: (None, "answer", "answered"),
    }
