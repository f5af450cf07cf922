"""Restricted access as owners of knowledge bases see it: what its readers would get, and what they asked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field, StringConstraints

from lamella.core.access_ports import RestrictedUse
from lamella.knowledge.restricted.material import Chunk
from lamella.knowledge.restricted.safe_answers import Answered
from lamella.server.asked import PREFIX, TheApp, TheCaller, ThePage
from lamella.server.schemas import Body, Json, list_json

router = APIRouter(prefix=PREFIX)


class PreviewBody(Body):
    """`POST /api/v1/knowledge-bases/{base_id}/restricted-preview`."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    max_results: Annotated[int, Field(ge=1, le=20)] = 8


@router.post("/knowledge-bases/{base_id}/restricted-preview")
async def preview(base_id: str, body: PreviewBody, app: TheApp, caller: TheCaller) -> Json:
    """Its owner: what a restricted reader would be told, beside what the second model said and the passages it read."""
    answered, chunks = await app.knowledge.restricted_preview(caller, base_id, body.query, body.max_results)
    return preview_json(answered, chunks)


@router.get("/knowledge-bases/{base_id}/restricted-uses")
async def uses(base_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """Its owner: who asked it what with restricted access, and how that ended."""
    return list_json(await app.knowledge.restricted_uses(caller, base_id, page), use_json)


def preview_json(answered: Answered, chunks: tuple[Chunk, ...]) -> Json:
    """A preview: `safe` is what a reader gets, all else is for the owner."""
    safe = answered.safe
    return {
        "object": "restricted_preview",
        "safe": {"decision": safe.decision, "reason": safe.reason.value, "summary": safe.text},
        "said": answered.said,
        "removed": list(answered.removed),
        "confidence": answered.confidence,
        "model": answered.model or None,
        "cached": answered.cached,
        "passages": [
            {"id": chunk.id, "title": chunk.title, "headings": list(chunk.headings), "text": chunk.text}
            for chunk in chunks
        ],
    }


def use_json(use: RestrictedUse) -> Json:
    """A question to a restricted base."""
    return {
        "id": use.id,
        "object": "restricted_use",
        "user_id": use.user_id,
        "name": use.user_name,
        "at": use.at.isoformat(),
        "question": use.question,
        "decision": use.decision,
        "reason": use.reason,
        "passages": use.chunks,
        "removed": list(use.removed),
        "cached": use.cached,
        "model": use.model or None,
        "input_tokens": use.input_tokens,
        "output_tokens": use.output_tokens,
    }
