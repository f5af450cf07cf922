"""What goes wrong under `/v1` is told in the shape of the API that a client speaks, and no odd input makes a 500."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import anthropic
import httpx2
import openai
import pytest

from lamella.llm.scripted import ScriptedModel, saying
from lamella.server.testing import ServerClient
from lamella.server.testing import client as connected

pytestmark = pytest.mark.anyio

CLAUDE = {"anthropic-version": "2023-06-01"}
ROUTES = [
    ("GET", "/v1/responses/{}"),
    ("DELETE", "/v1/responses/{}"),
    ("POST", "/v1/responses/{}/cancel"),
    ("GET", "/v1/responses/{}/input_items"),
    ("GET", "/v1/conversations/{}"),
    ("POST", "/v1/conversations/{}"),
    ("DELETE", "/v1/conversations/{}"),
    ("GET", "/v1/conversations/{}/items"),
    ("POST", "/v1/conversations/{}/items"),
    ("GET", "/v1/conversations/conv_no/items/{}"),
    ("DELETE", "/v1/conversations/conv_no/items/{}"),
    ("GET", "/v1/files/{}"),
    ("GET", "/v1/files/{}/content"),
    ("DELETE", "/v1/files/{}"),
    ("GET", "/v1/models/{}"),
]
ODD = [
    "a/b",
    "\0",
    "x" * 4_000,
    "☕",
    "%",
    "resp_",
    "msg__",
    "' OR 1=1 --",
    "a\nb",
    "\ud83d".encode("utf-8", "replace").decode(),
    " ",
]


TEXT = [{"type": "input_text", "text": "See."}]


def is_openai(answer: httpx2.Response) -> bool:
    body = answer.json()
    return set(body) == {"error"} and set(body["error"]) == {"message", "type", "param", "code"}


def is_anthropic(answer: httpx2.Response) -> bool:
    body = answer.json()
    return body["type"] == "error" and set(body["error"]) == {"type", "message"}


@pytest.fixture
async def plain(client: ServerClient) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that does not compare answers with the description: these paths are in none."""
    async with connected(str(client.http.base_url), False) as found:
        yield found.http


@pytest.mark.parametrize("id", ODD, ids=range(len(ODD)))
async def test_an_odd_id_is_not_found(plain: httpx2.AsyncClient, id: str) -> None:
    for method, path in ROUTES:
        answer = await plain.request(method, path.format(quote(id, safe="")), json={} if method == "POST" else None)
        assert answer.status_code in (400, 404, 405), (method, path, answer.text)
        assert is_openai(answer), (method, path, answer.text)
        raw = b"/v1/files/%ff%fe" if id == " " else None
        if raw is not None:
            assert (await plain.get(raw.decode())).status_code == 404


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/v1/files", {"limit": "-1"}),
        ("/v1/files", {"order": "up"}),
        ("/v1/files", {"after": "\0"}),
        ("/v1/responses/resp_no", {"stream": "perhaps"}),
        ("/v1/responses/resp_no", {"stream": "true", "starting_after": "x"}),
        ("/v1/responses/resp_no", {"starting_after": "9" * 40}),
        ("/v1/conversations/conv_no/items", {"limit": "101"}),
    ],
)
async def test_a_wrong_query_names_its_parameter(plain: httpx2.AsyncClient, path: str, query: dict[str, str]) -> None:
    answer = await plain.get(path, params=query)
    assert answer.status_code == 400
    assert is_openai(answer)
    assert answer.json()["error"]["param"] in query


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/conversations", {"items": [{"role": "user", "content": "Hi"}], "name": "x"}, "name"),
        ("/v1/conversations", {"items": {"role": "user"}}, "items"),
        ("/v1/conversations", {"metadata": [1]}, "metadata"),
        ("/v1/responses", {"input": 7}, "input"),
        ("/v1/responses", {"input": "Hi", "background": "yes"}, "background"),
        ("/v1/responses", {"input": "Hi", "stream": 1}, "stream"),
        ("/v1/responses", {"input": "Hi", "conversation": 7}, "conversation"),
        ("/v1/responses", {"input": "Hi", "conversation": {"id": "c", "x": 1}}, "conversation"),
        ("/v1/responses", {"input": "Hi", "previous_response_id": 7}, "previous_response_id"),
        ("/v1/responses", {"input": "Hi", "model": 7}, "model"),
    ],
)
async def test_a_wrong_type_names_its_field(
    plain: httpx2.AsyncClient, model: ScriptedModel, path: str, body: Any, param: str
) -> None:
    answer = await plain.post(path, json=body, headers={"x-conversation-id": "new"})
    assert answer.status_code == 400, answer.text
    assert is_openai(answer)
    assert answer.json()["error"]["param"] == param
    assert model.requests == []


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/files/a/b/c", "/v1/assistants"])
async def test_an_unknown_path_is_not_found_in_the_clients_shape(
    plain: httpx2.AsyncClient, method: str, path: str
) -> None:
    answer = await plain.request(method, path)
    assert answer.status_code == 404
    assert is_openai(answer)
    answer = await plain.request(method, path, headers=CLAUDE)
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
    assert is_anthropic(answer)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/responses", "POST"),
        ("GET", "/v1/responses", "POST"),
        ("PATCH", "/v1/responses/resp_no", "DELETE, GET"),
        ("GET", "/v1/responses/resp_no/cancel", "POST"),
        ("PUT", "/v1/conversations/conv_no", "DELETE, GET, POST"),
        ("DELETE", "/v1/files", "GET, POST"),
        ("GET", "/v1/messages", "POST"),
        ("DELETE", "/v1/chat/completions", "POST"),
        ("POST", "/v1/models", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_names_those_that_are_allowed(
    plain: httpx2.AsyncClient, method: str, path: str, allowed: str
) -> None:
    answer = await plain.request(method, path)
    assert answer.status_code == 405
    assert set(allowed.split(", ")) <= set(answer.headers["allow"].split(", "))
    assert is_anthropic(answer) if path == "/v1/messages" else is_openai(answer)


async def test_a_key_is_refused_in_the_clients_shape(client: ServerClient) -> None:
    root = await client.set_up()
    address = str(client.http.base_url).rstrip("/")
    for key in ("lam_wrong", root[:-1]):
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=key, http_client=http) as sdk:
            with pytest.raises(openai.AuthenticationError) as caught:
                await sdk.responses.retrieve("resp_no")
            assert caught.value.code == "invalid_api_key"
        claude_http = anthropic.DefaultAsyncHttpxClient(trust_env=False)
        async with anthropic.AsyncAnthropic(base_url=address, api_key=key, http_client=claude_http) as claude:
            for ask in (claude.models.list(), claude.beta.files.list()):
                with pytest.raises(anthropic.AuthenticationError) as refused:
                    await ask
                body: Any = refused.value.body
                assert body["error"]["type"] == "authentication_error"


