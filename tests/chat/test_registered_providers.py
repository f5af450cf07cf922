"""Providers are found by entry points and by a setting, and one that can't be used keeps the server from starting."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from lamella.app.extensions import BLOCKS, registered_blocks
from lamella.chat.dynamic_context import BlockScope
from lamella.core.errors import ConfigurationError
from lamella.settings import read_settings

HERE = __name__


class First:
    """A provider by its class."""

    name, order = "zeta", -5

    async def block(self, scope: BlockScope) -> str | None:
        return "First."


class SummaryModel(First):
    name, order = "alpha", 0


second = SummaryModel()


def third() -> First:
    made = First()
    made.name, made.order = "beta", 0
    return made


class Nameless:
    order = 0

    async def block(self, scope: BlockScope) -> str | None:
        return None


def broken() -> First:
    raise RuntimeError("no directory is configured")


def names(setting: str, *points: EntryPoint, tmp_path: Path) -> tuple[str, ...]:
    settings = read_settings(data=tmp_path, dynamic_context=setting)
    return registered_blocks(settings.dynamic_context, points).names


def test_classes_functions_and_objects_are_found_in_their_order(tmp_path: Path) -> None:
    point = EntryPoint("first", f"{HERE}:First", BLOCKS)
    named = f"{HERE}:third, {HERE}:second,"
    assert names(named, point, tmp_path=tmp_path) == ("zeta", "alpha", "beta")


def test_what_is_both_installed_and_named_is_one_provider(tmp_path: Path) -> None:
    point = EntryPoint("first", f"{HERE}:First", BLOCKS)
    assert names(f"{HERE}:First", point, tmp_path=tmp_path) == ("zeta",)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("lamella", "it has no “:”"),
        ("no.such.package:Provider", "ModuleNotFoundError: No module named 'no'"),
        (f"{HERE}:Missing", "AttributeError: .*Missing"),
        (f"{HERE}:Nameless", "it has not `name`, `order` and `block`"),
        (f"{HERE}:broken", "RuntimeError: no directory is configured"),
        (f"{HERE}:HERE", "it has not `name`, `order` and `block`"),
    ],
)
def test_what_is_no_provider_is_told_with_its_place(path: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"“{path}” of LAMELLA_DYNAMIC_CONTEXT can't be used: {why}"):
        names(path, tmp_path=tmp_path)
