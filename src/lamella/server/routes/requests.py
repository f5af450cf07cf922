"""Requests to models: what was sent, read from the cache and billed, and why; and the preview of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import Response

from lamella.app.request_map import MappedSegment, map_request, stored_body
from lamella.cache.difference import Cause, Origin
from lamella.cache.why import Why
from lamella.commands.info_commands import why_data
from lamella.core.caching import CacheVerdict, Diagnosis
from lamella.core.json import encode
from lamella.core.packets import UsageBody
from lamella.core.records import RequestRecord
from lamella.server.objects import AnyObject, ErrorBody, ExpiredObject, ListObject, Moment, Object, usage_of, whole_list
from lamella.server.routes.sending import PreviewBody, message_of
from lamella.server.routing import JSON, TheApp, TheCaller, TheIdentity, api_router

router = api_router()


class PredictedObject(Object, kw_only=True):
    """Tokens that were to be read from the cache and written to it."""

    read: int
    written: int


class DiagnosisObject(Object, kw_only=True):
    """The provider's explanation of a cache miss, compared with the answer `compared_with`. `missed` is in tokens."""

    compared_with: str
    verdict: CacheVerdict
    reason: str | None
    missed: int | None


class RequestFieldsObject(Object, kw_only=True):
    """The fields of a request, with or without its segments. `expired`: its body is not kept any more."""

    id: str | None
    object: Literal["request"] = "request"
    turn_id: str | None
    run_id: str | None
    step: int
    purpose: str
    letters: str
    model: str
    layout: str
    marker_policy: str
    thinking_effort: str
    at: Moment
    estimate: int
    budget: int
    predicted: PredictedObject
    usage: UsageBody | None
    cost: float | None
    error: ErrorBody | None
    provider_request_id: str | None
    dropped_thinking: int
    answer_id: str | None
    diagnosis: DiagnosisObject | None
    expired: ExpiredObject | None


class ModelRequestObject(RequestFieldsObject, kw_only=True):
    """A request to a model, without its segments. `usage` and `cost` are set when its turn ends.

    `diagnosis` is the provider's explanation of a cache miss; null if it was not requested or not given.
    """

    id: str
    turn_id: str


class SegmentMarkerObject(Object, kw_only=True):
    """A cache marker: the lifetime of the prefix that it ends, and why it is there."""

    ttl: str
    why: str


class SegmentObject(Object, kw_only=True):
    """A segment of a window. `measured` is false if its tokens are an estimate."""

    id: str
    kind: str
    zone: str
    lifetime: str
    source: str
    owner: str
    label: str
    letters: str
    tokens: int
    measured: bool
    read: int
    written: int
    fresh: int
    blocks: int
    markers: list[SegmentMarkerObject]
    text_preview: str


class SegmentNoteObject(Object, kw_only=True):
    """Something to know about a segment, or about the whole window."""

    segment: str | None
    text: str


class AbsentObject(Object, kw_only=True):
    """A kind of segment that the layout has a place for and the window has not."""

    kind: str
    why: str


class RequestMapObject(RequestFieldsObject, kw_only=True):
    """A request with its window, segment by segment.

    `why` says in one sentence what was read from the cache, what it cost, and why not more was read. `id`, `turn_id`
    and `why` are null for a request that was not sent.
    """

    segments: list[SegmentObject]
    notes: list[SegmentNoteObject]
    absent: list[AbsentObject]
    why: str | None


class ProviderSaysObject(Object, kw_only=True):
    """The provider's explanation. `agrees` is null if it can't be compared with ours."""

    text: str
    agrees: bool | None


class WhyObject(Object, kw_only=True):
    """What a request read from the cache, and why not more. `lost` are cached tokens that were not read,
    `first_changed` the first segment that differs, `by` who changed it.
    """

    object: Literal["why"] = "why"
    request_id: str
    text: str
    cause: Cause
    lost: int
    lost_cost: float | None
    first_changed: str | None
    by: Origin | None
    block: int | None
    byte: int | None
    provider: ProviderSaysObject | None


class DifferenceObject(Object, kw_only=True):
    """The first difference between two windows: the old segment at this place, the new one (`now`), and the text around
    the byte in both. `span` is the number of bytes within which the first different one is: 1, or more if only digests
    are stored. `after_cached_prefix`: the difference costs nothing.
    """

    segment: str
    label: str
    kind: str
    owner: str
    now: str | None
    block: int
    byte: int
    span: int
    before: str
    after: str
    reordered: bool
    after_cached_prefix: bool


class RequestDiffObject(Object, kw_only=True):
    """The first difference between a request and the one before; `difference` is null if it begins with all of that."""

    object: Literal["request.diff"] = "request.diff"
    request_id: str
    before_id: str | None
    difference: DifferenceObject | None
    cause: Cause
    by: Origin | None
    text: str
    provider: ProviderSaysObject | None


