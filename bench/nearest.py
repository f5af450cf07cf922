"""How well and how fast the nearest of very many vectors are found: by all of them, by their sketches, by pgvector.

    python bench/nearest.py [--vectors 1000000] [--queries 200] [--hnsw] [--m 16] [--ef 64]

The vectors are made up, clustered like embeddings of texts: 5,000 topics and the passages of each are drawn with a
variance that falls as 1 / (8 + i) from one direction to the next, and a passage is as far from its topic as topics are
from each other (weight 0.7). Queries are passages that are not stored. One vector in ten is on a shelf of its own, for
searches with a filter. By sketches: as a search does that, with the exact vectors of the nearest from PostgreSQL, which
runs on this machine, in a folder that is removed. `--hnsw`: pgvector's index of the same vectors too.
"""

from __future__ import annotations

import argparse
import statistics
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from lamella.search.vectors import Sketches, estimated, sketches
from lamella.storage.scopes import NEAREST
from postgres import running
from tables import show

DIMENSION, TOPICS, AT_ONCE = 384, 5_000, 20_000
Vectors = NDArray[np.float32]


class Embeddings:
    """Made-up vectors of length 1."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)
        spread = 1 / np.sqrt(8 + np.arange(DIMENSION))
        self._turn = np.linalg.qr(self._random.standard_normal((DIMENSION, DIMENSION)))[0]
        self._spread = spread
        self._topics = self._drawn(TOPICS)

    def _drawn(self, count: int) -> Vectors:
        made: Vectors = (self._random.standard_normal((count, DIMENSION)) * self._spread) @ self._turn
        return made

    def some(self, count: int) -> Vectors:
        made = self._topics[self._random.integers(0, TOPICS, count)] + 0.7 * self._drawn(count)
        found: Vectors = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)
        return found


def rows(first: int, vectors: Vectors) -> Iterator[bytes]:
    """Rows of COPY in its binary form: number, shelf and halfvec."""
    for number, vector in enumerate(vectors, first):
        data = struct.pack(">hh", DIMENSION, 0) + vector.astype(">f2").tobytes()
        yield struct.pack(">hiqiii", 3, 8, number, 4, number % 10 == 0, len(data)) + data


def nearest(queries: Vectors, stored: Vectors, first: int, step: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The ten best of some vectors, every `step`-th of them, for each query."""
    similar = queries @ stored.T
    numbers = np.arange(first, first + len(stored))
    similar[:, numbers % step != 0] = -2
    best = np.argpartition(-similar, 10, axis=1)[:, :10]
    return np.take_along_axis(similar, best, axis=1), numbers[best]


Truth = dict[int, list[set[int]]]


