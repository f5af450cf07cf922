"""Which tools a request lets the model call: `tool_choice` of Chat Completions and of Responses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lamella_simulator.blocks import Json
from lamella_simulator.errors import invalid


def name_of(entry: Any) -> str:
    """The function that a tool or a choice names: nested in Chat Completions, flat in Responses."""
    function = entry.get("function") if isinstance(entry, dict) else None
    named = function if isinstance(function, dict) else entry
    return str(named.get("name", "")) if isinstance(named, dict) else ""


def allowed_by(choice: str | Json | None) -> list[Any] | None:
    """The tools of `allowed_tools`, which Chat Completions nests once more."""
    if not isinstance(choice, dict):
        return None
    nested = choice.get("allowed_tools")
    tools = (nested if isinstance(nested, dict) else choice).get("tools")
    return tools if isinstance(tools, list) else None


def check_choice(choice: str | Json | None, tools: Collection[Json]) -> None:
    """Raises 400 for a choice that the API would refuse, and for one of a tool that the simulator does not have."""
    offered = [name_of(tool) for tool in tools]
    match choice:
        case None | "none" | "auto":
            return
        case "required":
            if not tools:
                raise invalid("Tool choice 'required' must be specified with 'tools' parameter.")
            return
        case {"type": "function"}:
            named = [name_of(choice)]
        case {"type": "allowed_tools"} if (allowed := allowed_by(choice)) is not None:
            named = [name_of(entry) for entry in allowed]
        case _:
            raise invalid(
                f"Invalid value for 'tool_choice': {choice!r}. The simulator knows 'none', 'auto', 'required', and "
                "objects of type 'function' and 'allowed_tools'."
            )
    for name in named:
        if name not in offered:
            raise invalid(f"Tool choice '{name}' not found in 'tools' parameter.")


def callable_names(choice: str | Json | None, tools: Collection[Json]) -> frozenset[str]:
    """The tools that the model may call."""
    match choice:
        case "none":
            return frozenset()
        case {"type": "function"}:
            return frozenset({name_of(choice)})
        case {"type": "allowed_tools"}:
            return frozenset(name_of(entry) for entry in allowed_by(choice) or ())
        case _:
            return frozenset(name_of(tool) for tool in tools)
