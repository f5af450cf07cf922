"""Lists of sessions to choose from: number, age, tokens, title, and the matching passage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from lamella.commands.command import Answer
from lamella.core.json import Json, JsonObject
from lamella.core.recall import SessionHit
from lamella.core.sessions import Session
from lamella.core.tokens import short
from lamella.search.passages import snippet_of
from lamella.search.terms import query_terms
from lamella.sessions.sessions import SessionView

SHOWN = 20
"""Sessions that `/resume` lists: the newest."""

WORDS = 12
"""Words of a title."""

_IDS = re.compile(r"\s*\[(?:(?:msg|step|call|toolu|turn|run|sess)_\w+(?:, *)?)+\]")
"""Ids in summaries, which are for models."""

_AGES = (("year", 365 * 86_400), ("month", 30 * 86_400), ("day", 86_400), ("hour", 3_600), ("minute", 60))


def listed(view: SessionView, now: datetime, words_only: str) -> Answer:
    """The newest sessions, the newest first."""
    shown = view.sessions[-SHOWN:]
    lines = [_line(session, view, now) for session in reversed(shown)]
    if len(shown) < len(view.sessions):
        lines.append(f"… and {len(view.sessions) - len(shown)} before them.")
    if len(view.sessions) > 1:
        lines.append("To go on from one: /resume with its number.")
        lines += [f"/resume TEXT searches by words. {words_only}"] if words_only else []
    return Answer("\n".join(lines), {"sessions": [_data(session, view) for session in view.sessions]})


def choice(
    text: str, hits: Sequence[tuple[Session, SessionHit]], view: SessionView, now: datetime, words_only: str
) -> Answer:
    """The sessions that a text may mean, most likely first, each with its matching passage."""
    terms = query_terms(text)
    lines = [f"These sessions may be meant by “{text[:60]}”. To go on from one: /resume with its number."]
    data: list[Json] = []
    for session, hit in hits:
        snippet = ""
        if hit.best is not None:
            snippet = snippet_of(hit.best.source.content, terms, hit.best.start, hit.best.end).text
        elif session.summary is not None:
            snippet = snippet_of(session.summary, terms).text
        shown = " ".join(_IDS.sub("", snippet).split())
        lines += [_line(session, view, now), *([f"    “{shown}”"] if shown else [])]
        data.append({**_data(session, view), "score": round(hit.score, 4), "snippet": shown})
    lines += [words_only] if words_only else []
    return Answer("\n".join(lines), {"sessions": data, "lexical_only_reason": words_only or None})


def _data(session: Session, view: SessionView) -> JsonObject:
    figures = view.figures
    return {
        "id": session.id,
        "number": session.number,
        "messages": figures.messages.get(session.id, 0),
        "tokens": figures.tokens.get(session.id),
        "title": _title(session, view),
        "last_at": _last_at(session).isoformat(),
    }


def _line(session: Session, view: SessionView, now: datetime) -> str:
    """`2 · 2026-11-20 09:12 (3 days ago) · 12 messages, about 4.2k tokens · current · What does the harbour cost?`"""
    figures = view.figures
    count, tokens = figures.messages.get(session.id, 0), figures.tokens.get(session.id)
    last = _last_at(session)
    parts = [
        str(session.number),
        f"{last:%Y-%m-%d %H:%M} ({_age(last, now)})",
        ("1 message" if count == 1 else f"{count} messages")
        + (f", about {short(tokens)} tokens" if tokens is not None else ""),
        "current" if session.id == view.current.id else "",
        _title(session, view),
    ]
    return " · ".join(part for part in parts if part)


def _last_at(session: Session) -> datetime:
    """When it was closed; for an open one, when it began."""
    return session.closed_at or session.opened_at


def _age(at: datetime, now: datetime) -> str:
    seconds = (now - at).total_seconds()
    for unit, length in _AGES:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def _title(session: Session, view: SessionView) -> str:
    """The first words of its summary, headings left out, else of its first question."""
    lines = [line.lstrip("-* ") for line in (session.summary or "").splitlines() if not line.startswith("#")]
    words = (_IDS.sub("", " ".join(lines)) or view.figures.questions.get(session.id, "")).split()
    return " ".join(words[:WORDS]) + ("…" if len(words) > WORDS else "")
