"""Requests: what was sent, billed and why it differs from the one before."""

from __future__ import annotations

from collections.abc import Sequence

from lamella.app.request_map import MappedSegment
from lamella.cache.why import Why
from lamella.core.caching import Diagnosis
from lamella.core.records import (
    RequestRecord,
)
from lamella.server.schemas.lists import Json
from lamella.server.schemas.turn_objects import usage_json


def request_json(record: RequestRecord) -> Json:
    """A request without its segments."""
    return {
        "id": record.id,
        "object": "request",
        "turn_id": record.turn_id,
        "run_id": record.run_id,
        "step": record.step,
        "purpose": record.purpose,
        "letters": record.letters,
        "model": record.model,
        "layout": record.layout,
        "marker_policy": record.marker_policy,
        "thinking_effort": record.thinking_effort,
        "at": record.at.isoformat(),
        "estimate": record.estimate,
        "budget": record.budget,
        "predicted": {"read": record.predicted_read, "written": record.predicted_written},
        "usage": usage_json(record.usage) if record.usage else None,
        "cost": record.cost,
        "error": dict(record.error) if record.error else None,
        "provider_request_id": record.provider_request_id,
        "dropped_thinking": record.dropped_thinking,
        "answer_id": record.answer_id,
        "diagnosis": diagnosis_json(record.diagnosis),
    }


def diagnosis_json(diagnosis: Diagnosis | None) -> Json | None:
    """What a provider says of a missed cache; null where it was not asked or did not say."""
    if diagnosis is None:
        return None
    return {
        "against": diagnosis.against,
        "verdict": diagnosis.verdict.value,
        "reason": diagnosis.reason or None,
        "missed": diagnosis.missed,
    }


def diff_json(request_id: str, why: Why) -> Json:
    """Where a request stops beginning as the one before it; `difference` is null where it begins with all of it, and
    `behind_cached` where it costs nothing."""
    place, found = None, why.differs
    if found is not None:
        place = {
            "segment": found.segment.id,
            "label": found.segment.label,
            "kind": found.segment.kind,
            "owner": found.segment.owner,
            "now": found.now.id if found.now is not None else None,
            "block": found.block,
            "byte": found.byte,
            "was": found.was,
            "becomes": found.becomes,
            "reordered": found.reordered,
            "behind_cached": why.is_behind,
        }
    return {
        "object": "request.diff",
        "request_id": request_id,
        "before_id": why.against,
        "difference": place,
        "cause": why.cause.value,
        "by": why.by.value if why.by is not None else None,
        "text": why.text,
        "provider": {"text": why.provider.text, "agrees": why.provider.agrees} if why.provider is not None else None,
    }


def map_json(record: RequestRecord, segments: Sequence[MappedSegment]) -> Json:
    """A request with its window, segment by segment; `measured` is false where tokens are an estimate."""
    return request_json(record) | {
        "segments": [
            {
                "id": s.segment.id,
                "kind": s.segment.kind,
                "zone": s.zone,
                "lifetime": s.segment.lifetime,
                "source": s.segment.source,
                "owner": s.segment.owner,
                "label": s.segment.label,
                "letters": s.segment.letters,
                "tokens": s.tokens,
                "measured": s.measured,
                "read": s.read,
                "written": s.written,
                "fresh": s.fresh,
                "blocks": len(s.segment.blocks),
                "markers": [{"ttl": m.ttl, "why": m.why} for m in s.markers],
                "text_preview": s.preview,
            }
            for s in segments
        ],
        "notes": [{"segment": segment, "text": text} for segment, text in record.notes],
        "absent": [{"kind": kind, "why": why} for kind, why in record.absent],
    }
