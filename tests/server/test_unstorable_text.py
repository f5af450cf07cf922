"""NUL and halves of surrogate pairs are refused at every door before anything is stored, and the answer says where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import httpx2
import pytest
from sqlalchemy import Connection, func, select

from lamella.app.app import App
from lamella.core.json import unstorable
from lamella.gateway.wrap import RECORDS
from lamella.server.testing import ServerClient
from lamella.server.web import described_api
from lamella.storage.tables import metadata

pytestmark = pytest.mark.anyio

JSON = "application/json"
CHARACTERS = {"NUL": ("\\u0000", "NUL (U+0000)"), "half": ("\\ud83e", "half of a surrogate pair (U+D83E)")}
DESCRIBED: Mapping[str, Any] = described_api()


def routes(kind: str) -> list[tuple[str, str]]:
    """Method and path of each route whose body is of a kind, with some id in the path."""
    found = []
    for path, verbs in DESCRIBED["paths"].items():
        for verb, operation in verbs.items():
            if kind in operation.get("requestBody", {}).get("content", {}):
                found.append((verb.upper(), path))
    return found


def fields_of(method: str, path: str) -> list[str]:
    """The names of a body's fields."""
    schema = DESCRIBED["paths"][path][method.lower()]["requestBody"]["content"][JSON]["schema"]
    if "$ref" in schema:
        schema = DESCRIBED["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return sorted(schema.get("properties", {})) or ["anything"]


def at(path: str) -> str:
    """The path with ids."""
    return "/".join("some_1" if part.startswith("{") else part for part in path.split("/"))


async def sizes(app: App) -> dict[str, int]:
    """The rows of each table."""

    def counted(connection: Connection) -> dict[str, int]:
        tables = metadata.sorted_tables
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables
        }

    return await app.store.database.read(counted)


def error_of(answer: httpx2.Response, path: str) -> tuple[str, str | None]:
    """Message and field of a refusal, in the words of the API that it belongs to."""
    assert answer.status_code == 400, (path, answer.status_code, answer.text)
    body = answer.json()
    error = body["error"]
    if path.startswith("/v1/messages"):
        assert (body["type"], error["type"]) == ("error", "invalid_request_error")
        return error["message"], None
    if path.startswith("/v1/"):
        assert error["type"] == "invalid_request_error", path
        return error["message"], error["param"]
    assert set(error) == {"message", "type", "code", "param", "hint"}
    assert (error["code"], bool(error["hint"])) == ("invalid_request", True)
    return error["message"], error["param"]


@pytest.mark.parametrize("character", CHARACTERS)
async def test_every_field_of_every_body_is_refused_with_its_place(
    app: App, client: ServerClient, character: str
) -> None:
    written, said = CHARACTERS[character]
    before = await sizes(app)
    tried = [(method, path) for method, path in routes(JSON) if path != RECORDS]
    assert len(tried) > 30
    for method, path in tried:
        for field in fields_of(method, path):
            for value, inner in ((f'"a{written}"', ""), (f'[{{"x":["a{written}"]}}]', ".0.x.0")):
                body = f'{{"model":"agent:Clerk","{field}":{value}}}' if field != "model" else f'{{"{field}":{value}}}'
                answer = await client.http.request(
                    method, at(path), content=body.encode(), headers={"content-type": JSON}
                )
                message, param = error_of(answer, path)
                assert said in message, (path, field, message)
                assert f"{field}{inner}" in message, (path, field, message)
                assert param in (None, f"{field}{inner}"), (path, field)
    assert await sizes(app) == before


AGENT_DOORS = {
    "/v1/messages": '{"model":"agent:Clerk","max_tokens":9,"messages":[{"role":"user","content":"a%s"}]}',
    "/v1/messages/count_tokens": '{"model":"agent:Clerk","messages":[{"role":"user","content":"a%s"}]}',
    "/v1/chat/completions": '{"model":"agent:Clerk","messages":[{"role":"user","content":"a%s"}]}',
    "/v1/responses": '{"model":"agent:Clerk","input":[{"role":"user","content":"a%s"}]}',
}


