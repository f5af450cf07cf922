"""Embeddings without a model: the exchange, and vectors that are the same in every process.

Every word and every run of three letters turns a few places of the vector. Texts that share words are near each other;
nothing is known of meaning. A feature turns places in the first 64 dimensions, in the first 128 and so on, so that a
vector that is cut, as `dimensions` asks, still tells texts apart.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from lamella_simulator.access import raise_early
from lamella_simulator.answerer.conversation import Conversation
from lamella_simulator.answerer.words import words
from lamella_simulator.blocks import Json, Prefix, Salts, build_prefix, digest
from lamella_simulator.cache.ledger import Ledger, Outcome
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.exchange import Decided, Exchange, Pass
from lamella_simulator.models import Model, find
from lamella_simulator.openai.request import parse
from lamella_simulator.replies import Draft, Limits, Reply
from lamella_simulator.request import ModelRequest
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Unstreamed

MOST_TEXTS = 2_048
MOST_TOKENS = 300_000
"""Of one request."""


class EmbeddingsRequest(ModelRequest, kw_only=True):
    """Body of POST /v1/embeddings."""

    input: str | list[Any]
    """A text, texts, the tokens of a text, or those of several."""
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] = "float"
    user: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingsEncoder(Unstreamed):
    model: str
    vectors: tuple[list[float], ...]
    base64: bool
    tokens: int

    @property
    def usage(self) -> Json:
        return {"prompt_tokens": self.tokens, "total_tokens": self.tokens}

    def whole(self) -> Json:
        rows = [
            {"object": "embedding", "index": index, "embedding": packed(values) if self.base64 else values}
            for index, values in enumerate(self.vectors)
        ]
        return {"object": "list", "data": rows, "model": self.model, "usage": self.usage}


def packed(values: Sequence[float]) -> str:
    """Little-endian 32-bit floats in base64, as the vendor sends them."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def known_model(name: str) -> Model:
    model = find(name, "embeddings")
    if model is None:
        message = f"The model `{name}` does not exist or you do not have access to it."
        raise ProviderError(404, message, code="model_not_found")
    return model


def texts_of(request: EmbeddingsRequest) -> list[str]:
    """The texts to embed; one that came as tokens is written with their numbers. Raises 400."""
    given = request.input if isinstance(request.input, list) else [request.input]
    if not given:
        raise invalid("Invalid 'input': empty array. Expected an array with minimum length 1.")
    if all(isinstance(item, int) for item in given):
        given = [given]
    if len(given) > MOST_TEXTS:
        raise invalid(f"Invalid 'input': array too long. Expected at most {MOST_TEXTS} items, but got {len(given)}.")
    return [text_of(index, item) for index, item in enumerate(given)]


def text_of(index: int, item: Any) -> str:
    if isinstance(item, str) and item:
        return item
    if isinstance(item, list) and item and all(isinstance(token, int) for token in item):
        return " ".join(f"token{token}" for token in item)
    raise invalid(f"Invalid 'input[{index}]': expected a text or an array of tokens that is not empty.")


def sizes_of(request: EmbeddingsRequest, texts: Sequence[str], model: Model, simulator: Simulator) -> list[int]:
    """Tokens of each text. Raises 400 for one that is too long, and for too many at once."""
    given = request.input
    as_tokens = isinstance(given, list) and not isinstance(given[0], str)
    if as_tokens:
        sizes = [len(text.split(" ")) for text in texts]
    else:
        sizes = [simulator.counter.count(digest(text.encode()), partial(str, text)) for text in texts]
    for index, size in enumerate(sizes):
        if size > model.window:
            raise invalid(
                f"This model's maximum context length is {model.window} tokens, however input[{index}] has {size} "
                "tokens. Please reduce it."
            )
    if sum(sizes) > MOST_TOKENS:
        raise invalid(f"Requested {sum(sizes)} tokens, max {MOST_TOKENS} tokens per request")
    return sizes


class EmbeddingsExchange(Exchange[EmbeddingsRequest]):
    """POST /v1/embeddings: nothing is cached, and nothing is said."""

    texts: list[str]
    tokens: int
    dimensions: int

    def parse(self, body: bytes) -> EmbeddingsRequest:
        return parse(body, EmbeddingsRequest)

    def find_model(self) -> Model:
        return known_model(self.request.model)

    def check(self) -> None:
        most = self.model.dimensions
        self.dimensions = most if self.request.dimensions is None else self.request.dimensions
        if not 1 <= self.dimensions <= most:
            raise invalid(f"Invalid value for 'dimensions' = {self.dimensions}. Must be between 1 and {most}.")
        self.texts = texts_of(self.request)
        self.tokens = sum(sizes_of(self.request, self.texts, self.model, self.simulator))

    def prompt(self) -> Prefix:
        return build_prefix(Salts(""), ())

    def too_long(self) -> ProviderError:
        raise TypeError("an embedding has no prompt")

    def conversation(self) -> Conversation:
        raise TypeError("nothing is said in an embedding")

    def account(self, prefix: Prefix, ledger: Ledger) -> Outcome:
        return Outcome(self.tokens)

    def limits(self) -> Limits:
        raise TypeError("nothing is said in an embedding")

    def find_reply(self) -> None:
        """The fault, and the delays of a reply that the request names."""
        script = self.simulator.scripted(self.call.reply_id)
        self.fault = self.simulator.fault(self.call.reply_id, script)
        raise_early(self.fault)
        self.reply = script or Reply()

    def decide(self) -> Decided:
        self.simulator.spend(self.call.account, self.call.now, self.tokens)
        return Decided(Draft((), "end_turn", 0), (Pass(Outcome(self.tokens), 0),))

    def encoder(self, decided: Decided) -> EmbeddingsEncoder:
        vectors = tuple(vector(text, self.model.dimensions, self.dimensions) for text in self.texts)
        return EmbeddingsEncoder(self.request.model, vectors, self.request.encoding_format == "base64", self.tokens)


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
