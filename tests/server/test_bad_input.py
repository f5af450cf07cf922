"""Whatever is wrong with a request: a status, a code, a sentence, what to do, and nothing stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from lamella.app.app import App
from lamella.llm.scripted import FACTS, ScriptedModel, saying
from lamella.server.testing import ServerClient, serving
from lamella.server.testing import client as connected
from lamella.server.web import MAX_BODY_BYTES, create_web

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
FORM = "The body came as application/x-www-form-urlencoded, not as JSON."
"""What `curl -d` sends without a header."""


def refused(answer: httpx2.Response, status: int, code: str, param: str | None = None) -> dict[str, Any]:
    """The error of an answer, which must have the one shape of all errors."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"].startswith("http_")
    body = answer.json()
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "code", "param", "hint"}
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"].strip()
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text
    return error


async def turns(speaking: ServerClient, conversation: str) -> list[Any]:
    found: list[Any] = (await speaking.get(f"/conversations/{conversation}/turns"))["data"]
    return found


@pytest.mark.parametrize(
    ("body", "param", "hinted"),
    [
        ({}, "text", True),
        ({"text": ""}, "text", True),
        ({"text": " \n\t\u2003"}, "text", True),
        ({"text": None}, "text", True),
        ({"text": 7}, "text", True),
        ({"text": ["a"]}, "text", True),
        ({"text": "a", "file_ids": "file_1"}, "file_ids", True),
        ({"text": "a", "file_ids": [1]}, "file_ids.0", True),
        ({"text": "a", "file_ids": ["f"] * 21}, "file_ids", True),
        ({"text": "a", "file_ids": ["f", "f"]}, "file_ids", True),
        ({"text": "a", "file_ids": ["f" * 81]}, "file_ids.0", True),
        ({"text": "a", "timezone": "Mars/Olympus"}, "timezone", True),
        ({"text": "a", "timezone": "../../etc/passwd"}, "timezone", True),
        ({"text": "a", "timezone": "/etc/localtime"}, "timezone", True),
        ({"text": "a", "timezone": ""}, "timezone", True),
        ({"text": "a", "timezone": "Europe\x00Berlin"}, "timezone", True),
        ({"text": "a", "timezone": "E" * 81}, "timezone", True),
        ({"text": "a", "models": ["nobody"]}, "model", False),
        ({"text": "a", "models": []}, "models", True),
        ({"text": "a", "models": ["scripted", "scripted"]}, "models", True),
        ({"text": "a", "temperature": 1}, "temperature", True),
        ({"text": "a", "queue": "no"}, "queue", True),
    ],
)
async def test_a_message_that_cannot_be_sent_is_refused(
    client: ServerClient, model: ScriptedModel, body: Any, param: str, hinted: bool
) -> None:
    model.then(saying("Hi."))
    conversation = await client.conversation()
    error = refused(
        await client.call("POST", f"/conversations/{conversation}/turns", json=body), 400, "invalid_request", param
    )
    assert bool(error["hint"]) is hinted
    assert await turns(client, conversation) == []
    assert model.requests == []
    assert (await client.send(conversation, "Hello"))[-1]["status"] == "finished"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"[]",
        b'"text"',
        b"7",
        b"null",
        b'{"text": "a"',
        b"{'text': 'a'}",
        b'{"text": "\xff\xfe"}',
        b'{"text": NaN}',
        b'{"text": "a"}{"text": "b"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\x00",
        b'{"text": 1e999}',
        b'{"text": ' + b"9" * 5_000 + b"}",
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(client: ServerClient, body: bytes) -> None:
    conversation = await client.conversation()
    for path in ("/conversations", f"/conversations/{conversation}/turns"):
        answer = await client.call("POST", path, content=body, headers=JSON)
        error = answer.json()["error"]
        refused(answer, 400, "invalid_request", error["param"])
        assert error["hint"]
    assert await turns(client, conversation) == []
    assert len((await client.get("/conversations"))["data"]) == 1


@pytest.mark.parametrize(
    ("content", "sent_as", "message", "param"),
    [
        (None, "", "The request has no body.", None),
        (b'{"text": "Hi"}', "application/x-www-form-urlencoded", FORM, None),
        (b'["Hi"]', "application/json", "The body is not a JSON object.", None),
        (b'{"text": "Hi"', "application/json", "The body is not valid JSON.", None),
        (b'{"text": "Hi", "stream": true}', "application/json", "There is no field stream.", "stream"),
    ],
)
async def test_what_newcomers_send_is_refused_in_plain_words(
    client: ServerClient, content: bytes | None, sent_as: str, message: str, param: str | None
) -> None:
    path = f"/conversations/{await client.conversation()}/turns"
    answer = await client.call("POST", path, content=content, headers={"content-type": sent_as} if sent_as else {})
    assert refused(answer, 400, "invalid_request", param)["message"] == message


