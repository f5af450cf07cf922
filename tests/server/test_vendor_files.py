"""`/v1/files` and `/v1/models` by the vendors' own clients, each in its shapes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from lamella.llm.scripted import ScriptedModel, saying
from lamella.server.testing import ServerClient

from .test_pictures import RED, uploaded

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sdk(client: ServerClient) -> AsyncIterator[openai.AsyncOpenAI]:
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    address = f"{client.http.base_url}/v1".replace("//v1", "/v1")
    async with openai.AsyncOpenAI(base_url=address, api_key="unused", http_client=http, max_retries=0) as found:
        yield found


@pytest.fixture
async def claude(client: ServerClient) -> AsyncIterator[anthropic.AsyncAnthropic]:
    http = anthropic.DefaultAsyncHttpxClient(trust_env=False)
    address = str(client.http.base_url).rstrip("/")
    async with anthropic.AsyncAnthropic(base_url=address, api_key="unused", http_client=http, max_retries=0) as found:
        yield found


@pytest.mark.parametrize("purpose", ["user_data", "assistants", "vision"])
async def test_a_file_goes_in_and_comes_out(sdk: openai.AsyncOpenAI, purpose: Any) -> None:
    made = await sdk.files.create(file=("notes.txt", b"Low tide at noon."), purpose=purpose)
    assert (made.filename, made.bytes, made.purpose, made.status) == ("notes.txt", 17, purpose, "processed")
    assert await sdk.files.retrieve(made.id) == made
    assert (await sdk.files.content(made.id)).content == b"Low tide at noon."
    assert [file async for file in sdk.files.list(purpose=purpose)] == [made]
    assert [file async for file in sdk.files.list(purpose="batch")] == []
    deleted = await sdk.files.delete(made.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (made.id, True, "file")
    with pytest.raises(openai.NotFoundError):
        await sdk.files.retrieve(made.id)


@pytest.mark.parametrize("purpose", ["batch", "fine-tune", "evals", "other", ""])
async def test_a_purpose_that_nothing_here_serves_is_refused_by_name_and_stores_nothing(
    sdk: openai.AsyncOpenAI, purpose: Any
) -> None:
    with pytest.raises(openai.BadRequestError, match=purpose or "no purpose") as caught:
        await sdk.files.create(file=("notes.txt", b"Low tide."), purpose=purpose)
    assert caught.value.param == "purpose"
    assert [file async for file in sdk.files.list()] == []


async def test_a_purpose_after_the_file_counts_too(client: ServerClient) -> None:
    """The order of a form's fields is the client's."""
    lines = [
        *("--b", 'content-disposition: form-data; name="file"; filename="a.txt"', "", "Tide."),
        *("--b", 'content-disposition: form-data; name="purpose"', "", "vision", "--b--", ""),
    ]
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = await client.http.post("/v1/files", content="\r\n".join(lines), headers=headers)
    assert answer.json()["purpose"] == "vision"


async def test_lists_come_by_pages(sdk: openai.AsyncOpenAI) -> None:
    made = [await sdk.files.create(file=(f"{n}.txt", b"Tide."), purpose="user_data") for n in range(5)]
    ids = [file.id for file in made]
    assert [file.id async for file in sdk.files.list(limit=2)] == ids[::-1]
    assert [file.id async for file in sdk.files.list(limit=2, order="asc")] == ids
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.files.list(after="file_no")
    assert caught.value.param == "after"


async def test_a_file_is_read_by_a_response(
    sdk: openai.AsyncOpenAI, model: ScriptedModel, client: ServerClient
) -> None:
    text = await sdk.files.create(file=("tide.txt", b"Low tide at noon."), purpose="user_data")
    painted = await uploaded(client, *RED)
    model.then(saying("At noon."))
    content: Any = [
        {"type": "input_file", "file_id": text.id},
        {"type": "input_image", "file_id": painted, "detail": "auto"},
        {"type": "input_text", "text": "When is low tide?"},
    ]
    response = await sdk.responses.create(input=[{"role": "user", "content": content}])
    [item] = (await sdk.responses.input_items.list(response.id)).data
    said: Any = item
    kinds = [(part.type, getattr(part, "file_id", None)) for part in said.content]
    assert kinds[:2] == [("input_file", text.id), ("input_image", painted)]
    blocks = [block.value for block in model.requests[0].blocks]
    assert any("Low tide at noon." in str(block) for block in blocks)
    assert any("red.png" in str(block) for block in blocks), "it is told to a model that reads no pictures"
    with pytest.raises(openai.ConflictError):
        await sdk.files.delete(text.id)


async def test_anthropics_library_gets_its_own_shapes(
    claude: anthropic.AsyncAnthropic, sdk: openai.AsyncOpenAI
) -> None:
    files = claude.beta.files
    made = await files.upload(file=("notes.txt", b"Low tide at noon.", "text/plain"))
    assert (made.filename, made.mime_type, made.size_bytes, made.type) == ("notes.txt", "text/plain", 17, "file")
    assert await files.retrieve_metadata(made.id) == made
    assert await (await files.download(made.id)).read() == b"Low tide at noon."
    assert (await sdk.files.retrieve(made.id)).filename == "notes.txt"
    others = [await files.upload(file=(f"{n}.txt", b"Tide.")) for n in range(4)]
    ids = [file.id for file in (made, *others)][::-1]
    assert [file.id async for file in files.list(limit=2)] == ids
    deleted = await files.delete(made.id)
    assert (deleted.id, deleted.type) == (made.id, "file_deleted")
    with pytest.raises(anthropic.NotFoundError) as caught:
        await files.retrieve_metadata(made.id)
    assert caught.value.body == {
        "type": "error",
        "error": {"type": "not_found_error", "message": f"There is no file {made.id}."},
    }


async def test_files_are_paged_by_ids_in_both_directions(client: ServerClient) -> None:
    headers = {"anthropic-version": "2023-06-01"}
    ids = [(await client.upload(f"{n}.txt", b"Tide."))["id"] for n in range(5)][::-1]

    async def page(**query: Any) -> tuple[list[str], bool]:
        answer = (await client.http.get("/v1/files", params=query, headers=headers)).json()
        assert (answer["first_id"], answer["last_id"]) == (answer["data"][0]["id"], answer["data"][-1]["id"])
        return [file["id"] for file in answer["data"]], answer["has_more"]

    assert await page(limit=2, after_id=ids[1]) == (ids[2:4], True)
    assert await page(limit=2, before_id=ids[3]) == (ids[1:3], True)
    assert await page(limit=3, before_id=ids[3]) == (ids[0:3], False)
    refused = await client.http.get("/v1/files", params={"after_id": "file_no"}, headers=headers)
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_models_are_listed_for_both_libraries(claude: anthropic.AsyncAnthropic, sdk: openai.AsyncOpenAI) -> None:
    names = [model.id async for model in sdk.models.list()]
    assert names
    assert [model.id async for model in claude.models.list(limit=1)] == names
    one = await claude.models.retrieve(names[0])
    assert (one.type, one.display_name, one.lifecycle) == ("model", names[0], "active")
    assert (await sdk.models.retrieve(names[0])).object == "model"
    with pytest.raises(openai.NotFoundError) as missing:
        await sdk.models.retrieve("no-such-model")
    assert missing.value.code == "model_not_found"
    with pytest.raises(anthropic.NotFoundError):
        await claude.models.retrieve("no-such-model")
    for query in ({"limit": 0}, {"after_id": "no"}, {"before_id": "no"}):
        with pytest.raises(anthropic.BadRequestError):
            await claude.models.list(**query)
    assert [model.id async for model in claude.models.list(before_id=names[-1], limit=1)] == names[:-1][::-1]
