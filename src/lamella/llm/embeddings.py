"""Embeddings from any server that speaks OpenAI's `/v1/embeddings`, on the official SDK."""

from __future__ import annotations

from collections.abc import Sequence

import openai
from openai.types import CreateEmbeddingResponse

from lamella.core.errors import ProviderError, ProviderRefusedRequest
from lamella.core.recall import Embedded
from lamella.core.tokens import Usage
from lamella.llm.failures import MALFORMED, of_status, timed_out
from lamella.llm.streaming import Exchange, Vendor, http_client, lost, plain_errors
from lamella.search.vectors import packed

PROVIDER = "The embeddings server"
KEY_VARIABLE = "LAMELLA_EMBEDDING_API_KEY"

BATCH = 64
"""Texts of one request."""

LONGEST = 8_000
"""Maximum characters of a text to embed. Models take about 8,000 tokens; small ones truncate by themselves."""


class OpenAIEmbeddings:
    """One model at an endpoint. `timeout` is in seconds of silence. Failed requests are retried."""

    def __init__(self, *, base_url: str, model: str, key: str, timeout: float, retries: int) -> None:
        http = http_client(openai.DefaultAsyncHttpxClient, base_url, key, timeout)
        self._client = openai.AsyncOpenAI(
            api_key=key, base_url=base_url, timeout=timeout, max_retries=retries, http_client=http
        )
        self._model = model

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of these texts, in batches one after the other; raises a `ProviderError`."""
        vectors: list[bytes] = []
        usage = Usage()
        for start in range(0, len(texts), BATCH):
            batch = [text[:LONGEST] for text in texts[start : start + BATCH]]
            answer = await self._ask(batch)
            try:
                vectors += _vectors(answer, len(batch))
                usage += Usage(input=max(int(answer.usage.prompt_tokens), 0) if answer.usage else 0)
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

    async def _ask(self, batch: list[str]) -> CreateEmbeddingResponse:
        with plain_errors(VENDOR, str(self._client.base_url), Exchange()):
            return await self._client.embeddings.create(model=self._model, input=batch, encoding_format="float")


def _failure(error: openai.OpenAIError, base_url: str, *, began: bool) -> ProviderError:
    match error:
        case openai.APITimeoutError():
            return timed_out(PROVIDER)
        case openai.APIStatusError():
            retry_after = error.response.headers.get("retry-after")
            return of_status(PROVIDER, error.status_code, error.body, KEY_VARIABLE, retry_after)
        case _:
            return lost(PROVIDER, base_url, error, began=began)


VENDOR = Vendor(PROVIDER, "x-request-id", openai.OpenAIError, _failure)


def _vectors(answer: CreateEmbeddingResponse, count: int) -> list[bytes]:
    """The vectors in the order of the texts; raises one of `MALFORMED` for an answer that does not have them."""
    found = {item.index: [float(number) for number in item.embedding] for item in answer.data}
    if sorted(found) != list(range(count)):
        raise ValueError(f"{len(answer.data)} vectors for {count} texts")
    made = [found[index] for index in range(count)]
    if not all(numbers and all(-1e30 < number < 1e30 for number in numbers) for numbers in made):
        raise ValueError("an empty vector, or one that is not of numbers")
    return [packed(numbers) for numbers in made]