async def test_a_key_that_only_reads_changes_nothing(client: ServerClient, model: ScriptedModel) -> None:
    root = await client.set_up()
    async with connected(str(client.http.base_url), authorization=f"Bearer {root}") as ann:
        model.then(saying("Hello."))
        made = (await ann.http.post("/v1/responses", json={"input": "Hi"})).json()
        file = (await ann.upload("a.txt", b"Tide."))["id"]
        secret = (await ann.post("/keys", {"name": "reads", "scopes": ["read"]}))["secret"]
    conversation = made["conversation"]["id"]
    seen = [
        *(f"/v1/responses/{made['id']}", f"/v1/responses/{made['id']}/input_items"),
        *(f"/v1/conversations/{conversation}", f"/v1/conversations/{conversation}/items"),
        *("/v1/files", f"/v1/files/{file}", f"/v1/files/{file}/content", "/v1/models"),
    ]
    changes = [
        *(("POST", "/v1/responses"), ("POST", f"/v1/responses/{made['id']}/cancel")),
        *(("DELETE", f"/v1/responses/{made['id']}"), ("POST", "/v1/conversations")),
        *(("POST", f"/v1/conversations/{conversation}"), ("DELETE", f"/v1/conversations/{conversation}")),
        *(("POST", f"/v1/conversations/{conversation}/items"), ("POST", "/v1/files"), ("DELETE", f"/v1/files/{file}")),
    ]
    async with connected(str(client.http.base_url), False, authorization=f"Bearer {secret}") as reader:
        for path in seen:
            assert (await reader.http.get(path)).status_code == 200, path
        for method, path in changes:
            answer = await reader.http.request(method, path, json={} if method == "POST" else None)
            assert (answer.status_code, is_openai(answer)) == (403, True), (method, path)
        answer = await reader.http.delete(f"/v1/files/{file}", headers=CLAUDE)
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")


async def test_what_a_response_names_and_is_not_there_is_told_by_openais_names(
    plain: httpx2.AsyncClient, model: ScriptedModel
) -> None:
    conversation = (await plain.post("/v1/conversations", json={})).json()["id"]
    file = [{"role": "user", "content": [{"type": "input_file", "file_id": "file_no"}, *TEXT]}]
    cases: list[tuple[Any, int, str | None, str]] = [
        ({"input": "Hi", "model": "no-such-model"}, 404, "model_not_found", "model"),
        ({"input": " "}, 400, None, "input"),
        ({"input": file}, 404, None, "input"),
    ]
    for body, status, code, param in cases:
        answer = await plain.post("/v1/responses", json={**body, "conversation": conversation})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (status, code, param), error
    assert model.requests == []


async def test_the_root_answers_a_head(plain: httpx2.AsyncClient) -> None:
    """Claude Code asks for it before all else."""
    assert (await plain.head("/")).status_code == 200
