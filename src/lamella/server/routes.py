"""The native API under `/api/v1` (API.md)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from starlette.responses import JSONResponse

from lamella import __version__
from lamella.app.app import App
from lamella.app.demonstration import NOTICE
from lamella.app.request_body import stored_body
from lamella.app.request_map import map_request
from lamella.chat import Message
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import InvalidRequest
from lamella.core.json import encode
from lamella.core.records import Caller, ConversationChange, PageQuery
from lamella.server.failures import STATUS
from lamella.server.schemas import (
    ConversationPatch,
    Json,
    NewConversation,
    NewTurnBody,
    PageParameters,
    conversation_json,
    file_json,
    list_json,
    request_json,
    turn_json,
)
from lamella.server.sse import EVENT_STREAM, event_stream
from lamella.server.uploads import received_file

PREFIX = "/api/v1"
UPLOAD_PATH = f"{PREFIX}/files"
LAST_PACKET = 2**53
"""No turn has more packets, and no client's number holds more."""

router = APIRouter(prefix=PREFIX)


async def _app(request: Request) -> App:
    app: App = request.app.state.lamella
    return app


async def _caller(request: Request) -> Caller:
    caller: Caller = request.app.state.identify(request)
    return caller


TheApp = Annotated[App, Depends(_app)]
TheCaller = Annotated[Caller, Depends(_caller)]
ThePage = Annotated[PageParameters, Query()]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]


def _query(page: PageParameters) -> PageQuery:
    return PageQuery(page.limit, page.after, page.order)


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
async def models(app: TheApp) -> Json:
    """The models to choose from."""
    data = []
    for name in app.models.names():
        facts = app.models.facts(name)
        data.append(
            {"id": name, "object": "model", "provider": facts.provider, "window": facts.window, "known": facts.known}
        )
    return {"object": "list", "data": data, "first_id": data[0]["id"], "last_id": data[-1]["id"], "has_more": False}


@router.post("/conversations", status_code=201)
async def create_conversation(
    body: NewConversation, app: TheApp, caller: TheCaller, key: IdempotencyKey = None
) -> Json:
    """A new conversation."""
    conversation = await app.create_conversation(
        caller, title=body.title, model=body.model, layout=body.layout, marker_policy=body.marker_policy, key=key
    )
    return conversation_json(conversation)


