"""Commands about a conversation's past: `/new`, `/clear`, `/compact`, `/prune`, `/resume`."""

from __future__ import annotations

from lamella.commands.command import Answer, Asked, Reach
from lamella.core.errors import InvalidRequest
from lamella.core.figures import short
from lamella.core.json import JsonObject
from lamella.core.sessions import Session
from lamella.sessions.figures import pruned_text
from lamella.sessions.sessions import SessionView
from lamella.sessions.summariser import NotCompacted

SHOWN = 20
"""Sessions that `/resume` lists: the newest."""

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
        if sessions.is_compacting(conversation_id):
            return Answer("A compaction runs already.", {"started": False, "why": "running"})
        ahead = await sessions.ahead(asked.caller, conversation_id)
        if isinstance(ahead, NotCompacted):
            return Answer(f"Nothing to compact: {ahead.why}.", {"started": False, "why": ahead.why})
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
    """`/resume`: the sessions; `/resume ID`: go on from one of them."""

    name = "resume"
    usage = "/resume [ID]"
    summary = "list the sessions; with an id or a number, go on from that one"
    at_once = False

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def run(self, asked: Asked) -> Answer:
        """See `Command`."""
        view = await self._reach.sessions.view(asked.caller, asked.conversation.id)
        if not asked.argument:
            return _list(view)
        wanted = _named(view, asked.argument)
        opened = await self._reach.sessions.resume(
            asked.caller, asked.conversation.id, wanted, why=f"/resume {asked.argument}"
        )
        text = f"Session {opened.number} goes on, in full. What came after it stays as another branch."
        return Answer(text, {"session_id": opened.id, "number": opened.number})


def _named(view: SessionView, argument: str) -> str:
    """The id of a session that was named by its id or its number."""
    for session in view.sessions:
        if argument in (session.id, str(session.number)):
            return session.id
    raise InvalidRequest(
        f"This conversation has no session {argument[:60]}.", hint="/resume lists them.", param="argument"
    )


def _list(view: SessionView) -> Answer:
    shown = view.sessions[-SHOWN:]
    lines = [_line(session, view) for session in reversed(shown)]
    if len(shown) < len(view.sessions):
        lines.append(f"… and {len(view.sessions) - len(shown)} before them.")
    if len(view.sessions) > 1:
        lines.append("To go on from one: /resume with its number or its id.")
    data: JsonObject = {
        "sessions": [
            {"id": session.id, "number": session.number, "messages": view.messages.get(session.id, 0)}
            for session in view.sessions
        ]
    }
    return Answer("\n".join(lines), data)


def _line(session: Session, view: SessionView) -> str:
    count = view.messages.get(session.id, 0)
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
