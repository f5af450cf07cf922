"""What belongs to somebody else does not exist: the same answer as for an id that nobody ever had."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request

from lamella.app.app import App, open_app
from lamella.core.access import Identity, Role, User
from lamella.core.errors import AuthenticationFailed
from lamella.core.json import encode_text
from lamella.core.records import Caller
from lamella.llm.scripted import ScriptedModels
from lamella.server.testing import ServerClient, serving
from lamella.server.testing import client as connected
from lamella.server.web import create_web
from lamella.settings import read_settings

from .town import furnished, model_of_the_town

pytestmark = pytest.mark.anyio


async def who(request: Request) -> Identity:
    """The user of the test's header."""
    name = request.headers.get("x-test-user")
    if not name:
        raise AuthenticationFailed("Nobody is asking.", hint="Send who you are.")
    return Identity(Caller(f"user_{name}"), name, Role.MEMBER)


@dataclass(frozen=True)
class Town:
    """Ann, who has something of everything, and Bob, who wants to see it."""

    app: App
    address: str
    ann: ServerClient
    bob: ServerClient
    ids: dict[str, str]


@pytest.fixture
async def town(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Town]:
    async with (
        open_app(read_settings(data=tmp_path), models=ScriptedModels(model_of_the_town())) as app,
        serving(create_web(app, who)) as address,
        connected(address, **{"x-test-user": "ann"}) as ann,
        connected(address, **{"x-test-user": "bob"}) as bob,
    ):
        directory = app.accounts.directory
        for name in ("ann", "bob"):
            await directory.add_user(User(f"user_{name}", name, Role.MEMBER, app.clock.now()))
        ids = {**await furnished(app, ann, Caller("user_ann")), "subject": "user_bob"}
        yield Town(app, address, ann, bob, ids)


UI_MESSAGE = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Tell me"}]}
AGENT_MESSAGE = {"id": "m", "role": "user", "content": "Tell me"}
FOREIGN = {"knowledge_base_ids": ["{base}"]}

