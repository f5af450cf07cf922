"""Every GET of the API, asked with the key of a former reader, gives nothing of the base."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import GrantLevel
from lamella.core.records import PageQuery
from lamella.llm.scripted import ScriptedModel, ScriptedModels
from lamella.server.testing import ServerClient, served
from lamella.server.testing import client as connected
from lamella.server.web import described_api
from leaking.restricted_base import ANN, grant, restricted_base, second_model

from .test_erased import settings, talked
from .test_revoked import CANARIES, SECRET, told

pytestmark = pytest.mark.anyio

QUERIES = {
    "/sessions/search": (f"?q={CANARIES[1]}",),
    "/conversations/{conversation_id}/export": ("", "?content=false"),
}
"""What is asked beside the plain path."""


def routes() -> list[str]:
    """Every path that has a GET, without the prefix of the API."""
    paths = (path for path, verbs in described_api()["paths"].items() if "get" in verbs)
    return [path.removeprefix("/api/v1") for path in paths]


async def known(app: App, client: ServerClient, conversation: str, base: str) -> dict[str, list[str]]:
    """The ids that there are of each kind, by the name of the parameter."""
    turns = [turn["id"] for turn in (await client.get(f"/conversations/{conversation}/turns"))["data"]]
    requests = [(await client.get(f"/turns/{turn}/requests"))["data"] for turn in turns]
    sessions = (await client.get(f"/conversations/{conversation}/sessions"))["data"]
    found = await app.store.documents.found_documents(LOCAL_OWNER, conversation)
    documents = await app.knowledge.documents(ANN, base, PageQuery())
    return {
        "conversation_id": [conversation],
        "turn_id": turns,
        "request_id": [one["id"] for of_turn in requests for one in of_turn],
        "session_id": [one["id"] for one in sessions],
        "base_id": [base],
        "doc_id": [one.id for one in documents.data],
        "document_id": [document.file_id for _, document in found],
        "user_id": [LOCAL_OWNER.user_id, ANN.user_id],
        "kind": ["grants", "groups", "restricted"],
        "version": ["0"],
    }


def places(path: str, ids: dict[str, list[str]]) -> list[str]:
    """The path for each known id; one that nobody has stands for a kind of which there is none."""
    found = [path]
    for name in re.findall(r"\{(\w+)\}", path):
        found = [one.replace(f"{{{name}}}", id) for one in found for id in ids.get(name, [f"{name}_none"])]
    return [one + query for one in found for query in QUERIES.get(path, ("",))]


async def swept(reader: ServerClient, ids: dict[str, list[str]]) -> dict[str, str]:
    """What each route gives."""
    found = {}
    for path in routes():
        for place in places(path, ids):
            if path == "/lines/live":  # it never ends, and begins with what comes from now on
                async with reader.http.stream("GET", f"/api/v1{place}") as stream:
                    assert stream.status_code == 200
                continue
            is_api = path not in ("/healthz", "/readyz", "/version")
            answer = await reader.call("GET", place) if is_api else await reader.http.get(place)
            assert answer.status_code < 500, place
            found[place] = answer.text
    return found


async def test_no_get_gives_a_former_reader_anything(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with served(settings(tmp_path), models=ScriptedModels(model, second_model())) as (app, client):
        base = await restricted_base(app, SECRET, title="Heronsgate.md")
        conversation = await talked(app, client, model, base)
        ids = await known(app, client, conversation, base)
        empty = {name for name, values in ids.items() if not values}
        assert empty == set()
        key = await client.set_up("Local user")
        address = str(client.http.base_url)
        async with connected(address, authorization=f"Bearer {key}") as reader:
            whole = await swept(reader, ids)
            assert len(told(whole)) > 20, "the sweep finds what may be read"
            for level in (GrantLevel.RESTRICTED, None):
                await grant(app, base, level)
                assert told(await swept(reader, ids)) == {}


async def test_no_frontend_gives_a_former_reader_anything(tmp_path: Path) -> None:
    """The messages of a thread, which an AG-UI client asks for by a run without a new one."""
    model = ScriptedModel()
    async with served(settings(tmp_path), models=ScriptedModels(model, second_model())) as (app, client):
        base = await restricted_base(app, SECRET, title="Heronsgate.md")
        conversation = await talked(app, client, model, base)
        run = {"threadId": conversation, "runId": "run", "messages": []}
        key = await client.set_up("Local user")
        async with connected(str(client.http.base_url), authorization=f"Bearer {key}") as reader:
            whole = await reader.call("POST", "/agui", json=run)
            assert told({"whole": whole.text}), "it may be read before"
            for level in (GrantLevel.RESTRICTED, None):
                await grant(app, base, level)
                answer = await reader.call("POST", "/agui", json=run)
                assert "MESSAGES_SNAPSHOT" in answer.text
                assert told({"now": answer.text}) == {}
