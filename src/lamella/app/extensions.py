"""What installed packages add by entry points: blocks of dynamic context, tools, layouts, embedders and wires.

A package that is installed alongside Lamella registers a tool in its `pyproject.toml`, and `lamella serve` offers it:

    [project.entry-points."lamella.tools"]
    weather = "my_package:weather"

docs/reference/entry-points.md has the table of groups with an example of each. A part that can't be used is a
`ConfigurationError` that names it, so the server does not start without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from lamella.chat.dynamic_context import SECONDS, Blocks, DynamicContextProvider
from lamella.context.layout import Layout
from lamella.core.errors import ConfigurationError
from lamella.core.ports import ChatModel, Embedder
from lamella.core.prompt import WireRequest
from lamella.tooling.tool import Tool, function_tool

BLOCKS, TOOLS, LAYOUTS = "lamella.dynamic_context", "lamella.tools", "lamella.layouts"
EMBEDDERS, WIRES = "lamella.embedders", "lamella.wires"

SETTING = "LAMELLA_DYNAMIC_CONTEXT"
"""Names providers of dynamic context too, of packages that register nothing."""

Installed = Iterable[EntryPoint] | None
"""Entry points of one group; None: those of the packages that are installed."""


@dataclass(frozen=True, slots=True)
class Wire:
    """How models are spoken to: two functions, usually of a module, such as an adapter of `llm/`.

    `connect(facts, *, base_url, key, timeout, retries)` gives a model at an address. `timeout` is in
    seconds of silence; `retries` is 0, because Lamella retries itself. `headers=` is given too if the deployment sets
    headers of its own (`OPENAI_CUSTOM_HEADERS`). `body_of(request)` is the JSON body of a request
    as that model sends it: stored requests are shown by it.
    """

    connect: Callable[..., ChatModel]
    body_of: Callable[[WireRequest], dict[str, object]]


def registered_tools(installed: Installed = None) -> tuple[Tool, ...]:
    """The tools of the entry points, by name. Raises `ConfigurationError` for one that can't be used."""
    return tuple(_tool(point) for point in _points(TOOLS, installed))


def registered_layouts(installed: Installed = None) -> tuple[Layout, ...]:
    """The layouts of the entry points, by name. Raises `ConfigurationError` for one that can't be used."""
    found = [(point, _loaded(point)) for point in _points(LAYOUTS, installed)]
    for point, layout in found:
        if not isinstance(layout, Layout):
            raise _unusable(point, "it is no Layout")
    return tuple(layout for _, layout in found if isinstance(layout, Layout))


def registered_blocks(setting: str, installed: Installed = None, *, seconds: float = SECONDS) -> Blocks:
    """The providers that entry points and the setting name. `setting` is `package.module:name`, several with commas.

    Raises `ConfigurationError` for a provider that can't be used.
    """
    named = [EntryPoint(path.strip(), path.strip(), SETTING) for path in setting.split(",") if path.strip()]
    points = {point.value: point for point in (*named, *_points(BLOCKS, installed))}
    return Blocks((_provider(point) for point in points.values()), seconds)


def registered_embedder(name: str, installed: Installed = None) -> Embedder | None:
    """The embedder of this name; None if none is registered. The others are not loaded.

    Raises `ConfigurationError` if it can't be used.
    """
    point = next((point for point in _points(EMBEDDERS, installed) if point.name == name), None)
    if point is None:
        return None
    found = _loaded(point)
    made = _made(point, found) if isinstance(found, type) or not isinstance(found, Embedder) else found
    if not isinstance(made, Embedder):
        raise _unusable(point, "it has not `space`, `is_local`, `embed` and `close`")
    return made


def embedder_names(installed: Installed = None) -> tuple[str, ...]:
    """The embedders that are registered."""
    return tuple(point.name for point in _points(EMBEDDERS, installed))


def registered_wires(installed: Installed = None) -> Mapping[str, Wire]:
    """The wires of the entry points, by name. Raises `ConfigurationError` for one that can't be used."""
    found = {}
    for point in _points(WIRES, installed):
        wire = _loaded(point)
        connect, body_of = getattr(wire, "connect", None), getattr(wire, "body_of", None)
        if not callable(connect) or not callable(body_of):
            raise _unusable(point, "it has not `connect` and `body_of`")
        found[point.name] = Wire(connect, body_of)
    return found


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """Read once for each process: reading every installed package takes about 20 ms."""
    found = entry_points()
    return tuple(point for group in (BLOCKS, TOOLS, LAYOUTS, EMBEDDERS, WIRES) for point in found.select(group=group))


def _points(group: str, installed: Installed) -> list[EntryPoint]:
    points = [point for point in _installed() if point.group == group] if installed is None else installed
    return sorted(points, key=lambda point: point.name)


def _tool(point: EntryPoint) -> Tool:
    found = _loaded(point)
    try:
        if isinstance(found, type):
            found = found()
        elif callable(found):
            return function_tool(found)
    except Exception as error:  # the border where a package's own code becomes an error of ours
        raise _unusable(point, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, Tool):
        raise _unusable(point, "it is neither a function nor a Tool with `spec`, `kind`, `timeout` and `run`")
    return found


def _provider(point: EntryPoint) -> DynamicContextProvider:
    """The provider of an entry point; a class or a function is called."""
    if ":" not in point.value:
        raise _unusable(point, "it has no “:”")
    found = _loaded(point)
    if isinstance(found, type) or not isinstance(found, DynamicContextProvider):
        found = _made(point, found)
    if not isinstance(found, DynamicContextProvider) or not isinstance(found.name, str):
        raise _unusable(point, "it has not `name`, `order` and `block`")
    return found


def _made(point: EntryPoint, found: object) -> object:
    """What a class or a function makes; anything else as it is."""
    try:
        return found() if callable(found) else found
    except Exception as error:  # as above
        raise _unusable(point, f"{type(error).__name__}: {error}") from error


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:  # as above
        raise _unusable(point, f"{type(error).__name__}: {error}") from error


def _unusable(point: EntryPoint, why: str) -> ConfigurationError:
    where = SETTING if point.group == SETTING else f"the entry point {point.name} of {point.group}"
    return ConfigurationError(
        f"“{point.value}” of {where} can't be used: {why}.",
        hint="Correct or uninstall the package that has it; docs/reference/entry-points.md says what fits.",
        param=point.group,
    )
