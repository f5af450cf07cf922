"""The protocol of a tool, and the registry that a conversation's tool list is pinned from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lamella.core.json import Json
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


class Tool(Protocol):
    """Something a model can call."""

    spec: ToolSpec
    kind: ToolKind
    timeout: float
    """Seconds after which a call is given up."""

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        """The result in the form that the model reads.

        Raises `ToolFailed` with a text that the model can act on.
        """
        ...


class Registry:
    """Tools by name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}

    def specs(self) -> tuple[ToolSpec, ...]:
        """What models are told, sorted by name: the list is pinned for a conversation when it begins."""
        return tuple(self._tools[name].spec for name in sorted(self._tools))

    def find(self, name: str) -> Tool | None:
        """The tool of this name."""
        return self._tools.get(name)

    def is_search(self, name: str) -> bool:
        """Whether calls of this name bring documents."""
        tool = self._tools.get(name)
        return tool is not None and tool.kind is ToolKind.SEARCH
