"""The OpenAPI description: FastAPI's description of requests, with every answer, error and packet.

Schema names are our class names without the ending Object: `ConversationObject` is `Conversation`,
`ListObject[TurnObject]` is `TurnList`, and each packet of a stream is a `Packet`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi

from lamella.core.packets import AnyPacket
from lamella.gateway.errors import dialect_of
from lamella.server.authentication import is_closed
from lamella.server.objects import FailureObject, VendorFailureObject
from lamella.server.routing import JSON, ObjectRoute
from lamella.server.sse import EVENT_STREAM

Schema = dict[str, Any]

REF = "#/components/schemas/"

UNIONS = {"Notice": ("Command", "Notification")}
"""Objects that are one of several types, distinguished by their field `object`."""

FAILURES = {
    "400": "The request is malformed or can't be carried out.",
    "401": "The key is unknown.",
    "403": "This caller may not do it.",
    "404": "There is no such thing, or this caller may not know of it.",
    "413": "The body is too long.",
    "default": "Any other failure.",
}
"""The meaning of failures by status. The body of each is a `Failure`."""


def described(api: FastAPI, routers: Iterable[APIRouter]) -> Schema:
    """The OpenAPI document of `api`. `routers` have its routes that return objects."""
    document = get_openapi(title=api.title, version=api.version, routes=api.routes)
    routes = [route for router in routers for route in router.routes if isinstance(route, ObjectRoute)]
    schemas = _Schemas(
        [*(kind for route in routes for kind in _kinds(route)), FailureObject, VendorFailureObject, AnyPacket]
    )
    for route in routes:
        for method in route.methods or ():
            operation = document["paths"][route.path][method.lower()]
            operation["responses"] = _answers(route, schemas) | _failures(method, route, operation, schemas)
    components = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components.pop(unused, None)
    if twice := components.keys() & schemas.components.keys():
        raise ValueError(f"two classes are called so in the description: {sorted(twice)}")
    document["components"]["schemas"] = dict(sorted((components | schemas.components).items()))
    return document


def _kinds(route: ObjectRoute) -> Iterator[Any]:
    """The types that a route returns; a union's types one by one."""
    for answer in route.answers.values():
        for kind in answer.values():
            yield from _alternatives(kind)


def _alternatives(kind: Any) -> tuple[Any, ...]:
    is_union = get_origin(kind) in (Union, UnionType) and kind != AnyPacket
    return get_args(kind) if is_union else (kind,)


def _answers(route: ObjectRoute, schemas: _Schemas) -> Schema:
    """The answers of a route by status. A stream's content is the packets in its events."""
    answers: Schema = {}
    for status, answer in route.answers.items():
        answers[str(status)] = {"description": "Done." if int(status) < 300 else "Failed."}
        content = {media: _content(media, schemas.one_of(kind)) for media, kind in answer.items()}
        if content:
            answers[str(status)]["content"] = content
    return answers


def _content(media: str, schema: Schema) -> Schema:
    if media != EVENT_STREAM:
        return {"schema": schema}
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": schema}
    event = {"type": "object", "properties": {"id": {"type": "string"}, "data": data}, "required": ["data"]}
    return {"itemSchema": event}


def _failures(method: str, route: ObjectRoute, operation: Schema, schemas: _Schemas) -> Schema:
    """The failures that a route may answer with."""
    possible = {
        "400": "parameters" in operation or "requestBody" in operation,
        "401": is_closed(method, route.path),
        "403": is_closed(method, route.path),
        "404": "{" in route.path,
        "413": "requestBody" in operation,
        "default": True,
    }
    kind = FailureObject if dialect_of(route.path) is None else VendorFailureObject
    content = {JSON: {"schema": schemas.one_of(kind)}}
    return {status: {"description": FAILURES[status], "content": content} for status in possible if possible[status]}


class _Schemas:
    """The schemas of types, by the names that they have in the description."""

    def __init__(self, kinds: Iterable[Any]) -> None:
        self._kinds = list(dict.fromkeys(kinds))
        found, components = msgspec.json.schema_components(self._kinds, ref_template=f"{REF}{{name}}")
        self.components = {_name(name): _component(schema) for name, schema in components.items()}
        if len(self.components) < len(components):
            raise ValueError(f"two classes are called alike in the description: {sorted(components)}")
        packets = found[self._kinds.index(AnyPacket)]
        self.components["Packet"] = {"description": "What a stream sends: one of these.", **_renamed(packets)}
        self._found = [_renamed(schema) for schema in found]
        for union, names in UNIONS.items():
            self.components[union] = {"anyOf": [{"$ref": f"{REF}{name}"} for name in names]}

    def one_of(self, kind: Any) -> Schema:
        """The schema of a type, or of a union of several."""
        if kind == AnyPacket:
            return {"$ref": f"{REF}Packet"}
        schemas = [self._found[self._kinds.index(one)] for one in _alternatives(kind)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _name(name: str) -> str:
    """`ListObject_TurnObject_` is `TurnList`."""
    outer, _, inner = name.removesuffix("_").partition("_")
    return _name(inner) + _name(outer) if inner else outer.removesuffix("Object")


def _component(schema: Schema) -> Schema:
    """The schema of a class: every field is always there, but for those that may be UNSET and so have no default."""
    schema = _renamed(schema)
    schema.pop("title", None)
    if "description" in schema:
        schema["description"] = inspect.cleandoc(schema["description"])
    if "properties" in schema:
        fields = schema["properties"]
        schema["required"] = [name for name in fields if name in schema["required"] or "default" in fields[name]]
        for field in fields.values():
            field.pop("default", None)
    return schema


def _renamed(value: Any) -> Any:
    """A schema with references to the names of the description; a schema that is titled so is one."""
    if isinstance(value, list):
        return [_renamed(one) for one in value]
    if not isinstance(value, dict):
        return f"{REF}{_name(value.removeprefix(REF))}" if isinstance(value, str) and value.startswith(REF) else value
    if value.get("title") == "error":
        return {"$ref": f"{REF}ErrorBody"}
    return {key: _renamed(one) for key, one in value.items()}
