"""Every endpoint of the API's own description against every kind of caller: a new one needs a line here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.core.json import encode_text
from lamella.core.records import Caller
from lamella.llm.scripted import ScriptedModels
from lamella.server.testing import FIRST_RUN_TOKEN, ServerClient, authentication_of, serving
from lamella.server.testing import client as connected
from lamella.server.web import create_web
from lamella.settings import read_settings

from .test_foreign import AGENT_MESSAGE, EVERY_ROUTE, FOR_ADMINS, UI_MESSAGE
from .town import furnished, model_of_the_town

pytestmark = pytest.mark.anyio

ROLES = ("nobody", "member", "restricted", "full", "owner", "admin")
"""Nobody has no key. Member, restricted and full are members with no grant or one of that level on a base that `owner`
owns, as all else that the ids here are of; an admin is nothing more to these than a member."""

ANYBODY = (0, 0, 0, 0, 0, 0)
KNOWN = (401, 0, 0, 0, 0, 0)
OWN = (401, 404, 404, 404, 0, 404)
SEEN = (401, 404, 0, 0, 0, 404)
OWNED_BASE = (401, 404, 403, 403, 0, 404)
READABLE_BASE = (401, 404, 403, 0, 0, 404)
ADMIN = (401, 403, 403, 403, 403, 0)
ONESELF = (401, 404, 404, 404, 0, 0)
"""The answers by role; 0 is to be let in."""

OUTSIDE = {
    ("GET", "/healthz"): ANYBODY,
    ("GET", "/readyz"): ANYBODY,
    ("GET", "/version"): ANYBODY,
    ("POST", "/v1/responses"): OWN,
}
VENDORS = {("GET", "/v1/files"): KNOWN, ("POST", "/v1/files"): KNOWN, ("POST", "/v1/conversations"): KNOWN}
ACCESS = {
    ("GET", "/login"): ANYBODY,
    ("POST", "/login"): ANYBODY,
    ("POST", "/setup"): ANYBODY,
    ("POST", "/logout"): KNOWN,
    ("GET", "/me"): KNOWN,
    ("GET", "/users"): KNOWN,
    ("POST", "/users"): ADMIN,
    ("GET", "/users/{user_id}"): ONESELF,
    ("PATCH", "/users/{user_id}"): ADMIN,
    ("GET", "/users/{user_id}/keys"): ADMIN,
    ("POST", "/users/{user_id}/keys"): ADMIN,
    ("DELETE", "/users/{user_id}/keys/{key_id}"): ADMIN,
    ("GET", "/groups"): KNOWN,
    ("POST", "/groups"): ADMIN,
    ("GET", "/groups/{group_id}"): ONESELF,
    ("PATCH", "/groups/{group_id}"): ADMIN,
    ("DELETE", "/groups/{group_id}"): ADMIN,
    ("PUT", "/groups/{group_id}/members/{user_id}"): ADMIN,
    ("DELETE", "/groups/{group_id}/members/{user_id}"): ADMIN,
    ("GET", "/audit/{kind}"): ADMIN,
    ("GET", "/knowledge-bases/{base_id}"): SEEN,
    ("PATCH", "/knowledge-bases/{base_id}"): OWNED_BASE,
    ("DELETE", "/knowledge-bases/{base_id}"): OWNED_BASE,
    ("GET", "/knowledge-bases/{base_id}/documents"): READABLE_BASE,
    ("POST", "/knowledge-bases/{base_id}/documents"): OWNED_BASE,
    ("GET", "/knowledge-bases/{base_id}/documents/{doc_id}"): READABLE_BASE,
    ("GET", "/knowledge-bases/{base_id}/documents/{doc_id}/passages"): READABLE_BASE,
    ("PUT", "/knowledge-bases/{base_id}/documents/{doc_id}/content"): OWNED_BASE,
    ("POST", "/knowledge-bases/{base_id}/documents/{doc_id}/again"): OWNED_BASE,
    ("DELETE", "/knowledge-bases/{base_id}/documents/{doc_id}"): OWNED_BASE,
    ("GET", "/knowledge-bases/{base_id}/searchers"): SEEN,
    ("POST", "/knowledge-bases/search"): READABLE_BASE,
    ("GET", "/knowledge-bases/{base_id}/grants"): OWNED_BASE,
    ("PUT", "/knowledge-bases/{base_id}/grants/{subject_id}"): OWNED_BASE,
    ("DELETE", "/knowledge-bases/{base_id}/grants/{subject_id}"): OWNED_BASE,
    ("GET", "/knowledge-bases/{base_id}/grant-changes"): OWNED_BASE,
    ("POST", "/knowledge-bases/{base_id}/restricted-preview"): OWNED_BASE,
    ("POST", "/knowledge-bases/{base_id}/restricted-previews"): OWNED_BASE,
    ("GET", "/knowledge-bases/{base_id}/readiness"): OWNED_BASE,
    ("GET", "/knowledge-bases/{base_id}/restricted-uses"): OWNED_BASE,
    ("GET", "/knowledge-bases/{base_id}/restricted-readers"): OWNED_BASE,
    ("GET", "/knowledge-bases/{base_id}/restricted-terms"): OWNED_BASE,
    ("PUT", "/knowledge-bases/{base_id}/restricted-terms"): OWNED_BASE,
    ("GET", "/knowledge-bases/{base_id}/documents/{doc_id}/disclosed"): OWNED_BASE,
}
LISTS = (
    *("agents", "commands", "conversations", "files", "keys", "knowledge-bases", "layouts", "lines", "lines/live"),
    *(
        "mcp-servers",
        "models",
        "projects",
        "sessions/search",
        "status",
        "system-prompts",
        "system-prompts/current",
        "tools",
    ),
)
"""What everybody has of their own, or shares."""

CREATED = ("agents", "conversations", "files", "keys", "knowledge-bases", "projects", "system-prompts")
KNOWN_TO_ALL = {
    **{("GET", f"/{name}"): KNOWN for name in LISTS},
    **{("POST", f"/{name}"): KNOWN for name in CREATED},
    ("GET", "/system-prompts/{version}"): KNOWN,
    ("POST", "/context/preview"): OWN,
    ("POST", "/ui/chat"): OWN,
    ("GET", "/ui/chat/{chat_id}/stream"): KNOWN,
    ("POST", "/ui/chat/{chat_id}/stop"): KNOWN,
    ("POST", "/agui"): OWN,
    ("POST", "/lines/records"): KNOWN,
}
WITH_AN_ID = (
    *("conversations/{conversation_id}", "files/{file_id}", "agents/{agent_id}", "projects/{project_id}"),
    *("sessions/{session_id}", "turns/{turn_id}", "runs/{run_id}", "requests/{request_id}", "keys/{key_id}"),
    *("documents/{document_id}", "lines/{line_id}", "v1/responses/{response_id}", "v1/files/{file_id}"),
    "v1/conversations/{conversation_id}",
)
"""What is under these belongs to one user."""


def expected(method: str, path: str) -> tuple[int, ...]:
    """The answers to each role; raises `LookupError` for an endpoint that nobody said anything about."""
    for table in (OUTSIDE, VENDORS, ACCESS, KNOWN_TO_ALL):
        if (method, path) in table:
            return table[(method, path)]
    if any(path[1:] == row or path[1:].startswith(f"{row}/") for row in WITH_AN_ID):
        return OWN
    raise LookupError(f"{method} {path}: say in tests/server/test_matrix.py who may")


BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/login"): {"key": "lam_no"},
    ("POST", "/setup"): {"name": "Ann", "token": FIRST_RUN_TOKEN},
    ("POST", "/v1/responses"): {"input": "What is the secret?", "conversation": "{conversation}"},
    ("POST", "/users"): {"name": "Another"},
    ("POST", "/groups"): {"name": "Another"},
    **{(method, path): body for method, path, body in reversed([*EVERY_ROUTE, *FOR_ADMINS])},
    ("POST", "/ui/chat"): {"id": "{conversation}", "messages": [UI_MESSAGE]},
    ("POST", "/agui"): {"threadId": "{conversation}", "runId": "r", "messages": [AGENT_MESSAGE]},
}
"""A good body for each endpoint, by the path as in `test_foreign`; nothing where any body will do."""

SAID_BY_THE_ENDPOINT = {("POST", "/login"): 401, ("POST", "/setup"): 403}
"""Endpoints that let everybody in and then say this themselves: a wrong key, and set up already."""


@dataclass(frozen=True)
class Town:
    """The callers by role, and the ids of what the owner has."""

    callers: dict[str, ServerClient]
    ids: dict[str, str]
    endpoints: list[tuple[str, str]]


async def _user(admin: ServerClient, name: str) -> tuple[str, str]:
    """The id and the key of a new member."""
    made = await admin.post("/users", {"name": name})
    return made["id"], made["key"]["secret"]


@pytest.fixture
async def town(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Town]:
    async with (
        open_app(read_settings(data=tmp_path), models=ScriptedModels(model_of_the_town())) as app,
        serving(create_web(app, authentication_of(app))) as address,
        connected(address) as nobody,
    ):
        root = await nobody.set_up("Root")
        async with connected(address, authorization=f"Bearer {root}") as admin:
            users = {role: await _user(admin, role) for role in ("member", "restricted", "full", "owner")}
            keys = {role: {"authorization": f"Bearer {key}"} for role, (_, key) in users.items()}
            async with (
                connected(address, **keys["member"]) as member,
                connected(address, **keys["restricted"]) as restricted,
                connected(address, **keys["full"]) as full,
                connected(address, **keys["owner"]) as owner,
            ):
                callers = {"nobody": nobody, "member": member, "restricted": restricted, "full": full}
                yield await _furnished_town(app, callers | {"owner": owner, "admin": admin}, users)


async def _furnished_town(app: App, callers: dict[str, ServerClient], users: dict[str, tuple[str, str]]) -> Town:
    owner = callers["owner"]
    ids = await furnished(app, owner, Caller(users["owner"][0]))
    ids |= {"user": users["owner"][0], "subject": users["member"][0]}
    for level in ("restricted", "full"):
        path = f"/knowledge-bases/{ids['base']}/grants/{users[level][0]}"
        assert (await owner.call("PUT", path, json={"level": level})).status_code == 200
    await app.accounts.directory.add_member(ids["group"], users["owner"][0], LOCAL_OWNER.user_id, app.clock.now())
    described = (await owner.http.get("/openapi.json")).json()["paths"]
    endpoints = [(verb.upper(), path.removeprefix("/api/v1")) for path, verbs in described.items() for verb in verbs]
    return Town(callers, ids, endpoints)


async def _status(town: Town, caller: ServerClient, method: str, path: str) -> int:
    named = path.replace("_id}", "}")
    body = BODIES.get((method, named))
    written = None if body is None else encode_text(body)
    for name, id in {**town.ids, "version": "0", "mine": town.ids["conversation"]}.items():
        named = named.replace(f"{{{name}}}", id)
        written = None if written is None else written.replace(f"{{{name}}}", id)
    prefix = "" if (method, path) in OUTSIDE or path.startswith("/v1/") else "/api/v1"
    request = caller.http.stream(
        method, f"{prefix}{named}", content=written, headers={"content-type": "application/json"}
    )
    async with request as answer:
        return answer.status_code


def _is_let_in(method: str, path: str, status: int) -> bool:
    return status == SAID_BY_THE_ENDPOINT.get((method, path)) or (status < 500 and status not in (401, 403, 404))


async def test_who_may_not_is_told_so_at_every_endpoint(town: Town) -> None:
    assert len(town.endpoints) > 80
    wrong = []
    for method, path in town.endpoints:
        for role, status in zip(ROLES, expected(method, path), strict=True):
            if status and (answered := await _status(town, town.callers[role], method, path)) != status:
                wrong.append(f"{role}: {method} {path}: {answered}, not {status}")
    assert wrong == []


async def test_who_may_is_let_in(town: Town) -> None:
    """At every endpoint that changes nothing, and at those about access; what else is changed has tests of its own."""
    order = {"GET": 0, "POST": 1, "PATCH": 2, "PUT": 3, "DELETE": 4}
    told = sorted(town.endpoints, key=lambda endpoint: (order[endpoint[0]], -len(endpoint[1])))
    wrong = []
    for method, path in told:
        if method != "GET" and (method, path) not in ACCESS:
            continue
        for role, status in zip(ROLES, expected(method, path), strict=True):
            if status == 0 and (method, path, role) != ("POST", "/logout", "nobody"):
                answered = await _status(town, town.callers[role], method, path)
                if not _is_let_in(method, path, answered):
                    wrong.append(f"{role}: {method} {path}: {answered}")
    assert wrong == []


async def test_an_endpoint_that_nobody_thought_of_fails_this_test() -> None:
    with pytest.raises(LookupError):
        expected("GET", "/invoices/{invoice_id}")
