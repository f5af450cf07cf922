"""What a replay stands on: the simulator, a process with a virtual clock, and an empty store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from lamella.app.demonstration import Simulator
from lamella.app.providers import Endpoint, adapter
from lamella.core.errors import ConfigurationError, InvalidRequest
from lamella.core.json import Json, encode
from lamella.core.models import ModelFacts
from lamella.core.ports import ChatModel
from lamella.storage.store import Store, open_store
from lamella_lab.replay.playback import Script
from lamella_lab.replay.report import PromptRead
from lamella_lab.trace.format import Trace

ACCOUNT = "replay"

NOWHERE = "http://127.0.0.1:9"
"""The address of a provider that is never asked."""

SUMMARIES = 8
"""The most requests for a summary that an entry of a trace leads to: attempts, and what is asked once more."""


TITLES = 4
"""The most requests for a title: it is asked for once, and tried again."""


class ReplayEnvironment:
    """Many replays may share one, one at a time: each begins with an empty cache and an empty store."""

    def __init__(self) -> None:
        self._simulator = Simulator("--clock", "virtual")
        self._empty: bytes | None = None
        self._adapters: dict[tuple[ModelFacts, str], ChatModel] = {}

    @asynccontextmanager
    async def store(self, folder: Path) -> AsyncIterator[Store]:
        """A new store in this folder. The first is kept to be copied: making one costs more than a short replay."""
        path = folder / "lamella.db"
        if self._empty is None:
            async with await open_store(path):
                pass
            self._empty = path.read_bytes()
        path.write_bytes(self._empty)
        async with await open_store(path) as store:
            yield store

    async def prepare(self, trace: Trace) -> str:
        """Its address, with nothing of an earlier replay in it and the answers of this one.

        A trace that is played as it was asks no simulator.
        """
        if trace.is_played:
            return NOWHERE
        url = await self._simulator.start()
        scripts = dict(_scripts(trace))
        # Its log has a request for every answer that there is at most.
        settings = {"prefix_check_enforced": trace.head.account.prefix_check, "keep_requests": len(scripts)}
        async with _client(url) as client:
            await _told(client, "/_sim/reset", {})
            await _told(client, "/_sim/settings", settings)
            answer = await client.post("/_sim/replies", content=encode(scripts))
        if answer.is_error:
            raise InvalidRequest(f"The simulator does not take the trace's replies: {answer.text[:500]}")
        return url

    async def reads(self) -> Mapping[str, PromptRead]:
        """How far the prompts since `prepare` were read from the cache, by the provider's ids of the requests."""
        if not self._simulator.url:
            return {}
        async with _client(await self._simulator.start()) as client:
            answer = await client.get("/_sim/requests", params={"bodies": "no"})
        return {
            one["request_id"]: PromptRead(one["blocks"], one["hit"])
            for one in answer.json()["requests"]
            if one["usage"]
        }

    async def adapter(self, facts: ModelFacts, url: str) -> ChatModel:
        """The adapter of a model, at the simulator; made once."""
        key = (facts, url)
        if key not in self._adapters:
            base_url = f"{url}/v1" if facts.provider == "openai" else url
            endpoint = Endpoint(facts.provider, base_url, ACCOUNT, timeout=60, retries=0)
            self._adapters[key] = await adapter(facts, endpoint)
        return self._adapters[key]

    async def close(self) -> None:
        """Let every connection go and end the simulator."""
        for opened in self._adapters.values():
            await opened.close()
        await self._simulator.close()


def _scripts(trace: Trace) -> Iterator[tuple[str, Json]]:
    """The answers to all steps and side requests."""
    side = trace.head.side
    for number, turn in enumerate(trace.turns, 1):
        for n, run in enumerate(turn.answers):
            for index, step in enumerate(run.steps):
                yield Script(number, n, "chat", index).id, step.reply()
            for index in range(sum(len(step.calls) for step in run.steps)):
                yield Script(number, n, "digest", index).id, side.digest_reply()
    for index in range(len(trace.entries) * SUMMARIES):
        yield Script(0, 0, "summary", index).id, side.summary_at(index).reply()
    for index in range(TITLES):
        yield Script(0, 0, "title", index).id, side.title_at(index).reply()


def _client(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False, verify=False)


async def _told(client: httpx2.AsyncClient, path: str, body: object) -> None:
    answer = await client.post(path, content=encode(body))
    if answer.is_error:
        raise ConfigurationError(f"The simulator refuses {path}: {answer.text[:500]}")