def request_object(record: RequestRecord) -> ModelRequestObject:
    """A request without its segments."""
    return ModelRequestObject.of(record, **_of_request(record))


def _of_request(record: RequestRecord) -> dict[str, Any]:
    return {
        "predicted": PredictedObject(read=record.predicted_read, written=record.predicted_written),
        "usage": usage_of(record.usage),
        "error": dict(record.error) if record.error else None,
        "diagnosis": _diagnosis(record.diagnosis) if record.diagnosis is not None else None,
        "expired": ExpiredObject.of(record.expired) if record.expired is not None else None,
    }


def _diagnosis(diagnosis: Diagnosis) -> DiagnosisObject:
    return DiagnosisObject.of(diagnosis, compared_with=diagnosis.against, reason=diagnosis.reason or None)


def map_object(record: RequestRecord, segments: Sequence[MappedSegment], **given: Any) -> RequestMapObject:
    """A request with its window."""
    return RequestMapObject.of(
        record,
        segments=[_segment(one) for one in segments],
        notes=[SegmentNoteObject(segment=segment, text=text) for segment, text in record.notes],
        absent=[AbsentObject(kind=kind, why=why) for kind, why in record.absent],
        **_of_request(record),
        **given,
    )


def _segment(mapped: MappedSegment) -> SegmentObject:
    """The labels of the stored segment, with its share of the bill."""
    return SegmentObject.of(
        mapped.segment,
        zone=mapped.zone,
        tokens=mapped.tokens,
        measured=mapped.measured,
        read=mapped.read,
        written=mapped.written,
        fresh=mapped.fresh,
        blocks=len(mapped.segment.blocks),
        markers=[SegmentMarkerObject.of(marker) for marker in mapped.markers],
        text_preview=mapped.preview,
    )


def diff_object(request_id: str, why: Why) -> RequestDiffObject:
    """The first difference between a request and the one before."""
    place, found = None, why.differs
    if found is not None:
        place = DifferenceObject.of(
            found,
            segment=found.segment.id,
            label=found.segment.label,
            kind=found.segment.kind,
            owner=found.segment.owner,
            now=found.now.id if found.now is not None else None,
            before=found.was,
            after=found.becomes,
            after_cached_prefix=why.is_behind,
        )
    provider = ProviderSaysObject.of(why.provider) if why.provider is not None else None
    return RequestDiffObject.of(why, request_id=request_id, before_id=why.against, difference=place, provider=provider)


@router.get("/turns/{turn_id}/requests")
async def requests(turn_id: str, app: TheApp, caller: TheCaller) -> ListObject[ModelRequestObject]:
    """The requests of a turn, in order."""
    return whole_list([request_object(record) for record in await app.store.requests.requests(caller, turn_id)])


@router.get("/requests/{request_id}/map")
async def request_map(request_id: str, app: TheApp, caller: TheCaller) -> RequestMapObject:
    """The window of a request in order, with the tokens that were read from the cache."""
    record = await app.store.requests.request(caller, request_id)
    segments = map_request(record, await app.store.requests.blocks(caller, request_id))
    return map_object(record, segments, why=(await app.sessions.why(caller, request_id)).text)


@router.get("/requests/{request_id}/why")
async def request_why(request_id: str, app: TheApp, caller: TheCaller) -> WhyObject:
    """What a request read from the cache and why not more, in one sentence. `lost` are cached tokens that were not
    read.
    """
    found = await app.sessions.why(caller, request_id)
    return WhyObject.of(found, request_id=request_id, **why_data(found))


@router.get("/requests/{request_id}/diff")
async def request_diff(request_id: str, app: TheApp, caller: TheCaller) -> RequestDiffObject:
    """The first difference between a request and the one before, and the reason. `block` and `byte` count from 0."""
    return diff_object(request_id, await app.sessions.why(caller, request_id))


@router.post("/context/preview")
async def preview(body: PreviewBody, app: TheApp, identity: TheIdentity) -> RequestMapObject:
    """The map of the request that this message would make. Nothing is stored and nothing is sent."""
    found = await app.chat.sender.preview(identity, body.conversation_id, message_of(body))
    return map_object(found.record, map_request(found.record, found.blocks), id=None, turn_id=None, why=None)


@router.get("/requests/{request_id}/raw", responses={200: {JSON: AnyObject}})
async def request_raw(request_id: str, app: TheApp, caller: TheCaller) -> Response:
    """The request's body as it was sent. Once it has expired, `{"expired": "…"}` says when."""
    record = await app.store.requests.request(caller, request_id)
    blocks = await app.store.requests.blocks(caller, request_id)
    return Response(encode(stored_body(record, blocks)), media_type=JSON)
