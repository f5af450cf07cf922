"""Stored vectors: a byte for each number, deflated where that is shorter; those of before are read too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lamella.search.lexical import LexicalEmbedder
from lamella.search.vectors import estimated, matrix_of, packed, sketches, stored, unpacked

numbers = st.lists(st.floats(-1, 1, width=16), min_size=8, max_size=8)


@given(st.lists(numbers, min_size=1, max_size=5))
def test_what_is_read_points_where_it_was_written_to(vectors: list[list[float]]) -> None:
    made = [packed(vector) for vector in vectors]
    found = matrix_of([stored(data) for data in made], 8)
    for data, row in zip(made, found, strict=True):
        wide = unpacked(data)
        if not np.linalg.norm(wide):
            assert not row.any()
            continue
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)
        assert row @ wide / np.linalg.norm(wide) > 0.999


def test_a_short_text_takes_a_sixth_of_what_it_took() -> None:
    [data] = LexicalEmbedder().vectors(["The ferry to the island leaves from pier nine at noon, every day but Sunday."])
    assert len(data) == 768
    assert len(stored(data)) < 128
    assert matrix_of([stored(data)], 384)[0] @ unpacked(data) == pytest.approx(1, abs=1e-3)


def test_a_dense_vector_takes_half() -> None:
    data = packed(np.random.default_rng(1).normal(size=384).astype(np.float32))
    assert len(stored(data)) == 384
    assert matrix_of([stored(data)], 384)[0] @ unpacked(data) > 0.9999


def test_vectors_of_before_are_read_and_others_are_nothing() -> None:
    data = packed([0.0, 3.0, 4.0, 0.0])
    found = matrix_of([data, stored(data), None, b"?", b"12345"], 4)
    assert found[0] == pytest.approx([0, 0.6, 0.8, 0], abs=1e-3)
    assert found[1] == pytest.approx([0, 0.6, 0.8, 0], abs=1e-2)
    assert not found[2:].any()


def clustered(count: int, seed: int) -> NDArray[np.float32]:
    """Vectors about topics, as embeddings of texts are."""
    random = np.random.default_rng(seed)
    spread = 1 / np.sqrt(8 + np.arange(384))
    topics = np.random.default_rng(0).normal(size=(count // 100 + 1, 384)) * spread
    made = topics[random.integers(0, len(topics), count)] + 0.7 * random.normal(size=(count, 384)) * spread
    rows: NDArray[np.float32] = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    return rows


def test_sketches_tell_which_vectors_are_near() -> None:
    stored, found = clustered(20_000, 1), 0
    rows = sketches(stored)
    for query in clustered(20, 2):
        near, about = stored @ query, estimated(rows, query)
        assert np.abs(about - near).std() < 0.05
        found += len(set(np.argsort(-near)[:10]) & set(np.argsort(-about)[:200]))
    assert found >= 0.95 * 200


def test_nothing_is_known_of_a_vector_of_zeros() -> None:
    rows = sketches(np.vstack([np.zeros((1, 384), np.float32), clustered(3, 1)]))
    assert estimated(rows, clustered(1, 2)[0]).astype(bool).tolist() == [False, True, True, True]
    assert not estimated(rows[:1], clustered(1, 2)[0]).any()
    assert not estimated(rows, np.zeros(384, np.float32)).any()
