"""The protocol of a tool, functions as tools, and the registry that a conversation's tool list is pinned from."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, get_type_hints, runtime_checkable

import msgspec

from lamella.core.errors import ConfigurationError
from lamella.core.json import Json, encode_text
from lamella.core.messages import Attachment, Turn
from lamella.core.prompt import ToolSpec
from lamella.core.records import Caller, FoundDocument
from lamella.tooling.arguments import wrong_schema


class ToolKind(StrEnum):
    """The effect of a tool on a turn. For example, the citation reminder follows a `search`."""

    SEARCH = "search"
    OTHER = "other"


class Documents(Protocol):
    """The documents that tools bring into the conversation of a call."""

    async def keep(self, document: FoundDocument) -> Attachment:
        """Store a document for the conversation, and return it with its number.

        The same text from the same place keeps its number and id.
        """
        ...

    async def text(self, document_id: str) -> str:
        """The text of a document that was kept; raises `NotFound`."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """The user's decision on a call. `reason` is shown to the model."""

    approved: bool
    reason: str = ""


class ApprovalAsker(Protocol):
    """Asks the user about calls."""

    async def ask(self, call: Invocation, name: str) -> Verdict:
        """Wait for the user's decision."""
        ...


@dataclass(frozen=True, slots=True)
class ToolScope:
    """The context of a call. `attachments` are the files in the window and the project, and documents from tools, whose
    text is read from `documents`. None: nothing can be stored here. Without `approvals` the user can't be asked.

    `turns` are those in the window, the running one last, with its steps so far. `agent_id` is the turn's agent,
    `base_ids` the knowledge bases named by its message, `project_files` the files of its project. `room`: free local
    tokens in the window for this call; None if unknown.
    """

    caller: Caller
    conversation_id: str
    attachments: tuple[Attachment, ...]
    documents: Documents | None = None
    turns: tuple[Turn, ...] = ()
    approvals: ApprovalAsker | None = None
    agent_id: str | None = None
    base_ids: tuple[str, ...] = ()
    project_files: tuple[str, ...] = ()
    room: int | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call: `id` is unique in the conversation."""

    id: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A result with additional data. `queries` are all queries of a search that ran more than asked; `rich` is JSON for
    people.
    """

    content: str
    queries: tuple[str, ...] = ()
    rich: str = ""


@runtime_checkable
class Tool(Protocol):
    """Something a model can call. One whose calls change something outside says so: `side_effects = True`."""

    spec: ToolSpec
    kind: ToolKind
    timeout: float
    """Seconds after which a call is given up."""

    async def run(self, scope: ToolScope, call: Invocation) -> str | ToolOutput:
        """The result in the form that the model reads.

        Raises `ToolFailed` with a text that the model can act on.
        """
        ...


def needs_approval(tool: Tool) -> bool:
    """Whether the user is asked before each call: the tool's attribute `needs_approval`."""
    return bool(getattr(tool, "needs_approval", False))


class ToolSource(Protocol):
    """A source of tools that come and go while the process runs."""

    def tools(self) -> Sequence[Tool]:
        """The current tools. Each has a valid name, and a schema that passes `wrong_schema`."""
        ...

    def find(self, name: str) -> Tool | None:
        """The tool of this name. An unreachable tool is returned too: its calls fail with the reason."""
        ...

    def may_come(self, name: str) -> bool:
        """Whether it may offer a tool of this name that it does not offer yet: it was not reached so far."""
        ...

    async def settled(self) -> None:
        """Returns when the initial tools are known."""
        ...


