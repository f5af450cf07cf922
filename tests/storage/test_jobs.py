from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lamella.core.errors import LeaseLost, SessionMoved
from lamella.core.records import Job, JobStatus
from lamella.storage import Store

from .conftest import Backing
from .examples import ANN, BOB, conversation, finished_turn, minutes, new_job, new_turn, session_step

pytestmark = pytest.mark.anyio

KINDS = ("compact", "summarise")
BROKEN: dict[str, str | None] = {"message": "The summary is empty.", "hint": None}


async def claimed(store: Store, at: float = 0) -> Job:
    """The next job, leased for a minute."""
    job = await store.jobs.claim(KINDS, minutes(at), 60)
    assert job is not None
    return job


async def test_a_job_comes_back_with_its_owner_and_its_cause(store: Store) -> None:
    made = await store.jobs.enqueue(ANN, new_job(not_before=minutes(1)), minutes(0))
    expected = Job(
        id=made.id,
        caller=ANN,
        kind="compact",
        subject="conv_1",
        cause="the window is full",
        payload={"focus": "names"},
        status=JobStatus.WAITING,
        due_at=minutes(1),
        created_at=minutes(0),
    )
    assert made == expected == await store.jobs.job(ANN, "compact", "conv_1")
    assert await store.jobs.next_due(KINDS) == minutes(1)
    assert await store.jobs.claim(KINDS, minutes(0.9), 60) is None
    assert await store.jobs.claim(["other"], minutes(2), 60) is None
    assert await store.jobs.claim([], minutes(2), 60) is None
    running = replace(expected, status=JobStatus.RUNNING, due_at=minutes(2), attempts=1, token=1)
    assert await claimed(store, 1) == running == await store.jobs.job(ANN, "compact", "conv_1")
    assert await store.jobs.claim(KINDS, minutes(1.9), 60) is None
    await store.jobs.finish(running, minutes(1.5))
    done = replace(running, status=JobStatus.FINISHED, ended_at=minutes(1.5))
    assert await store.jobs.job(ANN, "compact", "conv_1") == done
    assert (await store.jobs.claim(KINDS, minutes(9), 60), await store.jobs.next_due(KINDS)) == (None, None)


async def test_the_same_work_is_queued_once_until_it_has_ended(store: Store, backing: Backing) -> None:
    first = await store.jobs.enqueue(ANN, new_job(), minutes(0))
    assert await store.jobs.enqueue(ANN, replace(new_job(), cause="again", not_before=minutes(5)), minutes(1)) == first
    running = await claimed(store)
    assert await store.jobs.enqueue(ANN, new_job(), minutes(1)) == running
    for other in (new_job("summarise"), new_job(subject="conv_2")):
        assert (await store.jobs.enqueue(ANN, other, minutes(1))).id != first.id
    assert (await store.jobs.enqueue(BOB, new_job(), minutes(1))).caller == BOB
    await store.jobs.finish(running, minutes(2))
    second = await store.jobs.enqueue(ANN, new_job(), minutes(3))
    assert (second.id != first.id, second.attempts, second.created_at) == (True, 0, minutes(3))
    assert len(backing.dump()["jobs"]) == 4


async def test_one_that_waits_after_a_failure_is_taken_over_and_one_that_runs_is_not(store: Store) -> None:
    first = await store.jobs.enqueue(ANN, new_job(), minutes(0))
    running = await claimed(store)
    asked = replace(new_job(), cause="asked", payload={"focus": "ships"}, not_before=minutes(1), takes_over=True)
    assert await store.jobs.enqueue(ANN, asked, minutes(1)) == running
    await store.jobs.fail(running, BROKEN, minutes(1), minutes(9))
    taken = await store.jobs.enqueue(ANN, asked, minutes(2))
    assert (taken.id, taken.cause, taken.payload) == (first.id, "asked", {"focus": "ships"})
    assert (taken.due_at, taken.attempts, taken.token) == (minutes(1), 0, running.token)


