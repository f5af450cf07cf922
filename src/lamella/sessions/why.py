"""Loads the stored facts of a request and the one before it, and explains what it read from the cache."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from lamella.cache.difference import difference
from lamella.cache.why import Evidence, Why, why
from lamella.core.decisions import DecisionKind
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.records import Caller, PageQuery, Place, RequestRecord, StoredDecision
from lamella.storage import Store
from lamella.turns.loader import TurnLoader

CHAT = "chat"
LOOKED_BACK = 20
"""Turns that are looked through for a request: one may have failed before its first."""


async def why_request(store: Store, loader: TurnLoader, caller: Caller, request_id: str) -> Why:
    """Why this request read what it read. Raises `NotFound`.

    Of bodies that have expired the first block that differs is known, and its bytes are not.
    """
    evidence = await _evidence(store, loader, caller, request_id)
    found = why(evidence)
    gone = [
        one.expired for one in (evidence.request, evidence.before, evidence.left) if one is not None and one.expired
    ]
    if not gone or found.difference is None:
        return found
    return replace(found, text=f"{found.text} {gone[0].say('A body to compare')}")


async def _evidence(store: Store, loader: TurnLoader, caller: Caller, request_id: str) -> Evidence:
    request = await store.requests.request(caller, request_id)
    before = await _before(store, caller, request)
    decisions = await store.conversations.decisions(caller, request.conversation_id)
    left = await _left(store, caller, request, decisions)
    facts = None
    with suppress(InvalidRequest):  # its model may not be served any more: then the sentence has no price of the loss
        facts = await loader.facts(request.model)
    data: dict[str, bytes] = {}
    for other in (before, left):
        if other is None or other.expired or request.expired:
            continue
        if difference(other, request, {}) is not None:
            for one in (other, request):
                data |= {block.digest: block.data for block in await store.requests.blocks(caller, one.id)}
    return Evidence(request, before, decisions, facts, data, left)


async def _left(
    store: Store, caller: Caller, request: RequestRecord, decisions: Sequence[StoredDecision]
) -> RequestRecord | None:
    """The newest billed request of the conversation before a turn that went to another place."""
    moved = any(
        d.decision.kind is DecisionKind.BRANCH and d.decision.subject == request.turn_id and d.at <= request.at
        for d in decisions
    )
    if not moved or request.step:
        return None
    query = PageQuery(limit=LOOKED_BACK, after=request.turn_id)
    for turn in (await store.turns.turns(caller, request.conversation_id, query)).data:
        found = [one for one in await store.requests.requests(caller, turn.id) if one.purpose == CHAT]
        found = [one for one in found if one.usage is not None and one.usage.input]
        if found:
            return found[-1]
    return None


async def newest_request(store: Store, caller: Caller, conversation_id: str) -> RequestRecord | None:
    """The newest request of the conversation's path, billed or not. Returns None if there is none."""
    conversation = await store.conversations.conversation(caller, conversation_id)
    return await _last(store, caller, conversation.place)


async def _before(store: Store, caller: Caller, request: RequestRecord) -> RequestRecord | None:
    """The request of the chat before this one: on its path, and for a client's line whatever the client sent, unless
    the client went on from an earlier answer.
    """
    of_turn = [
        one
        for one in await store.requests.requests(caller, request.turn_id)
        if one.purpose == CHAT and one.run_id == request.run_id
    ]
    earlier = [one for one in of_turn if one.at < request.at and one.id != request.id and one.usage is not None]
    if earlier:
        return earlier[-1]
    if (await store.conversations.conversation(caller, request.conversation_id)).observed:
        decisions = await store.conversations.decisions(caller, request.conversation_id)
        branches = {one.decision.subject for one in decisions if one.decision.kind is DecisionKind.BRANCH}
        if request.turn_id not in branches:
            return await store.requests.billed_request(caller, request.conversation_id, request.at)
    turn = await store.turns.turn(caller, request.turn_id)
    return await _last(store, caller, turn.parent, billed=True) or await _sibling(store, caller, request, turn.parent)


async def _sibling(store: Store, caller: Caller, request: RequestRecord, parent: Place) -> RequestRecord | None:
    """The first request of the newest earlier turn at the same place. A question that is answered again has no request
    before it on its path, yet its window was sent before. Prefers the same model.
    """
    around = PageQuery(LOOKED_BACK, request.turn_id), PageQuery(LOOKED_BACK, order="asc")
    for query in around:
        known = (await store.turns.turns(caller, request.conversation_id, query)).data
        earlier = sorted((turn for turn in known if turn.id < request.turn_id), key=lambda turn: turn.id, reverse=True)
        for turn in earlier:
            if turn.parent != parent:
                continue
            found = [one for one in await store.requests.requests(caller, turn.id) if one.purpose == CHAT]
            found = [one for one in found if one.usage is not None and one.usage.input]
            found.sort(key=lambda one: (one.model != request.model, one.step))
            if found:
                return found[0]
    return None


async def _last(store: Store, caller: Caller, place: Place, *, billed: bool = False) -> RequestRecord | None:
    """The newest request of the runs that lead to `place`; of a turn that no answer is chosen from yet, of any."""
    for _ in range(LOOKED_BACK):
        if place.turn_id is None:
            return None
        found = [one for one in await store.requests.requests(caller, place.turn_id) if one.purpose == CHAT]
        found = [one for one in found if place.run_id in (None, one.run_id)]
        found = [one for one in found if not billed or (one.usage is not None and one.usage.input)]
        if found:
            return found[-1]
        try:
            place = (await store.turns.turn(caller, place.turn_id)).parent
        except NotFound:
            return None
    return None
