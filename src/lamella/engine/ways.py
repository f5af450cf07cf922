"""The way to the session of a place: where a turn branches off from an earlier one, or somebody goes back to it."""

from __future__ import annotations

from datetime import datetime

from lamella.core.decisions import WAY, Decision, DecisionKind
from lamella.core.ids import Ids
from lamella.core.records import Beginning, Caller
from lamella.core.sessions import Session, SessionCause, SessionReturn, SessionStep

WHY = "the conversation goes on from an earlier place"


def way_to(found: Beginning, caller: Caller, ids: Ids, now: datetime) -> SessionStep | SessionReturn | None:
    """How the conversation gets into the session that the path of `found` stands in; None where it is in it.

    A session that was only left for a branch goes on. One that ended stays as it is, with the summary that was made of
    it: then a branch of it is opened, whose window is the one that it had up to there.
    """
    current, target = found.conversation.session_id, found.session
    if target.id == current:
        return None
    boundary = target.begins_after or ""
    if target.closed_by is SessionCause.BRANCH:
        decision = Decision(DecisionKind.SESSION, target.id, boundary, caller.user_id, WHY, {WAY: 1})
        return SessionReturn(current, target.id, found.place.turn_id, SessionCause.BRANCH, WHY, now, (decision,))
    session = Session(
        id=ids.new("sess"),
        conversation_id=target.conversation_id,
        number=0,
        opened_at=now,
        opened_by=SessionCause.BRANCH,
        parent_id=target.id,
        begins_after=target.begins_after,
        inherits=True,
        carries=target.carries,
    )
    decision = Decision(DecisionKind.SESSION, session.id, boundary, caller.user_id, WHY, {WAY: 1})
    return SessionStep(current, session, WHY, now, decisions=(decision,))