@pytest.mark.parametrize("fails", [False, True])
async def test_what_is_asked_for_while_it_runs_is_done_once_more(store: Store, fails: bool) -> None:
    following = replace(new_job(), follows=True)
    await store.jobs.enqueue(ANN, following, minutes(0))
    running = await claimed(store)
    assert await store.jobs.enqueue(ANN, following, minutes(1)) == running
    assert await store.jobs.claim(KINDS, minutes(0.9), 60) is None
    if fails:
        await store.jobs.fail(running, BROKEN, minutes(2))
    else:
        await store.jobs.finish(running, minutes(2))
    again = await claimed(store, 2)
    assert (again.id, again.attempts, again.token, again.ended_at) == (running.id, 1, 2, None)
    await store.jobs.finish(again, minutes(3))
    done = await store.jobs.job(ANN, "compact", "conv_1")
    assert (done and done.status, await store.jobs.claim(KINDS, minutes(99), 60)) == (JobStatus.FINISHED, None)


async def test_what_is_tried_again_later_saw_what_was_asked_for_meanwhile(store: Store) -> None:
    following = replace(new_job(), follows=True)
    await store.jobs.enqueue(ANN, following, minutes(0))
    running = await claimed(store)
    await store.jobs.enqueue(ANN, following, minutes(1))
    await store.jobs.fail(running, BROKEN, minutes(1), minutes(5))
    assert await store.jobs.claim(KINDS, minutes(4.9), 60) is None
    await store.jobs.finish(await claimed(store, 5), minutes(6))
    assert await store.jobs.claim(KINDS, minutes(99), 60) is None


async def test_a_job_may_begin_with_the_statement_that_stores_it(store: Store) -> None:
    job, is_mine = await store.jobs.begin(ANN, new_job(), minutes(0), 60)
    assert (job.status, job.token, job.attempts, job.due_at) == (JobStatus.RUNNING, 1, 1, minutes(1))
    assert is_mine
    assert await store.jobs.begin(ANN, new_job(), minutes(0.5), 60) == (job, False), "another worker does it"
    assert not await store.jobs.finish(job, minutes(0.9))
    later, is_mine = await store.jobs.begin(ANN, new_job(not_before=minutes(5)), minutes(1), 60)
    assert (later.status, is_mine) == (JobStatus.WAITING, False)
    due, is_mine = await store.jobs.begin(ANN, new_job(), minutes(5), 60)
    assert (due.id, due.status, is_mine) == (later.id, JobStatus.RUNNING, True)


async def test_a_job_that_is_asked_for_while_it_runs_is_due_again_when_it_is_done(store: Store) -> None:
    following = replace(new_job(), follows=True)
    job, _ = await store.jobs.begin(ANN, following, minutes(0), 60)
    assert await store.jobs.begin(ANN, following, minutes(0.5), 60) == (job, False)
    assert await store.jobs.finish(job, minutes(0.9))
    assert (await claimed(store, 1)).id == job.id


async def test_what_is_due_longest_comes_first(store: Store) -> None:
    for minute, subject in ((3, "c"), (1, "a"), (2, "b")):
        await store.jobs.enqueue(ANN, new_job(subject=subject, not_before=minutes(minute)), minutes(0))
    assert [(await claimed(store, 9)).subject for _ in range(3)] == ["a", "b", "c"]


async def test_a_lease_that_ended_goes_to_another_and_the_late_worker_is_told(store: Store) -> None:
    await store.jobs.enqueue(ANN, new_job(), minutes(0))
    late = await claimed(store)
    await store.jobs.renew(late, minutes(0.5), 60)
    assert await store.jobs.claim(KINDS, minutes(1.4), 60) is None
    other = await claimed(store, 1.5)
    assert (other.id, other.token, other.attempts) == (late.id, 2, 2)
    said = [
        store.jobs.renew(late, minutes(2), 60),
        store.jobs.finish(late, minutes(2)),
        store.jobs.fail(late, BROKEN, minutes(2), minutes(3)),
    ]
    for verb in said:
        with pytest.raises(LeaseLost, match="conv_1") as caught:
            await verb
        assert caught.value.code == "lease_lost"
    assert await store.jobs.job(ANN, "compact", "conv_1") == other
    await store.jobs.finish(other, minutes(2))
    with pytest.raises(LeaseLost):
        await store.jobs.finish(other, minutes(3))


