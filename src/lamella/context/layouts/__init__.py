"""The layouts that ship, by name: every `Layout` of every module in this folder, the default first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from pkgutil import iter_modules
from types import MappingProxyType

from lamella.context.layout import Layout
from lamella.core.errors import ConfigurationError

DEFAULT = "lamella"


def _found() -> Iterator[Layout]:
    for module in iter_modules(__path__):
        for value in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, Layout):
                yield value


def by_name(*layouts: Layout) -> Mapping[str, Layout]:
    """Layouts by their names, the default first; raises `ConfigurationError` when two have one name."""
    ordered = sorted(layouts, key=lambda layout: (layout.name != DEFAULT, layout.name))
    for before, after in pairwise(ordered):
        if before.name == after.name:
            raise ConfigurationError(f"There are two layouts “{after.name}”.", hint="Rename one.", param=after.name)
    return MappingProxyType({layout.name: layout for layout in ordered})


LAYOUTS: Mapping[str, Layout] = by_name(*_found())
