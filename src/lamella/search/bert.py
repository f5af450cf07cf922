"""The forward pass of a small BERT as a sentence encoder, in numpy: token ids in, mean-pooled unit vectors out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

EPSILON = 1e-12
MASKED = np.float32(-1e9)
"""What is added to the attention that padding would get."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. Weights are `[in, out]`; query, key and value stand side by side in `attention`."""

    attention: tuple[Floats, Floats]
    attended: tuple[Floats, Floats]
    attended_norm: tuple[Floats, Floats]
    wide: tuple[Floats, Floats]
    narrow: tuple[Floats, Floats]
    norm: tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class Bert:
    """The weights of a model with `heads` attention heads."""

    words: Floats
    places: Floats
    norm: tuple[Floats, Floats]
    layers: tuple[Layer, ...]
    heads: int

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], heads: int) -> Bert:
        """The model of these tensors, named as the `BertModel` of transformers names them; raises `KeyError`."""

        def pair(name: str) -> tuple[Floats, Floats]:
            weight = tensors[f"{name}.weight"]
            return (weight.T.copy() if weight.ndim == 2 else weight), tensors[f"{name}.bias"]

        def layer(number: int) -> Layer:
            at = f"encoder.layer.{number}"
            parts = [pair(f"{at}.attention.self.{part}") for part in ("query", "key", "value")]
            weights, biases = zip(*parts, strict=True)
            return Layer(
                attention=(np.concatenate(weights, axis=1), np.concatenate(biases)),
                attended=pair(f"{at}.attention.output.dense"),
                attended_norm=pair(f"{at}.attention.output.LayerNorm"),
                wide=pair(f"{at}.intermediate.dense"),
                narrow=pair(f"{at}.output.dense"),
                norm=pair(f"{at}.output.LayerNorm"),
            )

        count = len({name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")})
        return cls(
            words=tensors["embeddings.word_embeddings.weight"],
            places=tensors["embeddings.position_embeddings.weight"]
            + tensors["embeddings.token_type_embeddings.weight"][0],
            norm=pair("embeddings.LayerNorm"),
            layers=tuple(layer(number) for number in range(count)),
            heads=heads,
        )

    def encode(self, texts: Sequence[Sequence[int]]) -> Floats:
        """The vectors of texts, given as token ids: the mean over their tokens, of length 1. `[text, dimension]`."""
        longest = max(map(len, texts))
        ids = np.zeros((len(texts), longest), np.int64)
        there = np.zeros((len(texts), longest), np.float32)
        for row, text in enumerate(texts):
            ids[row, : len(text)], there[row, : len(text)] = text, 1
        state = _normed(self.words[ids] + self.places[:longest], self.norm)
        hidden = ((1 - there) * MASKED)[:, None, None, :]
        for layer in self.layers:
            state = self._through(layer, state, hidden)
        mean = (state * there[:, :, None]).sum(axis=1) / there.sum(axis=1)[:, None]
        made: Floats = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return made

    def _through(self, layer: Layer, state: Floats, hidden: Floats) -> Floats:
        texts, longest, size = state.shape
        each = size // self.heads
        mixed = _linear(state, layer.attention).reshape(texts, longest, 3, self.heads, each)
        query, key, value = mixed.transpose(2, 0, 3, 1, 4)
        weights = query @ key.transpose(0, 1, 3, 2)
        weights *= np.float32(each**-0.5)
        weights += hidden
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        read = (weights @ value).transpose(0, 2, 1, 3).reshape(texts, longest, size)
        state = _normed(_linear(read, layer.attended) + state, layer.attended_norm)
        wide = _gelu(_linear(state, layer.wide))
        return _normed(_linear(wide, layer.narrow) + state, layer.norm)


def _linear(state: Floats, weights: tuple[Floats, Floats]) -> Floats:
    rows = state.reshape(-1, state.shape[-1]) @ weights[0]
    rows += weights[1]
    return rows.reshape(*state.shape[:-1], -1)


def _normed(state: Floats, weights: tuple[Floats, Floats]) -> Floats:
    state = state - state.mean(axis=-1, keepdims=True)
    state /= np.sqrt(np.square(state).mean(axis=-1, keepdims=True) + np.float32(EPSILON))
    made: Floats = state * weights[0] + weights[1]
    return made


def _gelu(values: Floats) -> Floats:
    """`x Φ(x)`, with the error function as in Abramowitz and Stegun 7.1.26: wrong by 1.5e-7 at most."""
    at = np.abs(values) * np.float32(0.5**0.5)
    step = 1 / (1 + np.float32(0.3275911) * at)
    series = step * (
        np.float32(0.254829592)
        + step
        * (
            np.float32(-0.284496736)
            + step * (np.float32(1.421413741) + step * (np.float32(-1.453152027) + step * np.float32(1.061405429)))
        )
    )
    error = 1 - series * np.exp(-at * at)
    made: Floats = values * np.float32(0.5) * (1 + np.copysign(error, values))
    return made
