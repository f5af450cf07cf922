"""An `ExecutionRequest` as a request of OpenAI's Responses API, and back, with nothing lost.

The message is `input`, the first model `model`, the conversation `conversation`. All other fields are one JSON object,
cut into values of at most 512 characters under the keys `lamella.0`, `lamella.1` … of `metadata`, next to the caller's
own pairs: the API takes 16 pairs with keys of at most 64 characters. An object that does not fit is the field `lamella`
of the body, and the pair `lamella.body` says that it is there: a body whose field was dropped on the way is refused.
Nothing is shortened.

https://platform.openai.com/docs/api-reference/responses/create (metadata, input, conversation)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from lamella.chat.message import ExecutionRequest
from lamella.core.errors import InvalidRequest
from lamella.core.json import Json, JsonObject, decode_object, encode_text

PAIRS, KEY_LENGTH, VALUE_LENGTH = 16, 64, 512
"""What the API takes as metadata: pairs, and characters."""

PREFIX, BESIDE = "lamella.", "lamella"
IN_BODY = f"{PREFIX}body"
"""The pair that says that our object is the field `BESIDE` of the body."""

_PIECE = re.compile(r"lamella\.(0|[1-9][0-9]*)", re.ASCII)

NATIVE = frozenset({"input", "model", "conversation", "metadata", BESIDE})
"""Fields of the body that an `ExecutionRequest` has fields of its own for."""

_APART = frozenset({"text", "conversation_id", "file_ids", "models", "metadata", "extra_fields", "body_fields"})
OWN = {one.name: one for one in fields(ExecutionRequest) if one.name not in _APART}
"""Fields of an `ExecutionRequest` that travel in the metadata."""

_TUPLES = frozenset({"knowledge_base_ids", "dynamic_context"})
_NULLABLE = frozenset(OWN) - _TUPLES - {"timezone"}


def to_openai(request: ExecutionRequest) -> dict[str, Json]:
    """The body of a Responses request; `from_openai` makes the same request of it.

    Raises `InvalidRequest` for what the API's metadata can't hold, and for names that are taken.
    """
    body: dict[str, Json] = {"input": _input(request)}
    if request.models:
        body["model"] = request.models[0]
    if request.conversation_id is not None:
        body["conversation"] = request.conversation_id
    if taken := sorted(NATIVE & set(request.body_fields)):
        raise InvalidRequest(
            f"“{taken[0]}” is written from the request's own fields.",
            hint="Set those.",
            param=f"body_fields.{taken[0]}",
        )
    own = _own(request)
    metadata, fits = _metadata(request, own)
    if metadata:
        body["metadata"] = metadata
    if not fits:
        body[BESIDE] = own
    return body | dict(request.body_fields)


def from_openai(body: JsonObject) -> ExecutionRequest:
    """The request of a body. Raises `InvalidRequest` for a body that is not one message, with its place."""
    given, own = _split(body.get("metadata"), body.get(BESIDE))
    extra = {name: value for name, value in own.items() if name not in OWN and name != "models"}
    text, file_ids = _message(body.get("input"))
    return ExecutionRequest(
        text=text,
        file_ids=file_ids,
        models=_models(body.get("model"), own.get("models")),
        conversation_id=_conversation(body.get("conversation")),
        metadata=given,
        extra_fields=extra,
        body_fields={name: value for name, value in body.items() if name not in NATIVE},
        **{name: _own_value(name, value) for name, value in own.items() if name in OWN},
    )


def _input(request: ExecutionRequest) -> Json:
    if not request.file_ids:
        return request.text
    content: list[Json] = [{"type": "input_file", "file_id": file_id} for file_id in request.file_ids]
    return [{"type": "message", "role": "user", "content": [*content, {"type": "input_text", "text": request.text}]}]


def _metadata(request: ExecutionRequest, own: Mapping[str, Json]) -> tuple[dict[str, Json], bool]:
    """The caller's pairs with what travels of our own, and whether all of that is in them."""
    for key, value in request.metadata.items():
        if _is_ours(key):
            raise InvalidRequest(f"The key “{key}” is used by Lamella.", hint="Take another.", param="metadata")
        if len(key) > KEY_LENGTH or len(value) > VALUE_LENGTH:
            raise InvalidRequest(
                f"The metadata “{key[:KEY_LENGTH]}” is too long: a key may have {KEY_LENGTH} characters, a value "
                f"{VALUE_LENGTH}.",
                hint="Shorten it.",
                param="metadata",
            )
    text = encode_text(own) if own else ""
    pieces = [text[start : start + VALUE_LENGTH] for start in range(0, len(text), VALUE_LENGTH)]
    free = PAIRS - len(request.metadata)
    if len(pieces) <= free:
        return {**request.metadata, **{f"{PREFIX}{number}": piece for number, piece in enumerate(pieces)}}, True
    if free < 1:
        raise InvalidRequest(
            f"The caller's metadata has {len(request.metadata)} pairs; the API takes {PAIRS}, and the request's own "
            "fields need one.",
            hint=f"Send {PAIRS - 1} pairs at most; in process there is no such limit.",
            param="metadata",
        )
    return {**request.metadata, IN_BODY: "1"}, False


def _is_ours(key: str) -> bool:
    return key == IN_BODY or _PIECE.fullmatch(key) is not None


