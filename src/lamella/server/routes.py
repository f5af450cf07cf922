"""The native API under `/api/v1` (API.md): conversations, turns and requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from lamella import __version__
from lamella.app.conversations import Asking, NewConversation
from lamella.app.demonstration import NOTICE
from lamella.app.request_map import map_request, stored_body
from lamella.chat import Outgoing, Queued
from lamella.commands.looking import why_data
from lamella.core.counting import aside
from lamella.core.errors import InvalidRequest
from lamella.core.json import encode
from lamella.core.records import LEAVE, PageQuery
from lamella.server.arrivals import TheArrival
from lamella.server.asked import PREFIX, IdempotencyKey, TheApp, TheCaller, TheIdentity, ThePage
from lamella.server.outcomes import in_json, wants_json
from lamella.server.schemas import (
    ConversationPatch,
    Json,
    NewConversationBody,
    NewTurnBody,
    PreferBody,
    PreviewBody,
    branch_json,
    conversation_json,
    decision_json,
    diff_json,
    effort_field,
    effort_json,
    list_json,
    map_json,
    message_of,
    model_json,
    path_turn_json,
    request_json,
    turn_json,
    unread_json,
    whole_list_json,
)
from lamella.server.sse import event_stream
from lamella.sessions.idle import outlook_json
from lamella_lab.export.export import exporter_of
from lamella_lab.trace.writer import encode_trace

LAST_PACKET = 2**53
"""No turn has more packets, and no client's number holds more."""

router = APIRouter(prefix=PREFIX)


@router.get("/status")
async def status(app: TheApp) -> Json:
    """What this server is and which model answers."""
    return {
        "version": __version__,
        "model": app.models.default,
        "provider": app.models.facts(app.models.default).provider,
        "demonstration": app.models.is_demonstration,
        "notice": NOTICE if app.models.is_demonstration else None,
        "data_dir": str(app.settings.data),
        "max_upload_bytes": app.settings.max_upload_bytes,
    }


@router.get("/models")
async def models(app: TheApp, also: str = "") -> Json:
    """The models to choose from, and one that is served without being listed, where `also` names it."""
    names = dict.fromkeys([*app.models.names(), *([also] if also else [])])
    return whole_list_json([model_json(name, app.models.facts(name)) for name in names])


@router.post("/conversations", status_code=201)
async def create_conversation(
    body: NewConversationBody, app: TheApp, caller: TheCaller, key: IdempotencyKey = None
) -> Json:
    """A new conversation."""
    sent = body.model_dump()
    asked = NewConversation(**sent | effort_field(sent))
    return conversation_json(await app.conversations.create(caller, asked, key))


