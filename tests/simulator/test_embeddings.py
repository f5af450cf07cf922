"""Embeddings: the vendor's shape, vectors that are near where words are shared, and faults."""

from __future__ import annotations

import base64
import math
from array import array

import pytest

from lamella.llm.embeddings import OpenAIEmbeddings
from lamella.search.vectors import unpacked
from lamella_simulator.testing import Answered, InProcess

from .texts import Json, at, tokens

pytestmark = pytest.mark.anyio
BOILER = "The boiler in the cellar was serviced in March."
WHEN = "When was the boiler serviced?"
CAKE = "Bake the cake for forty minutes with a pinch of salt."


async def embed(provider: InProcess, texts: object, **fields: object) -> Answered:
    body = {"model": "text-embedding-3-small", "input": texts, **fields}
    return await provider.post("/v1/embeddings", body, now=at(0))


def vectors(answer: Answered) -> list[list[float]]:
    assert answer.status == 200, answer.text
    return [row["embedding"] for row in answer.json["data"]]


def near(first: list[float], second: list[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


async def test_vectors_come_in_order_and_are_the_same_in_every_process(provider: InProcess) -> None:
    answer = await embed(provider, [BOILER, CAKE])
    assert [row["index"] for row in answer.json["data"]] == [0, 1]
    assert (answer.json["object"], answer.json["model"]) == ("list", "text-embedding-3-small")
    assert vectors(answer) == [*vectors(await embed(InProcess(), BOILER)), *vectors(await embed(provider, [CAKE]))]
    assert {len(vector) for vector in vectors(answer)} == {1_536}
    assert math.hypot(*vectors(answer)[0]) == pytest.approx(1)


@pytest.mark.parametrize("dimensions", [None, 256, 64])
async def test_texts_that_share_words_are_near(provider: InProcess, dimensions: int | None) -> None:
    asked, boiler, cake = vectors(await embed(provider, [WHEN, BOILER, CAKE], dimensions=dimensions))
    assert near(asked, boiler) > near(asked, cake) + 0.2


async def test_fewer_dimensions_are_the_first_of_all(provider: InProcess) -> None:
    (whole,), (cut,) = vectors(await embed(provider, BOILER)), vectors(await embed(provider, BOILER, dimensions=100))
    length = math.hypot(*whole[:100])
    assert cut == pytest.approx([value / length for value in whole[:100]])


async def test_base64_holds_the_same_floats(provider: InProcess) -> None:
    (plain,) = vectors(await embed(provider, BOILER, dimensions=64))
    (row,) = (await embed(provider, BOILER, dimensions=64, encoding_format="base64")).json["data"]
    assert list(array("f", base64.b64decode(row["embedding"]))) == pytest.approx(plain)


async def test_tokens_are_billed_and_logged(provider: InProcess) -> None:
    usage = (await embed(provider, [tokens(300), tokens(200)])).usage
    assert usage == {"prompt_tokens": 500, "total_tokens": 500}
    assert (await embed(provider, [[1, 2, 3], [4]])).usage["prompt_tokens"] == 4
    record = (await provider.get("/_sim/requests")).json["requests"][0]
    assert (record["wire"], record["cost"]) == ("embeddings", pytest.approx(500 * 0.02 / 1e6))


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"input": []}, 400, "empty array"),
        ({"input": ["a", ""]}, 400, "input[1]"),
        ({"input": ["a", 5]}, 400, "input[1]"),
        ({"input": ["a"] * 2_049}, 400, "array too long"),
        ({"input": tokens(8_193)}, 400, "maximum context length is 8192"),
        ({"input": ["a"], "dimensions": 4_000}, 400, "'dimensions'"),
        ({"input": ["a"], "colour": "red"}, 400, "Unknown parameter: 'colour'"),
        ({"model": "gpt-5.6"}, 404, "does not exist"),
    ],
)
async def test_what_is_refused(provider: InProcess, change: Json, status: int, words: str) -> None:
    body = {"model": "text-embedding-3-small", "input": "a", **change}
    answer = await provider.post("/v1/embeddings", body)
    assert (answer.status, words in answer.error) == (status, True), answer.text


async def test_faults_and_limits(provider: InProcess) -> None:
    await provider.post("/_sim/faults", [{"kind": 429, "retry_after": 3}, {"kind": 500}])
    answers = [await embed(provider, "a") for _ in range(3)]
    assert [answer.status for answer in answers] == [429, 500, 200]
    assert answers[0].headers["retry-after"] == "3"
    await provider.post("/_sim/settings", {"requests_per_minute": 1})
    assert (await embed(provider, "a")).status == 429


async def test_the_list_of_models_has_it_and_chat_does_not(provider: InProcess) -> None:
    listed = {row["id"] for row in (await provider.get("/v1/models")).json["data"]}
    assert {"text-embedding-3-small", "text-embedding-3-large", "gpt-5.6"} <= listed
    refused = await provider.chat({"model": "lamella-embed", "messages": [{"role": "user", "content": "a"}]})
    assert refused.status == 404


async def test_the_engines_embedder_ranks_by_it(address: str) -> None:
    embedder = OpenAIEmbeddings(
        base_url=f"{address}/v1", model="text-embedding-3-large", key="any", timeout=30, retries=0
    )
    try:
        made = await embedder.embed([WHEN, BOILER, CAKE])
    finally:
        await embedder.close()
    asked, boiler, cake = (list(unpacked(vector)) for vector in made.vectors)
    assert near(asked, boiler) > near(asked, cake)
    assert made.usage.input > 10
