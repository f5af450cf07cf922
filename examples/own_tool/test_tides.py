"""The tool answers in the loop, and its entry points are found as `pyproject.toml` registers them."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from lamella.app.extensions import LAYOUTS, TOOLS, registered_layouts, registered_tools
from lamella.core.errors import ConfigurationError
from tides import QUIET, ask

POINTS = tomllib.loads((Path(__file__).parent / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]


def points(group: str, **more: str) -> list[EntryPoint]:
    return [EntryPoint(name, value, group) for name, value in {**POINTS[group], **more}.items()]


@pytest.mark.anyio
async def test_the_tool_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    said = await ask("When is high water in Bergen?")
    assert said.startswith("High water in Bergen: 03:12 and 15:40.")
    assert "1 tool" in said


def test_its_entry_points_are_found() -> None:
    [tool] = registered_tools(points(TOOLS))
    assert (tool.spec.name, tool.spec.description) == ("tide", "When the tide is high in a place today.")
    assert registered_layouts(points(LAYOUTS)) == (QUIET,)


@pytest.mark.parametrize("value", ["tides:nothing", "no_such_package:tool", "tides:HIGH_WATER"])
def test_what_can_not_be_used_is_named(value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"“{value}” of the entry point broken of lamella.tools can't be used"):
        registered_tools(points(TOOLS, broken=value))
    with pytest.raises(ConfigurationError, match="can't be used"):
        registered_layouts(points(LAYOUTS, broken=value))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
