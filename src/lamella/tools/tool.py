"""The protocol of a tool, and the registry that a conversation's tool list is pinned from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec

from lamella.core.errors import ConfigurationError
from lamella.core.json import Json, JsonObject, decode_object
from lamella.core.messages import Attachment
from lamella.core.prompt import ToolSpec
from lamella.core.records import Caller


class ToolKind(StrEnum):
    """What a tool does to a turn: a `search` brings documents, so the citation reminder follows it (SPEC O8)."""

    SEARCH = "search"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ToolScope:
    """On whose behalf and where a call runs. `attachments` are all files on the conversation's path."""

    caller: Caller
    conversation_id: str
    attachments: tuple[Attachment, ...]


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call: `id` is unique in the conversation."""

    id: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A result with more to it than its text. `queries` are all that a search ran, where it ran more than asked."""

    content: str
    queries: tuple[str, ...] = ()


class Tool(Protocol):
    """Something a model can call."""

    spec: ToolSpec
    kind: ToolKind
    timeout: float
    """Seconds after which a call is given up."""

    async def run(self, scope: ToolScope, call: Invocation) -> str | ToolOutput:
        """The result in the form that the model reads.

        Raises `ToolFailed` with a text that the model can act on.
        """
        ...


class Registry:
    """Tools by name. Raises `ConfigurationError` for a name or a schema that no provider would take."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            _check(tool.spec)
            if tool.spec.name in self._tools:
                raise ConfigurationError(
                    f"There are two tools named {tool.spec.name}.", hint="Rename one.", param=tool.spec.name
                )
            self._tools[tool.spec.name] = tool

    def specs(self) -> tuple[ToolSpec, ...]:
        """What models are told, sorted by name: the list is pinned for a conversation when it begins."""
        return tuple(self._tools[name].spec for name in sorted(self._tools))

    def only(self, specs: Iterable[ToolSpec]) -> Registry:
        """Of the tools, those that a conversation has: what is not in its list can't be called."""
        return Registry(self._tools[spec.name] for spec in specs if spec.name in self._tools)

    def find(self, name: str) -> Tool | None:
        """The tool of this name."""
        return self._tools.get(name)

    def is_search(self, name: str) -> bool:
        """Whether calls of this name bring documents."""
        tool = self._tools.get(name)
        return tool is not None and tool.kind is ToolKind.SEARCH


def _check(spec: ToolSpec) -> None:
    """What every provider asks of a tool: a name, and a JSON Schema of an object."""
    where = f"The tool “{spec.name}”"
    if not spec.name.strip():
        raise ConfigurationError("A tool has no name.", hint="Name it.")
    try:
        schema = decode_object(spec.input_schema)
    except msgspec.DecodeError as error:
        raise ConfigurationError(
            f"{where}: its input schema is no JSON object ({error}).", hint="Correct the schema.", param=spec.name
        ) from None
    wrong = _wrong_in(schema)
    if wrong:
        raise ConfigurationError(f"{where}: {wrong}.", hint="Correct the schema.", param=spec.name)


def _wrong_in(schema: JsonObject) -> str:
    """What keeps a schema from describing the arguments of a call, or ""."""
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
