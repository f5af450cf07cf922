"""Knowledge bases over HTTP, and the model's search in them: what is found, for whom, and why something is not."""

from __future__ import annotations

import asyncio
import json
import os
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.app.bases import described
from lamella.core.access import BaseContent, GrantLevel, Role, Subject, User
from lamella.core.messages import ToolCall
from lamella.core.records import Caller
from lamella.llm.scripted import ScriptedModel, calling, saying
from lamella.server.testing import Object, ServerClient
from lamella.storage.file_store import MARK
from lamella.storage.store import Store
from lamella.tools.knowledge_base_search import NAME

from .asking import error_of

pytestmark = pytest.mark.anyio

ANN = Caller("user_ann")
NUMBERS = count()


async def base_of(app: App, owner: Caller = LOCAL_OWNER, name: str = "Airships") -> str:
    """A new base; its owner is a user."""
    now, id = app.clock.now(), app.ids.new("kb")
    if owner != LOCAL_OWNER:
        assert isinstance(app.store, Store)
        await app.store.directory.add_user(User(owner.user_id, owner.user_id, Role.MEMBER, now))
    return (await app.access.add_base(owner, id, BaseContent(name), now)).id


async def upload(client: ServerClient, base: str, name: str, text: str) -> Object:
    answer = await client.call("POST", f"/knowledge-bases/{base}/documents", files={"file": (name, text.encode())})
    assert answer.status_code == 202, answer.text
    added: Object = answer.json()
    return await ready(client, base, added["id"])


async def ready(client: ServerClient, base: str, id: str, version: int = 1) -> Object:
    async with asyncio.timeout(30):
        while True:
            found = await client.get(f"/knowledge-bases/{base}/documents/{id}")
            if found["version"] == version and found["state"] in ("ready", "failed"):
                return found
            await asyncio.sleep(0.01)


def long(subject: str, parts: int = 40) -> str:
    return "\n\n".join(f"# {subject} {n}\n\nPart {n} tells of {subject}. {'Filler words. ' * 90}" for n in range(parts))


async def test_the_bytes_of_a_removed_bases_documents_go_with_it(
    scripted: tuple[App, ServerClient], tmp_path: Path
) -> None:
    app, client = scripted
    base = await base_of(app)
    for name in ("a.md", "b.md"):
        await upload(client, base, name, f"The mast of {name} is 60 m high.")
    assert len(os.listdir(tmp_path / "files")) == 3
    assert (await client.call("DELETE", f"/knowledge-bases/{base}")).status_code == 204
    async with asyncio.timeout(30):
        while True:
            if await app.knowledge.store.removed_documents() == ():
                break
            await asyncio.sleep(0.01)
    assert os.listdir(tmp_path / "files") == [MARK]


async def test_a_document_is_read_again_and_a_base_names_who_searches_it(scripted: tuple[App, ServerClient]) -> None:
    app, client = scripted
    base = await base_of(app)
    added = await upload(client, base, "mooring.md", "The mast is 60 m high.")
    assert (await client.post(f"/knowledge-bases/{base}/documents/{added['id']}/again"))["version"] == 2
    again = await ready(client, base, added["id"], 2)
    assert (again["state"], again["passages"]) == ("ready", added["passages"])

    agent = (await client.post("/agents", {"name": "Rigger", "prompt": "Rig."}))["id"]
    conversation = await client.conversation(title="Masts")
    for path in (f"/agents/{agent}", f"/conversations/{conversation}"):
        await client.call("PUT", f"{path}/knowledge-bases", json={"knowledge_base_ids": [base]})
    found = (await client.get(f"/knowledge-bases/{base}/searchers"))["data"]
    assert [(one["object"], one["name"]) for one in found] == [("agent", "Rigger"), ("conversation", "Masts")]


async def test_what_a_base_is_about_is_for_whoever_reads_all_of_it(scripted: tuple[App, ServerClient]) -> None:
    app, client = scripted
    told = {"name": "Prices", "hint": "Ask for a tool.", "summary": " Of tools. ", "topics": ["tools", "tools", " "]}
    base = await client.post("/knowledge-bases", told)
    about = {"hint": "Ask for a tool.", "summary": "Of tools.", "topics": ["tools"], "described_by": "user"}
    assert base.items() >= about.items()
    changed = await client.call("PATCH", f"/knowledge-bases/{base['id']}", json={"summary": "", "topics": []})
    assert (changed.json()["described_by"], changed.json()["hint"]) == ("nobody", "Ask for a tool.")
    anns = await base_of(app, ANN, "Anns")
    await app.access.change_base(ANN, anns, lambda now: described(now, "Secret.", ()), app.clock.now())
    for level in (GrantLevel.RESTRICTED, GrantLevel.FULL):
        await app.access.set_grant(ANN, anns, Subject("user", LOCAL_OWNER.user_id), level, app.clock.now())
        seen = await client.get(f"/knowledge-bases/{anns}")
        assert (about.keys() & seen.keys() != set()) == (level is GrantLevel.FULL)