EVERY_ROUTE: list[tuple[str, str, Any]] = [
    ("GET", "/keys/{key}", None),
    ("PATCH", "/keys/{key}", {"storage": "off"}),
    ("DELETE", "/keys/{key}", None),
    ("GET", "/users/{user}", None),
    ("GET", "/groups/{group}", None),
    ("GET", "/knowledge-bases/{base}", None),
    ("PATCH", "/knowledge-bases/{base}", {"name": "Mine now"}),
    ("DELETE", "/knowledge-bases/{base}", None),
    ("GET", "/knowledge-bases/{base}/documents", None),
    ("POST", "/knowledge-bases/{base}/documents", None),
    ("GET", "/knowledge-bases/{base}/documents/{doc}", None),
    ("GET", "/knowledge-bases/{base}/documents/{doc}/passages", None),
    ("PUT", "/knowledge-bases/{base}/documents/{doc}/content", None),
    ("POST", "/knowledge-bases/{base}/documents/{doc}/again", None),
    ("DELETE", "/knowledge-bases/{base}/documents/{doc}", None),
    ("GET", "/knowledge-bases/{base}/searchers", None),
    ("POST", "/knowledge-bases/search", {"query": "secret", "knowledge_base_ids": ["{base}"]}),
    ("GET", "/conversations/{conversation}/knowledge-bases", None),
    ("PUT", "/conversations/{conversation}/knowledge-bases", {"knowledge_base_ids": []}),
    ("PUT", "/conversations/{mine}/knowledge-bases", {"knowledge_base_ids": ["{base}"]}),
    ("POST", "/conversations/{mine}/turns", {"text": "Tell me", "knowledge_base_ids": ["{base}"]}),
    ("GET", "/agents/{agent}/knowledge-bases", None),
    ("PUT", "/agents/{agent}/knowledge-bases", {"knowledge_base_ids": []}),
    ("GET", "/knowledge-bases/{base}/grants", None),
    ("GET", "/knowledge-bases/{base}/grant-changes", None),
    ("POST", "/knowledge-bases/{base}/restricted-preview", {"query": "secret"}),
    ("POST", "/knowledge-bases/{base}/restricted-previews", {"queries": ["secret"]}),
    ("GET", "/knowledge-bases/{base}/readiness", None),
    ("GET", "/knowledge-bases/{base}/restricted-uses", None),
    ("GET", "/knowledge-bases/{base}/restricted-readers", None),
    ("GET", "/knowledge-bases/{base}/restricted-terms", None),
    ("PUT", "/knowledge-bases/{base}/restricted-terms", {"allowed": ["falcon"]}),
    ("GET", "/knowledge-bases/{base}/documents/{doc}/disclosed", None),
    ("PUT", "/knowledge-bases/{base}/grants/{subject}", {"level": "full"}),
    ("DELETE", "/knowledge-bases/{base}/grants/{subject}", None),
    ("GET", "/conversations/{conversation}", None),
    ("PATCH", "/conversations/{conversation}", {"title": "Mine now"}),
    ("DELETE", "/conversations/{conversation}", None),
    ("GET", "/conversations/{conversation}/turns", None),
    ("POST", "/conversations/{conversation}/turns", {"text": "Tell me"}),
    ("GET", "/conversations/{conversation}/context", None),
    ("GET", "/conversations/{conversation}/decisions", None),
    ("GET", "/conversations/{conversation}/export", None),
    ("GET", "/conversations/{conversation}/efforts", None),
    ("GET", "/conversations/{conversation}/sessions", None),
    ("GET", "/conversations/{conversation}/commands", None),
    ("POST", "/conversations/{conversation}/commands", {"text": "/status"}),
    ("POST", "/conversations/{conversation}/compact", None),
    ("POST", "/conversations/{conversation}/prune", None),
    ("POST", "/conversations/{conversation}/new", None),
    ("GET", "/conversations/{conversation}/queue", None),
    ("POST", "/conversations/{conversation}/queue/flush", None),
    ("GET", "/conversations/{conversation}/queue/{message}", None),
    ("GET", "/conversations/{conversation}/queue/{message}/events", None),
    ("PATCH", "/conversations/{conversation}/queue/{message}", {"text": "Mine now"}),
    ("DELETE", "/conversations/{conversation}/queue/{message}", None),
    ("GET", "/conversations/{mine}/queue/{message}", None),
    ("GET", "/conversations/{mine}/queue/{message}/events", None),
    ("PATCH", "/conversations/{mine}/queue/{message}", {"text": "Mine now"}),
    ("DELETE", "/conversations/{mine}/queue/{message}", None),
    ("GET", "/conversations/{conversation}/tools", None),
    ("POST", "/conversations/{conversation}/tools/refresh", None),
    ("GET", "/documents/{document}", None),
    ("POST", "/turns/{turn}/calls/{call}/approval", {"approved": True}),
    ("GET", "/sessions/{session}", None),
    ("POST", "/sessions/{session}/resume", None),
    ("POST", "/sessions/{session}/undo", None),
    ("GET", "/turns/{turn}", None),
    ("GET", "/turns/{turn}/events", None),
    ("GET", "/turns/{turn}/requests", None),
    ("GET", "/conversations/{conversation}/tree", None),
    ("POST", "/turns/{turn}/prefer", {}),
    ("POST", "/runs/{run}/stop", None),
    ("POST", "/turns/{turn}/stop", None),
    ("GET", "/turns/{running}", None),
    ("GET", "/turns/{running}/events", None),
    ("POST", "/turns/{running}/stop", None),
    ("GET", "/requests/{request}/map", None),
    ("GET", "/requests/{request}/why", None),
    ("GET", "/requests/{request}/diff", None),
    ("GET", "/requests/{request}/raw", None),
    ("GET", "/lines/{line}", None),
    ("POST", "/lines/{line}/fork", {}),
    ("GET", "/lines/{line}/replacements", None),
    ("DELETE", "/lines/{line}/replacements/{replacement}", None),
    ("GET", "/files/{file}", None),
    ("GET", "/files/{file}/content", None),
    ("GET", "/files/{file}/text", None),
    ("DELETE", "/files/{file}", None),
    ("GET", "/agents/{agent}", None),
    ("PATCH", "/agents/{agent}", {"name": "Mine now"}),
    ("DELETE", "/agents/{agent}", None),
    ("GET", "/projects/{project}", None),
    ("PATCH", "/projects/{project}", {"name": "Mine now"}),
    ("DELETE", "/projects/{project}", None),
    ("POST", "/projects/{project}/files", {"file_id": "file_none"}),
    ("DELETE", "/projects/{project}/files/{file}", None),
    ("POST", "/context/preview", {"conversation_id": "{conversation}", "text": "Tell me"}),
    ("PATCH", "/conversations/{mine}", {"agent_id": "{agent}"}),
    ("PATCH", "/conversations/{mine}", {"project_id": "{project}"}),
    ("POST", "/conversations", {"agent_id": "{agent}"}),
    ("POST", "/conversations", {"project_id": "{project}"}),
    ("POST", "/conversations/{mine}/turns", {"text": "Tell me", "agent_id": "{agent}"}),
    ("POST", "/context/preview", {"conversation_id": "{mine}", "text": "Tell me", "agent_id": "{agent}"}),
    ("POST", "/context/preview", {"conversation_id": "{mine}", "text": "Tell me", "file_ids": ["{file}"]}),
    ("POST", "/projects", {"name": "P", "file_ids": ["{file}"]}),
    ("POST", "/ui/chat", {"id": "mine", "messages": [UI_MESSAGE], "agent_id": "{agent}"}),
    ("POST", "/agui", {"threadId": "mine", "runId": "r", "messages": [AGENT_MESSAGE], "forwardedProps": FOREIGN}),
    ("PATCH", "/projects/{bobs}", {"file_ids": ["{file}"]}),
    ("POST", "/projects/{bobs}/files", {"file_id": "{file}"}),
    ("GET", "/v1/responses/{response}", None),
    ("GET", "/v1/responses/{response}/input_items", None),
    ("POST", "/v1/responses/{response}/cancel", None),
    ("DELETE", "/v1/responses/{response}", None),
    ("GET", "/v1/conversations/{conversation}", None),
    ("POST", "/v1/conversations/{conversation}", {"metadata": {"mine": "now"}}),
    ("GET", "/v1/conversations/{conversation}/items", None),
    ("POST", "/v1/conversations/{conversation}/items", {"items": [{"role": "user", "content": "Mine now"}]}),
    ("GET", "/v1/conversations/{conversation}/items/{item}", None),
    ("DELETE", "/v1/conversations/{conversation}/items/{item}", None),
    ("GET", "/v1/conversations/{mine}/items/{item}", None),
    ("DELETE", "/v1/conversations/{conversation}", None),
    ("POST", "/v1/responses", {"input": "Tell me", "conversation": "{conversation}"}),
    ("GET", "/v1/files/{file}", None),
    ("GET", "/v1/files/{file}/content", None),
    ("DELETE", "/v1/files/{file}", None),
]


