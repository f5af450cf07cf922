"""Embeddings from a server, over a real socket: batches, keys, usage, and answers that are none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lamella.core.errors import ProviderError, ProviderRefusedKey, ProviderRefusedRequest, ProviderUnreachable
from lamella.llm.embeddings import BATCH, OpenAIEmbeddings
from lamella.search.vectors import unpacked
from lamella.server.testing import serving

pytestmark = pytest.mark.anyio


class Server:
    """Embeds a text as its length and 1; `answers` come before that, each a status and a body."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self._answers = list(answers)

    async def embed(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append((request.headers["authorization"], body["input"]))
        if self._answers:
            status, answer = self._answers.pop(0)
            return JSONResponse(answer, status_code=status)
        data = [
            {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0]}
            for index, text in enumerate(body["input"])
        ]
        usage = {"prompt_tokens": len(data), "total_tokens": len(data)}
        return JSONResponse({"object": "list", "model": body["model"], "data": data[::-1], "usage": usage})


@asynccontextmanager
async def embedding(server: Server, *, retries: int = 0) -> AsyncIterator[OpenAIEmbeddings]:
    async with serving(Starlette(routes=[Route("/v1/embeddings", server.embed, methods=["POST"])])) as address:
        made = OpenAIEmbeddings(base_url=f"{address}/v1", model="m", key="k-1", timeout=5, retries=retries)
        try:
            yield made
        finally:
            await made.close()


async def test_texts_go_in_batches_and_vectors_come_in_order(anyio_backend: str) -> None:
    server = Server()
    async with embedding(server) as embedder:
        made = await embedder.embed(["x" * (index % 7 + 1) for index in range(BATCH + 3)])
    assert [len(batch) for _, batch in server.asked] == [BATCH, 3]
    assert {key for key, _ in server.asked} == {"Bearer k-1"}
    assert made.usage.input == BATCH + 3
    first, second = unpacked(made.vectors[0]), unpacked(made.vectors[1])
    assert (first[0] / first[1], second[0] / second[1]) == (pytest.approx(1, rel=0.01), pytest.approx(2, rel=0.01))


async def test_a_failure_is_asked_again(anyio_backend: str) -> None:
    server = Server((503, {"error": {"message": "busy"}}))
    async with embedding(server, retries=1) as embedder:
        assert len((await embedder.embed(["a"])).vectors) == 1
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (401, {"error": {"message": "no"}}, ProviderRefusedKey),
        (500, {"error": {"message": "no"}}, ProviderUnreachable),
        (200, {"object": "list", "data": [], "model": "m", "usage": {}}, ProviderError),
        (200, {"data": [{"index": 0, "embedding": []}], "model": "m"}, ProviderRefusedRequest),
        (200, {"data": [{"index": 0, "embedding": ["x"]}], "model": "m"}, ProviderRefusedRequest),
        (200, {"something": "else"}, ProviderError),
    ],
)
async def test_what_is_no_vector_is_an_error(
    anyio_backend: str, status: int, answer: Any, kind: type[Exception]
) -> None:
    async with embedding(Server((status, answer))) as embedder:
        with pytest.raises(kind):
            await embedder.embed(["a"])
