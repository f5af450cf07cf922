"""Finds the providers of a deployment: by entry points of what is installed, and by a setting."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from lamella.backend.blocks import Blocks, DynamicContextProvider
from lamella.core.errors import ConfigurationError
from lamella.settings import Settings

GROUP = "lamella.dynamic_context"
"""The group of entry points; each names a provider, or what makes one when it is called without arguments."""

SETTING = "LAMELLA_DYNAMIC_CONTEXT"


def registered_blocks(settings: Settings, installed: Iterable[EntryPoint] | None = None) -> Blocks:
    """The providers that entry points and the setting name. Raises `ConfigurationError` for one that can't be used."""
    points = entry_points(group=GROUP) if installed is None else installed
    named = [path.strip() for path in settings.dynamic_context.split(",") if path.strip()]
    places = [(point.value, f"the entry point {point.name}") for point in points] + [(path, SETTING) for path in named]
    found = [_provider(path, where) for path, where in dict(places).items()]
    return Blocks(found, settings.dynamic_context_seconds)


def _provider(path: str, where: str) -> DynamicContextProvider:
    """The provider at `package.module:name`, made where that is a class or a function."""
    module, _, name = path.partition(":")
    if not name:
        raise _unusable(path, where, "it has no “:”")
    try:
        found: object = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        if isinstance(found, type) or not isinstance(found, DynamicContextProvider):
            found = found() if callable(found) else found
    except Exception as error:  # the border where a deployment's own code becomes an error of ours
        raise _unusable(path, where, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, DynamicContextProvider) or not isinstance(found.name, str):
        raise _unusable(path, where, "it has not `name`, `order` and `block`")
    return found


def _unusable(path: str, where: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"The provider of dynamic context “{path}” of {where} can't be used: {why}.",
        hint="Name it as package.module:name; docs/dynamic-context.md says what a provider is.",
        param=SETTING,
    )
