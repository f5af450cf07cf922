"""What two sequences share: maximal runs of equal items, in time that grows with the sequences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

MOST_PLACES = 64
"""Places of one piece that are looked at: a piece that stands in more tells nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """Items `start` to `end` of what was said stand in a source too."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """In items."""
        return self.end - self.start


class RunIndex:
    """Sources, in pieces of `step` items: a run of at least `2 * step - 1` items holds a whole piece of its source."""

    def __init__(self, sources: Sequence[Sequence[Hashable]], step: int) -> None:
        self._sources = sources
        self._step = step
        places: defaultdict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        for number, source in enumerate(sources):
            for at in range(0, len(source) - step + 1, step):
                places[self._piece(source, at)].append((number, at))
        self._places = places

    def _piece(self, items: Sequence[Hashable], at: int) -> Hashable:
        piece = items[at : at + self._step]
        return piece if isinstance(piece, str) else tuple(piece)

    def runs(self, said: Sequence[Hashable]) -> Iterator[Run]:
        """The maximal runs that `said` shares with any source; of those that overlap, all."""
        reached: dict[tuple[int, int], int] = {}
        for at in range(len(said) - self._step + 1):
            places = self._places.get(self._piece(said, at), ())
            for number, place in places[:MOST_PLACES]:
                diagonal = (number, place - at)
                if reached.get(diagonal, 0) > at:
                    continue
                run = self._grown(said, at, self._sources[number], place)
                reached[diagonal] = run.end
                yield run

    def _grown(self, said: Sequence[Hashable], at: int, source: Sequence[Hashable], place: int) -> Run:
        back = 0
        while back < min(at, place) and said[at - back - 1] == source[place - back - 1]:
            back += 1
        on, most = self._step, min(len(said) - at, len(source) - place)
        while on < most and said[at + on] == source[place + on]:
            on += 1
        return Run(at - back, at + on)