def fill(connection: psycopg.Connection, count: int, queries: Vectors, made: Embeddings) -> tuple[Truth, Sketches]:
    """Store the vectors; gives the ten nearest of all (1) and of those of the small shelf (10), and the sketches."""
    found: dict[int, list[tuple[NDArray[np.float32], NDArray[np.int64]]]] = {1: [], 10: []}
    connection.execute("CREATE TABLE nearest (id BIGINT, shelf INT, vector HALFVEC(384))")
    connection.execute("CREATE TABLE plain (id BIGINT PRIMARY KEY, vector BYTEA)")
    short, spent = [], 0.0
    for first in range(0, count, AT_ONCE):
        vectors = made.some(min(AT_ONCE, count - first))
        for step, parts in found.items():
            parts.append(nearest(queries, vectors, first, step))
        begin = time.perf_counter()
        short.append(sketches(vectors))
        spent += time.perf_counter() - begin
        with connection.cursor() as cursor, cursor.copy("COPY nearest FROM STDIN (FORMAT binary)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"".join(rows(first, vectors)) + struct.pack(">h", -1))
        with connection.cursor() as cursor, cursor.copy("COPY plain FROM STDIN") as copy:
            for number, vector in enumerate(vectors.astype("<f2"), first):
                copy.write_row((number, vector.tobytes()))
    truth = {}
    for step, parts in found.items():
        scores, numbers = (np.concatenate([part[at] for part in parts], axis=1) for at in (0, 1))
        best = np.argsort(-scores, axis=1)[:, :10]
        truth[step] = [set(row.tolist()) for row in np.take_along_axis(numbers, best, axis=1)]
    made_of = np.concatenate(short)
    print(f"sketches made in {spent:.1f} s, {made_of.nbytes / 1e6:.0f} MB", flush=True)
    return truth, made_of


def asked(connection: psycopg.Connection, queries: Vectors, where: str = "") -> tuple[list[set[int]], list[float]]:
    """What each query finds, and its milliseconds."""
    found, took = [], []
    for query in queries:
        text = f"[{','.join(f'{x:.5f}' for x in query)}]"
        begin = time.perf_counter()
        sql = f"SELECT id FROM nearest {where} ORDER BY vector <=> %s::halfvec LIMIT 10"
        found.append({row[0] for row in connection.execute(sql, (text,))})
        took.append((time.perf_counter() - begin) * 1000)
    return found, took


def by_sketches(
    connection: psycopg.Connection, queries: Vectors, rows: Sketches, step: int = 1
) -> tuple[list[set[int]], list[float]]:
    """What each query finds, and its milliseconds: all sketches, then the vectors of the nearest."""
    found, took = [], []
    for query in queries:
        begin = time.perf_counter()
        similar = estimated(rows[::step], query)
        near = np.argpartition(-similar, NEAREST)[:NEAREST] * step
        read = connection.execute("SELECT id, vector FROM plain WHERE id = ANY(%s)", (near.tolist(),)).fetchall()
        vectors = np.frombuffer(b"".join(data for _, data in read), "<f2").reshape(-1, DIMENSION).astype(np.float32)
        best = np.argsort(-(vectors @ query))[:10]
        found.append({int(read[at][0]) for at in best})
        took.append((time.perf_counter() - begin) * 1000)
    return found, took


def line(name: str, found: tuple[list[set[int]], list[float]], truth: list[set[int]]) -> list[str]:
    ids, took = found
    share = statistics.mean(len(one & right) / 10 for one, right in zip(ids, truth, strict=False))
    p50, p99 = statistics.median(took), sorted(took)[int(len(took) * 0.99)]
    return [name, f"{share:.3f}", f"{p50:.1f} ms", f"{p99:.1f} ms"]


def by_hnsw(db: psycopg.Connection, queries: Vectors, truth: Truth, m: int, ef: int) -> list[list[str]]:
    """Rows of the table for pgvector's index."""
    begin = time.perf_counter()
    db.execute("SET maintenance_work_mem = '3GB'; SET max_parallel_maintenance_workers = 1")
    db.execute(
        f"CREATE INDEX near ON nearest USING hnsw (vector halfvec_cosine_ops) WITH (m = {m}, ef_construction = {ef})"
    )
    sizes = db.execute("SELECT pg_relation_size('nearest') / 1e6, pg_relation_size('near') / 1e6").fetchone()
    print(f"index built in {time.perf_counter() - begin:.0f} s; table, index: {sizes} MB", flush=True)
    asked(db, queries[:50])
    table = []
    for ef_search in (40, 100, 200, 400):
        db.execute(f"SET hnsw.ef_search = {ef_search}")
        table.append(line(f"HNSW, ef_search {ef_search}", asked(db, queries), truth[1]))
    for how in ("off", "relaxed_order", "strict_order"):
        db.execute(f"SET hnsw.ef_search = 200; SET hnsw.iterative_scan = {how}")
        table.append(line(f"HNSW, a tenth, iterative_scan {how}", asked(db, queries, "WHERE shelf = 1"), truth[10]))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--hnsw", action="store_true")
    parser.add_argument("--m", type=int, default=16)
    parser.add_argument("--ef", type=int, default=64)
    given = parser.parse_args()
    made = Embeddings()
    queries = made.some(given.queries)
    with running() as server, psycopg.connect(server.url("postgres").replace("+psycopg", ""), autocommit=True) as db:
        db.execute("CREATE EXTENSION IF NOT EXISTS vector")
        truth, short = fill(db, given.vectors, queries, made)
        table = [["search", "recall@10", "p50", "p99"]]
        table.append(line("exact, in the database", asked(db, queries[:5]), truth[1]))
        by_sketches(db, queries[:5], short)
        table.append(line("sketches", by_sketches(db, queries, short), truth[1]))
        table.append(line("sketches, a tenth", by_sketches(db, queries, short, 10), truth[10]))
        if given.hnsw:
            table += by_hnsw(db, queries, truth, given.m, given.ef)
        show(table)


if __name__ == "__main__":
    main()
