"""Commands about a conversation's past: `/new`, `/clear`, `/compact`, `/prune`, `/resume`, `/undo`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lamella.commands.command import Answer, CommandCall, CommandContext
from lamella.commands.session_list import choice, listed
from lamella.core.errors import InvalidRequest
from lamella.core.json import JsonObject
from lamella.core.recall import SessionHit
from lamella.core.sessions import Session
from lamella.core.tokens import short
from lamella.search.terms import names_subject
from lamella.sessions.notifications import pruned_text
from lamella.sessions.session_changes import OVER
from lamella.sessions.sessions import SessionView
from lamella.sessions.summariser import NotCompacted

PICKED = 5
"""Sessions that `/resume TEXT` lists."""

COVERED = 0.8
"""The weighted share of the words that a session must contain to be resumed without asking."""

ELSEWHERE = 0.5
"""The share of the words that any other session may hold then."""

CLEAR = 0.6
"""The largest score of another session, relative to the best one, in that case."""

UNSUMMARISED = (
    "It is larger than LAMELLA_RESUME_TOKEN_BUDGET, and no summary of it could be made: the next message has it "
    "summarised, or if that fails its oldest messages are left out of the window and found by search."
)
"""Reported if a session continues in full because there is no summary."""


class New:
    """`/new` and `/clear`: an empty window. Messages stay stored."""

    at_once = False

    def __init__(self, context: CommandContext, name: str) -> None:
        self._context = context
        self.name = name
        self.usage = f"/{name}"
        self.summary = "begin a new session with an empty window; messages are kept"

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        before = call.conversation.session_id
        opened = await self._context.sessions.begin_anew(call.caller, call.conversation.id, why=self.usage)
        sessions = await self._context.store.sessions.sessions(call.caller, call.conversation.id)
        number = next(session.number for session in sessions if session.id == before)
        text = f"Session {opened.number} begins, with an empty window. To go back: /resume {number}"
        return Answer(text, {"session_id": opened.id, "number": opened.number, "before": before})


class Compact:
    """`/compact [focus]`: summarise old turns in the background."""

    name = "compact"
    usage = "/compact [focus]"
    summary = "summarise old turns in the background, with an optional focus"
    at_once = False

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        sessions, conversation_id = self._context.sessions, call.conversation.id
        if await sessions.compacts(call.caller, conversation_id):
            later = f" To have one with most room for “{call.argument}”, ask again when it has ended."
            text = f"A compaction runs already.{later if call.argument else ''}"
            return Answer(text, {"started": False, "why": "running"})
        ahead = await sessions.scope(call.caller, conversation_id)
        if isinstance(ahead, NotCompacted):
            text = " ".join(part for part in (f"Nothing to compact: {ahead.why}.", ahead.hint) if part)
            return Answer(text, {"started": False, "why": ahead.why, "hint": ahead.hint})
        why = f"/compact {call.argument}".strip()
        sessions.compact(call.caller, conversation_id, who=call.caller.user_id, why=why, focus=call.argument)
        of = f"{ahead.old} of {ahead.turns} turns ({short(ahead.tokens)} tokens)"
        data: JsonObject = {"started": True, "turns": ahead.old, "tokens": ahead.tokens}
        return Answer(f"Summarising {of} in the background. The conversation continues meanwhile.", data)


class Prune:
    """`/prune`: old results of tools become stubs now."""

    name = "prune"
    usage = "/prune"
    summary = "replace old tool results by stubs"
    at_once = False

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        pruning = await self._context.sessions.prune(call.caller, call.conversation.id)
        if pruning is None:
            return Answer("Nothing to prune: there are no old results of tools.", {"before": 0, "after": 0})
        now = await self._context.sessions.window_state(call.caller, call.conversation.id)
        data: JsonObject = {"before": pruning.before, "after": pruning.after, "context": now.tokens}
        return Answer(pruned_text(pruning.before, pruning.after, now.tokens, now.budget), data)


class Resume:
    """`/resume` lists the sessions; `/resume 2` continues one; `/resume TEXT` continues the one about it."""

    name = "resume"
    usage = "/resume [NUMBER | TEXT]"
    summary = "list the sessions; with a number, go on from that one; with words, from the one that alone has them"
    at_once = False

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`."""
        view = await self._context.sessions.view(call.caller, call.conversation.id)
        recall = self._context.sessions.recall
        words_only = recall.words_only if recall is not None else ""
        if not call.argument:
            return listed(view, self._context.clock.now(), words_only)
        wanted = _named(view, call.argument)
        if wanted is None:
            found = await self._found(call, view)
            if isinstance(found, Answer):
                return found
            wanted = found
        opened = await self._context.sessions.resume(
            call.caller, call.conversation.id, wanted.id, why=f"/resume {call.argument}"
        )
        data: JsonObject = {"session_id": opened.id, "number": opened.number, "in_full": opened.id == wanted.id}
        if opened.id == wanted.id:
            text = f"Session {opened.number} continues in full. Later turns are kept as another branch."
            told = await self._context.sessions.figures(call.caller, call.conversation.id)
            if told.numbers.get(opened.id, {}).get(OVER):
                return Answer(f"{text} {UNSUMMARISED}", {**data, "summary": False})
            return Answer(text, data)
        text = f"Session {wanted.number} is too large to be resumed in full: session {opened.number} begins, with its "
        return Answer(f"{text}summary.", {**data, "summary_of": wanted.id})

    async def _found(self, call: CommandCall, view: SessionView) -> Session | Answer:
        """The one earlier session that clearly fits the words, or an answer with those that may be meant."""
        recall = self._context.sessions.recall
        if recall is None:
            raise _no_session(call.argument)
        found = await recall.search(call.caller, call.argument, call.conversation.id)
        by_id = {session.id: session for session in view.sessions if session.id != view.current.id}
        hits = [hit for hit in found.sessions if hit.session_id in by_id][:PICKED]
        words_only = found.without or recall.words_only
        if not hits and call.argument.isdecimal():
            raise _no_session(call.argument)
        if not hits:
            raise InvalidRequest(
                f"No earlier session speaks of “{call.argument[:60]}”.",
                hint=f"/resume lists them. {words_only}".strip(),
                param="argument",
            )
        if _is_sure(call.argument, hits):
            return by_id[hits[0].session_id]
        pairs = [(by_id[hit.session_id], hit) for hit in hits]
        return choice(call.argument, pairs, view, self._context.clock.now(), words_only)


