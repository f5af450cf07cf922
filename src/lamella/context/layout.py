"""A layout is a table: which kinds of segment stand in the window, in which order, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lamella.core.errors import ConfigurationError
from lamella.core.prompt import Kind, Lifetime, SeedMarker, Zone


class OldResults(StrEnum):
    """What becomes of the tool results of earlier turns (SPEC O9, L8)."""

    KEEP = "keep"
    NOTICE = "notice"
    """A fixed string as soon as the turn is over."""

    STUB = "stub"
    """The bare function name, up to the recorded prune boundary."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the window.

    A slot of zone TURN is filled once for every turn of the path: past turns keep their place in zone HISTORY, by the
    same slots, so a finished turn is a prefix of the next request. `when_changed`: sent again only when it differs from
    what stands already. `keep_for_bound_thinking`: where a model refuses thinking after anything before it was taken
    away, a trailing segment stays where it was sent and is sent again only when its text changes (PROVIDERS 1.5).
    """

    kind: Kind
    zone: Zone
    lifetime: Lifetime
    when_changed: bool = False
    keep_for_bound_thinking: bool = False


_PLACES: dict[Kind, frozenset[Zone]] = {
    Kind.TOOLS: frozenset({Zone.FIXED}),
    Kind.SYSTEM: frozenset({Zone.FIXED}),
    Kind.SECTIONS: frozenset({Zone.FIXED}),
    Kind.SUMMARY: frozenset({Zone.FIXED}),
    Kind.AGENT: frozenset({Zone.FIXED, Zone.TRAVELLING}),
    Kind.PROJECT: frozenset({Zone.FIXED, Zone.TRAVELLING}),
    Kind.FILES: frozenset({Zone.TURN}),
    Kind.DYNAMIC: frozenset({Zone.TURN, Zone.TRAVELLING}),
    Kind.USER: frozenset({Zone.TURN}),
    Kind.STEP: frozenset({Zone.TURN}),
    Kind.REMINDER: frozenset({Zone.TRAILING}),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A named table of slots, in the order of the window; raises `ConfigurationError` for one that makes no sense."""

    name: str
    slots: tuple[Slot, ...]
    old_results: OldResults = OldResults.STUB
    seed_markers: tuple[SeedMarker, ...] = ()
    markers: str = "seed"
    """The marker policy of conversations that name none."""

    def __post_init__(self) -> None:
        seen: set[Kind] = set()
        for slot in self.slots:
            where = f"layout “{self.name}”, {slot.kind}"
            if slot.kind not in _PLACES:
                raise ConfigurationError(f"{where}: there is no such kind of segment.", param=self.name)
            if slot.kind in seen:
                raise ConfigurationError(f"{where}: it stands in the table twice.", param=self.name)
            if slot.zone not in _PLACES[slot.kind]:
                allowed = ", ".join(sorted(_PLACES[slot.kind]))
                raise ConfigurationError(f"{where}: it can stand in zone {allowed}, not {slot.zone}.", param=self.name)
            seen.add(slot.kind)
        missing = sorted(set(_PLACES) - {Kind.SECTIONS} - seen)
        if missing:
            raise ConfigurationError(f"layout “{self.name}” has no place for {', '.join(missing)}.", param=self.name)

    def of_zone(self, zone: Zone) -> tuple[Slot, ...]:
        """The slots of one zone, in order."""
        return tuple(slot for slot in self.slots if slot.zone is zone)

    def is_fixed(self, kind: Kind) -> bool:
        """Whether this kind stands in the fixed zone."""
        return any(slot.kind is kind and slot.zone is Zone.FIXED for slot in self.slots)

    @property
    def moves(self) -> bool:
        """Whether something that stands before an answer is taken away later, though a model may have thought of it."""
        return self.old_results is OldResults.NOTICE or any(
            slot.lifetime is not Lifetime.SESSION and not slot.keep_for_bound_thinking for slot in self.slots
        )
