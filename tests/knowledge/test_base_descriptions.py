"""What a base is about: written by a model when its documents are read, once, and never over what a person wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lamella.agent.side import SideAnswer
from lamella.app.base_descriptions import BaseDescriptions, Description, NoDescription, describer, description_of
from lamella.app.bases import described
from lamella.core.access import BaseContent, GrantLevel, Role, Subject, User
from lamella.core.clock import SystemClock
from lamella.core.errors import ProviderUnreachable
from lamella.core.ids import RandomIds
from lamella.core.knowledge import Document, DocumentText, Shelf
from lamella.core.messages import StopReason
from lamella.core.records import JobStatus, NewJob
from lamella.knowledge.passages import passages_of
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import served
from lamella.settings import read_settings
from lamella.storage import Store, open_store
from lamella.storage.knowledge.store import KnowledgeStore
from storage.examples import ANN, NOON

pytestmark = pytest.mark.anyio

BASE = "kb_1"
SHELF = Shelf(ANN.user_id, BASE)
ANSWER = '```json\n{"summary": "Manuals of airships.\\nFor riggers.", "topics": ["masts", "masts", "hydrogen"]}\n```'


@dataclass(frozen=True, slots=True)
class Playback:
    store: Store
    knowledge: KnowledgeStore
    descriptions: BaseDescriptions
    model: ScriptedModel

    async def add(self, name: str, text: str) -> None:
        document = Document(f"doc_{name}", SHELF, name, 1, name, NOON, NOON, upload=f"up_{name}")
        await self.knowledge.add_document(document, NewJob("none", document.id, "test", NOON))
        made = list(passages_of(text, name, paged=False, lexical=None))
        await self.knowledge.stage(ANN, document.id, 1, 0, made, "none")
        await self.knowledge.publish(ANN, document.id, 1, DocumentText("text/plain", 9, None), NOON, "none")
        await self.knowledge.finish_document(ANN, document.id, 1, "none", NOON)

    async def done(self) -> BaseContent:
        """What is said of the base once the job that a change asks for has ended."""
        await self.descriptions.changed(SHELF)
        async with asyncio.timeout(30):
            while True:
                job = await self.store.jobs.job(ANN, "knowledge_describe", BASE)
                if job is not None and (job.status is JobStatus.FINISHED or job.error):
                    return (await self.store.access.base(ANN, BASE)).content
                await asyncio.sleep(0.005)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Playback]:
    async with await open_store(folder / "a.db") as store:
        await store.directory.add_user(User(ANN.user_id, "Ann", Role.MEMBER, NOON))
        await store.access.add_base(ANN, BASE, BaseContent("Airships"), NOON)
        knowledge = KnowledgeStore(store.database, RandomIds(SystemClock()))
        model = ScriptedModel()
        asked = describer(ScriptedModels(model), None)
        descriptions = BaseDescriptions(store.access, knowledge, store.jobs, asked, SystemClock(), quiet=0.0)
        descriptions.start()
        try:
            yield Playback(store, knowledge, descriptions, model)
        finally:
            await descriptions.close()


async def test_a_model_says_what_a_base_is_about_once_for_the_same_documents(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        await stage.add("mast.md", "The mast of Recife is 62 m high.")
        stage.model.then(saying(ANSWER))
        content = await stage.done()
        assert (content.summary, content.topics) == ("Manuals of airships. For riggers.", ("masts", "hydrogen"))
        assert content.described_by == "model"
        assert any(b"The mast of Recife" in block.data for block in stage.model.requests[0].blocks)
        await stage.done()
        assert len(stage.model.requests) == 1  # nothing has changed

        await stage.add("pump.md", "The pump of the airship.")
        stage.model.then(saying('{"summary": "Masts and pumps.", "topics": []}'))
        assert (await stage.done()).summary == "Masts and pumps."

        await stage.store.access.change_base(ANN, BASE, lambda now: described(now, "Mine.", ()), NOON)
        await stage.add("sail.md", "The sail.")
        assert (await stage.done()).summary == "Mine."
        assert len(stage.model.requests) == 2


async def test_a_base_with_restricted_readers_is_read_by_no_model(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        await stage.store.directory.add_user(User("user_bob", "Bob", Role.MEMBER, NOON))
        bob = Subject("user", "user_bob")
        await stage.store.access.set_grant(ANN, BASE, bob, GrantLevel.RESTRICTED, NOON)
        await stage.add("mast.md", "The mast of Recife is 62 m high.")
        assert (await stage.done()).described_by == "nobody"
        assert not stage.model.requests

        await stage.store.access.set_grant(ANN, BASE, bob, GrantLevel.FULL, NOON)
        stage.model.then(saying(ANSWER))
        assert (await stage.done()).described_by == "model"


async def test_a_model_that_fails_or_says_nothing_of_use_leaves_what_was_there(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        await stage.add("mast.md", "The mast of Recife is 62 m high.")
        for answer in (saying("I'd rather not."), [ProviderUnreachable("It does not answer.")]):
            stage.model.then(answer)
            content = await stage.done()
            assert (content.summary, content.described_by) == ("", "nobody")


async def test_an_error_that_quotes_the_documents_is_told_by_its_kind_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as stage:
        await stage.add("mast.md", "The mast of Recife is 62 m high.")
        stage.model.then([ProviderUnreachable("Bad request: The mast of Recife is 62 m high.")])
        with capture_logs() as lines:
            await stage.done()
        job = await stage.store.jobs.job(ANN, "knowledge_describe", BASE)
        assert job is not None
        assert "ProviderUnreachable" in str(job.error)
        assert "Recife" not in f"{job} {lines}"


async def test_a_server_describes_a_base_when_its_documents_are_read(tmp_path: Path) -> None:
    model = ScriptedModel()
    model.then(saying(ANSWER))
    settings = read_settings(data=tmp_path, knowledge_summaries=True)
    async with served(settings, models=ScriptedModels(model)) as (_, client), asyncio.timeout(30):
        path = f"/knowledge-bases/{(await client.post('/knowledge-bases', {'name': 'Airships'}))['id']}"
        await client.call("POST", f"{path}/documents", files={"file": ("mast.md", b"The mast is 62 m high.")})
        while True:
            found = await client.get(path)
            if found["described_by"] == "model":
                break
            await asyncio.sleep(0.02)
        assert found["topics"] == ["masts", "hydrogen"]


def test_only_whole_answers_of_the_right_form_are_descriptions() -> None:
    def read(text: str, reason: StopReason = StopReason.END_TURN) -> Description | NoDescription:
        return description_of(SideAnswer([text], reason))

    assert read('{"summary": "A b.", "topics": [" x "]}') == Description("A b.", ("x",))
    wrong = ("", "{}", '{"summary": " ", "topics": []}', '{"summary": "a", "topics": "b"}', "} {")
    assert all(isinstance(read(text), NoDescription) for text in wrong)
    assert isinstance(read('{"summary": "a", "topics": []}', StopReason.MAX_TOKENS), NoDescription)
    assert isinstance(read('{"summary": "' + "a" * 2_000 + '", "topics": []}'), NoDescription)
