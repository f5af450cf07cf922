"""The contract of a knowledge store, on every database: versions, what is found, by whom, and what a removal leaves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.ids import CountingIds
from lamella.core.knowledge import (
    CLEAR,
    INGEST,
    Document,
    DocumentState,
    DocumentText,
    KnowledgeHit,
    KnowledgeQuery,
    NewPassage,
    Shelf,
)
from lamella.core.records import Caller, NewJob, PageQuery
from lamella.knowledge.passages import passages_of
from lamella.search.lexical import LexicalEmbedder
from lamella.search.terms import query_terms
from lamella.search.vectors import packed
from lamella.storage import Store
from lamella.storage.knowledge.store import KnowledgeStore

from .conftest import Backing
from .examples import ANN, BOB, NOON

pytestmark = pytest.mark.anyio

LEXICAL = LexicalEmbedder()
MODEL = LEXICAL.space.model
SHELF = Shelf(ANN.user_id, "kb_1")
OTHER = Shelf(ANN.user_id, "kb_2")
HERS = Shelf(BOB.user_id, "kb_3")
FACTS = DocumentText("text/markdown", 12, None)


@pytest.fixture
def knowledge(store: Store) -> KnowledgeStore:
    return KnowledgeStore(store.database, CountingIds())


def document(id: str, shelf: Shelf = SHELF, name: str = "", digest: str = "") -> Document:
    return Document(id, shelf, name or f"{id}.md", 9, digest or id, NOON, NOON, upload=f"{id}u")


def job(id: str) -> NewJob:
    return NewJob(INGEST, id, "to see", NOON)


def made(text: str, *, vectors: bool = True) -> list[NewPassage]:
    return list(passages_of(text, "", paged=False, lexical=LEXICAL if vectors else None))


def sections(*texts: str) -> str:
    """A text whose sections are long enough to be passages of their own."""
    return "\n\n".join(f"# Part {number}\n\n{text} {'filler ' * 80}" for number, text in enumerate(texts))


async def publish(
    knowledge: KnowledgeStore, id: str, text: str, *, shelf: Shelf = SHELF, version: int = 1, vectors: bool = True
) -> None:
    caller = Caller(shelf.owner)
    if version == 1:
        await knowledge.add_document(document(id, shelf), job(id))
    assert await knowledge.stage(caller, id, version, 0, made(text, vectors=vectors), MODEL)
    assert await knowledge.publish(caller, id, version, FACTS, NOON, MODEL)


async def find(
    knowledge: KnowledgeStore,
    query: str,
    *shelves: Shelf,
    documents: frozenset[str] | None = None,
    words: bool = True,
    meaning: bool = True,
) -> tuple[KnowledgeHit, ...]:
    [vector] = LEXICAL.vectors([query])
    terms = query_terms(query) if words else ()
    asked = KnowledgeQuery(terms, LEXICAL.space, vector if meaning else None, shelves or (SHELF,), documents)
    return await knowledge.search_knowledge(asked)


def ids(hits: tuple[KnowledgeHit, ...]) -> list[str]:
    return [hit.document.id for hit in hits]


async def test_a_passage_is_found_as_it_stands_in_the_text(knowledge: KnowledgeStore) -> None:
    text = sections("The quagga was a zebra.", "A zeppelin is filled with hydrogen.", "Nothing of note.")
    await publish(knowledge, "doc_1", text)
    [hit, *_] = await find(knowledge, "zeppelin hydrogen")
    assert hit.passage.text == text[hit.passage.start : hit.passage.end]
    assert "zeppelin" in hit.passage.text
    assert hit.passage.headings == ("Part 1",)
    assert hit.score > 0
    assert hit.words > 0
    assert "".join(passage.text for passage in await knowledge.passages_of(ANN, "doc_1")) == text


@pytest.mark.parametrize(("words", "meaning"), [(True, False), (False, True), (True, True)])
async def test_each_leg_finds_by_itself(knowledge: KnowledgeStore, words: bool, meaning: bool) -> None:
    await publish(knowledge, "doc_1", "The quagga was a zebra of the south.")
    await publish(knowledge, "doc_2", "A zeppelin is filled with hydrogen.")
    found = await find(knowledge, "a zeppelin filled with hydrogen", words=words, meaning=meaning)
    assert ids(found)[0] == "doc_2"
    assert (found[0].words > 0) == words
    assert (found[0].similarity > 0) == meaning


async def test_what_is_not_published_is_not_found(knowledge: KnowledgeStore) -> None:
    await knowledge.add_document(document("doc_1"), job("doc_1"))
    assert await knowledge.stage(ANN, "doc_1", 1, 0, made("A zeppelin."), MODEL)
    assert await find(knowledge, "zeppelin") == ()
    assert await knowledge.staged(ANN, "doc_1", 1) == (1, 11)
    assert await knowledge.publish(ANN, "doc_1", 1, FACTS, NOON, MODEL)
    assert ids(await find(knowledge, "zeppelin")) == ["doc_1"]


@pytest.mark.parametrize(("vectors", "model", "state"), [(True, MODEL, "ready"), (False, None, "embedding")])
async def test_a_version_that_has_its_vectors_is_ready_when_it_is_found(
    knowledge: KnowledgeStore, vectors: bool, model: str | None, state: str
) -> None:
    await publish(knowledge, "doc_1", sections("A zeppelin.", "A quagga."), vectors=vectors)
    found = await knowledge.document_on_shelf(ANN, "doc_1")
    assert (found.state, found.model, found.passages, found.embedded) == (state, model, 2, 2 if vectors else 0)


async def test_only_what_stands_on_the_shelves_is_found(knowledge: KnowledgeStore) -> None:
    await publish(knowledge, "doc_1", "A zeppelin here.")
    await publish(knowledge, "doc_2", "A zeppelin there.", shelf=OTHER)
    await publish(knowledge, "doc_3", "A zeppelin of hers.", shelf=HERS)
    assert ids(await find(knowledge, "zeppelin")) == ["doc_1"]
    assert sorted(ids(await find(knowledge, "zeppelin", SHELF, OTHER))) == ["doc_1", "doc_2"]
    only = frozenset({"doc_2", "doc_3"})
    assert ids(await find(knowledge, "zeppelin", SHELF, OTHER, documents=only)) == ["doc_2"]
    assert await find(knowledge, "zeppelin", Shelf(BOB.user_id, "kb_1")) == ()


async def test_another_shelf_does_not_change_what_is_found(knowledge: KnowledgeStore) -> None:
    await publish(knowledge, "doc_1", "A zeppelin and a quagga.")
    await publish(knowledge, "doc_2", "A quagga, only a quagga.")
    before = [(hit.document.id, hit.score, hit.words) for hit in await find(knowledge, "zeppelin quagga")]
    for number in range(5):
        await publish(knowledge, f"doc_9{number}", "zeppelin " * 50, shelf=OTHER)
    assert [(hit.document.id, hit.score, hit.words) for hit in await find(knowledge, "zeppelin quagga")] == before


async def test_a_new_version_replaces_the_one_before_at_once(knowledge: KnowledgeStore) -> None:
    same = "The same words stay as they are. " * 20
    await publish(knowledge, "doc_1", f"# A\n\n{same}\n\n# B\n\nA zeppelin. {'more ' * 90}")
    new = replace(document("doc_1"), digest="other", size=10, upload="doc_1w")
    assert (await knowledge.replace_document(ANN, new, job("doc_1"))).version == 2
    changed = f"# A\n\n{same}\n\n# B\n\nA quagga. {'more ' * 90}"
    assert await knowledge.stage(ANN, "doc_1", 2, 0, made(changed, vectors=False), MODEL)
    assert "zeppelin" in (await find(knowledge, "zeppelin"))[0].passage.text
    assert await find(knowledge, "quagga", meaning=False) == ()
    assert await knowledge.publish(ANN, "doc_1", 2, FACTS, NOON, MODEL)
    assert await find(knowledge, "zeppelin", meaning=False) == ()
    assert "quagga" in (await find(knowledge, "quagga"))[0].passage.text
    # What is the same word for word keeps its vector.
    assert await knowledge.begin_embedding(ANN, "doc_1", 2, MODEL) == 1
    [waiting] = await knowledge.unembedded_passages(ANN, "doc_1", MODEL, 9)
    assert "quagga" in waiting.text
    assert await knowledge.clear_out(ANN, "doc_1", 9) == 2
    assert await knowledge.clear_out(ANN, "doc_1", 9) == 0
    assert "quagga" in (await find(knowledge, "quagga"))[0].passage.text


async def test_late_work_on_a_version_is_lost(knowledge: KnowledgeStore) -> None:
    await publish(knowledge, "doc_1", "A zeppelin.")
    await knowledge.replace_document(ANN, replace(document("doc_1"), digest="other"), job("doc_1"))
    assert not await knowledge.stage(ANN, "doc_1", 1, 1, made("late"), MODEL)
    assert not await knowledge.publish(ANN, "doc_1", 1, FACTS, NOON, MODEL)
    assert not await knowledge.say_state(ANN, "doc_1", 1, DocumentState.FAILED, NOON)
    assert not await knowledge.finish_document(ANN, "doc_1", 1, MODEL, NOON)
    assert (await knowledge.document_on_shelf(ANN, "doc_1")).state is DocumentState.WAITING
    await knowledge.remove_document(ANN, "doc_1")
    assert not await knowledge.stage(ANN, "doc_1", 2, 0, made("late"), MODEL)
    assert not await knowledge.embed_passages(ANN, "doc_1", MODEL, {1: LEXICAL.vectors(["late"])[0]})


async def test_a_removal_leaves_nothing(knowledge: KnowledgeStore, store: Store, backing: Backing) -> None:
    await publish(knowledge, "doc_1", sections("A zeppelin.", "A quagga.", "An auk."))
    assert set(ids(await find(knowledge, "zeppelin"))) == {"doc_1"}
    await knowledge.remove_document(ANN, "doc_1")
    assert await find(knowledge, "zeppelin") == ()
    assert (await knowledge.documents_on_shelf(SHELF, PageQuery())).data == ()
    assert await knowledge.removed_documents() == ((ANN, "doc_1"),)
    assert await store.jobs.job(ANN, CLEAR, "doc_1") is not None
    with pytest.raises(NotFound):
        await knowledge.document_on_shelf(ANN, "doc_1")
    assert [await knowledge.clear_out(ANN, "doc_1", 2) for _ in range(3)] == [2, 1, 0]
    assert await knowledge.removed_documents() == ()
    left = backing.dump()
    assert not {"knowledge_documents", "knowledge_passages", "knowledge_vectors"} & left.keys()
    assert knowledge.kept_bytes == 0


async def test_foreign_documents_do_not_exist(knowledge: KnowledgeStore) -> None:
    await publish(knowledge, "doc_1", "A zeppelin.")
    for verb in (
        knowledge.document_on_shelf(BOB, "doc_1"),
        knowledge.remove_document(BOB, "doc_1"),
        knowledge.replace_document(BOB, document("doc_1"), job("doc_1")),
    ):
        with pytest.raises(NotFound):
            await verb
    assert await knowledge.passages_of(BOB, "doc_1") == ()
    assert not await knowledge.publish(BOB, "doc_1", 1, FACTS, NOON, MODEL)
    assert await knowledge.clear_out(BOB, "doc_1", 9) == 0
    assert ids(await find(knowledge, "zeppelin")) == ["doc_1"]


async def test_the_same_bytes_under_the_same_name_are_one_document(knowledge: KnowledgeStore) -> None:
    first = await knowledge.add_document(document("doc_1", name="a.md", digest="x"), job("doc_1"))
    assert (await knowledge.add_document(document("doc_2", name="a.md", digest="x"), job("doc_2"))).id == first.id
    assert (await knowledge.add_document(document("doc_3", name="b.md", digest="x"), job("doc_3"))).id == "doc_3"
    assert (await knowledge.add_document(document("doc_4", OTHER, "a.md", "x"), job("doc_4"))).id == "doc_4"


async def test_vectors_of_another_dimension_are_refused(knowledge: KnowledgeStore) -> None:
    await publish(knowledge, "doc_1", "A zeppelin.")
    await publish(knowledge, "doc_2", "A quagga.", vectors=False)
    [waiting] = await knowledge.unembedded_passages(ANN, "doc_2", MODEL, 9)
    with pytest.raises(InvalidRequest, match="vectors of 3 numbers"):
        await knowledge.embed_passages(ANN, "doc_2", MODEL, {waiting.entry: packed([1.0, 0.0, 0.0])})
    assert ids(await find(knowledge, "quagga")) == ["doc_2"]


async def test_another_embedder_has_to_make_all_vectors_anew(knowledge: KnowledgeStore) -> None:
    await publish(knowledge, "doc_1", "A zeppelin.")
    await knowledge.finish_document(ANN, "doc_1", 1, MODEL, NOON)
    assert await knowledge.unready_documents(MODEL) == ()
    assert await knowledge.unready_documents("another") == ((ANN, "doc_1"),)
    assert await knowledge.begin_embedding(ANN, "doc_1", 1, "another") == 1
    [waiting] = await knowledge.unembedded_passages(ANN, "doc_1", "another", 9)
    assert await knowledge.embed_passages(ANN, "doc_1", "another", {waiting.entry: packed([1.0, 0.0])})
    assert await knowledge.begin_embedding(ANN, "doc_1", 1, "another") == 0
    assert ids(await find(knowledge, "zeppelin", meaning=False)) == ["doc_1"]


async def test_totals_count_what_stands_on_a_shelf(knowledge: KnowledgeStore) -> None:
    await publish(knowledge, "doc_1", "A zeppelin.")
    await knowledge.finish_document(ANN, "doc_1", 1, MODEL, NOON)
    await knowledge.add_document(document("doc_2"), job("doc_2"))
    totals = await knowledge.shelf_totals(SHELF)
    assert (totals.documents, totals.unfinished, totals.found, totals.passages, totals.tokens) == (2, 1, 1, 1, 12)
    assert (await knowledge.shelf_totals(SHELF, frozenset({"doc_1"}))).documents == 1
    assert (await knowledge.shelf_totals(OTHER)).documents == 0


NUMBERS = count()
WORDS = st.sampled_from(["zeppelin", "quagga", "auk", "heron", "lamp"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(WORDS, min_size=1, max_size=4)), max_size=8))
async def test_what_is_kept_in_memory_changes_nothing(
    knowledge: KnowledgeStore, store: Store, story: list[tuple[str, list[str]]]
) -> None:
    """Documents come, change and go; each time a fresh index finds the same."""
    shelf = Shelf(ANN.user_id, f"kb_{next(NUMBERS)}")
    there: dict[str, tuple[str, int]] = {}
    for name, words in story:
        id, version = there.get(name, (f"{shelf.id}_{next(NUMBERS)}", 0))
        if version and len(words) == 1:
            await knowledge.remove_document(ANN, id)
            await knowledge.clear_out(ANN, id, 9)
            del there[name]
        else:
            there[name] = id, version + 1
            if version:
                await knowledge.replace_document(ANN, document(id, shelf), job(id))
            await publish(knowledge, id, " ".join(words), shelf=shelf, version=version + 1)
        fresh = KnowledgeStore(store.database, CountingIds())
        seen = [await find(one, "zeppelin auk lamp", shelf) for one in (knowledge, fresh)]
        assert seen[0] == seen[1]


async def test_documents_that_go_while_they_are_searched_are_found_before_and_not_after(
    knowledge: KnowledgeStore,
) -> None:
    ids = [f"doc_{number}" for number in range(8)]
    for id in ids:
        await publish(knowledge, id, f"The zeppelin of {id} lands.")
    left = set(ids)
    for id in ids[:-1]:
        during, _ = await asyncio.gather(find(knowledge, "zeppelin lands"), knowledge.remove_document(ANN, id))
        assert left - {id} <= {hit.document.id for hit in during} <= left
        left.remove(id)
        assert {hit.document.id for hit in await find(knowledge, "zeppelin lands")} == left
