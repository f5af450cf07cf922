"""Validates the arguments of a call against its tool's JSON schema, and says what would be accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import jsonschema_rs
import msgspec

from lamella.core.json import Json, JsonObject, decode, decode_object

MAX_PROBLEMS = 6
"""Problems that one answer names."""

MAX_PROBLEM = 240
"""Maximum characters of one problem, since it quotes the model."""

MAX_FIELDS = 30
"""Fields of a schema that an answer lists."""

_TYPES = ("type", "enum", "const", "minimum", "maximum", "minLength", "maxLength", "pattern", "format")


def wrong_schema(schema: str) -> str:
    """Why a JSON schema can't be used to validate arguments, or "".

    It must be self-contained: nothing is fetched.
    """
    try:
        parsed = decode_object(schema)
    except msgspec.DecodeError as error:
        return f"its input schema is no JSON object ({error})"
    wrong = _wrong_in(parsed)
    if wrong:
        return wrong
    try:
        _validator(parsed)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return f"its input schema is invalid: {_short(str(getattr(error, 'message', error)))}"
    return ""


def check_arguments(schema: str, arguments: Mapping[str, Json]) -> str:
    """What is wrong with the arguments, where, and what is accepted; "" if they are valid.

    The schema has passed `wrong_schema`.
    """
    parsed = decode_object(schema)
    found = list(islice(_validator(parsed).iter_errors(arguments), MAX_PROBLEMS + 1))
    if not found:
        return ""
    lines = [f"- {_place(error.instance_path)}: {_short(error.message)}" for error in found[:MAX_PROBLEMS]]
    if len(found) > MAX_PROBLEMS:
        lines.append("- and more")
    return "\n".join([*lines, _accepted(parsed)])


def fitted(schema: str, arguments: JsonObject) -> tuple[JsonObject, str]:
    """The arguments for a tool, and what is wrong with them, or "".

    If they are otherwise invalid, a string that contains an encoded object or list is decoded.
    """
    wrong = check_arguments(schema, arguments)
    if not wrong:
        return arguments, ""
    properties = decode_object(schema).get("properties")
    known = properties if isinstance(properties, dict) else {}
    read = {name: _read(value, known.get(name)) for name, value in arguments.items()}
    return (read, "") if read != arguments and not check_arguments(schema, read) else (arguments, wrong)


def _read(value: Json, property: Json) -> Json:
    """The decoded value of a string, if the schema expects an object or a list; else the value."""
    types = set(_types(property))
    if not isinstance(value, str) or "string" in types or not types & {"object", "array"}:
        return value
    try:
        found = decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
    return found if isinstance(found, dict | list) else value


def _types(property: Json) -> Iterator[Json]:
    """The types that a property may have, including alternatives."""
    if isinstance(property, dict):
        wanted = property.get("type")
        yield from wanted if isinstance(wanted, list) else [wanted]
        for name in ("anyOf", "oneOf"):
            choices = property.get(name)
            for choice in choices if isinstance(choices, list) else ():
                yield from _types(choice)


def _validator(schema: JsonObject) -> jsonschema_rs.Validator:
    """Its patterns run in linear time if possible and are bounded otherwise; references stay inside the schema."""
    return jsonschema_rs.validator_for(dict(schema), offline=True)


def _place(path: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".") or "arguments"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_PROBLEM else f"{line[: MAX_PROBLEM - 1]}…"


def _accepted(schema: JsonObject) -> str:
    """The fields of a schema, one to a line."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not properties:
        return "Accepted: an object."
    needed: Iterable[Json] = required if isinstance(required, list) else ()
    fields = [_field(name, property, name in needed) for name, property in islice(properties.items(), MAX_FIELDS)]
    if len(properties) > MAX_FIELDS:
        fields.append("- and more")
    return "\n".join(["Accepted:", *fields])


def _field(name: str, property: Json, needed: bool) -> str:
    known = property if isinstance(property, dict) else {}
    said = ", ".join(f"{word} {_value(known[word])}" for word in _TYPES if word in known)
    return f"- {name} ({'required' if needed else 'optional'}){': ' if said else ''}{_short(said)}"


def _value(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _wrong_in(schema: JsonObject) -> str:
    """Which rule of providers, beyond JSON Schema, a schema violates; or ""."""
    if schema.get("type") != "object":
        return f"its input schema has the type {schema.get('type')!r}, not 'object'"
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        return "the `properties` of its input schema are no object"
    for name, property in properties.items():
        if not isinstance(property, dict | bool):
            return f"its property “{name}” is no schema"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "the `required` of its input schema is no list of names"
    missing = [str(name) for name in required if name not in properties]
    if missing and properties:
        return f"its input schema requires {', '.join(missing)}, which it does not describe"
    return ""