@router.get("/conversations")
async def conversations(page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The caller's conversations, newest first."""
    return list_json(await app.store.conversations(caller, page), conversation_json)


@router.get("/conversations/{conversation_id}")
async def conversation(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One conversation."""
    return conversation_json(await app.store.conversation(caller, conversation_id))


@router.patch("/conversations/{conversation_id}")
async def patch_conversation(conversation_id: str, body: ConversationPatch, app: TheApp, caller: TheCaller) -> Json:
    """Change it; another model, layout or system prompt is a recorded decision.

    A changed thinking effort is answered with `cache_lost`: what the next request can't read any more.
    """
    sent = body.model_dump(exclude_unset=True)
    asked = Asking(**sent | effort_field(sent))
    if asked.thinking_effort is LEAVE:
        return conversation_json(await app.conversations.change(caller, conversation_id, asked))
    before = await app.sessions.effort(caller, conversation_id)
    changed = await app.conversations.change(caller, conversation_id, asked)
    lost = await app.sessions.lost_since(caller, conversation_id, before)
    return conversation_json(changed) | {"cache_lost": unread_json(lost)}


@router.get("/conversations/{conversation_id}/efforts")
async def efforts(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The thinking efforts to choose from: what the model is asked of each, and what a change to it costs now."""
    return whole_list_json([effort_json(one) for one in await app.sessions.efforts(caller, conversation_id)], "name")


@router.get("/conversations/{conversation_id}/export")
async def export(conversation_id: str, app: TheApp, caller: TheCaller, content: bool = True) -> Response:
    """The conversation as a trace (docs/traces.md), as far as the caller may read it; without `content`, lengths and
    fingerprints alone.
    """
    trace = await exporter_of(app).export(caller, conversation_id, content=content)
    return Response(await aside(len(trace.entries), encode_trace, trace), media_type="application/json")


@router.delete("/conversations/{conversation_id}", status_code=204)
async def delete_conversation(conversation_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a conversation with all that belongs to it."""
    await app.chat.delete(caller, conversation_id)
    return Response(status_code=204)


@router.get("/conversations/{conversation_id}/turns")
async def turns(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The turns of a conversation's current path, the newest first: by place in the path, not by id."""
    found = await app.store.turns_on_path(caller, conversation_id, page)
    return list_json(found, path_turn_json)


@router.get("/conversations/{conversation_id}/tree")
async def tree(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """Every turn of a conversation in short, in whatever branch, and where the conversation stands."""
    conversation = await app.store.conversation(caller, conversation_id)
    found = list_json(await app.store.tree(caller, conversation_id, page), branch_json)
    return found | {"head": conversation.head, "head_run_id": conversation.head_run_id}


@router.post("/conversations/{conversation_id}/turns")
async def send(
    conversation_id: str,
    body: NewTurnBody,
    request: Request,
    app: TheApp,
    identity: TheIdentity,
    arrival: TheArrival,
    key: IdempotencyKey = None,
) -> Response:
    """Send a message. Answers with the turn's packets, or with `Accept: application/json` with the finished turn.

    What has to wait answers 202: with a stream that begins with `turn.queued` and goes on with its turn, or as JSON
    with its place in the queue. A command answers with one packet, or as JSON.
    """
    asked = Outgoing(replace(message_of(body), key=key), body.patience(), body.regenerate)
    done = await app.chat.sender.send(identity, conversation_id, asked, arrival)
    packets = await app.chat.packets(identity.caller, done)
    if not wants_json(request.headers.get("accept", "")):
        return event_stream(packets, request.state.silence, 202 if isinstance(done, Queued) else 200)
    return await in_json(app, identity.caller, done, packets)


@router.get("/conversations/{conversation_id}/context")
async def context(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The gauge: how full the window of the last request was, and how much of it came from the cache.

    Where the window is another since (compacted, pruned, another session), what is counted in it: an `estimate`.
    Above `compaction_at` tokens a compaction begins by itself, null if none does; `compacting` while one runs, or may
    begin behind a turn. `cache`
    says when what is cached ends, and what is due next if nobody says anything.
    `notice` is the id of the newest command or notification.
    """
    conversation = await app.store.conversation(caller, conversation_id)
    facts = app.models.facts(conversation.model)
    last = await app.store.last_bill(caller, conversation_id, facts.name)
    counted = await app.sessions.counted(caller, conversation_id, last) if conversation.head is not None else None
    usage = last.usage if last and counted is None else None
    settling = conversation.running_turn is None and app.chat.is_settling(conversation_id)
    compacting = settling or await app.sessions.compacts(caller, conversation_id)
    # Read after `compacting`: what a compaction tells is there when it runs no more.
    told = await app.store.notices(caller, conversation_id, PageQuery(limit=1))
    ahead = await app.sessions.outlook(caller, conversation_id)
    return {
        "request_id": last.request_id if last else None,
        "input": usage.input if usage else counted or 0,
        "read": usage.cache_read if usage else 0,
        "cached_share": usage.cache_read / usage.input if usage and usage.input else None,
        "budget": ahead.budget or app.engine_settings.budget(facts),
        "compacting": compacting,
        **outlook_json(ahead),
        "notice": told.data[0].id if told.data else None,
        "window": facts.window,
        "estimate": usage is None,
    }


@router.get("/conversations/{conversation_id}/decisions")
async def decisions(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """What was decided for a conversation and why: why its window is as it is."""
    return list_json(await app.store.decision_page(caller, conversation_id, page), decision_json)


@router.get("/turns/{turn_id}")
async def turn(turn_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One turn."""
    return turn_json(await app.store.turn(caller, turn_id))


@router.get("/turns/{turn_id}/events")
async def events(
    turn_id: str,
    request: Request,
    app: TheApp,
    caller: TheCaller,
    after: Annotated[int | None, Query(ge=0, le=LAST_PACKET)] = None,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> Response:
    """The packets of a turn from any number on, and on as they come."""
    packets = await app.chat.follow(caller, turn_id, after_of(after, last_event_id))
    return event_stream(packets, request.state.silence)


def after_of(after: int | None, last_event_id: str | None) -> int:
    if after is not None:
        return after
    if not last_event_id:
        return 0
    if not last_event_id.isascii() or not last_event_id.isdigit():
        raise InvalidRequest(
            "Last-Event-ID must be the number of a packet.",
            hint="Send the `id` of the last event that you saw, or leave it out to begin at the first.",
            param="Last-Event-ID",
        )
    return min(int(last_event_id[:20]), LAST_PACKET)


@router.post("/turns/{turn_id}/stop", status_code=202)
async def stop(turn_id: str, app: TheApp, caller: TheCaller) -> Json:
    """Ask a turn to stop; its stream ends with `turn.stopped`. `status` is `running` until it has."""
    status = await app.chat.stop(caller, turn_id)
    return {"id": turn_id, "object": "turn", "status": status.value}


@router.post("/turns/{turn_id}/prefer")
async def prefer(turn_id: str, body: PreferBody, app: TheApp, caller: TheCaller) -> Json:
    """Go on from one of a turn's answers; gives the conversation as it stands then. Nothing is removed."""
    return conversation_json(await app.chat.prefer(caller, turn_id, body.run_id, latest=body.latest))


@router.post("/runs/{run_id}/stop", status_code=202)
async def stop_run(run_id: str, app: TheApp, caller: TheCaller) -> Json:
    """Ask one model's answer to stop; the others go on. Its end is told by the packets of its turn."""
    return {"id": run_id, "object": "run", "turn_id": await app.chat.stop_run(caller, run_id)}


@router.get("/turns/{turn_id}/requests")
async def requests(turn_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The requests of a turn, in order."""
    return whole_list_json([request_json(record) for record in await app.store.requests(caller, turn_id)])


@router.get("/requests/{request_id}/map")
async def request_map(request_id: str, app: TheApp, caller: TheCaller) -> Json:
    """What stood in the window of a request, in order, and what of it was read from the cache."""
    record = await app.store.request(caller, request_id)
    mapped = map_json(record, map_request(record, await app.store.blocks(caller, request_id)))
    return mapped | {"why": (await app.sessions.why(caller, request_id)).text}


@router.get("/requests/{request_id}/why")
async def request_why(request_id: str, app: TheApp, caller: TheCaller) -> Json:
    """What a request read from the cache and why it was not more, in one sentence; `lost` are cached tokens unread."""
    found = await app.sessions.why(caller, request_id)
    return {"object": "why", "request_id": request_id, "text": found.text, **why_data(found)}


@router.get("/requests/{request_id}/diff")
async def request_diff(request_id: str, app: TheApp, caller: TheCaller) -> Json:
    """Where a request stops beginning as the one before it, and why; `block` and `byte` are counted from 0."""
    return diff_json(request_id, await app.sessions.why(caller, request_id))


@router.post("/context/preview")
async def preview(body: PreviewBody, app: TheApp, identity: TheIdentity) -> Json:
    """The map of the request that this message would make. Nothing is stored and nothing is sent."""
    found = await app.chat.sender.preview(identity, body.conversation_id, message_of(body))
    mapped = map_json(found.record, map_request(found.record, found.blocks))
    return mapped | {"id": None, "turn_id": None, "why": None}


@router.get("/requests/{request_id}/raw")
async def request_raw(request_id: str, app: TheApp, caller: TheCaller) -> Response:
    """The request's body, as it was sent."""
    record = await app.store.request(caller, request_id)
    blocks = await app.store.blocks(caller, request_id)
    return Response(encode(stored_body(record, blocks)), media_type="application/json")
