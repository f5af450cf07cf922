"""Indexing in the background: nothing that is said while it works is left out (X-RECALL)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lamella.core.clock import VirtualClock
from lamella.core.errors import ProviderUnreachable
from lamella.core.recall import Embedded, Passage
from lamella.core.records import Caller, JobStatus
from lamella.search.lexical import LexicalEmbedder
from lamella.sessions.recall.recall import INDEX, Recall
from lamella.storage import Store, open_store
from lamella.storage.database import Database
from lamella.storage.recall.store import RecallIndex
from storage.examples import ANN, NOON, conversation, minutes, new_turn, turn_end

pytestmark = pytest.mark.anyio


class Remote:
    """An embedder that is asked over a network: it answers when it is let, or fails."""

    is_local = False

    def __init__(self) -> None:
        self._made = LexicalEmbedder()
        self.space = replace(self._made.space, model="remote")
        self.asked, self.let = asyncio.Event(), asyncio.Event()
        self.fails = False

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.asked.set()
        await self.let.wait()
        if self.fails:
            raise ProviderUnreachable("It is down.")
        return await self._made.embed(texts)

    async def close(self) -> None:
        pass


class SlowIndex(RecallIndex):
    """An index whose first turn waits until it is let in."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.asked, self.let = asyncio.Event(), asyncio.Event()

    async def index_turn(self, caller: Caller, turn_id: str, passages: Sequence[Passage], model: str) -> bool:
        if not self.asked.is_set():
            self.asked.set()
            await self.let.wait()
        return await super().index_turn(caller, turn_id, passages, model)


@asynccontextmanager
async def recalling(
    folder: Path, remote: Remote, kind: type[RecallIndex] = RecallIndex
) -> AsyncIterator[tuple[Store, Recall, RecallIndex]]:
    async with await open_store(folder / "a.db") as store:
        index = kind(store.database)
        recall = Recall(store, index, remote, store.jobs, VirtualClock(NOON))
        await store.conversations.create_conversation(ANN, conversation())
        recall.start()
        yield store, recall, index
        await recall.close()


async def say(store: Store, recall: Recall, number: int, text: str) -> None:
    await store.turns.begin_turn(ANN, new_turn(f"turn_{number}", text=text), minutes(number))
    await store.turns.finish_turn(ANN, turn_end(f"turn_{number}"))
    await recall.follow(ANN, "conv_1")


async def until(store: Store, fits: Callable[[JobStatus], bool]) -> None:
    async with asyncio.timeout(10):
        while True:
            job = await store.jobs.job(ANN, INDEX, "conv_1")
            if job is not None and fits(job.status):
                return
            await asyncio.sleep(0)


async def test_what_is_said_while_vectors_are_made_is_indexed_too(tmp_path: Path) -> None:
    remote = Remote()
    async with recalling(tmp_path, remote) as (store, recall, index):
        await say(store, recall, 1, "the first zeppelin")
        await asyncio.wait_for(remote.asked.wait(), 10)
        await say(store, recall, 2, "the second quagga")
        remote.let.set()
        await until(store, lambda status: status is JobStatus.FINISHED)
        assert (await index.unindexed(ANN, "conv_1", remote.space.model, 9)).turns == ()
        assert (await index.unindexed(ANN, "conv_1", remote.space.model, 9)).passages == ()


async def test_words_are_found_while_their_vectors_cannot_be_made(tmp_path: Path) -> None:
    remote = Remote()
    remote.fails = True
    remote.let.set()
    async with recalling(tmp_path, remote) as (store, recall, _):
        await say(store, recall, 1, "the first zeppelin")
        await until(store, lambda status: status is JobStatus.WAITING)
        await say(store, recall, 2, "the second quagga")
        found = await recall.search(ANN, "quagga")
        assert found.hits[0].source.content == "the second quagga"
        assert found.without == "It is down."


async def test_what_is_just_being_indexed_is_found(tmp_path: Path) -> None:
    remote = Remote()
    remote.let.set()
    async with recalling(tmp_path, remote, SlowIndex) as (store, recall, index):
        assert isinstance(index, SlowIndex)
        await say(store, recall, 1, "the first zeppelin")
        await asyncio.wait_for(index.asked.wait(), 10)
        found = await recall.search(ANN, "zeppelin")
        assert [hit.source.content for hit in found.hits] == ["the first zeppelin"]
        index.let.set()
        await until(store, lambda status: status is JobStatus.FINISHED)
        assert len((await recall.search(ANN, "zeppelin")).hits) == 1
