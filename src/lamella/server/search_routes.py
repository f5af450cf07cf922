"""Search over what was said, under `/api/v1/sessions/search`: passages, and the sessions that they are of."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from lamella.core.recall import Hit, SessionHit
from lamella.core.sessions import Session
from lamella.search.passages import snippet_of
from lamella.search.terms import query_terms
from lamella.server.asked import PREFIX, TheApp, TheCaller
from lamella.server.schemas import Json

router = APIRouter(prefix=PREFIX)


@router.get("/sessions/search")
async def search(
    app: TheApp,
    caller: TheCaller,
    q: Annotated[str, Query(min_length=1, max_length=2000)],
    conversation_id: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Json:
    """What was said that fits `q`, by words and meaning, in one conversation or in all; and in which sessions."""
    found = await app.recall.search(caller, q, conversation_id, limit)
    terms = query_terms(q)
    sessions = [_session(hit, await app.store.session(caller, hit.session_id), terms) for hit in found.sessions]
    return {
        "object": "search",
        "query": q,
        "embedder": app.recall.embedder,
        "without_meaning": found.without or None,
        "data": [_hit(hit, terms) for hit in found.hits],
        "sessions": sessions[:limit],
    }


def _hit(hit: Hit, terms: tuple[str, ...]) -> Json:
    source, snippet = hit.source, snippet_of(hit.source.content, terms, hit.start, hit.end)
    return {
        "object": "search.hit",
        "conversation_id": source.conversation_id,
        "session_id": source.session_id,
        "turn_id": source.turn_id,
        "message_id": source.id,
        "call_id": source.call_id or None,
        "role": source.speaker.value,
        "name": source.name or None,
        "at": source.at.isoformat(),
        "score": round(hit.score, 4),
        "snippet": {
            "text": snippet.text,
            "start": snippet.start,
            "marks": [{"start": left, "end": right} for left, right in snippet.marks],
        },
    }


def _session(hit: SessionHit, session: Session, terms: tuple[str, ...]) -> Json:
    summary = snippet_of(session.summary, terms).text if session.summary else None
    return {
        "id": session.id,
        "object": "search.session",
        "conversation_id": session.conversation_id,
        "number": session.number,
        "opened_at": session.opened_at.isoformat(),
        "score": round(hit.score, 4),
        "summary": summary,
        "best": _hit(hit.best, terms) if hit.best is not None else None,
    }
