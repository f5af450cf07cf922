"""What a short turn asks of PostgreSQL: so many round trips, by a count of the waits for its answers."""

from __future__ import annotations

from postgres import PostgresServer
from round_trips import measured
from valkey_server import Valkey

MOST = 24
"""Round trips of a turn with all that follows it, among several replicas."""


def test_a_turn_takes_few_round_trips(postgres: PostgresServer, valkey: Valkey) -> None:
    found = measured(3, (postgres, valkey))
    trips = sum(trips for trips, _ in found.values())
    # A turn of more than a quarter of a second stores its packets in between, and a job may be looked for twice.
    assert trips <= MOST + 4, found
    assert trips > 5, "nothing is counted"
    assert found["TurnRows.finish_turn"] == (2.0, 1.0)
    assert found["SnapshotRows.snapshots"] == (1.0, 1.0)
    assert found["SqlCacheEntries.keep"][0] <= 1.5
