"""A base that is used and not read: what the main model, the client, the store and the logs get of it (W8, W10)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import BaseContent, GrantLevel, Role, Subject, User
from lamella.core.errors import PermissionDenied, ProviderRefusedRequest
from lamella.core.json import encode_text
from lamella.core.messages import ToolCall
from lamella.core.records import Caller, PageQuery
from lamella.knowledge.restricted.searching import RestrictedBase, RestrictedQuestion
from lamella.knowledge.restricted.summary import Reason
from lamella.llm.scripted import Gate, ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.storage.store import Store
from lamella.tools.knowledge_base_search import NAME
from leaking.restricted_base import ANN, add, grant, reply, restricted_base, second_model, stored_elsewhere

pytestmark = pytest.mark.anyio

CANARY = "CANARY-4711"
SECRET = f"# Lease of the northern mill\n\nThe tenant pays {CANARY} of 1,234,500 euros and keeps geese out of the yard."
HARMLESS = "The documents deal with what a tenant owes. For the sum, ask the owner of the base."
NUMBERS = count()


@pytest.fixture
def second() -> ScriptedModel:
    return second_model()


@pytest.fixture
async def scripted(
    model: ScriptedModel, second: ScriptedModel, tmp_path: Path
) -> AsyncIterator[tuple[App, ServerClient]]:
    given = read_settings(data=tmp_path, restricted_model="second", log_llm_requests=True, debounce_ms=0)
    async with served(given, models=ScriptedModels(model, second)) as opened:
        yield opened


async def searched(client: ServerClient, model: ScriptedModel, bases: list[str], **more: Any) -> Object:
    """What the tool gave in a turn whose model searches once."""
    conversation = more.pop("conversation", None) or await client.conversation()
    arguments = encode_text({"query": "What does the tenant owe?", **more})
    model.then(calling(ToolCall(f"c{next(NUMBERS)}", NAME, arguments)), saying("That I may not say in full."))
    packets = await client.send(conversation, "What is owed?", knowledge_base_ids=bases)
    return next(packet for packet in packets if packet["type"] == "tool.result")


def part(result: Object) -> Object:
    """The one restricted part of a result."""
    assert not result["is_error"], result["content"]
    [found] = json.loads(result["content"])["restricted"]
    assert json.loads(result["rich"])["restricted"] == [found]
    made: Object = found
    return made


async def test_a_restricted_base_is_answered_from_by_the_second_model(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel, tmp_path: Path
) -> None:
    base = await restricted_base(app, SECRET)
    second.then(saying(reply(HARMLESS)))
    with capture_logs() as logs:
        found = part(await searched(client, model, [base]))
    assert (found["decision"], found["reason"], found["summary"]) == ("answer", "answered", HARMLESS)
    assert (found["knowledge_base"], found["id"]) == ("Contracts", base)
    # The second model sees the sentence, and nothing that is told by a figure, an identifier or a heading.
    [asked] = second.requests
    shown = encode_text(second.body(asked))
    assert "the tenant pays [name] [figure] of [figure] euros and keeps geese out of the yard." in shown
    assert "4711" not in shown
    assert "northern" not in shown
    # Nothing protected left: not to the main model, nor to the log with requests logged, nor to rows outside the base.
    assert CANARY not in "".join(encode_text(model.body(request)) for request in model.requests)
    assert CANARY not in str(logs)
    assert [table for table, text in stored_elsewhere(tmp_path) if CANARY in text] == []
    named = ("Starting", "LLM_", "Safe", "Persist")
    assert [line["event"] for line in logs if line["event"].startswith(named)] == [
        "Starting safe summary",
        "LLM_REQUEST",
        "LLM_RESPONSE",
        "Safe summary completed",
        "Persist HTTP request",
        "Persist HTTP response",
    ]


ECHOES = {
    "everything": SECRET,
    "a sentence": "The tenant pays the sum and keeps geese out of the yard at all times.",
    "a figure": "It is 1.2345 million euros.",
    "a title": "See the lease of the northern mill.",
    "a name in small letters": "Ask canary for the sum.",
    "a number in words": "It is more than one million.",
    "a word that nobody uses": "The tenant owes a zorvlumpt.",
    "a homoglyph": "The tenant оwes geese to the owner of the yard.",
}


@pytest.mark.parametrize("said", ECHOES.values(), ids=ECHOES.keys())
async def test_what_tells_protected_text_is_refused_by_the_tool(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel, said: str
) -> None:
    base = await restricted_base(
        app, SECRET + "\n\nThe tenant pays the sum and keeps geese out of the yard at all times."
    )
    # Asked to say it in other words, the model says the same.
    second.then(saying(reply(said)), saying(encode_text({"sentences": [said]})))
    found = part(await searched(client, model, [base]))
    assert (found["decision"], found["reason"]) == ("refuse", "guarded")
    assert "summary" not in found


REFUSED: dict[str, tuple[list[ReplayEvent], str]] = {
    "no json": (saying("It is fine."), "bad_output"),
    "words around it": (saying("Here: " + reply(HARMLESS)), "bad_output"),
    "another field": (saying(reply(HARMLESS)[:-1] + ',"text":"x"}'), "bad_output"),
    "a reason of its own": (saying(reply(HARMLESS, CANARY)), "bad_output"),
    "our reason": (saying(reply(HARMLESS, "no_model")), "bad_output"),
    "an answer without words": (saying(reply("", "answered")), "bad_output"),
    "a refusal with words": (saying(reply(HARMLESS, "too_revealing")), "bad_output"),
    "a call": (calling(ToolCall("x", "read_file", "{}"), text=reply(HARMLESS)), "bad_output"),
    "too long": (saying(reply("word " * 2_000)), "bad_output"),
    "not sure": (saying(reply(HARMLESS, confidence=0.2)), "low_confidence"),
    "sure beyond measure": (saying(reply(HARMLESS, confidence=2)), "bad_output"),
    "its own refusal": (saying(reply("", "too_revealing")), "too_revealing"),
    "an error that quotes": ([ProviderRefusedRequest(f"bad request: {SECRET}")], "model_failed"),
    "silence": ([Gate()], "timed_out"),
}


@pytest.mark.parametrize(("said", "reason"), REFUSED.values(), ids=REFUSED.keys())
async def test_whatever_is_no_safe_answer_is_refused_with_its_reason(
    model: ScriptedModel, second: ScriptedModel, tmp_path: Path, said: list[ReplayEvent], reason: str
) -> None:
    given = read_settings(data=tmp_path, restricted_model="second", restricted_timeout=0.3, provider_retries=0)
    async with served(given, models=ScriptedModels(model, second)) as (app, client):
        base = await restricted_base(app, SECRET)
        second.then(said)
        with capture_logs() as logs:
            result = await searched(client, model, [base])
    found = part(result)
    assert (found["decision"], found["reason"]) == ("refuse", reason)
    assert found["what_to_do"]
    assert "summary" not in found
    assert CANARY not in str(logs)


async def test_without_a_second_model_nothing_is_told(model: ScriptedModel, tmp_path: Path) -> None:
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (app, client):
        base = await restricted_base(app, SECRET)
        assert part(await searched(client, model, [base]))["reason"] == "no_model"


async def test_open_and_restricted_parts_are_never_one_text(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    closed = await restricted_base(app, SECRET)
    other = await restricted_base(app, "The cook hides the key under the stove of the inn.", "Recipes")
    opened = (await app.access.add_base(LOCAL_OWNER, "kb_open", BaseContent("Open"), app.clock.now())).id
    await add(app, opened, "A tenant owes rent.", "o.md", owner=LOCAL_OWNER)
    second.then_from(
        lambda request: saying(reply("About what is owed." if "geese" in str(request) else "About a meal."))
    )
    second.then_from(
        lambda request: saying(reply("About what is owed." if "geese" in str(request) else "About a meal."))
    )
    result = await searched(client, model, [opened, closed, other])
    made = json.loads(result["content"])
    assert [document["contents"] for document in made["documents"]] == ["A tenant owes rent."]
    assert [(one["id"], one["summary"]) for one in made["restricted"]] == [
        (closed, "About what is owed."),
        (other, "About a meal."),
    ]
    # Each base was asked about by itself.
    bodies = [encode_text(second.body(request)) for request in second.requests]
    assert sorted(("geese" in body, "stove" in body) for body in bodies) == [(False, True), (True, False)]


async def test_a_title_is_not_looked_for_in_a_restricted_base(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SECRET)
    there = await searched(client, model, [base], documents=["a.md"])
    not_there = await searched(client, model, [base], documents=["b.md"])
    assert there["is_error"]
    assert there["content"] == not_there["content"]
    assert there["content"].startswith("restricted: ")
    assert second.requests == []


async def test_an_answer_is_asked_for_once_until_documents_change(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SECRET)
    second.then(saying(reply(HARMLESS)), saying(reply("They deal with something else.")))
    first, again = [part(await searched(client, model, [base])) for _ in range(2)]
    assert first == again
    assert len(second.requests) == 1
    await add(app, base, "Another document.", "b.md")
    assert part(await searched(client, model, [base]))["summary"] == "They deal with something else."


async def test_who_loses_access_while_the_second_model_answers_gets_nothing(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SECRET)
    gate = Gate()
    second.then([gate, *saying(reply(HARMLESS))])

    async def taken_away() -> None:
        await gate.reached.wait()
        await grant(app, base, GrantLevel.NONE)
        gate.opened.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(taken_away())
        result = tasks.create_task(searched(client, model, [base]))
    assert part(result.result())["reason"] == "access_changed"


async def test_after_a_grant_is_lowered_old_results_are_given_to_nobody(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SECRET)
    await grant(app, base, GrantLevel.FULL)
    conversation = await client.conversation()
    full = await searched(client, model, [base], conversation=conversation)
    assert CANARY in full["content"]
    await app.sessions.wait_until_idle(conversation)
    # While the grant holds, the next turn has it in its window.
    model.then(saying("Yes."))
    await client.send(conversation, "And?")
    assert CANARY in encode_text(model.body(model.requests[-1]))
    await grant(app, base, GrantLevel.RESTRICTED)
    asked = len(model.requests)
    model.then(
        calling(
            ToolCall("r1", "read_message", encode_text({"id": full["call_id"]})),
            ToolCall("r2", "search_conversation", encode_text({"query": "CANARY tenant geese yard"})),
        ),
        saying("No."),
    )
    packets = await client.send(conversation, "And now?")
    shown = [packet["content"] for packet in packets if packet["type"] == "tool.result"]
    assert len(shown) == 2
    assert CANARY not in "".join(shown)
    assert CANARY not in "".join(encode_text(model.body(request)) for request in model.requests[asked:])
    assert CANARY not in encode_text(await client.get(f"/conversations/{conversation}/turns"))
    # Granted again, it is there again: nothing was lost.
    await grant(app, base, GrantLevel.FULL)
    model.then(saying("Yes."))
    await client.send(conversation, "Once more?")
    assert CANARY in encode_text(model.body(model.requests[-1]))


async def test_an_owner_sees_what_a_reader_would_be_told_and_who_asked(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SECRET)
    second.then(saying(reply(f"{HARMLESS} It is 1.2345 million euros.")), saying('{"sentences": [""]}'))
    second.then(saying(reply("", "off_topic")))
    assert part(await searched(client, model, [base]))["summary"] == HARMLESS
    path = f"/knowledge-bases/{base}/restricted-uses"
    assert (await client.call("GET", path)).status_code == 403
    [use] = (await app.knowledge.restricted_uses(ANN, base, PageQuery())).data
    assert (use.user_id, use.question) == (LOCAL_OWNER.user_id, "What does the tenant owe?")
    assert (use.decision, use.reason, use.removed, use.chunks) == ("answer", "answered", ("figure",), 1)
    assert use.input_tokens == 200  # of the reply, and of the sentence that was to be said again
    # The owner's own look is no use.
    answered, chunks = await app.knowledge.restricted_preview(ANN, base, "Geese?", 8)
    assert (answered.safe.reason, [chunk.text for chunk in chunks]) == ("off_topic", [SECRET])
    assert len((await app.knowledge.restricted_uses(ANN, base, PageQuery())).data) == 1
    with pytest.raises(PermissionDenied):
        await app.knowledge.restricted_preview(LOCAL_OWNER, base, "Geese?", 8)


async def test_the_preview_of_ones_own_base_over_http(app: App, client: ServerClient, second: ScriptedModel) -> None:
    base = (await client.post("/knowledge-bases", {"name": "Mine"}))["id"]
    await app.knowledge.restricted.answers.ready()
    path = f"/knowledge-bases/{base}/restricted-preview"
    assert (await client.post(path, {"query": "Rent?"}))["safe"]["reason"] == "no_documents"
    await add(app, base, SECRET, "a.md", owner=LOCAL_OWNER)
    second.then(saying(reply(f"{HARMLESS} It is 1.2345 million euros.")), saying('{"sentences": [""]}'))
    shown = await client.post(path, {"query": "Rent?"})
    assert shown["safe"] == {"decision": "answer", "reason": "answered", "summary": HARMLESS}
    assert (shown["said"], shown["removed"]) == (f"{HARMLESS} It is 1.2345 million euros.", ["figure"])
    assert [passage["text"] for passage in shown["passages"]] == [SECRET]
    assert (await client.get(f"/knowledge-bases/{base}/restricted-uses"))["data"] == []


async def test_several_questions_are_previewed_with_what_is_cut(
    app: App, client: ServerClient, second: ScriptedModel
) -> None:
    base = (await client.post("/knowledge-bases", {"name": "Mine"}))["id"]
    await add(app, base, SECRET, "a.md", owner=LOCAL_OWNER)
    second.then(saying(reply(f"{HARMLESS} It is 1.2345 million euros.")), saying('{"sentences": [""]}'))
    second.then(saying(reply("", "off_topic")))
    found = await client.post(f"/knowledge-bases/{base}/restricted-previews", {"queries": ["Rent?", "Geese?"]})
    rent, geese = found["data"]
    assert (rent["query"], geese["query"], geese["safe"]["reason"]) == ("Rent?", "Geese?", "off_topic")
    assert [(one["released"], one["cuts"]) for one in rent["sentences"]] == [
        ("The documents deal with what a tenant owes.", []),
        ("For the sum, ask the owner of the base.", []),
        ("", ["figure"]),
    ]
    assert rent["sentences"][2]["said"] == "It is 1.2345 million euros."
    assert (found["refused"], round(found["cut"], 2), found["not_asked"]) == (0.5, 0.33, [])


async def test_a_preview_of_many_questions_ends_in_time_and_says_what_was_not_asked(
    app: App, client: ServerClient, second: ScriptedModel
) -> None:
    base = (await client.post("/knowledge-bases", {"name": "Mine"}))["id"]
    await add(app, base, SECRET, "a.md", owner=LOCAL_OWNER)
    await app.knowledge.restricted.answers.ready()
    second.then(saying(reply("", "off_topic")), [Gate(), *saying(reply(HARMLESS))])
    path, asked = f"/knowledge-bases/{base}/restricted-previews", ["Geese?", "Rent?", "Barns?"]
    found = await client.post(path, {"queries": asked, "seconds": 3})
    assert [one["query"] for one in found["data"]] == ["Geese?"]
    assert (found["refused"], found["not_asked"]) == (1.0, ["Rent?", "Barns?"])


async def test_an_owner_sees_before_sharing_what_is_missing_and_what_is_told(app: App, client: ServerClient) -> None:
    told = {"name": "Lease of the northern mill", "description": "Duties. It costs 4711 euros.", "keywords": ["rent"]}
    base = (await client.post("/knowledge-bases", told))["id"]
    await add(app, base, f"{SECRET}\n\n## Costs of 4711\n\nThe tenant pays for the barn.", "a.md", owner=LOCAL_OWNER)
    text = "The board met with Zeppelin in May. People from Zeppelin came to us, and Zeppelin paid for the barn."
    await add(app, base, text, "Zeppelin in May.md", owner=LOCAL_OWNER)
    await add(
        app, base, "Hunden løber hurtigt gennem skoven, og katten sover på sofaen hele dagen.", "c.md", LOCAL_OWNER
    )
    await app.knowledge.restricted.answers.ready()
    found = await client.get(f"/knowledge-bases/{base}/readiness")
    assert (found["second_model"], found["word_lists"], found["documents"]) == (True, True, 3)
    assert (found["languages"], found["unknown_language"]) == ({"en": 2}, ["c.md"])
    cut = {one["field"]: (one["told"], one["cuts"]) for one in found["told"]}
    assert cut["name"][1] == ["title"]
    assert cut["description"] == ("Duties.", ["figure"])
    assert cut["keyword"] == ("Rent.", [])
    assert "zeppelin" in found["terms"]
    assert [(one["document"], one["heading"], one["masked"]) for one in found["headings"]] == [
        ("a.md", "Costs of 4711", "costs of [figure]"),
        ("Zeppelin in May.md", "Zeppelin in May", "[name] in [figure]"),
    ]
    assert (found["answers_per_day"], found["short_answers_per_day"]) == (200, 20)
    quick = await client.get(f"/knowledge-bases/{base}/readiness?documents=false")
    assert (quick["second_model"], quick["word_lists"], quick["documents"], quick["told"]) == (True, True, 0, [])
    closed = await restricted_base(app, SECRET)
    assert (await client.call("GET", f"/knowledge-bases/{closed}/readiness")).status_code == 403


async def test_name_and_hint_are_told_as_far_as_they_tell_nothing(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SECRET, "Lease of the northern mill")
    hint = "Ask about duties of tenants. The sum is 1,234,500 euros. Due in 2031. See KX-4711. Geese: keeps geese out."

    def told(content: BaseContent) -> BaseContent:
        return replace(content, hint=hint)

    await app.bases.change(ANN, base, told)
    second.then(saying(reply(HARMLESS)))
    assert part(await searched(client, model, [base]))["knowledge_base"] == "Knowledge base with restricted access"
    body = encode_text(model.body(model.requests[0]))
    assert f"Knowledge base with restricted access (id: {base}, restricted)" in body
    assert "Hint: Ask about duties of tenants. Geese: keeps geese out." in body
    assert "northern mill" not in body
    await app.bases.change(ANN, base, lambda content: replace(content, name="Contracts"))
    model.then(saying("Yes."))
    await client.send(await client.conversation(), "And now?", knowledge_base_ids=[base])
    assert f"Contracts (id: {base}, restricted)" in encode_text(model.body(model.requests[-1]))


async def test_a_restricted_reader_is_shown_name_and_description_through_the_guard(
    app: App, client: ServerClient
) -> None:
    base = await restricted_base(app, SECRET, "Lease of the northern mill")
    written = f"Duties of tenants. The tenant pays {CANARY} of 1,234,500 euros."
    await app.bases.change(ANN, base, lambda content: replace(content, description=written))
    [listed] = (await client.get("/knowledge-bases"))["data"]
    assert listed == await client.get(f"/knowledge-bases/{base}")
    assert (listed["name"], listed["description"]) == ("Knowledge base with restricted access", "Duties of tenants.")
    refused = await client.call("GET", f"/knowledge-bases/{base}/documents")
    assert (refused.status_code, "northern" in refused.text) == (403, False)
    tried = await client.call("POST", f"/knowledge-bases/{base}/restricted-preview", json={"query": "Rent?"})
    assert (tried.status_code, tried.json()["error"]["message"]) == (
        403,
        "Only the owner of a knowledge base can preview what its restricted readers are told.",
    )
    await grant(app, base, GrantLevel.FULL)
    assert (await client.get(f"/knowledge-bases/{base}"))["description"] == written


async def test_a_restricted_grant_warns_without_a_second_model_and_is_refused_without_word_lists(
    model: ScriptedModel, tmp_path: Path
) -> None:
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as (app, client):
        base = (await client.post("/knowledge-bases", {"name": "Mine"}))["id"]
        assert isinstance(app.store, Store)
        await app.store.directory.add_user(User(ANN.user_id, "Ann", Role.MEMBER, app.clock.now()))
        path = f"/knowledge-bases/{base}/grants/{ANN.user_id}"
        granted = (await client.call("PUT", path, json={"level": "restricted"})).json()
        assert "LAMELLA_RESTRICTED_MODEL" in granted["warning"]
        assert (await client.call("PUT", path, json={"level": "full"})).json()["warning"] is None
        app.bases.missing = Reason.NO_WORD_LISTS
        refused = await client.call("PUT", path, json={"level": "restricted"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "level")
        assert "pip install 'lamella[restricted]'" in refused.json()["error"]["hint"]
        [still] = (await client.get(f"/knowledge-bases/{base}/grants"))["data"]
        assert still["level"] == "full"


async def test_a_sentence_that_may_not_leave_is_said_again_once(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SECRET)
    second.then(
        saying(reply(f"{HARMLESS} It comes to 1,234,500 euros.")),
        saying(encode_text({"sentences": ["The exact sum is not for everybody."]})),
    )
    found = part(await searched(client, model, [base]))
    assert found["summary"] == f"{HARMLESS} The exact sum is not for everybody."
    again = encode_text(second.body(second.requests[1]))
    assert '\\"sentence\\":\\"It comes to 1,234,500 euros.\\",\\"without\\":[\\"1,234,500\\"]' in again


async def test_the_question_frees_no_word_and_its_figures_are_not_shown(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, "The board calls the purchase Falcon. It costs 4711 euros.")
    second.then(saying(reply("Yes, it is falcon, for 4711 euros.")))
    found = part(await searched(client, model, [base], query="Is the purchase called Falcon, and is it 4711 euros?"))
    assert (found["decision"], found["reason"]) == ("refuse", "guarded")
    # A name is not named to the second model: it would learn by trying which words are names.
    [asked] = second.requests
    assert "is it [figure] euros?" in encode_text(second.body(asked))


async def test_a_question_in_another_language_is_refused_clearly(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SECRET)
    found = part(await searched(client, model, [base], query="Mitä vuokralaisen täytyy maksaa omistajalle vuosittain?"))
    assert (found["decision"], found["reason"]) == ("refuse", "language_not_supported")
    assert second.requests == []


async def test_a_guessed_name_changes_nothing_of_what_is_found(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    filler = " ".join(
        f"The tenant of house number {number} pays a rent for the yard and the roof." for number in range(900)
    )
    base = await restricted_base(app, f"# One\n\n{filler}")
    await add(app, base, f"Ms Zervanolis lives in the mill. {filler}", "b.md")
    shown = []
    for name in ("Zervanolis", "Quorvex"):
        second.then(saying(reply(HARMLESS)))
        await searched(client, model, [base], query=f"Does {name} live in the mill?")
        shown.append(encode_text(second.body(second.requests[-1])).replace(name, "X"))
    assert shown[0] == shown[1]


async def test_a_name_alone_is_answered_as_a_word_that_stands_nowhere(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    """A base that is too large to be shown whole is searched, and all words of this question are hidden."""
    filler = " ".join(
        f"The tenant of house number {number} pays a rent for the yard and the roof." for number in range(900)
    )
    base = await restricted_base(app, f"Ms Zervanolis lives in the mill. {filler}")
    for name in ("Zervanolis", "Quorvex"):
        second.then(saying(reply("", "not_in_documents")))
        found = part(await searched(client, model, [base], query=name))
        assert (found["decision"], found["reason"]) == ("refuse", "not_in_documents")
    assert {use.reason for use in (await app.knowledge.restricted_uses(ANN, base, PageQuery())).data} == {
        "not_in_documents"
    }


SLICED = "The tenant keeps noisy geese near wooden bridges during winter."
SLICES = ("tenant", "keeps", "noisy", "geese", "wooden", "bridges", "winter", "tenant and winter", "geese", "noisy")


async def test_slices_over_many_turns_leave_a_part_of_a_sentence(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SLICED)
    left: list[str] = []
    for turn, word in enumerate(SLICES):
        second.then(saying(reply(f"One of the words is {word}.")))
        found = part(await searched(client, model, [base], query=f"What is owed, part {'i' * turn} of it?"))
        left.append(found.get("summary", ""))
    said = {word for text in left for word in text.rstrip(".").split()}
    told = said & {"tenant", "keeps", "noisy", "geese", "wooden", "bridges", "winter", "near"}
    assert told == {"tenant", "keeps", "noisy", "geese"}
    # A word that the reader has may be said again; what would add a fifth one is refused.
    assert [bool(text) for text in left] == [True] * 4 + [False] * 4 + [True] * 2
    uses = (await app.knowledge.restricted_uses(ANN, base, PageQuery(order="asc"))).data
    assert [use.reason for use in uses[4:8]] == ["guarded"] * 4
    assert [use.removed for use in uses[4:8]] == [("covered",)] * 4
    # Another reader has words of their own.
    [document] = (await app.knowledge.documents(ANN, base, PageQuery())).data
    history = await app.access.reader_history(base, "user_bob", [f"{document.id}:0"], uses[0].at)
    assert (history.answers, history.told) == (0, {})


async def test_answers_of_a_day_have_bounds(model: ScriptedModel, second: ScriptedModel, tmp_path: Path) -> None:
    given = read_settings(
        data=tmp_path, restricted_model="second", restricted_answers_per_day=3, restricted_short_answers_per_day=1
    )
    async with served(given, models=ScriptedModels(model, second)) as (app, client):
        base, other = await restricted_base(app, SECRET), await restricted_base(app, SECRET, "Others")
        said = ["Yes, it does.", "No, it is not.", HARMLESS, HARMLESS, HARMLESS]
        second.then(*(saying(reply(text)) for text in said))
        found = [
            part(await searched(client, model, [base], query=f"Does the tenant owe {thing}?"))
            for thing in ("rent", "geese", "wood", "stone")
        ]
        assert [one["reason"] for one in found] == ["answered", "daily_limit", "answered", "daily_limit"]
        assert "24 hours" in found[1]["what_to_do"]
        # The fourth question was not asked of the second model, and another base has bounds of its own.
        assert len(second.requests) == 3
        assert part(await searched(client, model, [other]))["reason"] == "answered"
        [reader] = await app.knowledge.restricted_readers(ANN, base, days=1)
        assert (reader.answers, reader.short, reader.limited) == (3, 1, 2)


async def test_answers_at_once_count_what_each_of_them_tells(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SLICED)
    gates = [Gate(), Gate()]
    for gate, words in zip(gates, ("tenant, geese and winter", "bridges, noisy and keeps"), strict=True):
        second.then([gate, *saying(reply(f"Some of the words are {words}."))])
        model.then(calling(ToolCall(f"c{next(NUMBERS)}", NAME, encode_text({"query": f"Words? {words}"}))))
    model.then(saying("So."), saying("So."))
    async with asyncio.TaskGroup() as tasks:
        for gate in gates:
            conversation = await client.conversation()
            tasks.create_task(client.send(conversation, "Well?", knowledge_base_ids=[base]))
            await gate.reached.wait()
        for gate in gates:
            gate.opened.set()
    uses = (await app.knowledge.restricted_uses(ANN, base, PageQuery())).data
    assert sorted(use.reason for use in uses) == ["answered", "guarded"]
    assert [use.cached for use in uses] == [False, False]


async def test_an_owner_sees_what_went_out_of_a_document(
    app: App, client: ServerClient, model: ScriptedModel, second: ScriptedModel
) -> None:
    base = await restricted_base(app, SLICED)
    second.then(saying(reply("There are geese in winter. For more, ask the owner of the base.")))
    text = part(await searched(client, model, [base]))["summary"]
    [use] = (await app.knowledge.restricted_uses(ANN, base, PageQuery())).data
    [document] = (await app.knowledge.documents(ANN, base, PageQuery())).data
    assert (use.released, use.passage_ids, use.short) == (text, (f"{document.id}:0",), False)
    [passage], more = await app.knowledge.disclosed(ANN, base, document.id, 100)
    [reader] = passage.readers
    assert (passage.id, passage.passage and passage.passage.text, more) == (f"{document.id}:0", SLICED, False)
    assert (reader.user_id, reader.words, reader.out_of, reader.most) == (LOCAL_OWNER.user_id, 2, 7, 2 / 7)
    [disclosure] = reader.disclosures
    assert disclosure.told.sentences == ("There are geese in winter.",)
    assert disclosure.use_id == use.id
    for path in ("restricted-readers", f"documents/{document.id}/disclosed"):
        assert (await client.call("GET", f"/knowledge-bases/{base}/{path}")).status_code == 403


async def test_an_owner_reads_over_http_what_went_out(
    app: App, client: ServerClient, second: ScriptedModel, tmp_path: Path
) -> None:
    base = (await client.post("/knowledge-bases", {"name": "Mine"}))["id"]
    document = await add(app, base, SLICED, "a.md", owner=LOCAL_OWNER)
    bob = User("user_bob", "Bob", Role.MEMBER, app.clock.now())
    assert isinstance(app.store, Store)
    await app.store.directory.add_user(bob)
    subject = Subject("user", bob.id)
    await app.access.set_grant(LOCAL_OWNER, base, subject, GrantLevel.RESTRICTED, app.clock.now())
    second.then(saying(reply("There are geese in winter. Tenants keep bridges, noisy ones.")))
    asked = RestrictedQuestion(Caller(bob.id), "What does the tenant owe?", 8)
    await app.knowledge.restricted.answers_of(asked, [RestrictedBase(base, LOCAL_OWNER.user_id, "Mine")])
    [use] = (await client.get(f"/knowledge-bases/{base}/restricted-uses"))["data"]
    assert (use["name"], use["released"], use["alerts"]) == ("Bob", "There are geese in winter.", ["covered"])
    assert use["passage_ids"] == [f"{document.id}:0"]
    [reader] = (await client.get(f"/knowledge-bases/{base}/restricted-readers"))["data"]
    assert (reader["id"], reader["answers"], reader["short"]) == ("user_bob", 1, 1)
    assert (reader["covered"], reader["named"], reader["limited"], reader["alerts"]) == (1, 0, 0, ["covered"])
    [passage] = (await client.get(f"/knowledge-bases/{base}/documents/{document.id}/disclosed"))["data"]
    [told] = passage["readers"]
    assert (passage["text"], told["name"], told["words"], told["out_of"]) == (SLICED, "Bob", 2, 7)
    assert told["disclosures"][0]["sentences"] == ["There are geese in winter."]
    assert [passage["text"][start:end] for start, end in told["covered"]] == ["geese", "winter"]
