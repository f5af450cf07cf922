"""What is kept in memory of passages: one cache for documents and for what was said, within its bytes."""

from __future__ import annotations

from pydoc_data.topics import topics

import numpy as np
import pytest

from lamella.core.ids import CountingIds
from lamella.core.knowledge import Shelf
from lamella.search.postings import TermRun, packed_entries
from lamella.storage import Store
from lamella.storage.knowledge.store import KnowledgeStore
from lamella.storage.recall.store import RecallIndex
from lamella.storage.scopes import Part, PassageScope, Reading, Scopes, Words

from .examples import ANN, conversation
from .test_knowledge import find as find_document
from .test_knowledge import publish
from .test_recall import find, ids, say

pytestmark = pytest.mark.anyio

VECTOR = np.ones(4, "<f2").tobytes()


def scope(first: int, count: int, revision: int = 1) -> PassageScope:
    return PassageScope.of({("", revision): Part.of([(first + n, "sess_1", 9, True, VECTOR) for n in range(count)], 4)})


def test_what_was_not_used_for_longest_makes_room() -> None:
    kept = Scopes(2 * scope(1, 10).size)
    for name in ("a", "b"):
        kept.keep((name,), scope(1, 10))
    assert kept.find(("a",)) is not None
    kept.keep(("c",), scope(1, 10))
    assert [name for name in "abc" if kept.find((name,)) is not None] == ["a", "c"]
    kept.keep(("d",), scope(1, 50))
    assert (kept.find(("d",)), kept.size) == (None, 0)


def test_less_of_the_same_is_not_kept_in_place_of_more() -> None:
    kept = Scopes()
    more = scope(1, 20)
    kept.keep(("a",), more)
    kept.keep(("a",), scope(1, 10))
    assert kept.find(("a",)) is more
    changed = scope(1, 10, revision=2)
    kept.keep(("a",), changed)
    assert kept.find(("a",)) is changed


def test_what_may_still_get_a_vector_is_not_kept() -> None:
    rows = [(1, "s", 9, True, VECTOR), (2, "t", 9, True, None), (3, "s", 9, True, VECTOR)]
    assert Part.of(rows, 4).complete().entries.tolist() == [1]
    assert Part.of(rows, 0).complete().entries.tolist() == [1, 2, 3]
    joined = Part.joined([Part.of(rows[:1], 4), Part.of(rows[1:], 4)])
    assert (joined.groups, joined.of_group.tolist(), joined.waiting) == (("s", "t"), [0, 1, 0], 2)


def test_what_makes_room_while_a_search_runs_is_still_read() -> None:
    """A search of many common words reads more occurrences than are kept of them."""
    here = PassageScope.of({("", 1): Part.of([(1, "sess_1", 9, True, None), (2, "sess_1", 9, True, None)], 0)})
    here.postings.most = 400
    words = [f"word{number}" for number in range(4)]
    for _ in range(2):
        run = TermRun.of({1: words, 2: ["else", *words]})
        pages: Words = [(1, page) for _, page in run.pages()]
        reading = Reading(here, {w: here.postings.find(w) or pages for w in words}, {1: packed_entries(run.entries)})
        places = [reading.held(word)[0].tolist() for word in words]
        assert places == [[place, 1 << 16 | place + 1] for place in range(4)]
    assert here.postings.size <= 400


async def test_documents_and_conversations_share_the_bytes(store: Store) -> None:
    kept = Scopes()
    knowledge, recall = KnowledgeStore(store.database, CountingIds(), kept), RecallIndex(store.database, kept)
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, recall, 1, "The zeppelin lands.")
    await publish(knowledge, "doc_1", "The zeppelin lands.")
    assert ids(await find(recall, "zeppelin"))
    said = kept.size
    assert await find_document(knowledge, "zeppelin")
    assert kept.size > said > 0
    await knowledge.remove_document(ANN, "doc_1")
    assert await find_document(knowledge, "zeppelin") == ()
    assert kept.size == said


async def test_a_large_scope_is_ranked_by_sketches_and_the_vectors_of_the_nearest(store: Store) -> None:
    """All passages here are among the nearest, whose vectors are read: what is found is what all vectors find."""
    exact, large = Scopes(), Scopes(exact=7)
    stores = [KnowledgeStore(store.database, CountingIds(), scopes) for scopes in (exact, large)]
    indexes = [RecallIndex(store.database, scopes) for scopes in (exact, large)]
    await store.conversations.create_conversation(ANN, conversation())
    names = sorted(topics)[::9]

    async def check() -> None:
        for query in ("assignment to a list", "What raises an exception?", "operator precedence", names[3]):
            for only in (None, frozenset({"doc_1", "doc_3", "doc_4"})):
                one, other = [await find_document(each, query, documents=only) for each in stores]
                assert [hit.passage.entry for hit in other] == [hit.passage.entry for hit in one]
                for found, right in zip(other, one, strict=True):
                    assert found.score == pytest.approx(right.score, rel=1e-4)
                    assert found.similarity == pytest.approx(right.similarity, abs=1e-6)
            said, again = [(await find(each, query, limit=20)).hits for each in indexes]
            assert [hit.source.reference for hit in again] == [hit.source.reference for hit in said]
            assert [hit.score for hit in again] == pytest.approx([hit.score for hit in said], rel=1e-4)

    for number, name in enumerate(names):
        await say(store, indexes[0], number, topics[name][:200], topics[name][200:500] or "Noted.")
        await publish(stores[0], f"doc_{number}", topics[name][:1_500])
        if number in (1, 2, 3, 8):
            await check()
    assert large.size < exact.size / 2
    for number in range(5, len(names)):
        await stores[0].remove_document(ANN, f"doc_{number}")
    await check()


async def test_a_cache_that_holds_nothing_changes_nothing(store: Store) -> None:
    small = Scopes(0)
    knowledge, recall = KnowledgeStore(store.database, CountingIds(), small), RecallIndex(store.database, small)
    await store.conversations.create_conversation(ANN, conversation())
    for number in range(3):
        await say(store, recall, number, f"The zeppelin {number} lands.")
        await publish(knowledge, f"doc_{number}", f"The zeppelin {number} lands.")
        for of in (None, "conv_1"):
            assert len(ids(await find(recall, "zeppelin lands", conversation_id=of, limit=99))) == 2 * (number + 1)
        assert len(await find_document(knowledge, "zeppelin lands", Shelf(ANN.user_id, "kb_1"))) == number + 1
    assert small.size == 0