FOR_ADMINS: list[tuple[str, str, Any]] = [
    ("PATCH", "/users/{user}", {"name": "Mine now"}),
    ("GET", "/users/{user}/keys", None),
    ("POST", "/users/{user}/keys", {"name": "Mine now"}),
    ("DELETE", "/users/{user}/keys/{key}", None),
    ("PATCH", "/groups/{group}", {"name": "Mine now"}),
    ("DELETE", "/groups/{group}", None),
    ("PUT", "/groups/{group}/members/{user}", None),
    ("DELETE", "/groups/{group}/members/{user}", None),
    ("GET", "/audit/{kind}", None),
]
"""A member is told that they are for admins, whether or not there is such an id."""


async def called(user: ServerClient, method: str, path: str, body: Any, ids: dict[str, str]) -> httpx2.Response:
    """A request with these ids in its path and in its body."""
    written = encode_text(body) if body is not None else None
    for name, id in ids.items():
        path = path.replace(f"{{{name}}}", id)
        written = written.replace(f"{{{name}}}", id) if written is not None else None
    ask = user.http.request if path.startswith("/v1/") else user.call
    return await ask(method, path, content=written, headers={"content-type": "application/json"})


async def everything(town: Town) -> list[Any]:
    """What Ann has, as she sees it."""
    nouns = ("conversation", "agent", "project", "file", "key")
    paths = [f"/{noun}s/{town.ids[noun]}" for noun in nouns]
    paths.append(f"/knowledge-bases/{town.ids['base']}")
    return [await town.ann.get(path) for path in (*paths, f"/conversations/{town.ids['conversation']}/queue")]