async def test_a_field_that_is_missing_is_named(client: ServerClient) -> None:
    answer = await client.call("POST", "/knowledge-bases/search", json={"knowledge_base_ids": []})
    assert refused(answer, 400, "invalid_request", "query")["message"] == "query is missing."


@pytest.mark.parametrize("half", ["\\ud800", "\\udfff", "\\udc00\\ud800", "a\\ud83e"])
async def test_half_a_surrogate_pair_is_refused_wherever_it_stands(client: ServerClient, half: str) -> None:
    conversation = await client.conversation()
    sent = [("/conversations", f'{{"{field}": "{half}"}}') for field in ("title", "model", "layout", "marker_policy")]
    turn = f"/conversations/{conversation}/turns"
    sent += [(turn, f'{{"text": "{half}"}}'), (turn, f'{{"text": "a", "timezone": "{half}"}}')]
    sent += [(turn, f'{{"text": "a", "{field}": ["{half}"]}}') for field in ("file_ids", "models")]
    for path, body in sent:
        answer = await client.call("POST", path, content=body.encode(), headers=JSON)
        refused(answer, 400, "invalid_request", answer.json()["error"]["param"])
    assert await turns(client, conversation) == []


async def test_a_title_of_half_a_surrogate_pair_changes_nothing(client: ServerClient) -> None:
    conversation = await client.conversation(title="Before")
    path = f"/conversations/{conversation}"
    answer = await client.call("PATCH", path, content=b'{"title": "\\ud800"}', headers=JSON)
    refused(answer, 400, "invalid_request", answer.json()["error"]["param"])
    assert (await client.get(path))["title"] == "Before"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "nobody"}, "model"),
        ({"model": 7}, "model"),
        ({"layout": "sideways"}, "layout"),
        ({"marker_policy": "everywhere"}, "marker_policy"),
        ({"title": "x" * 201}, "title"),
        ({"title": None}, "title"),
        ({"owner": "user_bob"}, "owner"),
        ({"id": "conv_1"}, "id"),
    ],
)
async def test_a_conversation_that_cannot_be_made_is_refused(client: ServerClient, body: Any, param: str) -> None:
    refused(await client.call("POST", "/conversations", json=body), 400, "invalid_request", param)
    assert (await client.get("/conversations"))["data"] == []


@pytest.mark.parametrize(
    ("body", "param"), [({"model": "nobody"}, "model"), ({"title": 7}, "title"), ({"head": "turn_1"}, "head")]
)
async def test_a_change_that_cannot_be_made_is_refused(client: ServerClient, body: Any, param: str) -> None:
    conversation = await client.conversation(title="Before")
    before = await client.get(f"/conversations/{conversation}")
    refused(await client.call("PATCH", f"/conversations/{conversation}", json=body), 400, "invalid_request", param)
    assert await client.get(f"/conversations/{conversation}") == before


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("order=up", "order"),
        ("after=" + "x" * 81, "after"),
    ],
)
async def test_a_list_that_cannot_be_given_is_refused(client: ServerClient, query: str, param: str) -> None:
    conversation = await client.conversation()
    for path in ("/conversations", "/files", *(f"/conversations/{conversation}/{a}" for a in ("turns", "decisions"))):
        refused(await client.call("GET", f"{path}?{query}"), 400, "invalid_request", param)


WITH_AN_ID = [
    ("GET", "/conversations/{id}"),
    ("PATCH", "/conversations/{id}"),
    ("DELETE", "/conversations/{id}"),
    ("GET", "/conversations/{id}/turns"),
    ("POST", "/conversations/{id}/turns"),
    ("GET", "/conversations/{id}/context"),
    ("GET", "/conversations/{id}/decisions"),
    ("GET", "/turns/{id}"),
    ("GET", "/turns/{id}/events"),
    ("POST", "/turns/{id}/stop"),
    ("GET", "/turns/{id}/requests"),
    ("GET", "/requests/{id}/map"),
    ("GET", "/requests/{id}/raw"),
    ("GET", "/files/{id}"),
    ("DELETE", "/files/{id}"),
    ("GET", "/files/{id}/content"),
    ("GET", "/files/{id}/text"),
    ("GET", "/agents/{id}"),
    ("PATCH", "/agents/{id}"),
    ("DELETE", "/agents/{id}"),
    ("GET", "/projects/{id}"),
    ("PATCH", "/projects/{id}"),
    ("DELETE", "/projects/{id}"),
    ("POST", "/projects/{id}/files"),
    ("DELETE", "/projects/{id}/files/{id}"),
]