async def test_a_late_worker_that_nobody_replaced_may_still_finish(store: Store) -> None:
    await store.jobs.enqueue(ANN, new_job(), minutes(0))
    job = await claimed(store)
    await store.jobs.finish(job, minutes(60))
    assert await store.jobs.claim(KINDS, minutes(90), 60) is None


async def test_a_failed_job_is_tried_again_when_it_is_time_or_never(store: Store) -> None:
    await store.jobs.enqueue(ANN, new_job(), minutes(0))
    job = await claimed(store)
    await store.jobs.fail(job, BROKEN, minutes(1), minutes(5))
    with pytest.raises(LeaseLost):
        await store.jobs.renew(job, minutes(1), 60)
    waiting = await store.jobs.job(ANN, "compact", "conv_1")
    assert waiting is not None
    assert (waiting.status, waiting.due_at, waiting.error) == (JobStatus.WAITING, minutes(5), BROKEN)
    assert await store.jobs.claim(KINDS, minutes(4.9), 60) is None
    again = await claimed(store, 5)
    assert (again.attempts, again.token, again.error) == (2, 2, BROKEN)
    await store.jobs.fail(again, BROKEN, minutes(6))
    assert await store.jobs.claim(KINDS, minutes(99), 60) is None
    ended = await store.jobs.job(ANN, "compact", "conv_1")
    assert ended == replace(again, status=JobStatus.FAILED, ended_at=minutes(6))


async def test_two_processes_claim_each_job_once(store: Store, backing: Backing) -> None:
    for number in range(12):
        await store.jobs.enqueue(ANN, new_job(subject=f"conv_{number}"), minutes(0))
    async with await backing.open() as other:
        found = await asyncio.gather(
            *(one.jobs.claim(KINDS, minutes(1), 60) for _ in range(8) for one in (store, other))
        )
    subjects = [job.subject for job in found if job is not None]
    assert sorted(subjects) == sorted(f"conv_{number}" for number in range(12))


async def test_two_processes_queue_the_same_work_once(store: Store, backing: Backing) -> None:
    async with await backing.open() as other:
        made = await asyncio.gather(*(one.jobs.enqueue(ANN, new_job(), minutes(0)) for one in (store, other) * 4))
    assert len({job.id for job in made}) == 1
    assert len(backing.dump()["jobs"]) == 1


async def test_a_compaction_commits_only_under_its_lease(store: Store, backing: Backing) -> None:
    await store.conversations.create_conversation(ANN, conversation())
    await finished_turn(store, new_turn())
    await store.jobs.enqueue(ANN, new_job(), minutes(0))
    late = await claimed(store)
    other = await claimed(store, 2)
    first = (await store.conversations.conversation(ANN, "conv_1")).session_id
    before = backing.dump()
    with pytest.raises(LeaseLost):
        await store.sessions.next_session(ANN, session_step(first, "sess_late", "turn_1", summary="Late."), late)
    assert backing.dump() == before
    await store.sessions.next_session(ANN, session_step(first, "sess_2", "turn_1", summary="In time."), other)
    await store.jobs.finish(other, minutes(3))
    with pytest.raises(SessionMoved):
        await store.sessions.next_session(ANN, session_step(first, "sess_3", "turn_1"), other)


async def test_a_process_that_is_alone_lets_go_of_what_another_one_held(store: Store) -> None:
    """All that runs is due at once, whoever is late learns of it, and what waits for its time goes on waiting."""
    await store.jobs.enqueue(ANN, new_job(), minutes(0))
    await store.jobs.enqueue(ANN, new_job(subject="conv_2", not_before=minutes(5)), minutes(0))
    running = await claimed(store)
    assert await store.jobs.release(minutes(0.5)) == 1
    again = await claimed(store, 0.5)
    assert (again.id, again.attempts) == (running.id, 2)
    with pytest.raises(LeaseLost):
        await store.jobs.finish(running, minutes(0.6))
    assert await store.jobs.claim(KINDS, minutes(0.6), 60) is None
