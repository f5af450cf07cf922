"""Which earlier summaries the window of a new session carries, and how much of each. Pure.

    session 4   Σ1 Σ2 Σ3            all of each
    session 9   Σ1' Σ2' … Σ7' Σ8    the older ones are shortened to their lines with facts
    session 30  … Σ11' … Σ29        the oldest are left out: a line says so, and a search finds them

It is decided once, when a session opens, and stored with it: a window changes no earlier summary while its session
goes on, and what is shortened once stays so. The summaries themselves are never changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lamella.core.counting import count_tokens
from lamella.core.sessions import CarriedSummary, Session, carried_in
from lamella.sessions.summary_check import Rank, forms_of

CHAIN_SHARE, CHAIN_TOKENS = 0.15, 8_000
"""The most that earlier summaries may take in a window: this share of the size at which it is compacted, and so many
tokens.
"""
CHAIN_FACTS = 3_000
"""Tokens that lines with facts from earlier summaries may always have if compaction goes by price."""


@dataclass(frozen=True, slots=True)
class ChainRoom:
    """The room for the earlier summaries of a window: up to `whole` tokens they stay whole, above `most` lines are left
    out.
    """

    whole: int
    most: int

    @property
    def newest(self) -> int:
        """The room for the newest of them: half, so that the others have room too."""
        return self.most // 2

    def at_most(self, tokens: int) -> ChainRoom:
        """No more than this."""
        return ChainRoom(min(self.whole, tokens), min(self.most, tokens))

    def in_local(self, calibration: float) -> ChainRoom:
        """The same in local tokens."""
        return ChainRoom(int(self.whole / calibration), int(self.most / calibration))


def chain_room(threshold: int, window: int | None = None) -> ChainRoom:
    """The room of earlier summaries if windows are compacted at `threshold` tokens, or by price at a `window` of so
    many."""
    most = min(CHAIN_TOKENS, int(threshold * CHAIN_SHARE))
    whole = most
    if window is not None:
        whole = min(most, int(window * CHAIN_SHARE))
        most = min(most, max(CHAIN_FACTS, whole))
    return ChainRoom(whole, most)


FRAME = 16
"""Local tokens around a summary in a window."""

REFILL = 0.85
"""The share of the room that is filled when lines are left out, so that it is not repeated in each session."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a summary that may stay: `age` counts sessions back from the newest."""

    rank: Rank
    age: int
    index: int
    tokens: int


def carried_on(
    ended: Session, known: Sequence[Session], room: ChainRoom, used: Collection[str] = ()
) -> tuple[CarriedSummary, ...]:
    """The summaries that the session after `ended` carries, oldest first: the summary of `ended`, and those in its
    window.

    Up to `room.whole` tokens nothing changes. Above it, all but the newest are shortened to lines with an item. Above
    `room.most` the most important lines stay, newest first among equals. `used` are the forms of items that the ended
    session used, which makes a line important.
    """
    by_id = {session.id: session for session in known} | {ended.id: ended}
    carried = [*carried_in(known, ended.id), CarriedSummary(ended.id)]
    if _tokens(by_id, carried) <= room.whole:
        return tuple(carried)
    *older, newest = carried
    facts = [[*_facts(by_id[one.session_id], one, age, used)] for age, one in enumerate(reversed(older), start=1)]
    left = room.most - _tokens(by_id, [newest])
    if sum(line.tokens for lines in facts for line in lines) + FRAME * len(facts) > left:
        facts = _most_important(facts, int(max(left, room.most // 4) * REFILL))
    shortened = [
        CarriedSummary(one.session_id, tuple(line.index for line in lines))
        for one, lines in zip(older, reversed(facts), strict=True)
    ]
    return (*shortened, newest)


def _tokens(by_id: dict[str, Session], carried: Sequence[CarriedSummary]) -> int:
    """Local tokens of summaries as they are carried."""
    total = 0
    for one in carried:
        summary = by_id[one.session_id]
        if one.lines is None:
            total += summary.summary_tokens + FRAME
        elif one.lines:
            lines = (summary.summary or "").split("\n")
            total += sum(count_tokens(lines[index]) + 1 for index in one.lines if index < len(lines)) + FRAME
    return total


def _facts(session: Session, carried: CarriedSummary, age: int, used: Collection[str]) -> Iterator[_Line]:
    """The lines of a summary that have an item, as far as it is carried; else its first line."""
    lines = (session.summary or "").split("\n")
    ranks = session.check.get("ranks")
    known = ranks if isinstance(ranks, list) and len(ranks) == len(lines) else None
    first: _Line | None = None
    found = False
    for index in range(len(lines)) if carried.lines is None else carried.lines:
        text = lines[index].strip() if index < len(lines) else ""
        if not text or text.startswith("#"):
            continue
        forms = forms_of(text)
        rank = Rank(int(str(known[index]))) if known else Rank.RESULT if forms else Rank.PROSE
        if not forms.isdisjoint(used):
            rank = min(rank, Rank.CALLED)
        line = _Line(rank, age, index, count_tokens(lines[index]) + 1)
        first = first or line
        if rank is not Rank.PROSE:
            found = True
            yield line
    if first is not None and not found:
        yield first


def _most_important(facts: Sequence[Sequence[_Line]], room: int) -> list[list[_Line]]:
    """Of the lines of each summary those that fit into `room` local tokens, in their order."""
    kept: list[list[_Line]] = [[] for _ in facts]
    for line in sorted((line for lines in facts for line in lines), key=lambda line: (line.rank, line.age, line.index)):
        of = kept[line.age - 1]
        cost = line.tokens + (0 if of else FRAME)
        if cost <= room:
            of.append(line)
            room -= cost
    return [sorted(lines, key=lambda line: line.index) for lines in kept]
