"""A layout is a table: the kinds of segment in the window, their order, and how long each stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from lamella.core.errors import ConfigurationError
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, SeedMarker, Zone


class OldResults(StrEnum):
    """What replaces the tool results of earlier turns."""

    KEEP = "keep"
    NOTICE = "notice"
    """A fixed string as soon as the turn is over."""

    STUB = "stub"
    """The bare function name, up to the recorded prune boundary. See `Layout.names_ids`."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of a layout.

    A slot of zone TURN is filled once for every turn of the path. Past turns keep their place in zone HISTORY by the
    same slots, so a finished turn is a prefix of the next request. `when_changed`: sent again only if it differs from
    the copy in the window. `keep_for_bound_thinking`: if a model refuses thinking after anything before it was removed,
    a trailing segment stays where it was sent, and is sent again only if its text changes. `as_system`: a message of
    role `system`, if the model accepts one in the middle of a conversation.
    """

    kind: Kind
    zone: Zone
    lifetime: Lifetime
    when_changed: bool = False
    keep_for_bound_thinking: bool = False
    as_system: bool = False


_PLACES: dict[Kind, frozenset[Zone]] = {
    Kind.TOOLS: frozenset({Zone.FIXED}),
    Kind.SYSTEM: frozenset({Zone.FIXED}),
    Kind.SECTIONS: frozenset({Zone.FIXED}),
    Kind.SUMMARY: frozenset({Zone.FIXED}),
    Kind.AGENT: frozenset({Zone.FIXED, Zone.TRAVELLING}),
    Kind.PROJECT: frozenset({Zone.FIXED, Zone.TRAVELLING}),
    Kind.FILES: frozenset({Zone.TURN}),
    Kind.DYNAMIC: frozenset({Zone.TURN, Zone.TRAVELLING, Zone.TRAILING}),
    Kind.USER: frozenset({Zone.TURN}),
    Kind.STEP: frozenset({Zone.TURN}),
    Kind.REMINDER: frozenset({Zone.TRAILING}),
}


_RANKS = {Kind.TOOLS: 0, Kind.SYSTEM: 1, Kind.SECTIONS: 2, Kind.AGENT: 2, Kind.REMINDER: 7}


def _rank(slot: Slot) -> int:
    """The order of a slot: system text, other fixed segments, the parts of a turn, its steps, trailing segments."""
    match slot.zone:
        case Zone.FIXED:
            return _RANKS.get(slot.kind, 3)
        case Zone.TRAILING:
            return _RANKS.get(slot.kind, 6)
        case _:
            return 5 if slot.kind is Kind.STEP else 4


@dataclass(frozen=True, slots=True)
class Layout:
    """A named table of slots, in the order of the window. Raises `ConfigurationError` for an invalid one."""

    name: str
    slots: tuple[Slot, ...]
    description: str = ""
    old_results: OldResults = OldResults.STUB
    drops_tools_at_end: bool = False
    """The last permitted step is sent without the tool list, even if that loses the cache."""
    names_ids: bool = False
    """A cut or pruned result names the id by which the model can read it again, if it has the tool."""
    keeps_extracts: bool = False
    """A stub keeps an extract of its result, unless it was made for lack of room."""
    tells: bool = False
    """Users are notified of each pruning, and of a compaction with its breakdown."""
    seed_markers: tuple[SeedMarker, ...] = ()
    markers: str = "seed"
    """The default marker policy of conversations."""
    waits_for_thresholds: bool = False
    """Pruning and compaction wait for the deployment's thresholds and ignore prices."""
    late_dynamic: Slot | None = None
    """The place of dynamic context in sessions in which sending it last is cheaper; it is gone with the next request.
    """
    kept: Layout | None = None
    """For a table with dynamic context last (`late`): the original table."""

    def __post_init__(self) -> None:
        for check in (self._kinds, self._order, self._flags):
            for wrong in check():
                raise ConfigurationError(
                    f"layout “{self.name}”, {wrong}.", hint="Correct the table of the layout.", param=self.name
                )

    def _kinds(self) -> Iterator[str]:
        """Every kind once, in an allowed place."""
        seen: set[Kind] = set()
        for slot in self.slots:
            if slot.kind not in _PLACES:
                yield f"{slot.kind}: there is no such kind of segment"
            elif slot.kind in seen:
                yield f"{slot.kind}: it is in the table twice"
            elif slot.zone not in _PLACES[slot.kind]:
                allowed = ", ".join(sorted(_PLACES[slot.kind]))
                yield f"{slot.kind}: it can stand in zone {allowed}, not {slot.zone}"
            seen.add(slot.kind)
        missing = sorted(set(_PLACES) - {Kind.SECTIONS} - seen)
        if missing:
            yield f"{', '.join(missing)}: there is no place for it"

    def _order(self) -> Iterator[str]:
        """The order of the table is that of the wire: tools, system text, messages; questions before answers."""
        ranks = [(_rank(slot), slot.kind) for slot in self.slots]
        for (before, kind), (after, next_kind) in pairwise(ranks):
            if before > after:
                yield f"{next_kind}: it can't come after {kind}"

    def _flags(self) -> Iterator[str]:
        """A slot has only options that its kind supports, and content replaced after a turn does not last longer."""
        for slot in self.slots:
            reminds, lasts = slot.kind is Kind.REMINDER, slot.lifetime is Lifetime.SESSION
            if (slot.keep_for_bound_thinking or slot.as_system) and not reminds:
                yield f"{slot.kind}: only a reminder can be kept for thinking, or be a system message"
            if slot.when_changed and (slot.kind is not Kind.DYNAMIC or slot.zone is not Zone.TURN):
                yield f"{slot.kind}: only dynamic context in zone turn can be sent when it changed"
            if slot.kind is Kind.STEP and lasts and self.old_results is OldResults.NOTICE:
                yield "step: results that are replaced when a turn is over have the lifetime turn"
        late = self.late_dynamic
        if late is not None and (late.kind, late.zone) != (Kind.DYNAMIC, Zone.TRAILING):
            yield f"{late.kind}: only dynamic context in zone trailing can be the late form"

    def of_zone(self, zone: Zone) -> tuple[Slot, ...]:
        """The slots of one zone, in order."""
        return tuple(slot for slot in self.slots if slot.zone is zone)

    def is_fixed(self, kind: Kind) -> bool:
        """Whether this kind is in the fixed zone."""
        return any(slot.kind is kind and slot.zone is Zone.FIXED for slot in self.slots)

    @property
    def late(self) -> Layout | None:
        """This table with dynamic context last, before the other trailing segments. Returns None if it has none."""
        if self.late_dynamic is None:
            return None
        others = [slot for slot in self.slots if slot.kind is not Kind.DYNAMIC]
        place = next(index for index, slot in enumerate(others) if slot.zone is Zone.TRAILING)
        slots = (*others[:place], self.late_dynamic, *others[place:])
        return replace(self, slots=slots, late_dynamic=None, kept=self)

    def for_model(self, model: ModelFacts) -> Layout:
        """The table for a model. For one that binds thinking to its prefix, dynamic context is kept in every
        session.
        """
        return self.kept if self.kept is not None and model.binds_thinking else self

    @property
    def moves(self) -> bool:
        """Whether something before an answer is removed later although the model may have thought about it."""
        return self.old_results is OldResults.NOTICE or any(
            slot.lifetime is not Lifetime.SESSION and not slot.keep_for_bound_thinking for slot in self.slots
        )
