"""A layout is a table: which kinds of segment stand in the window, in which order, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from lamella.core.errors import ConfigurationError
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, Lifetime, SeedMarker, Zone


class OldResults(StrEnum):
    """What becomes of the tool results of earlier turns."""

    KEEP = "keep"
    NOTICE = "notice"
    """A fixed string as soon as the turn is over."""

    STUB = "stub"
    """The bare function name, up to the recorded prune boundary. See `Layout.names_ids`."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the window.

    A slot of zone TURN is filled once for every turn of the path: past turns keep their place in zone HISTORY, by the
    same slots, so a finished turn is a prefix of the next request. `when_changed`: sent again only when it differs from
    what stands already. `keep_for_bound_thinking`: where a model refuses thinking after anything before it was taken
    away, a trailing segment stays where it was sent and is sent again only when its text changes.
    `as_system`: a message of role `system` where the model takes one in the middle of a conversation.
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
    """Where in the order a slot belongs: system text, other fixed things, what a turn holds, its steps, what trails."""
    match slot.zone:
        case Zone.FIXED:
            return _RANKS.get(slot.kind, 3)
        case Zone.TRAILING:
            return _RANKS.get(slot.kind, 6)
        case _:
            return 5 if slot.kind is Kind.STEP else 4


@dataclass(frozen=True, slots=True)
class Layout:
    """A named table of slots, in the order of the window; raises `ConfigurationError` for one that makes no sense."""

    name: str
    slots: tuple[Slot, ...]
    description: str = ""
    old_results: OldResults = OldResults.STUB
    drops_tools_at_end: bool = False
    """Whether the last permitted step is sent without the tool list, whatever that costs in cache."""
    names_ids: bool = False
    """Whether what is left out of a result names the id by which the model can read it again, where it has the tool."""
    keeps_extracts: bool = False
    """Whether a stub keeps a little of its result, where it was not made for want of room."""
    tells: bool = False
    """Whether users are told of each pruning, and of a compaction with its breakdown."""
    seed_markers: tuple[SeedMarker, ...] = ()
    markers: str = "seed"
    """The marker policy of conversations that name none."""
    waits_for_thresholds: bool = False
    """Whether pruning and compaction wait for the deployment's thresholds, whatever prices say."""
    late_dynamic: Slot | None = None
    """Where dynamic context stands in sessions in which it is cheaper last, and gone with the next request."""
    kept: Layout | None = None
    """Of a table with dynamic context last (`late`): the one that it was made from."""

    def __post_init__(self) -> None:
        for check in (self._kinds, self._order, self._flags):
            for wrong in check():
                raise ConfigurationError(
                    f"layout “{self.name}”, {wrong}.", hint="Correct the table of the layout.", param=self.name
                )

    def _kinds(self) -> Iterator[str]:
        """Every kind once, where it can stand."""
        seen: set[Kind] = set()
        for slot in self.slots:
            if slot.kind not in _PLACES:
                yield f"{slot.kind}: there is no such kind of segment"
            elif slot.kind in seen:
                yield f"{slot.kind}: it stands in the table twice"
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
                yield f"{next_kind}: it can't stand behind {kind}"

    def _flags(self) -> Iterator[str]:
        """A slot only says what its kind can do, and what is replaced when a turn is over does not last longer."""
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
        """Whether this kind stands in the fixed zone."""
        return any(slot.kind is kind and slot.zone is Zone.FIXED for slot in self.slots)

    @property
    def late(self) -> Layout | None:
        """This table with dynamic context at its late place, in front of what else trails; None: it has none."""
        if self.late_dynamic is None:
            return None
        others = [slot for slot in self.slots if slot.kind is not Kind.DYNAMIC]
        place = next(index for index, slot in enumerate(others) if slot.zone is Zone.TRAILING)
        slots = (*others[:place], self.late_dynamic, *others[place:])
        return replace(self, slots=slots, late_dynamic=None, kept=self)

    def for_model(self, model: ModelFacts) -> Layout:
        """The table for a model: one that binds thinking to its prefix has dynamic context kept in any session."""
        return self.kept if self.kept is not None and model.binds_thinking else self

    @property
    def moves(self) -> bool:
        """Whether something that stands before an answer is taken away later, though a model may have thought of it."""
        return self.old_results is OldResults.NOTICE or any(
            slot.lifetime is not Lifetime.SESSION and not slot.keep_for_bound_thinking for slot in self.slots
        )
