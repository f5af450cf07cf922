"""An `ExecutionRequest` as a request of OpenAI's Responses API, and back, with nothing lost.

The message and the results of calls are `input`, the caller's tools `tools`, the first model `model`, the conversation
`conversation`; how to answer is in fields of the API's, and `instructions` become dynamic context. All other fields are
one JSON object, cut into values of at most 512 characters under the keys `lamella.0`, `lamella.1` … of `metadata`, next
to the caller's own pairs: the API takes 16 pairs with keys of at most 64 characters. An object that does not fit is the
field `lamella` of the body, and the pair `lamella.body` says that it is there: a body whose field was dropped on the
way is refused. Nothing is shortened.

https://platform.openai.com/docs/api-reference/responses/create (metadata, input, conversation)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from lamella.chat.message import ExecutionRequest, own_tool
from lamella.core.errors import InvalidRequest
from lamella.core.json import Json, JsonObject, decode_object, encode_text
from lamella.core.messages import ToolSpec
from lamella.core.records import AnswerChoices
from lamella.server.routes.openai_items import input_of, read_input

PAIRS, KEY_LENGTH, VALUE_LENGTH = 16, 64, 512
"""What the API takes as metadata: pairs, and characters."""

PREFIX, BESIDE = "lamella.", "lamella"
IN_BODY = f"{PREFIX}body"
"""The pair that says that our object is the field `BESIDE` of the body."""

MOST_STOPS = 16
"""Stop sequences of a request. The API itself has no such field."""

_PIECE = re.compile(r"lamella\.(0|[1-9][0-9]*)", re.ASCII)

_ANSWER = frozenset(
    {"tool_choice", "parallel_tool_calls", "max_output_tokens", "temperature", "top_p", "text", "max_tool_calls"}
    | {"stop"}
)
NATIVE = frozenset({"input", "instructions", "model", "conversation", "metadata", "tools", BESIDE}) | _ANSWER
"""Fields of the body that an `ExecutionRequest` has fields of its own for."""

_APART = frozenset(
    {"text", "conversation_id", "file_ids", "models", "metadata", "tools", "results", "answer"}
    | {"extra_fields", "body_fields"}
)
OWN = {one.name: one for one in fields(ExecutionRequest) if one.name not in _APART}
"""Fields of an `ExecutionRequest` that travel in the metadata."""

_TUPLES = frozenset({"knowledge_base_ids", "dynamic_context"})
_NULLABLE = frozenset(OWN) - _TUPLES - {"timezone"}


def to_openai(request: ExecutionRequest) -> dict[str, Json]:
    """The body of a Responses request; `from_openai` makes the same request of it.

    Raises `InvalidRequest` for what the API's metadata can't hold, and for names that are taken.
    """
    body: dict[str, Json] = {"input": input_of(request.text, request.file_ids, request.results)}
    if request.models:
        body["model"] = request.models[0]
    if request.conversation_id is not None:
        body["conversation"] = request.conversation_id
    if request.tools is not None:
        body["tools"] = [_tool_body(tool) for tool in request.tools]
    body |= _answer_body(request.answer)
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
    items = read_input(body.get("input"))
    told = (*_instructions(body.get("instructions")), *items.told)
    own_fields = {name: _own_value(name, value) for name, value in own.items() if name in OWN}
    if told:
        own_fields["dynamic_context"] = (*told, *own_fields.get("dynamic_context", ()))
    return ExecutionRequest(
        text=items.text,
        file_ids=tuple(items.file_ids),
        results=tuple(items.results),
        tools=_tools(body.get("tools")),
        answer=_answer(body),
        models=_models(body.get("model"), own.get("models")),
        conversation_id=_conversation(body.get("conversation")),
        metadata=given,
        extra_fields=extra,
        body_fields={name: value for name, value in body.items() if name not in NATIVE},
        **own_fields,
    )


def _instructions(value: Json) -> tuple[str, ...]:
    if value is None or isinstance(value, str):
        return (value,) if value else ()
    raise InvalidRequest("“instructions” is a text.", hint="Send a text.", param="instructions")


# Tools, and how to answer


def _tool_body(tool: ToolSpec) -> Json:
    made = {"type": "function", "name": tool.name, "description": tool.description}
    return {**made, "parameters": decode_object(tool.input_schema), "strict": False}


def _tools(value: Json) -> tuple[ToolSpec, ...] | None:
    """The caller's tools; None if it names none. Raises `InvalidRequest` for one of a vendor's."""
    if value is None:
        return None
    found: list[ToolSpec] = []
    for number, tool in enumerate(value if isinstance(value, list) else [None]):
        match tool:
            case {"type": "function", "name": str(name), **more}:
                schema, place = more.get("parameters"), f"tools.{number}"
                if not isinstance(schema, Mapping | None):
                    raise InvalidRequest("Parameters are a JSON schema.", hint="Send an object.", param=place)
                found.append(own_tool(name, str(more.get("description") or ""), schema, place))
            case _:
                raise InvalidRequest(
                    "“tools” can't have this value here.",
                    hint="Send functions of your own; what else can be called are the server's tools.",
                    param="tools",
                )
    return tuple(found)


def _answer_body(answer: AnswerChoices) -> dict[str, Json]:
    """The fields that say how to answer, without those that are as by default."""
    name, choice = answer.tool_choice.partition(" ")[2], answer.tool_choice
    body: dict[str, Json] = {
        "tool_choice": {"type": "function", "name": name} if name else None if choice == "auto" else choice,
        "parallel_tool_calls": None if answer.parallel_calls else False,
        "max_output_tokens": answer.max_output,
        "temperature": answer.temperature,
        "top_p": answer.top_p,
        "text": {"format": {"type": "json_schema", **decode_object(answer.schema)}} if answer.schema else None,
        "max_tool_calls": answer.max_calls,
        "stop": list(answer.stop) or None,
    }
    return {name: value for name, value in body.items() if value is not None}


def _answer(body: JsonObject) -> AnswerChoices:
    """How to answer. Raises `InvalidRequest` with the field that can't be followed."""
    parallel = body.get("parallel_tool_calls")
    if parallel not in (None, True, False):
        raise _wrong("parallel_tool_calls", "true or false")
    return AnswerChoices(
        max_output=_whole(body, "max_output_tokens", 16),
        tool_choice=_choice(body.get("tool_choice")),
        parallel_calls=parallel is not False,
        temperature=_number(body, "temperature", 2),
        top_p=_number(body, "top_p", 1),
        schema=_schema(body.get("text")),
        max_calls=_whole(body, "max_tool_calls", 1),
        stop=_stops(body.get("stop")),
    )


