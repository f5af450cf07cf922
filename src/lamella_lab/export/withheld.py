"""What of a conversation its reader may not read any more: it is not carried, and its requests are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lamella.core.decisions import DecisionKind
from lamella.core.records import RequestRecord
from lamella.turns.effective_settings import GRANT, WITHHELD
from lamella_lab.export.gathered import Gathered

AS_DATA = "S U"
"""The window of a request beside the conversation, for a digest, a title or a summary: what it reads stands in it as
data, and nothing says from which rows."""


@dataclass(frozen=True, slots=True)
class Apart:
    """The requests whose windows held what is withheld now, the knowledge bases that it is of, and what is said of it.
    False where nothing is."""

    requests: frozenset[str]
    bases: frozenset[str]
    told: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.told)


def held_apart(found: Gathered) -> Apart:
    """Which requests were made with what their reader may not read any more.

    A window that was built after a grant was lowered holds fixed sentences in its place, and is like any other.
    """
    closed = _closed_since(found)
    sources = _withheld_sources(found)
    if not sources:
        return Apart(frozenset(), frozenset(), ())
    apart = set()
    for records in found.requests.values():
        for record in records:
            bases = {base for segment in record.segments for base in sources.get(segment.source, ())}
            bases |= {base for segment in record.segments for base in sources.get(segment.id, ())}
            if record.letters == AS_DATA:
                bases |= _held_before(found, record)
            if any(base not in closed or record.at < closed[base] for base in bases):
                apart.add(record.id)
    closed_now = frozenset(base for held in sources.values() for base in held)
    told = [
        f"what was said and found with the knowledge base {base}, which may not be read in full any more"
        for base in sorted(closed_now)
    ]
    if apart:
        what = "request that was" if len(apart) == 1 else "requests that were"
        told.append(f"{len(apart)} {what} made with it: the replay makes them without, and they are not compared")
    return Apart(frozenset(apart), closed_now, tuple(told))


def _held_before(found: Gathered, record: RequestRecord) -> set[str]:
    """The bases of all that is withheld and was there when a request was made."""
    turns = [turn for turn in found.turns if turn.started_at <= record.at]
    held = {base for turn in turns for run in turn.runs for step in run.steps for base in step.withheld}
    held |= {base for turn in turns if not turn.dynamic for base in turn.dynamic_from}
    return held | {base for one in found.sessions if one.opened_at <= record.at for base in one.withheld}


def _closed_since(found: Gathered) -> Mapping[str, datetime]:
    """Since when windows leave out what came from a base, by the newest decision about it."""
    closed: dict[str, datetime] = {}
    for stored in found.decisions:
        kind, _, base = stored.decision.subject.partition(" ")
        if stored.decision.kind is DecisionKind.SETTING and kind == GRANT:
            closed.pop(base, None)
            if stored.decision.outcome == WITHHELD:
                closed[base] = stored.at
    return closed


def _withheld_sources(found: Gathered) -> Mapping[str, tuple[str, ...]]:
    """The bases because of which something is not given, by the source or the id of its segment."""
    held: dict[str, tuple[str, ...]] = {}
    for turn in found.turns:
        if turn.dynamic_from and not turn.dynamic:
            held[f"{turn.id}/dynamic"] = turn.dynamic_from
        for run in turn.runs:
            held |= {step.id: step.withheld for step in run.steps if step.withheld}
    return held | {session.id: session.withheld for session in found.sessions if session.withheld}