class Undo:
    """`/undo`: take the newest compaction back."""

    name = "undo"
    usage = "/undo [NUMBER]"
    summary = "take the newest compaction back; later messages are kept"
    at_once = False

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def run(self, call: CommandCall) -> Answer:
        """See `Command`. The number, or id, is that of the session that the compaction ended or began."""
        view = await self._context.sessions.view(call.caller, call.conversation.id)
        session = _named(view, call.argument) if call.argument else view.current
        if session is None:
            raise _no_session(call.argument)
        opened = await self._context.sessions.undo(call.caller, session.id)
        text = f"The compaction is taken back: session {opened.number} continues, with all later messages."
        return Answer(text, {"session_id": opened.id, "number": opened.number, "undone": call.conversation.session_id})


def _is_sure(text: str, hits: Sequence[SessionHit]) -> bool:
    """Whether a text clearly means the first of these sessions: only that one contains the subject."""
    best, *others = hits
    return (
        names_subject(text)
        and best.covers >= COVERED
        and all(hit.covers <= ELSEWHERE and hit.score <= CLEAR * best.score for hit in others)
    )


def _named(view: SessionView, argument: str) -> Session | None:
    """The session with this id or number. Returns None for a text, or a number without a session.

    Raises `InvalidRequest` for an id that is not of this conversation.
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
