"""Which embedder a deployment has: the lexical one, or a server's. The SDK is loaded when it is first needed."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence

from lamella.app.providers import NO_KEY
from lamella.core.errors import ConfigurationError
from lamella.core.ports import Embedder
from lamella.core.recall import Embedded, Space
from lamella.search.lexical import LexicalEmbedder
from lamella.settings import Settings

WEIGHT, FLOOR = 1.0, 0.2
"""Of an embedder that knows meaning: it counts as much as words do."""


def embedder_of(settings: Settings) -> Embedder:
    """The embedder that the settings name; raises `ConfigurationError` where they name half of one."""
    url, model = settings.embedding_base_url, settings.embedding_model
    if url is None and model is None:
        return LexicalEmbedder()
    if url is None or model is None:
        missing = "LAMELLA_EMBEDDING_BASE_URL" if url is None else "LAMELLA_EMBEDDING_MODEL"
        raise ConfigurationError(
            f"{missing} is not set.", hint="Embeddings need both an address and a model.", param=missing
        )
    return RemoteEmbedder(settings, url, model)


class RemoteEmbedder:
    """A server's embedder."""

    is_local = False

    def __init__(self, settings: Settings, url: str, model: str) -> None:
        self.space = Space(model, WEIGHT, FLOOR)
        self._settings = settings
        self._url = url
        self._opening = asyncio.Lock()
        self._opened: Embedder | None = None

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """See `Embedder.embed`."""
        return await (await self._open()).embed(texts)

    async def close(self) -> None:
        """See `Embedder.close`."""
        if self._opened is not None:
            await self._opened.close()

    async def _open(self) -> Embedder:
        async with self._opening:
            if self._opened is None:
                module = await asyncio.to_thread(importlib.import_module, "lamella.llm.embeddings")
                key = self._settings.embedding_api_key
                opened: Embedder = module.OpenAIEmbeddings(
                    base_url=self._url,
                    model=self.space.model,
                    key=key.get_secret_value() if key is not None else NO_KEY,
                    timeout=self._settings.provider_timeout,
                    retries=self._settings.provider_retries,
                )
                self._opened = opened
            return self._opened
