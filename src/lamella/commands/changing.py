"""Commands about a conversation's past: `/new`, `/clear`, `/compact`, `/prune`, `/resume`, `/undo`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lamella.commands.command import Answer, Asked, Reach
from lamella.core.errors import InvalidRequest
from lamella.core.figures import short
from lamella.core.json import Json, JsonObject
from lamella.core.recall import SessionHit
from lamella.core.sessions import Session
from lamella.search.passages import snippet_of
from lamella.search.terms import query_terms
from lamella.sessions.figures import pruned_text
from lamella.sessions.sessions import SessionView
from lamella.sessions.summariser import NotCompacted

SHOWN = 20
"""Sessions that `/resume` lists: the newest."""

PICKED = 5
"""Sessions that `/resume TEXT` lists."""

COVERED = 0.5
"""The share of the words, by weight, that the one session holds which is resumed without asking."""

CLEAR = 0.6
"""What the next session may have of the best one's score for the best to be clear."""

WORDS = 12
"""Words of a summary in a list."""


class New:
    """`/new` and `/clear`: an empty window; what was said stays."""

    at_once = False

    def __init__(self, reach: Reach, name: str) -> None:
        self._reach = reach
        self.name = name
        self.usage = f"/{name}"
        self.summary = "begin a new session with an empty window; what was said stays"

    async def run(self, asked: Asked) -> Answer:
        """See `Command`."""
        before = asked.conversation.session_id
        opened = await self._reach.sessions.begin_anew(asked.caller, asked.conversation.id, why=self.usage)
        text = f"Session {opened.number} begins, with an empty window. To go back: /resume {before}"
        return Answer(text, {"session_id": opened.id, "number": opened.number, "before": before})


class Compact:
    """`/compact [focus]`: summarise what is old, in the background."""

    name = "compact"
    usage = "/compact [focus]"
    summary = "summarise what is old, in the background; with what to give most room to"
    at_once = False

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def run(self, asked: Asked) -> Answer:
        """See `Command`."""
        sessions, conversation_id = self._reach.sessions, asked.conversation.id
        if await sessions.compacts(asked.caller, conversation_id):
            later = f" To have one with most room for “{asked.argument}”, ask again when it has ended."
            text = f"A compaction runs already.{later if asked.argument else ''}"
            return Answer(text, {"started": False, "why": "running"})
        ahead = await sessions.ahead(asked.caller, conversation_id)
        if isinstance(ahead, NotCompacted):
            text = " ".join(part for part in (f"Nothing to compact: {ahead.why}.", ahead.hint) if part)
            return Answer(text, {"started": False, "why": ahead.why, "hint": ahead.hint})
        why = f"/compact {asked.argument}".strip()
        sessions.compact(asked.caller, conversation_id, who=asked.caller.user_id, why=why, focus=asked.argument)
        of = f"{ahead.old} of {ahead.turns} turns ({short(ahead.tokens)} tokens)"
        data: JsonObject = {"started": True, "turns": ahead.old, "tokens": ahead.tokens}
        return Answer(f"Summarising {of} in the background. The conversation goes on meanwhile.", data)


class Prune:
    """`/prune`: old results of tools become stubs now."""

    name = "prune"
    usage = "/prune"
    summary = "put stubs in the place of old results of tools"
    at_once = False

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def run(self, asked: Asked) -> Answer:
        """See `Command`."""
        pruning = await self._reach.sessions.prune(asked.caller, asked.conversation.id)
        if pruning is None:
            return Answer("Nothing to prune: there are no old results of tools.", {"before": 0, "after": 0})
        now = await self._reach.sessions.standing(asked.caller, asked.conversation.id)
        data: JsonObject = {"before": pruning.before, "after": pruning.after, "context": now.tokens}
        return Answer(pruned_text(pruning.before, pruning.after, now.tokens, now.budget), data)


