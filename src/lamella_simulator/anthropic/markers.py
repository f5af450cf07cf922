"""Which blocks carry a cache marker: explicit ones, the automatic one, and the rules both must obey."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamella_simulator.anthropic.prompt import LIVES, marker_of
from lamella_simulator.anthropic.request import WireBlock
from lamella_simulator.blocks import Json, Marker
from lamella_simulator.errors import invalid


def place(blocks: Sequence[WireBlock], automatic: Any, limit: int) -> dict[str, Marker]:
    """Markers by path. Raises 400 for a fifth marker, a wrong order of lives, or a block that cannot carry one."""
    markers: dict[str, Marker] = {}
    for block in blocks:
        check_controls(block)
        if (marker := marker_of(block.raw)) is not None:
            markers[block.path] = marker
    if len(markers) > limit:
        raise invalid(f"A maximum of {limit} blocks with cache_control may be provided. Found {len(markers)}.")
    if automatic is not None:
        add_automatic(markers, blocks, automatic, limit)
    check_order([(block.path, markers[block.path]) for block in blocks if block.path in markers])
    return markers


def add_automatic(markers: dict[str, Marker], blocks: Sequence[WireBlock], automatic: Any, limit: int) -> None:
    """The top-level marker goes to the last block that can carry one, and takes a slot (PROVIDERS 1.1)."""
    check_control(automatic, "cache_control")
    wanted = Marker(LIVES[automatic.get("ttl", "5m")])
    target = next((block for block in reversed(blocks) if not block.thinking), None)
    if target is None:
        return
    explicit = markers.get(target.path)
    if explicit == wanted:
        return
    if explicit is not None:
        raise invalid(
            f"{target.path}.cache_control: the top-level cache_control has another ttl than the marker on the last "
            "cacheable block"
        )
    if len(markers) >= limit:
        raise invalid(
            f"A maximum of {limit} blocks with cache_control may be provided. Found {len(markers)} and a top-level "
            "cache_control, which takes a slot."
        )
    markers[target.path] = wanted


def check_controls(block: WireBlock) -> None:
    for name, parts in (("citations", block.raw.get("citations")), ("source.content", source_parts(block.raw))):
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict) and "cache_control" in part:
                raise invalid(
                    f"{block.path}.{name}.{index}.cache_control: Extra inputs are not permitted; mark the block itself"
                )
    control = block.raw.get("cache_control")
    if control is None:
        return
    check_control(control, f"{block.path}.cache_control")
    if block.thinking:
        raise invalid(f"{block.path}.{block.kind}.cache_control: Extra inputs are not permitted")
    if block.kind == "text" and not block.raw.get("text"):
        raise invalid(f"{block.path}.text: cache_control cannot be set for empty text blocks")


def source_parts(raw: Json) -> Any:
    source = raw.get("source")
    return source.get("content") if isinstance(source, dict) else None


def check_control(control: Any, path: str) -> None:
    if not isinstance(control, dict) or control.get("type") != "ephemeral":
        raise invalid(f"{path}.type: Input should be 'ephemeral'")
    if str(control.get("ttl", "5m")) not in LIVES:
        raise invalid(f"{path}.ephemeral.ttl: Input should be '5m' or '1h'")
    if unknown := set(control) - {"type", "ttl"}:
        raise invalid(f"{path}.ephemeral.{min(unknown)}: Extra inputs are not permitted")


def check_order(ordered: Sequence[tuple[str, Marker]]) -> None:
    """Longer lives first, in the order tools, system, messages."""
    short_at = ""
    for path, marker in ordered:
        if marker.seconds == LIVES["5m"]:
            short_at = path
        elif short_at:
            raise invalid(
                f"{path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
                f"cache_control block ({short_at}). Blocks are processed in the order `tools`, `system`, `messages`."
            )
