"""What installed packages add by entry points: tools (`lamella.tools`) and layouts (`lamella.layouts`).

A package that is installed beside Lamella registers a tool in its `pyproject.toml`, and `lamella serve` offers it:

    [project.entry-points."lamella.tools"]
    weather = "my_package:weather"

A tool is a function with a docstring and types, a class that makes a `Tool`, or a `Tool`; a layout is a `Layout`.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint

from lamella.chat.dynamic_context import installed_points
from lamella.context.layout import Layout
from lamella.core.errors import ConfigurationError
from lamella.tooling.tool import Tool, function_tool

TOOLS, LAYOUTS = "lamella.tools", "lamella.layouts"


def registered_tools(installed: Iterable[EntryPoint] | None = None) -> tuple[Tool, ...]:
    """The tools of the entry points, by name. Raises `ConfigurationError` for one that can't be used."""
    return tuple(_tool(point) for point in _points(TOOLS, installed))


def registered_layouts(installed: Iterable[EntryPoint] | None = None) -> tuple[Layout, ...]:
    """The layouts of the entry points, by name. Raises `ConfigurationError` for one that can't be used."""
    found = [(point, _loaded(point)) for point in _points(LAYOUTS, installed)]
    for point, layout in found:
        if not isinstance(layout, Layout):
            raise _unusable(point, "it is no Layout")
    return tuple(layout for _, layout in found if isinstance(layout, Layout))


def _points(group: str, installed: Iterable[EntryPoint] | None) -> list[EntryPoint]:
    return sorted(installed_points(group) if installed is None else installed, key=lambda point: point.name)


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


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:  # as above
        raise _unusable(point, f"{type(error).__name__}: {error}") from error


def _unusable(point: EntryPoint, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"The entry point {point.name} of {point.group} ({point.value}) can't be used: {why}.",
        hint="Correct or uninstall the package that registers it; docs/reference/entry-points.md says what fits.",
        param=point.group,
    )
