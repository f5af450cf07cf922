from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from lamella.core.errors import IdempotencyMismatch
from lamella.storage import Store
from lamella.storage.keys import KEYS_LAST

from .examples import ANN, BOB, NOON

pytestmark = pytest.mark.anyio


async def test_a_key_stays_with_its_first_result(store: Store) -> None:
    assert await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_1", NOON) == "turn_1"
    assert await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_2", NOON) == "turn_1"


async def test_of_many_at_once_one_binds_the_key(store: Store) -> None:
    claims = (store.keys.claim_key(ANN, "k", "POST a", "f", f"turn_{number}", NOON) for number in range(10))
    assert len(set(await asyncio.gather(*claims))) == 1


@pytest.mark.parametrize(("route", "fingerprint"), [("POST b", "f"), ("POST a", "g")])
async def test_a_key_for_something_else_is_refused(store: Store, route: str, fingerprint: str) -> None:
    await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_1", NOON)
    with pytest.raises(IdempotencyMismatch):
        await store.keys.claim_key(ANN, "k", route, fingerprint, "turn_2", NOON)


async def test_keys_of_callers_do_not_meet(store: Store) -> None:
    await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_1", NOON)
    assert await store.keys.claim_key(BOB, "k", "POST b", "g", "turn_2", NOON) == "turn_2"
    await store.keys.release_key(BOB, "k")
    assert await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_3", NOON) == "turn_1"


async def test_a_released_key_is_free(store: Store) -> None:
    await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_1", NOON)
    await store.keys.release_key(ANN, "k")
    await store.keys.release_key(ANN, "k")
    assert await store.keys.claim_key(ANN, "k", "POST b", "g", "turn_2", NOON) == "turn_2"


async def test_a_key_is_bound_for_a_day(store: Store) -> None:
    await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_1", NOON)
    assert await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_2", NOON + KEYS_LAST) == "turn_1"
    later = NOON + KEYS_LAST + timedelta(seconds=1)
    assert await store.keys.claim_key(ANN, "k", "POST b", "g", "turn_3", later) == "turn_3"
    assert await store.keys.claim_key(ANN, "k", "POST b", "g", "turn_4", later) == "turn_3"


async def test_expired_keys_are_removed_and_no_others(store: Store) -> None:
    await store.keys.claim_key(ANN, "old", "POST a", "f", "turn_1", NOON)
    await store.keys.claim_key(BOB, "old", "POST a", "f", "turn_2", NOON)
    await store.keys.claim_key(ANN, "new", "POST a", "f", "turn_3", NOON + timedelta(hours=1))
    now = NOON + KEYS_LAST + timedelta(minutes=1)
    assert await store.keys.forget_expired_keys(now) == 2
    assert await store.keys.forget_expired_keys(now) == 0
    assert await store.keys.claim_key(ANN, "new", "POST a", "f", "turn_4", now) == "turn_3"


async def test_a_key_that_came_again_is_not_released_by_the_request_that_bound_it(store: Store) -> None:
    """The other request, at another process, may be about to store what the key is bound to."""
    await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_1", NOON)
    assert await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_2", NOON) == "turn_1"
    await store.keys.release_key(ANN, "k", claimed_at=NOON)
    assert await store.keys.claim_key(ANN, "k", "POST a", "f", "turn_3", NOON) == "turn_1"
    await store.keys.claim_key(ANN, "alone", "POST a", "f", "turn_4", NOON)
    await store.keys.release_key(ANN, "alone", claimed_at=NOON)
    assert await store.keys.claim_key(ANN, "alone", "POST a", "f", "turn_5", NOON) == "turn_5"
