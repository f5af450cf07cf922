"""The names of a restricted base: found in its documents, stored with their versions, corrected by the owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import GrantLevel
from lamella.core.knowledge import NamedDocument, Shelf
from lamella.core.records import Caller
from lamella.knowledge.restricted.base_terms import BaseTerms, guard_rules
from lamella.knowledge.restricted.searching import RestrictedBase, RestrictedQuestion
from lamella.knowledge.restricted.wordlists import lexicons
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella.storage.store import Store
from leaking.restricted_base import ANN, add, ready, reply, restricted_base, second_model

pytestmark = pytest.mark.anyio

TEXT = "The board talks with Falcon about the purchase. A letter of Falcon came. The price is not known."


@pytest.fixture
def second() -> ScriptedModel:
    return second_model()


@pytest.fixture
async def scripted(
    model: ScriptedModel, second: ScriptedModel, tmp_path: Path
) -> AsyncIterator[tuple[App, ServerClient]]:
    given = read_settings(data=tmp_path, restricted_model="second", debounce_ms=0)
    async with served(given, models=ScriptedModels(model, second)) as opened:
        yield opened


async def named(app: App, base: str, owner: Caller = ANN) -> tuple[NamedDocument, ...]:
    assert isinstance(app.store, Store)
    return await app.store.knowledge.named_documents(Shelf(owner.user_id, base))


async def once_named(app: App, base: str) -> None:
    async with asyncio.timeout(30):
        while True:
            if all(one.rules == guard_rules() for one in await named(app, base)):
                return
            await asyncio.sleep(0.02)


async def words(app: App, base: str) -> frozenset[str]:
    terms = await app.knowledge.terms.of(Shelf(ANN.user_id, base))
    assert terms is not None
    return terms["en"].words if "en" in terms else frozenset()


async def told(app: App, base: str, second: ScriptedModel, said: str) -> str:
    """What the local user is told when the second model says this."""
    second.then(saying(reply(said)))
    asked = RestrictedQuestion(LOCAL_OWNER, f"What is it about, {said}", 8)
    [answered] = await app.knowledge.restricted.answers_of(asked, [RestrictedBase(base, ANN.user_id, "Contracts")])
    return answered.safe.text


async def test_names_are_found_when_a_base_gets_restricted_readers_and_when_documents_change(app: App) -> None:
    base = await restricted_base(app, TEXT)
    await app.bases.grant(ANN, base, LOCAL_OWNER.user_id, None)
    assert [one.rules for one in await named(app, base)] == [None]
    await app.bases.grant(ANN, base, LOCAL_OWNER.user_id, GrantLevel.RESTRICTED)
    await once_named(app, base)
    await add(app, base, "We spoke with Condor today. The paper of Condor is late.", "b.md")
    await once_named(app, base)
    assert await words(app, base) == {"falcon", "condor"}


async def test_another_version_takes_the_names_of_the_one_before_away(app: App) -> None:
    base = await restricted_base(app, TEXT)
    assert await words(app, base) == {"falcon"}
    [document] = await named(app, base)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"We spoke with Condor today. The paper of Condor is late."

    await app.knowledge.replace(ANN, base, document.id, "a.md", pieces())
    await ready(app, ANN, base, document.id)
    assert await words(app, base) == {"condor"}


async def test_names_of_many_documents_are_found_by_a_job(app: App) -> None:
    base = await restricted_base(app, TEXT)
    assert isinstance(app.store, Store)
    terms = BaseTerms(app.store.knowledge, app.access, app.store.jobs, app.clock, lexicons, at_once=5)
    shelf = Shelf(ANN.user_id, base)
    assert (await terms.of(shelf), await terms.found(shelf)) == (None, None)
    terms.start()
    try:
        await once_named(app, base)
        found = await terms.found(shelf)
        assert found is not None
        assert [(one.term, one.kind, one.language, one.count) for one in found] == [("falcon", "word", "en", 2)]
    finally:
        await terms.close()


async def test_an_owner_confirms_and_allows_names(app: App, second: ScriptedModel) -> None:
    base = await restricted_base(app, TEXT)
    assert await told(app, base, second, "It is about a falcon.") == ""
    assert await told(app, base, second, "It is about a letter.") == "It is about a letter."
    await app.bases.change(
        ANN, base, lambda now: replace(now, confirmed_terms=("letter", " letter"), allowed_terms=("Falcon",))
    )
    assert (await app.access.base(ANN, base)).content.confirmed_terms == ("letter",)
    assert await told(app, base, second, "It is about a letter.") == ""
    assert await told(app, base, second, "It is about the falcon.") == "It is about the falcon."


async def test_the_terms_of_ones_own_base_over_http(app: App, client: ServerClient) -> None:
    base = (await client.post("/knowledge-bases", {"name": "Mine"}))["id"]
    path = f"/knowledge-bases/{base}/restricted-terms"
    assert (await client.get(path))["found"] == []
    await add(app, base, TEXT, "a.md", owner=LOCAL_OWNER)
    found = await client.get(path)
    assert found["found"] == [{"term": "falcon", "kind": "word", "language": "en", "count": 2}]
    assert (found["state"], found["confirmed"], found["allowed"]) == ("ready", [], [])
    changed = await client.api.ask("PUT", path, json={"confirmed": ["Blue Door"]})
    assert (changed["confirmed"], changed["allowed"]) == (["Blue Door"], [])
    changed = await client.api.ask("PUT", path, json={"allowed": ["falcon"]})
    assert (changed["confirmed"], changed["allowed"]) == (["Blue Door"], ["falcon"])
    # Others are not told: confirmed names are what they may not know.
    assert "Blue Door" not in str(await client.get(f"/knowledge-bases/{base}"))
