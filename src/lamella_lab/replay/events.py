"""What happened on the way to each request of a turn, from its packets and decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lamella.core.decisions import Decision, DecisionKind
from lamella.core.packets import AnyPacket, ContextDegraded, RequestStarted
from lamella_lab.replay.report import Event


def events_of(
    packets: Sequence[AnyPacket], decisions: Sequence[Decision], before: Sequence[Event]
) -> Mapping[str, Sequence[Event]]:
    """The events by request, in order. What happened `before` the turn, and settings, are told with its first one."""
    degraded: list[tuple[str, ContextDegraded]] = []
    requests: list[str] = []
    waiting: list[ContextDegraded] = []
    for packet in packets:
        match packet:
            case ContextDegraded():
                waiting.append(packet)
            case RequestStarted(request_id=request_id):
                requests.append(request_id)
                degraded += ((request_id, told) for told in waiting)
                waiting = []
            case _:
                pass
    events: dict[str, list[Event]] = {id: [] for id in requests}
    if requests:
        settings = [(d.subject, d.why) for d in decisions if d.kind is DecisionKind.SETTING]
        events[requests[0]] += (*before, *settings)
    for request_id, told in degraded:
        events[request_id].append((_kind_of(told, decisions), told.why))
    return events


def _kind_of(packet: ContextDegraded, decisions: Iterable[Decision]) -> str:
    """The kind of the decision that a packet tells of."""
    named = (d.kind.value for d in decisions if d.subject == packet.subject and packet.why.startswith(d.why))
    return next(named, "degraded")