def _body(method: str, path: str) -> dict[str, str] | None:
    """A body that is right for the route."""
    if method == "POST":
        return {"file_id": "file_1"} if path.startswith("/projects") else {"text": "Hi"}
    if method == "PATCH":
        return {"title": "x"} if path.startswith("/conversations") else {"name": "x"}
    return None


@pytest.mark.parametrize("id", ["conv_nobody", "..", "%2e%2e", "%00", "a" * 3_000, "ü", "'; DROP TABLE turns; --", "*"])
async def test_what_does_not_exist_is_not_found(client: ServerClient, id: str) -> None:
    for method, path in WITH_AN_ID:
        answer = await client.call(method, path.format(id=id), json=_body(method, path))
        if answer.status_code == 405 or (method, path, answer.status_code) == ("POST", "/projects/{id}/files", 400):
            # The id was a step up: the address is another one.
            assert id in ("..", "%2e%2e")
        else:
            assert refused(answer, 404, "not_found", answer.json()["error"]["param"])["hint"] is None


async def test_unknown_files_and_foreign_addresses_are_not_found(client: ServerClient) -> None:
    conversation = await client.conversation()
    path = f"/conversations/{conversation}/turns"
    refused(await client.call("POST", path, json={"text": "a", "file_ids": ["file_1"]}), 404, "not_found", "file_ids")
    assert await turns(client, conversation) == []
    for address in ("/api/v1/nothing", "/api/v2/conversations", "/api/v1/", "/api/v1"):
        answer = await client.http.get(address)
        if address == "/api/v1":
            continue
        refused(answer, 404, "not_found")
    answer = await client.call("PUT", "/conversations", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "invalid_request")
    assert "POST" in answer.headers["allow"]


async def test_a_message_over_the_window_is_refused_before_it_is_stored(
    client: ServerClient, model: ScriptedModel
) -> None:
    model.then(saying("Short."))
    conversation = await client.conversation()
    long = "word " * FACTS.window
    answer = await client.call("POST", f"/conversations/{conversation}/turns", json={"text": long})
    error = refused(answer, 400, "context_length_exceeded", "text")
    assert "attach the text as a file" in error["hint"]
    assert await turns(client, conversation) == []
    assert (await client.send(conversation, "Short?"))[-1]["status"] == "finished"


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_that_is_too_long_is_refused(client: ServerClient, declared: bool) -> None:
    conversation = await client.conversation()
    body = b'{"text": "' + b"x" * MAX_BODY_BYTES + b'"}'

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1 << 16):
            yield body[start : start + (1 << 16)]

    for path in ("/conversations", f"/conversations/{conversation}/turns", f"/conversations/{conversation}"):
        method = "PATCH" if path.endswith(conversation) else "POST"
        answer = await client.call(method, path, content=body if declared else pieces(), headers=JSON)
        assert refused(answer, 413, "payload_too_large")["hint"] == "Upload long texts as files."
    assert (await client.call("GET", "/status")).status_code == 200


async def test_a_body_that_is_just_short_enough_is_read(client: ServerClient) -> None:
    conversation = await client.conversation()
    text = " " * (MAX_BODY_BYTES - len(b'{"text":""}'))
    answer = await client.call(
        "POST", f"/conversations/{conversation}/turns", content=b'{"text":"%b"}' % text.encode(), headers=JSON
    )
    assert refused(answer, 400, "invalid_request", "text")["message"] == "The message is empty."


async def test_a_long_key_is_refused(client: ServerClient) -> None:
    answer = await client.call("POST", "/conversations", json={}, headers={"Idempotency-Key": "k" * 201})
    refused(answer, 400, "invalid_request", "Idempotency-Key")


async def test_a_failure_inside_the_server_shows_nothing_of_it(app: App) -> None:
    async def nobody(request: object) -> Any:
        raise RuntimeError("secret in /etc/passwd, line 3")

    async with serving(create_web(app, nobody)) as address, connected(address) as speaking:
        answer = await speaking.call("GET", "/conversations")
        error = refused(answer, 500, "internal_error")
    assert "secret" not in answer.text
    assert error["hint"] == "The server's log has the cause."


async def test_the_store_of_refused_messages_holds_nothing(client: ServerClient, tmp_path: Path) -> None:
    conversation = await client.conversation()
    for body in ({"text": ""}, {"text": "a", "file_ids": ["file_x"]}, {"text": "a", "models": ["nobody"]}):
        await client.call(
            "POST", f"/conversations/{conversation}/turns", json=body, headers={"Idempotency-Key": "the same"}
        )
    assert (await client.get(f"/conversations/{conversation}"))["title"] == ""
    assert await turns(client, conversation) == []
