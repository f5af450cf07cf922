"""Embeddings from any server that speaks OpenAI's `/v1/embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamella.core.clock import SystemClock
from lamella.core.errors import ProviderRefusedRequest
from lamella.core.recall import Embedded
from lamella.core.tokens import Usage
from lamella.llm.failures import MALFORMED
from lamella.llm.fields import count_of, part
from lamella.llm.retry import retried
from lamella.llm.streaming import NO_HEADERS, ProviderClient, VendorApi
from lamella.search.vectors import packed

PROVIDER = "The embeddings server"
API = VendorApi(PROVIDER, "x-request-id", "LAMELLA_EMBEDDING_API_KEY")

BATCH = 64
"""Texts of one request."""

LONGEST = 8_000
"""Maximum characters of a text to embed. Models take about 8,000 tokens; small ones truncate by themselves."""


class OpenAIEmbeddings:
    """One model at an endpoint. `timeout` is in seconds of silence. Failed requests are retried."""

    def __init__(self, *, base_url: str, model: str, key: str, timeout: float, retries: int) -> None:
        self._client = ProviderClient(API, base_url, key, timeout, NO_HEADERS)
        self._model = model
        self._timeout = timeout
        self._retries = retries

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of these texts, in batches one after the other; raises a `ProviderError`."""
        vectors: list[bytes] = []
        usage = Usage()
        for start in range(0, len(texts), BATCH):
            batch = [text[:LONGEST] for text in texts[start : start + BATCH]]
            answer = await self._ask(batch)
            try:
                vectors += _vectors(answer, len(batch))
                usage += Usage(input=count_of(part(answer, "usage"), "prompt_tokens"))
            except MALFORMED as error:
                raise ProviderRefusedRequest(
                    f"{PROVIDER} gave no usable vectors for {len(batch)} texts.",
                    hint="Check LAMELLA_EMBEDDING_MODEL.",
                ) from error
        if len({len(vector) for vector in vectors}) > 1:
            raise ProviderRefusedRequest(
                f"{PROVIDER} gave vectors of different lengths.", hint="Check LAMELLA_EMBEDDING_MODEL."
            )
        return Embedded(tuple(vectors), usage)

    async def close(self) -> None:
        """Let the connections go."""
        await self._client.close()

    async def _ask(self, batch: list[str]) -> Any:
        body = {"model": self._model, "input": batch, "encoding_format": "float"}

        async def ask() -> Any:
            return await self._client.ask("/embeddings", body, NO_HEADERS)

        return await retried(ask, SystemClock(), patience=self._timeout, retries=self._retries)


def _vectors(answer: Any, count: int) -> list[bytes]:
    """The vectors in the order of the texts; raises one of `MALFORMED` for an answer that does not have them."""
    found = {item["index"]: [float(number) for number in item["embedding"]] for item in answer["data"]}
    if sorted(found) != list(range(count)):
        raise ValueError(f"{len(found)} vectors for {count} texts")
    made = [found[index] for index in range(count)]
    if not all(numbers and all(-1e30 < number < 1e30 for number in numbers) for numbers in made):
        raise ValueError("an empty vector, or one that is not of numbers")
    return [packed(numbers) for numbers in made]
