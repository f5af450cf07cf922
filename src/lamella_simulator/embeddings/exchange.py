"""One embeddings request, from its body to a decided answer."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import msgspec

from lamella_simulator.access import Call, cut_of, pace_of
from lamella_simulator.blocks import Json, digest
from lamella_simulator.cache.ledger import Outcome
from lamella_simulator.embeddings.vectors import vector
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.models import Model, find
from lamella_simulator.openai.request import worded
from lamella_simulator.replies import Draft
from lamella_simulator.scripting import unspoken
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer, Unstreamed

MOST_TEXTS = 2_048
MOST_TOKENS = 300_000
"""Of one request."""


class EmbeddingsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /v1/embeddings; a parameter the simulator does not know is a 400."""

    model: str
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

    def whole(self) -> Json:
        rows = [
            {"object": "embedding", "index": index, "embedding": packed(values) if self.base64 else values}
            for index, values in enumerate(self.vectors)
        ]
        usage = {"prompt_tokens": self.tokens, "total_tokens": self.tokens}
        return {"object": "list", "data": rows, "model": self.model, "usage": usage}


def packed(values: Sequence[float]) -> str:
    """Little-endian 32-bit floats in base64, as the vendor sends them."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def parse(body: bytes) -> EmbeddingsRequest:
    """The request of a body. Raises 400 in the words of the vendor's validator."""
    try:
        return msgspec.json.decode(body, type=EmbeddingsRequest)
    except msgspec.ValidationError as error:
        raise worded(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"We could not parse the JSON body of your request: {error}") from error


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


def answer(call: Call, simulator: Simulator) -> Answer[EmbeddingsEncoder]:
    """Decides the whole answer and enters it in the log."""
    request = parse(call.body)
    model = known_model(request.model)
    dimensions = model.dimensions if request.dimensions is None else request.dimensions
    if not 1 <= dimensions <= model.dimensions:
        raise invalid(f"Invalid value for 'dimensions' = {dimensions}. Must be between 1 and {model.dimensions}.")
    texts = texts_of(request)
    tokens = sum(sizes_of(request, texts, model, simulator))
    asked = unspoken(call, simulator)
    simulator.spend(call.account, call.now, tokens)
    vectors = tuple(vector(text, model.dimensions, dimensions) for text in texts)
    encoder = EmbeddingsEncoder(request.model, vectors, request.encoding_format == "base64", tokens)
    call.record.model, call.record.usage = model.id, {"prompt_tokens": tokens, "total_tokens": tokens}
    call.record.cost = simulator.cost(model, Outcome(tokens), 0)
    call.record.bill(Outcome(tokens), 0)
    draft = Draft((), "end_turn", 0)
    pace = pace_of(asked.reply, asked.fault, call, simulator)
    return Answer(draft, encoder, pace, 1, cut_of(asked.fault), asked.fault, streams=False)
