"""The wheel carries the built page; an editable installation does not need it: `./run` builds it in place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

import webbuild


class PageHook(BuildHookInterface[Any]):
    """Builds the page before the wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by the build with `editable` or `standard`."""
        if version != "editable":
            webbuild.build()