def call(arguments: Object) -> ToolCall:
    return ToolCall(f"call_{next(NUMBERS)}", NAME, json.dumps(arguments))


async def searched(client: ServerClient, model: ScriptedModel, conversation: str, **more: Any) -> tuple[Object, Object]:
    """The call's result packet, and the answer's, of a turn whose model searches once."""
    fields = {name: more.pop(name) for name in ("knowledge_base_ids", "models") if name in more}
    model.then(calling(call({"query": "zeppelin", **more})), saying("See [1]."))
    packets = await client.send(conversation, "What of zeppelins?", **fields)
    return next(p for p in packets if p["type"] == "tool.result"), packets[-1]


async def test_documents_are_listed_searched_replaced_and_removed(app: App, client: ServerClient) -> None:
    base = await base_of(app)
    added = await upload(client, base, "ships.md", "# Airships\n\nA zeppelin is filled with hydrogen.")
    assert (added["state"], added["passages"], added["embedded"]) == ("ready", 1, 1)
    listed = await client.get(f"/knowledge-bases/{base}/documents")
    assert [one["id"] for one in listed["data"]] == [added["id"]]
    assert listed["totals"]["searchable"] == 1
    asked = {"query": "zeppelin", "knowledge_base_ids": [base]}
    [hit] = (await client.post("/knowledge-bases/search", asked))["data"]
    assert (hit["document_id"], hit["headings"]) == (added["id"], ["Airships"])
    assert hit["score"] > 0
    assert hit["lexical_score"] > 0
    path = f"/knowledge-bases/{base}/documents/{added['id']}"
    assert [p["text"] for p in (await client.get(f"{path}/passages"))["data"]] == [hit["text"]]
    replaced = await client.call("PUT", f"{path}/content", files={"file": ("ships.md", b"A quagga.")})
    assert replaced.json()["version"] == 2
    assert (await ready(client, base, added["id"], version=2))["searchable_version"] == 2
    assert (await client.post("/knowledge-bases/search", asked))["data"] == []
    assert (await client.call("DELETE", path)).status_code == 204
    error_of(await client.call("GET", path), 404, "not_found", "document_id")


async def test_who_may_not_read_all_of_a_base_reads_nothing_of_it(app: App, client: ServerClient) -> None:
    base = await base_of(app, ANN)
    path = f"/knowledge-bases/{base}/documents"
    asked = {"query": "zeppelin", "knowledge_base_ids": [base]}
    error_of(await client.call("GET", path), 404, "not_found", "knowledge_base_id")
    error_of(await client.call("POST", "/knowledge-bases/search", json=asked), 404, "not_found", "knowledge_base_id")
    subject = Subject("user", LOCAL_OWNER.user_id)
    await app.access.set_grant(ANN, base, subject, GrantLevel.RESTRICTED, app.clock.now())
    error_of(await client.call("GET", path), 403, "permission_denied", None)
    error_of(await client.call("POST", "/knowledge-bases/search", json=asked), 403, "permission_denied", None)
    await app.access.set_grant(ANN, base, subject, GrantLevel.FULL, app.clock.now())
    assert (await client.get(path))["data"] == []
    answer = await client.call("POST", path, files={"file": ("a.md", b"mine")})
    error_of(answer, 403, "permission_denied", None)


async def test_the_model_finds_what_its_conversation_may_search(
    app: App, client: ServerClient, model: ScriptedModel
) -> None:
    base = await base_of(app)
    document = await upload(client, base, "ships.md", long("zeppelin") + "\n\n" + long("quagga"))
    conversation = await client.conversation()
    await client.call("PUT", f"/conversations/{conversation}/knowledge-bases", json={"knowledge_base_ids": [base]})
    result, _ = await searched(client, model, conversation, max_results=3)
    assert not result["is_error"]
    assert 1 <= result["content"].count('"document":1,"title":"ships.md"') <= 3
    assert "zeppelin" in result["content"]
    rich = json.loads(result["rich"])["documents"]
    assert {one["document_id"] for one in rich} == {document["id"]}
    assert all(one["score"] > 0 for one in rich)
    # The same document has the same number ever after.
    result, _ = await searched(client, model, conversation, max_results=1)
    assert '"document":1,' in result["content"]