class Registry:
    """Tools by name: those of the deployment, which stay, and those of `sources`.

    Raises `ConfigurationError` for a name or a schema that providers refuse. A replay does not validate arguments,
    because the calls were made, nor schemas of a trace without content.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        sources: Sequence[ToolSource] = (),
        *,
        checks_arguments: bool = True,
        checks_schemas: bool = True,
    ) -> None:
        self._tools: dict[str, Tool] = {}
        self._sources = tuple(sources)
        self._allowed: frozenset[str] | None = None
        self.checks_arguments = checks_arguments
        for tool in tools:
            if checks_schemas:
                _check(tool.spec)
            if tool.spec.name in self._tools:
                raise ConfigurationError(
                    f"There are two tools named {tool.spec.name}.", hint="Rename one.", param=tool.spec.name
                )
            self._tools[tool.spec.name] = tool

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools for models, sorted by name: a conversation pins the list when it begins."""
        offered = {tool.spec.name: tool.spec for source in self._sources for tool in source.tools()}
        offered |= {name: tool.spec for name, tool in self._tools.items()}
        return tuple(offered[name] for name in sorted(offered) if self._allows(name))

    def newest(self, pinned: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
        """The new list of a conversation that had `pinned`: the current tools, and pinned ones that may be missing only
        because their source was not reached yet.
        """
        there = {spec.name: spec for spec in self.specs()}
        missing = (spec for spec in pinned if spec.name not in there)
        there |= {spec.name: spec for spec in missing if any(one.may_come(spec.name) for one in self._sources)}
        return tuple(there[name] for name in sorted(there))

    async def settled(self) -> None:
        """Returns when the tools of all sources are known, or their time is over."""
        for source in self._sources:
            await source.settled()

    @property
    def changes(self) -> bool:
        """Whether tools can come and go."""
        return bool(self._sources)

    def only(self, specs: Iterable[ToolSpec]) -> Registry:
        """The registry with a conversation's tools only: others can't be called."""
        view = Registry((), self._sources, checks_arguments=self.checks_arguments)
        view._tools = self._tools
        view._allowed = frozenset(spec.name for spec in specs)
        return view

    def find(self, name: str) -> Tool | None:
        """The tool of this name."""
        if not self._allows(name):
            return None
        return self._tools.get(name) or next((tool for s in self._sources if (tool := s.find(name))), None)

    def names(self) -> tuple[str, ...]:
        """The names that can be called, sorted."""
        return tuple(sorted(self._allowed)) if self._allowed is not None else tuple(s.name for s in self.specs())

    def acts_unasked(self, name: str) -> bool:
        """Whether calls of this tool have side effects and run without asking the user. If several models answer, only
        one runs them.
        """
        tool = self.find(name)
        return tool is not None and bool(getattr(tool, "side_effects", False)) and not needs_approval(tool)

    def is_search(self, name: str) -> bool:
        """Whether calls of this name bring documents."""
        tool = self.find(name)
        return tool is not None and tool.kind is ToolKind.SEARCH

    def _allows(self, name: str) -> bool:
        return self._allowed is None or name in self._allowed


def _check(spec: ToolSpec) -> None:
    """Providers require a name and a JSON Schema of type object."""
    if not spec.name.strip():
        raise ConfigurationError("A tool has no name.", hint="Name it.")
    wrong = wrong_schema(spec.input_schema)
    if wrong:
        raise ConfigurationError(f"The tool “{spec.name}”: {wrong}.", hint="Correct the schema.", param=spec.name)


class FunctionTool:
    """A `Tool` that calls a function with keyword arguments; see `function_tool`."""

    def __init__(
        self, function: Callable[..., object], spec: ToolSpec, arguments: type[msgspec.Struct], timeout: float
    ) -> None:
        self.spec = spec
        self.kind = ToolKind.OTHER
        self.timeout = timeout
        self._function = function
        self._arguments = arguments

    async def run(self, scope: ToolScope, call: Invocation) -> str | ToolOutput:
        """See `Tool.run`. A function that is not async runs in a thread. A result that is not text is sent as JSON."""
        given = msgspec.structs.asdict(msgspec.convert(call.arguments, self._arguments))
        if inspect.iscoroutinefunction(self._function):
            result = await self._function(**given)
        else:
            result = await asyncio.to_thread(self._function, **given)
        return result if isinstance(result, str | ToolOutput) else msgspec.json.encode(result).decode()


def function_tool(function: Callable[..., object], *, timeout: float = 60.0) -> FunctionTool:
    """The tool of a function, async or not: its name, its docstring, and a schema of its parameters.

        async def weather(city: str, days: Annotated[int, msgspec.Meta(description="1 to 7", ge=1, le=7)] = 1) -> str:
            "The weather in a city."

    `timeout` is in seconds. Raises `ConfigurationError` for parameters that have no types, or none that JSON has.
    """
    name = function.__name__
    try:
        hints, fields = get_type_hints(function, include_extras=True), []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"{parameter} can't be given by name")
            is_needed = parameter.default is parameter.empty
            field = (parameter.name, hints[parameter.name])
            fields.append(field if is_needed else (*field, parameter.default))
        arguments = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        [top], schemas = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except (TypeError, KeyError, NameError) as error:
        raise ConfigurationError(
            f"The function {name} can't be a tool: {error}.", hint="Give each parameter a type that JSON has."
        ) from error
    schema = schemas.pop(top["$ref"].rpartition("/")[2])
    del schema["title"]
    if schemas:
        schema["$defs"] = schemas
    description = inspect.cleandoc(function.__doc__ or "")
    return FunctionTool(function, ToolSpec(name, description, encode_text(schema)), arguments, timeout)