@pytest.mark.parametrize("character", CHARACTERS)
@pytest.mark.parametrize("path", AGENT_DOORS)
async def test_an_agent_is_asked_nothing_that_can_not_be_stored(
    app: App, client: ServerClient, path: str, character: str
) -> None:
    await client.post("/agents", {"name": "Clerk", "prompt": "Be exact."})
    before, (written, said) = await sizes(app), CHARACTERS[character]
    body = (AGENT_DOORS[path] % written).encode()
    message, _ = error_of(await client.http.post(path, content=body, headers={"content-type": JSON}), path)
    assert said in message
    assert "0.content" in message
    assert await sizes(app) == before


async def test_every_query_is_refused_with_its_place(app: App, client: ServerClient) -> None:
    before, tried = await sizes(app), 0
    for path, verbs in DESCRIBED["paths"].items():
        for verb, operation in verbs.items():
            for one in operation.get("parameters", ()):
                if one["in"] == "query" and path.startswith(("/api/", "/v1/")):
                    answer = await client.http.request(verb.upper(), f"{at(path)}?{one['name']}=a%00b")
                    message, param = error_of(answer, path)
                    assert "NUL (U+0000)" in message, (path, one["name"], message)
                    assert param in (None, one["name"])
                    tried += 1
    assert tried > 30
    assert await sizes(app) == before


async def test_the_names_of_uploads_lose_it_and_the_fields_beside_them_are_refused(
    app: App, client: ServerClient
) -> None:
    head = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a\0b.txt"\r\n\r\nHello\r\n--x--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=x"}
    for path in ("/api/v1/files", "/v1/files?beta=true"):
        answer = await client.http.post(path, content=head, headers=headers | {"anthropic-version": "2023-06-01"})
        assert answer.is_success, answer.text
        assert (answer.json().get("name") or answer.json()["filename"]) == "ab.txt"
    before = await sizes(app)
    purpose = b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\na\0b\r\n'
    file = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nHello\r\n'
    for body in (purpose + file, file + purpose):
        answer = await client.http.post("/v1/files", content=body + b"--x--\r\n", headers=headers)
        assert error_of(answer, "/v1/files")[1] == "purpose"
    assert await sizes(app) == before


async def test_no_header_brings_one(app: App, client: ServerClient) -> None:
    """No client library sends such a header, so it is written by hand."""
    before = await sizes(app)
    address = str(client.http.base_url).rstrip("/").removeprefix("http://")
    host, port = address.split(":")
    for name in (b"idempotency-key", b"x-conversation-id", b"user-agent", b"x-request-id"):
        request = (
            b"POST /api/v1/conversations HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\n" % host.encode()
        )
        request += b"content-length: 2\r\nconnection: close\r\n%b: a\0b\r\n\r\n{}" % name
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(request)
            answer = b""
            try:
                while True:
                    answer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
        assert answer.startswith(b"HTTP/1.1 400"), (name, answer)
    assert await sizes(app) == before


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a":"\\u0000"}', ("a", "NUL (U+0000)")),
        (b'{"a":[1,{"b":"x\\ud800"}]}', ("a.1.b", "half of a surrogate pair (U+D800)")),
        (b'{"a":{"b\\u0000":1}}', ("a", "NUL (U+0000)")),
        (b'{"a":"\\ud83e\\udd8e"}', None),
        (b'{"a":"\\udd8e\\ud83e"}', ("a", "half of a surrogate pair (U+DD8E)")),
        (b'{"a":"\\\\u0000 \\\\ud800"}', None),
        (b'{"a":"\\\\\\u0000"}', ("a", "NUL (U+0000)")),
        (b'{"a":"\\u0000"', None),
        (b"[" * 100_000 + b'"\\u0000"', None),
        (b"", None),
    ],
)
def test_where_a_text_holds_one(body: bytes, found: tuple[str, str] | None) -> None:
    assert unstorable(body) == found