async def test_a_small_base_is_given_whole(app: App, client: ServerClient, model: ScriptedModel) -> None:
    base = await base_of(app)
    await upload(client, base, "a.md", "A zeppelin flies.")
    await upload(client, base, "b.md", "Nothing about it stands here.")
    conversation = await client.conversation()
    result, _ = await searched(client, model, conversation, knowledge_base_ids=[base])
    assert "Nothing about it stands here." in result["content"]
    assert "all passages" in result["content"]


@pytest.mark.parametrize("level", [None, GrantLevel.NONE])
async def test_a_base_without_a_grant_is_not_there(app: App, client: ServerClient, level: GrantLevel | None) -> None:
    base = await base_of(app, ANN, "Secret plans")
    subject = Subject("user", LOCAL_OWNER.user_id)
    await app.access.set_grant(ANN, base, subject, level, app.clock.now())
    path = f"/conversations/{await client.conversation()}/turns"
    answers = [
        await client.call("POST", path, json={"text": "Which plans?", "knowledge_base_ids": [id]})
        for id in (base, "kb_nobodys")
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert "Secret" not in answers[0].text
    assert answers[0].json()["error"]["code"] == answers[1].json()["error"]["code"]


async def test_a_grant_that_is_taken_away_holds_at_once(app: App, client: ServerClient, model: ScriptedModel) -> None:
    base = await base_of(app)
    await upload(client, base, "a.md", "A zeppelin flies.")
    conversation = await client.conversation()
    await client.call("PUT", f"/conversations/{conversation}/knowledge-bases", json={"knowledge_base_ids": [base]})
    result, _ = await searched(client, model, conversation)
    assert not result["is_error"]
    await app.access.delete_base(LOCAL_OWNER, base, app.clock.now())
    result, _ = await searched(client, model, conversation)
    assert result["content"].startswith("not_configured: ")


async def test_without_a_base_the_tool_says_so(client: ServerClient, model: ScriptedModel) -> None:
    result, _ = await searched(client, model, await client.conversation())
    assert result["is_error"]
    assert result["content"].startswith("not_configured: ")


async def test_an_empty_base_and_an_unknown_document_are_told(
    app: App, client: ServerClient, model: ScriptedModel
) -> None:
    base = await base_of(app)
    conversation = await client.conversation()
    result, _ = await searched(client, model, conversation, knowledge_base_ids=[base])
    assert result["content"].startswith("empty: ")
    failed = await upload(client, base, "a.pdf", "%PDF-1.4 broken")
    assert (failed["state"], failed["code"]) == ("failed", "corrupt")
    result, _ = await searched(client, model, conversation, knowledge_base_ids=[base])
    assert result["content"].startswith("unreadable: ")
    await upload(client, base, "a.md", "A zeppelin.")
    result, _ = await searched(client, model, conversation, knowledge_base_ids=[base], documents=["b.md"])
    assert result["content"].startswith("unknown_document: ")
    result, _ = await searched(client, model, conversation, knowledge_base_ids=[base], documents=["A.md"])
    assert not result["is_error"]


async def test_the_limit_of_a_turn_is_told_before_it_comes(
    app: App, client: ServerClient, model: ScriptedModel
) -> None:
    base = await base_of(app)
    await upload(client, base, "a.md", "A zeppelin.")
    conversation = await client.conversation()
    limit = app.settings.knowledge_calls_per_turn
    for _ in range(2):
        model.then(calling(*(call({"query": "zeppelin"}) for _ in range(limit // 2 + 1))))
    model.then(saying("Done."))
    packets = await client.send(conversation, "What?", knowledge_base_ids=[base])
    results = [packet["content"] for packet in packets if packet["type"] == "tool.result"]
    assert sum("Searches left in this turn: " in result for result in results) == 3
    assert sum(result.startswith("limit_reached: ") for result in results) == 2
    result, _ = await searched(client, model, conversation, knowledge_base_ids=[base])
    assert not result["is_error"]


async def test_files_of_a_project_are_searched_under_their_own_numbers(
    app: App, client: ServerClient, model: ScriptedModel
) -> None:
    file = await client.upload("plan.md", long("zeppelin").encode())
    project = await client.post("/projects", {"name": "Plans", "file_ids": [file["id"]]})
    conversation = await client.conversation(project_id=project["id"])
    async with asyncio.timeout(30):
        while True:
            if (await app.knowledge.store.document_on_shelf(LOCAL_OWNER, file["id"])).state == "ready":
                break
            await asyncio.sleep(0.01)
    result, _ = await searched(client, model, conversation, max_results=2)
    assert '"document":1,"title":"plan.md"' in result["content"]
    assert json.loads(result["rich"])["documents"][0]["document_id"] == file["id"]
