"""Requests that were made, as a trace says them: what went over the wire, what it cost, and how it ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from lamella.app.request_map import sizes_of, stored_body
from lamella.core.counting import aside
from lamella.core.decisions import DecisionKind
from lamella.core.json import digest, encode
from lamella.core.records import Caller, RequestRecord, StoredBlock, StoredMarker
from lamella.core.tokens import Usage
from lamella.storage import Store
from lamella_lab.export.conversation_data import ConversationData
from lamella_lab.trace.parts import TraceAnswer, TraceError, TraceMarker, TraceSent, TraceUsage


@dataclass(frozen=True, slots=True)
class SentRequests:
    """The requests of a conversation by id; `apart` are those whose window held what their reader may not read now."""

    of: Mapping[str, TraceSent]
    apart: Collection[str]

    def __getitem__(self, request_id: str) -> TraceSent:
        return self.of[request_id]


async def requests_sent(
    store: Store, caller: Caller, gathered: ConversationData, apart: Collection[str]
) -> SentRequests:
    """What is known of each request. The body of one that has expired is not known. Those `apart` are not described:
    they were made of other text.
    """
    counts = _counts(gathered)
    found = {}
    for records in gathered.requests.values():
        for record in records:
            blocks = await store.requests.blocks(caller, record.id) if record.id not in apart else ()
            made = await aside(len(blocks), _sent, record, blocks, described=record.id not in apart)
            if record.expired is not None:
                made.bytes, made.digest = 0, ""
            if apart:  # what is left out in its place is counted otherwise in a replay, that knows nothing of it
                made.sizes = ""
            made.counted = list(counts.get((record.run_id, record.at.isoformat()), ()))
            found[record.id] = made
    return SentRequests(found, apart)


def _counts(gathered: ConversationData) -> Mapping[tuple[str | None, str], list[int]]:
    """What providers counted before requests, by run and moment: a decision that says so is stored with its request."""
    found: dict[tuple[str | None, str], list[int]] = {}
    for stored in gathered.decisions:
        counted = stored.decision.numbers.get("counted")
        if stored.decision.kind is DecisionKind.CALIBRATION and counted is not None:
            found.setdefault((stored.run_id, stored.at.isoformat()), []).append(int(counted))
    return found


def _sent(record: RequestRecord, blocks: tuple[StoredBlock, ...], *, described: bool) -> TraceSent:
    body = encode(stored_body(record, blocks)) if described else b""
    return TraceSent(
        letters=record.letters if described else "",
        bytes=len(body),
        sizes=sizes_of(record) if described else "",
        digest=digest(body) if described else "",
        markers=[marker_of(marker) for marker in record.markers],
        estimate=record.estimate,
        usage=usage_of(record.usage),
        answer=record.answer_id,
        error=msgspec.convert(dict(record.error), TraceError) if record.error is not None else None,
    )


def marker_of(marker: StoredMarker) -> TraceMarker:
    """A marker, as it was sent."""
    return msgspec.convert({"block": marker.index, "life": marker.ttl}, TraceMarker)


def usage_of(usage: Usage | None) -> TraceUsage | None:
    """A bill. None if nothing was billed and the provider had not begun to answer."""
    if usage is None or usage == Usage():
        return None
    return TraceUsage(
        input=usage.input,
        read=usage.cache_read,
        written_5m=usage.cache_write_5m,
        written_1h=usage.cache_write_1h,
        output=usage.output,
        reasoning=usage.reasoning,
        estimated=usage.input_estimated,
    )


def answer_of(record: RequestRecord, sent: TraceSent, text: str | None, late: int = 0) -> TraceAnswer:
    """The answer to a side request. `text` takes precedence over the stored answer."""
    response = record.said
    stored = response.text if response is not None else ""
    return TraceAnswer(
        text=stored if text is None else text,
        late=late,
        stop_reason=response.stop_reason if response is not None and response.stop_reason != "end_turn" else None,
        calls=response.called if response is not None else False,
        sent=sent,
    )