async def test_every_id_of_somebody_else_is_not_found_at_every_route(town: Town) -> None:
    before = await everything(town)
    bobs = {"mine": await town.bob.conversation(), "bobs": (await town.bob.post("/projects", {"name": "P"}))["id"]}
    nothing = {name: f"{name}_none" for name in town.ids}
    for method, path, body in EVERY_ROUTE:
        foreign = await called(town.bob, method, path, body, {**town.ids, **bobs})
        missing = await called(town.bob, method, path, body, {**nothing, **bobs})
        assert (foreign.status_code, missing.status_code) == (404, 404), (method, path)
        answers = [answer.json()["error"] for answer in (foreign, missing)]
        for name, id in town.ids.items():
            answers[0]["message"] = re.sub(rf"\b{id}\b", f"{name}_none", answers[0]["message"])
        assert answers[0] == answers[1]
        assert "secret" not in foreign.text.lower()
    assert await everything(town) == before
    assert (await town.ann.get(f"/turns/{town.ids['running']}"))["status"] == "running"
    assert (await town.bob.get("/projects"))["data"][0]["revision"] == 1
    assert (await town.bob.get(f"/conversations/{bobs['mine']}/turns"))["data"] == []


async def test_nobody_goes_on_from_a_response_of_somebody_else(town: Town) -> None:
    for id in (town.ids["response"], "resp_none"):
        answer = await town.bob.http.post("/v1/responses", json={"input": "Tell me", "previous_response_id": id})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "previous_response_not_found")
        assert error["message"] == f"Previous response with id '{id}' not found."


async def test_the_list_above_has_every_route_with_an_id(town: Town) -> None:
    described = (await town.ann.http.get("/openapi.json")).json()["paths"]
    routes = {
        (verb.upper(), path.removeprefix("/api/v1").replace("_id}", "}"))
        for path, verbs in described.items()
        for verb in verbs
        if "{" in path
    }
    # A version is counted for each owner: it is no id, and nobody else's can be asked for.
    routes -= {("GET", "/system-prompts/{version}")}
    # Nor that of a chat, which its client chose: see tests/server/test_frontends.py.
    routes -= {("GET", "/ui/chat/{chat}/stream"), ("POST", "/ui/chat/{chat}/stop")}
    assert routes
    assert routes <= {(method, path) for method, path, _ in EVERY_ROUTE + FOR_ADMINS}


async def test_what_is_for_admins_is_no_oracle_for_ids(town: Town) -> None:
    nothing = {name: f"{name}_none" for name in town.ids}
    for method, path, body in FOR_ADMINS:
        foreign, missing = [await called(town.bob, method, path, body, ids) for ids in (town.ids, nothing)]
        assert (foreign.status_code, missing.status_code) == (403, 403), (method, path)
        assert foreign.json() == missing.json()
    assert (await town.ann.get("/me"))["name"] == "ann"


async def test_lists_hold_only_what_is_ones_own(town: Town) -> None:
    paths = ("/conversations", "/files", "/agents", "/projects", "/knowledge-bases")
    assert [len((await town.ann.get(path))["data"]) for path in paths] == [1, 1, 1, 1, 1]
    assert [(await town.bob.get(path))["data"] for path in paths] == [[], [], [], [], []]
    assert [one["version"] for one in (await town.ann.get("/system-prompts"))["data"]] == [1, 0]
    assert [one["version"] for one in (await town.bob.get("/system-prompts"))["data"]] == [0]
    answer = await town.bob.call("GET", "/system-prompts/1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    for id in (town.ids["conversation"], town.ids["file"]):
        assert (await town.bob.get(f"/conversations?after={id}&order=asc"))["data"] == []


async def test_somebody_elses_file_cannot_be_attached(town: Town) -> None:
    mine = await town.bob.conversation()
    body = {"text": "What does it say?", "file_ids": [town.ids["file"]]}
    answer = await town.bob.call("POST", f"/conversations/{mine}/turns", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (404, "file_ids")
    assert (await town.bob.get(f"/conversations/{mine}/turns"))["data"] == []


async def test_keys_of_two_users_are_two_keys(town: Town) -> None:
    answers = [
        await user.call("POST", "/conversations", json={}, headers={"Idempotency-Key": "same"})
        for user in (town.ann, town.bob, town.ann, town.bob)
    ]
    ids = [answer.json()["id"] for answer in answers]
    assert ids[:2] == ids[2:]
    assert ids[0] != ids[1]


async def test_who_is_nobody_gets_nothing(town: Town) -> None:
    async with connected(town.address) as nobody:
        for method, path, body in [
            *EVERY_ROUTE,
            *FOR_ADMINS,
            ("GET", "/conversations", None),
            ("POST", "/conversations", {}),
        ]:
            answer = await called(nobody, method, path, body, town.ids)
            code = "invalid_api_key" if path.startswith("/v1/") else "authentication_error"
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, code), path
        answer = await nobody.call("POST", "/files", files={"file": ("a.txt", b"a")})
        assert answer.status_code == 401