def _own(request: ExecutionRequest) -> dict[str, Json]:
    """What travels: fields that are not as by default, and those that nobody here knows."""
    if known := sorted(set(request.extra_fields) & (set(OWN) | {"models"})):
        raise InvalidRequest(f"“{known[0]}” is a field of its own.", hint="Set that.", param=f"extra_fields.{known[0]}")
    values = {name: getattr(request, name) for name, one in OWN.items() if getattr(request, name) != one.default}
    # `models` travels where `model` alone does not say it.
    rest: dict[str, Json] = {"models": list(request.models)} if len(request.models) > 1 else {}
    return {**rest, **{name: list(v) if name in _TUPLES else v for name, v in values.items()}, **request.extra_fields}


def _split(metadata: Json, beside: Json) -> tuple[dict[str, str], Mapping[str, Json]]:
    """The caller's pairs, and our object: the field `BESIDE` of the body, or what our pieces make."""
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, Mapping) or not all(isinstance(value, str) for value in metadata.values()):
        raise InvalidRequest("Metadata is an object of texts.", hint="Send texts alone.", param="metadata")
    pairs = {key: str(value) for key, value in metadata.items()}
    pieces = {int(found[1]): pairs[key] for key in pairs if (found := _PIECE.fullmatch(key))}
    given = {key: value for key, value in pairs.items() if not _is_ours(key)}
    if beside is not None or IN_BODY in pairs:
        return given, _beside(beside, has_pieces=bool(pieces))
    if not pieces:
        return given, {}
    missing = next((number for number in range(len(pieces)) if number not in pieces), None)
    if missing is not None:
        raise InvalidRequest(
            f"The metadata has no {PREFIX}{missing}, but later pieces.",
            hint="Send all pieces as they were made.",
            param=f"metadata.{PREFIX}{missing}",
        )
    try:
        return given, decode_object("".join(pieces[number] for number in range(len(pieces))))
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidRequest(
            f"The pieces {PREFIX}0 to {PREFIX}{len(pieces) - 1} of the metadata make no JSON object: {error}.",
            hint="Send all pieces as they were made.",
            param=f"metadata.{PREFIX}0",
        ) from None


def _beside(value: Json, *, has_pieces: bool) -> Mapping[str, Json]:
    """Our object as a field of the body."""
    if value is None:
        raise InvalidRequest(
            f"The field “{BESIDE}” is missing, though the metadata says that it was sent: it was dropped on the way.",
            hint=f"Send the request to this server directly, or less in it: {PAIRS * VALUE_LENGTH} characters fit into "
            "the metadata.",
            param=BESIDE,
        )
    if not isinstance(value, Mapping) or has_pieces:
        raise InvalidRequest(
            f"“{BESIDE}” is one JSON object and replaces the pieces in the metadata.",
            hint="Send one of them.",
            param=BESIDE,
        )
    return value


def _own_value(name: str, value: Json) -> Any:
    """A field as an `ExecutionRequest` has it; raises `InvalidRequest` for another type."""
    if name in _TUPLES:
        return () if value is None else _texts(value, f"metadata.{PREFIX}0.{name}")
    if isinstance(value, str) or (value is None and name in _NULLABLE):
        return value
    raise InvalidRequest(f"“{name}” is a text.", hint="Send a text.", param=f"metadata.{PREFIX}0.{name}")


def _texts(value: Json, where: str) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise InvalidRequest("This is no list of texts.", hint="Send a list of texts.", param=where)


def _models(model: Json, several: Json) -> tuple[str, ...]:
    if several is not None:
        return _texts(several, f"metadata.{PREFIX}0.models")
    if model is None:
        return ()
    if not isinstance(model, str):
        raise InvalidRequest("The model is named by a text.", hint="Send its name.", param="model")
    return (model,)


def _conversation(value: Json) -> str | None:
    """A conversation, by its id or as the object with an id that the API takes too."""
    found = value.get("id") if isinstance(value, Mapping) and set(value) == {"id"} else value
    if found is None or isinstance(found, str):
        return found
    raise InvalidRequest("The conversation is named by its id.", hint="Send its id.", param="conversation")


def _message(value: Json) -> tuple[str, tuple[str, ...]]:
    """Text and files of the one user message of an input."""
    if isinstance(value, str):
        return value, ()
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], Mapping):
        raise InvalidRequest(
            "The input is not one message of the user.",
            hint="Send only the newest message; conversation or previous_response_id names the history.",
            param="input",
        )
    [item] = value
    is_message = item.get("role") == "user" and item.get("type", "message") == "message"
    if not is_message or set(item) - {"role", "type", "content"}:
        raise InvalidRequest("The input is no message of the user.", hint="Send one of role user.", param="input.0")
    content = item.get("content")
    if isinstance(content, str):
        return content, ()
    return _parts(content)


def _parts(content: Json) -> tuple[str, tuple[str, ...]]:
    texts: list[str] = []
    files: list[str] = []
    for number, part in enumerate(content if isinstance(content, list) else [None]):
        match part:
            case {"type": "input_text", "text": str(text), **more} if not more:
                texts.append(text)
            case {"type": "input_file" | "input_image", "file_id": str(file_id), **more} if not set(more) - {"detail"}:
                files.append(file_id)
            case _:
                raise InvalidRequest(
                    "A message holds texts, and files by their file_id.",
                    hint="Upload a file to /api/v1/files and name its id.",
                    param=f"input.0.content.{number}",
                )
    return "\n\n".join(texts), tuple(files)
