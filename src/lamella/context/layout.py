"""A layout is a table: which kinds of segment stand in the window, in which order, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from lamella.core.prompt import Kind, Lifetime, Zone


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the window.

    A slot of zone TURN is filled once for every turn of the path: past turns keep their place in zone HISTORY, by the
    same slots, so a finished turn is a prefix of the next request. `keep_for_bound_thinking`: where a model refuses
    thinking after anything before it was taken away, a trailing segment stays before the step that was made behind it,
    and is sent again only when its text changes (PROVIDERS 1.5).
    """

    kind: Kind
    zone: Zone
    lifetime: Lifetime
    keep_for_bound_thinking: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A named table of slots, in the order of the window."""

    name: str
    slots: tuple[Slot, ...]

    def of_zone(self, zone: Zone) -> tuple[Slot, ...]:
        """The slots of one zone, in order."""
        return tuple(slot for slot in self.slots if slot.zone is zone)
