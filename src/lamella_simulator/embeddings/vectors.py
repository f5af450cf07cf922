"""Vectors without a model: every word and every run of three letters turns a few places, the same in every process.

Texts that share words are near each other, and nothing is known of meaning. A feature turns places in the first 64
dimensions, in the first 128 and so on, so that a vector that is cut, as `dimensions` asks, still tells texts apart.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator

from lamella_simulator.answerer.words import words

FIRST = 64
LETTERS = 3
WEIGHT_OF_LETTERS = 0.35


def vector(text: str, whole: int, dimensions: int) -> list[float]:
    """A unit vector: made with `whole` dimensions, of which the first `dimensions` are kept."""
    places = [0.0] * whole
    for feature, weight in weights(text).items():
        for place, sign in turns(feature, whole):
            places[place] += sign * weight
    kept = places[:dimensions]
    length = math.sqrt(sum(value * value for value in kept))
    return [value / length for value in kept] if length else [1.0, *([0.0] * (dimensions - 1))]


def weights(text: str) -> dict[str, float]:
    """Words and runs of letters; a word that comes often weighs little more than one that comes once."""
    found = Counter(words(text))
    made = {f"w {word}": 1.0 + math.log(times) for word, times in found.items()}
    for word, times in found.items():
        framed = f"<{word}>"
        for start in range(len(framed) - LETTERS + 1):
            run = f"r {framed[start : start + LETTERS]}"
            made[run] = made.get(run, 0.0) + WEIGHT_OF_LETTERS * min(times, 3)
    return made or {f"c {text.strip()}": 1.0}


def turns(feature: str, whole: int) -> Iterator[tuple[int, float]]:
    """The places that a feature turns, and which way."""
    drawn = hashlib.blake2b(feature.encode(), digest_size=48).digest()
    reach, taken = min(FIRST, whole), 0
    while True:
        number = int.from_bytes(drawn[taken : taken + 4], "big")
        yield number // 2 % reach, 1.0 if number % 2 else -1.0
        if reach == whole or taken + 8 > len(drawn):
            return
        reach, taken = min(reach * 2, whole), taken + 4
