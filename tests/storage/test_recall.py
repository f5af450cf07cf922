"""The contract of a recall index, on every database: what is found, by whom, and what a deletion leaves."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text

from lamella.core.errors import NotFound
from lamella.core.ids import CountingIds
from lamella.core.messages import Step, StopReason, Text, ToolCall, ToolResult
from lamella.core.recall import Passage, RecallQuery, RecallResult, Source, Space, Speaker
from lamella.core.records import Caller
from lamella.search.lexical import LexicalEmbedder
from lamella.search.terms import query_terms, terms_of
from lamella.storage import Store, open_store
from lamella.storage.database import Database
from lamella.storage.recall.sources import add_passages
from lamella.storage.recall.store import AGAIN, RecallIndex
from lamella.storage.sqlite import sqlite_engine, sqlite_url
from leaking.restricted_base import terms_of_page
from measures import loop_pauses

from .conftest import Backing, SqliteBacking
from .examples import (
    ANN,
    BOB,
    NOON,
    conversation,
    minutes,
    new_turn,
    session_return,
    session_step,
    session_summary,
    turn_end,
)

pytestmark = pytest.mark.anyio

LEXICAL = LexicalEmbedder()
SPACE = LEXICAL.space


@pytest.fixture
def index(store: Store) -> RecallIndex:
    return RecallIndex(store.database)


def passage(id: str, text: str, *, call_id: str = "", speaker: Speaker = Speaker.USER, vector: bool = True) -> Passage:
    [made] = LEXICAL.vectors([text])
    return Passage(
        id, call_id, speaker, "look" if call_id else "", NOON, 0, len(text), terms_of(text), made if vector else None
    )


def answer(id: str, text: str, result: str | None = None) -> Step:
    call = () if result is None else (ToolCall("call_1", "look", "{}"),)
    results = () if result is None else (ToolResult("call_1", "look", result),)
    return Step(id, "m-1", (Text(text), *call), StopReason.END_TURN, "", 3, results=results)


async def say(
    store: Store,
    index: RecallIndex,
    number: int,
    text: str,
    reply: str = "Noted.",
    *,
    owner: Caller = ANN,
    of: str = "conv_1",
    result: str | None = None,
    vectors: bool = True,
) -> None:
    """A whole turn, stored and indexed."""
    name = f"{of}_{number}"
    turn = replace(new_turn(f"turn_{name}", of, text), user_message_id=f"msg_{name}")
    await store.turns.begin_turn(owner, turn, minutes(number))
    step = answer(f"step_{name}", reply, result)
    await store.turns.finish_turn(owner, turn_end(turn.id, [step], requests=()))
    passages = [
        passage(f"msg_{name}", text, vector=vectors),
        passage(step.id, reply, speaker=Speaker.ASSISTANT, vector=vectors),
    ]
    if result is not None:
        passages.append(passage(step.id, result, call_id="call_1", speaker=Speaker.TOOL, vector=vectors))
    assert await index.index_turn(owner, turn.id, [p for p in passages if p.terms], SPACE.model)


async def find(
    index: RecallIndex, query: str, *, owner: Caller = ANN, meaning: bool = True, **more: Any
) -> RecallResult:
    [vector] = LEXICAL.vectors([query])
    return await index.search(owner, RecallQuery(query_terms(query), SPACE, vector if meaning else None, **more))


def ids(found: RecallResult) -> list[str]:
    return [hit.source.reference for hit in found.hits]


async def test_words_are_found_in_messages_answers_and_results(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "The ferry leaves from pier nine.", "A ferry, then.", result="Timetable of the harbour")
    await say(store, index, 2, "And what about lunch?", "There is soup.")
    assert ids(await find(index, "Which pier?"))[0] == "msg_conv_1_1"
    assert ids(await find(index, "soup"))[0] == "step_conv_1_2"
    [first, *_] = (await find(index, "timetables")).hits
    assert (first.source.reference, first.source.content) == ("step_conv_1_1/call_1", "Timetable of the harbour")
    assert (first.source.speaker, first.source.name, first.source.turn_id) == (Speaker.TOOL, "look", "turn_conv_1_1")
    assert (await find(index, "zebra")).hits == ()


async def test_a_slip_of_the_pen_is_found_by_its_spelling(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "Photosynthesis", "Indeed.")
    await say(store, index, 2, "Something else entirely", "Yes.")
    assert ids(await find(index, "Photosyntesis"))[0] == "msg_conv_1_1"
    assert ids(await find(index, "Photosyntesis", meaning=False)) == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Müller wohnt in der Straße am Fluß", "muller STRASSE"),
        ("我们明天在东京都开会", "东京"),
        ("明日は会議があります", "会議"),
        ("ประชุมพรุ่งนี้ที่กรุงเทพ", "กรุงเทพ"),
        ("서울에서 만나요", "서울"),
        ("हिन्दी में लिखा हुआ", "हिन्दी"),
        ("Встреча у Эрмитажа", "эрмитажа"),
        ("We cheer 🎉 at noon", "🎉"),
    ],
)
async def test_every_script_is_found(store: Store, index: RecallIndex, text: str, query: str) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "Nothing of the kind", "Zero.")
    await say(store, index, 2, text, "Zero.")
    assert ids(await find(index, query, meaning=False))[0] == "msg_conv_1_2"


async def test_nobody_finds_what_is_somebody_elses(store: Store, index: RecallIndex, backing: Backing) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.conversations.create_conversation(BOB, conversation("conv_2"))
    await say(store, index, 1, "The secret word is xylophone")
    await say(store, index, 1, "Bob knows nothing", owner=BOB, of="conv_2")
    assert ids(await find(index, "xylophone")) != []
    foreign = await find(index, "secret xylophone word", owner=BOB)
    assert [hit.source.conversation_id for hit in foreign.hits] == ["conv_2"] * len(foreign.hits)
    assert (await find(index, "xylophone", owner=BOB, meaning=False)) == RecallResult()
    with pytest.raises(NotFound):
        await find(index, "xylophone", owner=BOB, conversation_id="conv_1")
    for reference in ("msg_conv_1_1", "step_conv_1_1"):
        with pytest.raises(NotFound):
            await index.source(BOB, None, reference)
    assert (await index.unindexed(BOB, "conv_1", SPACE.model, 9)).turns == ()
    assert (await index.unindexed(BOB, "conv_1", "another", 9)).passages == ()
    assert not await index.index_turn(BOB, "turn_conv_1_1", [], SPACE.model)
    before = backing.dump()
    await index.embed(BOB, "another", {1: b"\0" * 768})
    assert backing.dump() == before


async def test_another_owners_texts_change_nobodys_scores(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "The ferry and the harbour")
    await say(store, index, 2, "The ferry alone")
    before = [(hit.source.id, hit.score) for hit in (await find(index, "ferry harbour")).hits]
    await store.conversations.create_conversation(BOB, conversation("conv_2"))
    for number in range(5):
        await say(store, index, number, "harbour harbour harbour", owner=BOB, of="conv_2")
    assert [(hit.source.id, hit.score) for hit in (await find(index, "ferry harbour")).hits] == before


async def test_one_conversation_or_all_of_them(store: Store, index: RecallIndex) -> None:
    for of in ("conv_1", "conv_2"):
        await store.conversations.create_conversation(ANN, conversation(of))
        await say(store, index, 1, f"A lighthouse in {of}", of=of)
    everywhere = await find(index, "lighthouse", meaning=False)
    assert {hit.source.conversation_id for hit in everywhere.hits} == {"conv_1", "conv_2"}
    here = await find(index, "lighthouse", meaning=False, conversation_id="conv_2")
    assert {hit.source.conversation_id for hit in here.hits} == {"conv_2"}


def held_terms(backing: Backing) -> set[str]:
    """The terms that stand in any run."""
    pages: list[Any] = [row[0] for row in backing.run("SELECT data FROM postings")]
    return {term for page in pages for term in terms_of_page(page).split()}


async def test_a_deleted_conversation_leaves_no_word(store: Store, index: RecallIndex, backing: Backing) -> None:
    for of in ("conv_1", "conv_2"):
        await store.conversations.create_conversation(ANN, conversation(of))
        await say(store, index, 1, f"A lighthouse in {of}", of=of)
    assert len((await find(index, "lighthouse")).hits) > 0
    await store.conversations.delete_conversation(ANN, "conv_1")
    assert {hit.source.conversation_id for hit in (await find(index, "lighthouse")).hits} == {"conv_2"}
    assert held_terms(backing) == {"a", "in", "lighthous", "conv", "2", "not"}
    await store.conversations.delete_conversation(ANN, "conv_2")
    assert await find(index, "lighthouse") == RecallResult()
    assert set(backing.dump()) == {"recall_versions"}
    assert backing.run("SELECT count(*) FROM postings") == [(0,)]


async def test_what_is_added_later_is_found_and_what_is_known_stays(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    for number in range(4):
        await say(store, index, number, f"Number {number} and the lighthouse")
        assert {f"msg_conv_1_{n}" for n in range(number + 1)} <= set(ids(await find(index, "lighthouse", limit=20)))


async def test_a_start_looks_at_nothing_before_its_mark(store: Store, index: RecallIndex, backing: Backing) -> None:
    async def do(*statements: str) -> None:
        await store.database.write(lambda connection: [connection.execute(text(one)) for one in statements])

    await backing.fill(AGAIN + 200)
    await do(
        "UPDATE turns SET finished_at = started_at",
        "INSERT INTO recall_turns (turn_id, owner) SELECT id, owner FROM turns",
    )
    assert await index.waiting(SPACE.model) == ()
    await index.set_mark(SPACE.model)
    await do("DELETE FROM recall_turns WHERE turn_id = 'turn_00100'")
    assert await index.waiting(SPACE.model) == ()
    assert await index.waiting("another model") == ((ANN, "conv_1"),)
    await do("DELETE FROM recall_turns WHERE turn_id = 'turn_00300'")
    assert await index.waiting(SPACE.model) == ((ANN, "conv_1"),)
    await index.set_mark(SPACE.model)
    assert await index.waiting(SPACE.model) == ((ANN, "conv_1"),), "what waits is not passed over"


async def test_a_turn_is_indexed_once_and_waits_until_it_has_ended(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await store.turns.begin_turn(ANN, new_turn(), minutes(1))
    assert (await index.unindexed(ANN, "conv_1", SPACE.model, 9)).turns == ()
    assert not await index.index_turn(ANN, "turn_1", [passage("msg_turn_1", "Hello")], SPACE.model)
    await store.turns.finish_turn(ANN, turn_end())
    assert [turn.id for turn in (await index.unindexed(ANN, "conv_1", SPACE.model, 9)).turns] == ["turn_1"]
    assert await index.waiting(SPACE.model) == ((ANN, "conv_1"),)
    text = (await store.turns.turn(ANN, "turn_1")).text
    message = (await store.turns.turn(ANN, "turn_1")).user_message_id
    assert await index.index_turn(ANN, "turn_1", [passage(message, text)], SPACE.model)
    assert not await index.index_turn(ANN, "turn_1", [passage(message, text)], SPACE.model)
    assert await index.waiting(SPACE.model) == ()


async def test_vectors_of_another_model_are_made_and_the_old_ones_not_compared(
    store: Store, index: RecallIndex
) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "Photosynthesis", "Indeed.")
    other = Space("other-8", 1.0, 0.1)
    assert await index.waiting("other-8") == ((ANN, "conv_1"),)
    waiting = (await index.unindexed(ANN, "conv_1", "other-8", 9)).passages
    assert [one.text for one in waiting] == ["Photosynthesis", "Indeed."]
    asked = RecallQuery((), other, b"\x00\x3c" + b"\0" * 14)
    assert (await index.search(ANN, asked)).hits == ()
    await index.embed(ANN, "other-8", {waiting[0].entry: asked.vector or b"", waiting[1].entry: b"\0" * 16, 999: b""})
    assert await index.waiting("other-8") == ()
    assert ids(await index.search(ANN, asked))[0] == "msg_conv_1_1"


async def test_sessions_are_ranked_by_their_messages_and_their_summaries(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    [first] = await store.sessions.sessions(ANN, "conv_1")
    await say(store, index, 1, "Rembrandt painted the night watch")
    step = session_step(first.id, "sess_b", "turn_conv_1_1")
    await store.sessions.next_session(ANN, replace(step, summary=session_summary("Of painters, of a windmill.")))
    await say(store, index, 2, "Now to cooking")
    [summary] = (await index.unindexed(ANN, "conv_1", SPACE.model, 9)).summaries
    assert (summary.id, summary.content, summary.session) == (first.id, "Of painters, of a windmill.", 1)
    [vector] = LEXICAL.vectors([summary.content])
    made = [passage(first.id, summary.content, speaker=Speaker.SUMMARY)]
    changed = replace(summary, content="Something older")
    assert not await index.index_summary(ANN, changed, vector, made, SPACE.model)
    assert await index.index_summary(ANN, summary, vector, made, SPACE.model)
    assert (await index.unindexed(ANN, "conv_1", SPACE.model, 9)).summaries == ()
    painters = await find(index, "Rembrandt", conversation_id="conv_1")
    assert (painters.sessions[0].session_id, painters.sessions[0].score, painters.sessions[0].covers) == (
        first.id,
        1,
        1,
    )
    by_summary = await find(index, "windmill", meaning=False)
    assert [session.session_id for session in by_summary.sessions] == [first.id]
    assert [hit.source.speaker for hit in by_summary.hits if hit.source.speaker is Speaker.SUMMARY] == []
    cooking = await find(index, "cooking")
    assert cooking.sessions[0].session_id == "sess_b"


async def test_a_search_of_much_keeps_nobody_waiting(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "Ships and harbours.", "Tides.")
    one = passage("msg_conv_1_1", "ships and tides")
    many = [replace(one, start=at, end=at + 9) for at in range(1_000, 7_000)]
    await store.database.write(lambda connection: add_passages(connection, ANN, "conv_1", many, SPACE.model))
    for _ in range(2):
        async with loop_pauses() as pauses:
            found = await find(index, "ships and harbours")
        assert found.hits[0].source.id == "msg_conv_1_1"
        # Alone on a machine some milliseconds: reading and ranking all of them on the loop takes far longer.
        assert max(pauses) < 0.03


async def test_a_search_everywhere_sorts_nothing_and_holds_no_connection(store: Store, backing: Backing) -> None:
    """Pages are read in the order of an index, each in a transaction of its own."""
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, RecallIndex(store.database), 1, "ships and harbours")
    one = passage("msg_conv_1_1", "ships and tides")
    many = [replace(one, start=at, end=at + 9) for at in range(1_000, 4_500)]
    await store.database.write(lambda connection: add_passages(connection, ANN, "conv_1", many, SPACE.model))
    if not isinstance(backing, SqliteBacking):
        pytest.skip("the plans of SQLite")
    url, seen = sqlite_url(backing.path), list[str]()
    reader = sqlite_engine(url, writes=False)
    event.listen(reader, "connect", lambda connection, _: connection.set_trace_callback(seen.append))
    database = Database(reader, sqlite_engine(url, writes=True))
    for of in (None, "conv_1"):
        seen.clear()
        index = RecallIndex(database)
        query = RecallQuery(query_terms("ships"), SPACE, LEXICAL.vectors(["ships"])[0], of)
        assert (await index.search(ANN, query)).hits
        pages = [at for at, sql in enumerate(seen) if "FROM recall_entries" in sql and "LIMIT" in sql]
        assert len(pages) == 4
        for page, following in pairwise(pages):
            assert "ROLLBACK" in seen[page:following]
        with sqlite3.connect(backing.path) as looking:
            plans = [str(looking.execute(f"EXPLAIN QUERY PLAN {seen[page]}").fetchall()) for page in pages]
        assert not any("TEMP B-TREE" in plan for plan in plans), plans
    await database.close()


async def test_vectors_that_come_later_are_compared(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "Gardens", "Indeed.")
    await say(store, index, 2, "Photosynthesis", "Yes.", vectors=False)
    await say(store, index, 3, "Something else", "Well.")
    assert "msg_conv_1_2" not in ids(await find(index, "Photosyntesis"))
    waiting = (await index.unindexed(ANN, "conv_1", SPACE.model, 9)).passages
    made = LEXICAL.vectors([one.text for one in waiting])
    await index.embed(ANN, SPACE.model, dict(zip([one.entry for one in waiting], made, strict=True)))
    assert ids(await find(index, "Photosyntesis"))[0] == "msg_conv_1_2"


async def test_a_summary_that_is_taken_back_is_not_found(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "Let us talk.", "Gladly.")
    [first] = await store.sessions.sessions(ANN, "conv_1")
    step = session_step(first.id, "sess_2", "turn_conv_1_1")
    await store.sessions.next_session(ANN, replace(step, summary=session_summary("The zeppelin is called Quagga.")))
    [summary] = (await index.unindexed(ANN, "conv_1", SPACE.model, 9)).summaries
    [vector] = LEXICAL.vectors([summary.content])
    passages = [passage(first.id, summary.content, speaker=Speaker.SUMMARY)]
    assert await index.index_summary(ANN, summary, vector, passages, SPACE.model)
    assert [one.session_id for one in (await find(index, "zeppelin quagga")).sessions] == [first.id]
    back = session_return("sess_2", first.id, "turn_conv_1_1")
    await store.sessions.return_to_session(ANN, replace(back, forgets_summary=True))
    assert await find(index, "zeppelin quagga") == RecallResult((), ())
    assert (await index.unindexed(ANN, "conv_1", SPACE.model, 9)).summaries == ()


async def test_something_is_read_by_message_by_call_and_by_both(store: Store, index: RecallIndex) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "First", result="one")
    await say(store, index, 2, "Second", result="two")

    async def read(reference: str, of: str | None = "conv_1") -> str:
        found: Source = await index.source(ANN, of, reference)
        return found.content

    assert await read("msg_conv_1_1") == "First"
    assert await read("step_conv_1_2") == "Noted."
    assert await read("call_1") == "two"
    assert await read("step_conv_1_1/call_1", None) == "one"
    for reference in ("msg_9", "call_9", "step_conv_1_1/call_9", "", "/", "turn_conv_1_1"):
        with pytest.raises(NotFound):
            await read(reference)


words = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
)


async def _said_and_sought(path: Path, texts: Sequence[str], chosen: int) -> None:
    async with await open_store(path, CountingIds()) as store:
        index = RecallIndex(store.database)
        await store.conversations.create_conversation(ANN, conversation())
        for number, text in enumerate(texts):
            await say(store, index, number, text)
        terms = query_terms(texts[chosen])
        holders = {f"msg_conv_1_{n}" for n, text in enumerate(texts) if not set(terms).isdisjoint(terms_of(text))}
        found = await index.search(ANN, RecallQuery(terms, SPACE, conversation_id="conv_1", limit=100))
        assert f"msg_conv_1_{chosen}" in holders <= set(ids(found))
        if len(texts) == 1:
            assert ids(found)[0] == "msg_conv_1_0"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(words.filter(query_terms), min_size=1, max_size=4), asked=st.integers(0, 3))
def test_what_was_said_is_found_by_its_own_words_whatever_they_are(
    migrated: Path, said: Sequence[str], asked: int
) -> None:
    with TemporaryDirectory() as folder:
        path = SqliteBacking.copied(migrated, Path(folder)).path
        asyncio.run(_said_and_sought(path, said, asked % len(said)))


@pytest.mark.parametrize(
    "query", ['" OR 1', "a*", "NEAR(x y)", "terms:x", "^", "(((", "'; DROP TABLE x; --", "\x00", "-"]
)
async def test_no_query_is_an_error(store: Store, index: RecallIndex, query: str) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await say(store, index, 1, "a x y terms OR NEAR")
    await find(index, query)