def _wrong(name: str, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"“{name}” is {wanted}.", hint="Send that, or leave it out.", param=name)


def _whole(body: JsonObject, name: str, least: int) -> int | None:
    value = body.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    raise _wrong(name, f"a whole number from {least} on")


def _number(body: JsonObject, name: str, most: float) -> float | None:
    value = body.get(name)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most):
        return value
    raise _wrong(name, f"a number from 0 to {most}")


def _stops(value: Json) -> tuple[str, ...]:
    match value:
        case None:
            return ()
        case [*texts] if len(texts) <= MOST_STOPS and all(isinstance(one, str) and one for one in texts):
            return tuple(map(str, texts))
        case _:
            raise _wrong("stop", f"a list of {MOST_STOPS} texts at most")


def _choice(value: Json) -> str:
    match value:
        case None:
            return "auto"
        case "auto" | "none" | "required":
            return value
        case {"type": "function", "name": str(name)} if name:
            return f"function {name}"
        case _:
            raise _wrong("tool_choice", "auto, none, required or one function")


def _schema(text: Json) -> str:
    """The JSON schema of the answer; "" for plain text."""
    if text is None:
        return ""
    if not isinstance(text, Mapping) or text.get("verbosity") not in (None, "medium"):
        raise _wrong("text", "{format: …}")
    match text.get("format"):
        case None | {"type": "text"}:
            return ""
        case {"type": "json_schema", "name": str(name), "schema": Mapping() as schema, **more}:
            return encode_text({"name": name, "schema": schema, "strict": more.get("strict") is True})
        case _:
            raise InvalidRequest(
                "The answer is text, or follows a JSON schema.", hint="Send a json_schema.", param="text.format"
            )


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