class Resume:
    """`/resume`: the sessions; `/resume ID`: go on from one of them; `/resume TEXT`: from the one that speaks of it."""

    name = "resume"
    usage = "/resume [ID | TEXT]"
    summary = "list the sessions; with an id or a number, go on from that one; with words, from the one that has them"
    at_once = False

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def run(self, asked: Asked) -> Answer:
        """See `Command`."""
        view = await self._reach.sessions.view(asked.caller, asked.conversation.id)
        recall = self._reach.sessions.recall
        words_only = recall.words_only if recall is not None else ""
        if not asked.argument:
            return _list(view, words_only)
        wanted = _named(view, asked.argument)
        if wanted is None:
            found = await self._found(asked, view)
            if isinstance(found, Answer):
                return found
            wanted = found
        opened = await self._reach.sessions.resume(
            asked.caller, asked.conversation.id, wanted.id, why=f"/resume {asked.argument}"
        )
        data: JsonObject = {"session_id": opened.id, "number": opened.number, "in_full": opened.id == wanted.id}
        if opened.id == wanted.id:
            text = f"Session {opened.number} goes on, in full. What came after it stays as another branch."
            return Answer(text, data)
        text = f"Session {wanted.number} is too large to be resumed in full: session {opened.number} begins, with its "
        return Answer(f"{text}summary.", {**data, "summary_of": wanted.id})

    async def _found(self, asked: Asked, view: SessionView) -> Session | Answer:
        """The one earlier session that clearly fits the words, or an answer with those that may be meant."""
        recall = self._reach.sessions.recall
        if recall is None:
            raise _no_session(asked.argument)
        found = await recall.search(asked.caller, asked.argument, asked.conversation.id)
        by_id = {session.id: session for session in view.sessions if session.id != view.current.id}
        hits = [hit for hit in found.sessions if hit.session_id in by_id][:PICKED]
        words_only = found.without or recall.words_only
        if not hits and asked.argument.isdecimal():
            raise _no_session(asked.argument)
        if not hits:
            raise InvalidRequest(
                f"No earlier session speaks of “{asked.argument[:60]}”.",
                hint=f"/resume lists them. {words_only}".strip(),
                param="argument",
            )
        rest = hits[1].score if len(hits) > 1 else 0.0
        if hits[0].covers >= COVERED and rest <= CLEAR * hits[0].score:
            return by_id[hits[0].session_id]
        return _choice(asked.argument, [(by_id[hit.session_id], hit) for hit in hits], words_only)


class Undo:
    """`/undo`: take the newest compaction back."""

    name = "undo"
    usage = "/undo [ID]"
    summary = "take the newest compaction back; what was said since stays"
    at_once = False

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def run(self, asked: Asked) -> Answer:
        """See `Command`. The id is that of the session that the compaction ended or began, of this conversation."""
        session_id = asked.argument or asked.conversation.session_id
        view = await self._reach.sessions.view(asked.caller, asked.conversation.id)
        if session_id not in {session.id for session in view.sessions}:
            raise _no_session(session_id)
        opened = await self._reach.sessions.undo(asked.caller, session_id)
        text = f"The compaction is taken back: session {opened.number} goes on, with all that was said since."
        return Answer(text, {"session_id": opened.id, "number": opened.number, "undone": asked.conversation.session_id})


def _named(view: SessionView, argument: str) -> Session | None:
    """The session that was named by its id or its number; None for words, of which a number of no session is one.

    Raises `InvalidRequest` for what looks like an id and is none of this conversation.
    """
    for session in view.sessions:
        if argument in (session.id, str(session.number)):
            return session
    if re.fullmatch(r"sess_\w+", argument):
        raise _no_session(argument)
    return None


def _no_session(argument: str) -> InvalidRequest:
    return InvalidRequest(
        f"This conversation has no session {argument[:60]}.", hint="/resume lists them.", param="argument"
    )


def _choice(query: str, hits: Sequence[tuple[Session, SessionHit]], words_only: str) -> Answer:
    """The sessions to pick from, each with what of it fits."""
    terms = query_terms(query)
    lines: list[str] = [f"These sessions may speak of “{query[:60]}”. To go on from one: /resume with its number."]
    data: list[Json] = []
    for session, hit in hits:
        snippet = ""
        if hit.best is not None:
            snippet = snippet_of(hit.best.source.content, terms, hit.best.start, hit.best.end).text
        elif session.summary is not None:
            snippet = snippet_of(session.summary, terms).text
        shown = " ".join(snippet.split())
        lines.append(f"{session.number} · {session.opened_at:%Y-%m-%d %H:%M} · {shown}")
        data.append({"id": session.id, "number": session.number, "score": round(hit.score, 4), "snippet": shown})
    lines += [words_only] if words_only else []
    return Answer("\n".join(lines), {"sessions": data, "without_meaning": words_only or None})


def _list(view: SessionView, words_only: str) -> Answer:
    shown = view.sessions[-SHOWN:]
    lines = [_line(session, view) for session in reversed(shown)]
    if len(shown) < len(view.sessions):
        lines.append(f"… and {len(view.sessions) - len(shown)} before them.")
    if len(view.sessions) > 1:
        lines.append("To go on from one: /resume with its number or its id.")
        lines += [f"/resume TEXT searches by words. {words_only}"] if words_only else []
    data: JsonObject = {
        "sessions": [
            {"id": session.id, "number": session.number, "messages": view.figures.messages.get(session.id, 0)}
            for session in view.sessions
        ]
    }
    return Answer("\n".join(lines), data)


def _line(session: Session, view: SessionView) -> str:
    count = view.figures.messages.get(session.id, 0)
    parts = [
        f"{session.number}",
        f"{session.opened_at:%Y-%m-%d %H:%M}",
        "1 message" if count == 1 else f"{count} messages",
        session.id,
    ]
    if session.id == view.current.id:
        parts.append("current")
    if session.summary is not None:
        parts.append(_beginning(session.summary))
    return " · ".join(parts)


def _beginning(summary: str) -> str:
    """The first words of a summary, its headings left out."""
    said = [line.lstrip("-* ") for line in summary.splitlines() if not line.startswith("#")]
    words = " ".join(said).split()
    return " ".join(words[:WORDS]) + ("…" if len(words) > WORDS else "")