@router.get("/conversations")
async def conversations(page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The caller's conversations, newest first."""
    return list_json(await app.store.conversations(caller, _query(page)), conversation_json)


@router.get("/conversations/{conversation_id}")
async def conversation(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One conversation."""
    return conversation_json(await app.store.conversation(caller, conversation_id))


@router.patch("/conversations/{conversation_id}")
async def patch_conversation(conversation_id: str, body: ConversationPatch, app: TheApp, caller: TheCaller) -> Json:
    """Change title or model; another model is a recorded decision."""
    before = await app.store.conversation(caller, conversation_id)
    decisions = []
    if body.model is not None and body.model != before.model:
        app.models.facts(body.model)
        why = f"the model was changed from {before.model} to {body.model}"
        decisions.append(Decision(DecisionKind.SETTING, "model", body.model, caller.user_id, why))
    change = ConversationChange(body.title, body.model, tuple(decisions))
    return conversation_json(await app.store.change_conversation(caller, conversation_id, change, app.clock.now()))


@router.delete("/conversations/{conversation_id}", status_code=204)
async def delete_conversation(conversation_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a conversation with all that belongs to it."""
    await app.chat.delete(caller, conversation_id)
    return Response(status_code=204)


@router.get("/conversations/{conversation_id}/turns")
async def turns(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The turns of a conversation."""
    return list_json(await app.store.turns(caller, conversation_id, _query(page)), turn_json)


@router.post("/conversations/{conversation_id}/turns")
async def send(
    conversation_id: str,
    body: NewTurnBody,
    request: Request,
    app: TheApp,
    caller: TheCaller,
    key: IdempotencyKey = None,
) -> Response:
    """Send a message. Answers with the turn's packets, or with `Accept: application/json` with the finished turn."""
    message = Message(
        text=body.text,
        file_ids=tuple(body.file_ids),
        timezone=body.timezone,
        model=body.models[0] if body.models else None,
        key=key,
        dynamic=tuple(body.dynamic_context),
    )
    turn_id = await app.chat.send(caller, conversation_id, message)
    packets = await app.chat.follow(caller, turn_id)
    if not _wants_json(request.headers.get("accept", "")):
        return event_stream(packets, request.app.state.silence)
    async for _ in packets:
        pass
    turn = await app.store.turn(caller, turn_id)
    if turn.error is None:
        return JSONResponse(turn_json(turn))
    code = turn.error.get("code") or ""
    return JSONResponse({"error": dict(turn.error), "turn": turn_json(turn)}, status_code=STATUS.get(code, 500))


def _wants_json(accept: str) -> bool:
    """Whether a client that names what it takes names JSON and not the stream."""
    named = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    return "application/json" in named and EVENT_STREAM not in named


@router.get("/conversations/{conversation_id}/context")
async def context(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The gauge: how full the window of the last request was, and how much of it came from the cache."""
    conversation = await app.store.conversation(caller, conversation_id)
    facts = app.models.facts(conversation.model)
    last = await app.store.last_bill(caller, conversation_id, facts.name)
    usage = last.usage if last else None
    return {
        "request_id": last.request_id if last else None,
        "input": usage.input if usage else 0,
        "read": usage.cache_read if usage else 0,
        "cached_share": usage.cache_read / usage.input if usage and usage.input else None,
        "budget": app.engine_settings.budget(facts),
        "window": facts.window,
        "estimate": usage is None,
    }


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
    packets = await app.chat.follow(caller, turn_id, _after(after, last_event_id))
    return event_stream(packets, request.app.state.silence)


def _after(after: int | None, last_event_id: str | None) -> int:
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
    """Ask a turn to stop; its stream ends with `turn.stopped`."""
    return turn_json(await app.chat.stop(caller, turn_id))


@router.get("/turns/{turn_id}/requests")
async def requests(turn_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The requests of a turn, in order."""
    data = [request_json(record) for record in await app.store.requests(caller, turn_id)]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": False}


@router.get("/requests/{request_id}/map")
async def request_map(request_id: str, app: TheApp, caller: TheCaller) -> Json:
    """What stood in the window of a request, in order, and what of it was read from the cache."""
    record = await app.store.request(caller, request_id)
    segments = map_request(record, await app.store.blocks(caller, request_id))
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
                "measured": "apportioned" if s.measured else "estimate",
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
    }


@router.get("/requests/{request_id}/raw")
async def request_raw(request_id: str, app: TheApp, caller: TheCaller) -> Response:
    """The request's body, as it was sent."""
    record = await app.store.request(caller, request_id)
    blocks = await app.store.blocks(caller, request_id)
    return Response(encode(stored_body(record, blocks)), media_type="application/json")


@router.post("/files", status_code=201)
async def upload(request: Request, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Json:
    """Upload one file in the multipart field `file`; answers when it has been read."""
    return file_json(await received_file(request, app, caller, key), app)


@router.get("/files")
async def files(page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The caller's files."""
    return list_json(await app.store.files(caller, _query(page)), lambda file: file_json(file, app))


@router.get("/files/{file_id}")
async def file(file_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One file."""
    return file_json(await app.store.file(caller, file_id), app)


@router.get("/files/{file_id}/content")
async def file_content(file_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The text that was read from a file; a form feed stands between pages."""
    found = await app.store.file(caller, file_id)
    text = await app.store.file_text(caller, file_id)
    return {"id": found.id, "name": found.name, "pages": found.pages, "text": text or ""}
