"""`/v1/conversations`: our conversations in the shapes of OpenAI's Conversations API, with their items.

https://platform.openai.com/docs/api-reference/conversations
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from fastapi.responses import JSONResponse

from lamella.app.app import App
from lamella.app.conversations import ConversationEdit, NewConversation
from lamella.core.access import Identity
from lamella.core.errors import HeadMoved, InvalidRequest, NotFound, TurnInProgress
from lamella.core.json import Json
from lamella.core.messages import AnswerPart, Reasoning, Text, ToolCall
from lamella.core.records import Conversation, PageQuery, TurnRecord
from lamella.gateway.histories import NOTHING_SAID
from lamella.server.objects import AnyObject
from lamella.server.routes.added_items import is_imported, read_items, remove_newest, store_items
from lamella.server.routes.openai_request import KEY_LENGTH, PAIRS, VALUE_LENGTH
from lamella.server.routes.response_writer import Item
from lamella.server.routes.responses import RESPONSE, TURN, in_vendor_words
from lamella.server.routes.stored_responses import (
    Include,
    find_response,
    input_items_of,
    listed_items,
    no_cursor,
    whole_response,
)
from lamella.server.routing import JSON, Answers, IdempotencyKey, TheApp, TheIdentity, api_router

router = api_router("/v1")

ANSWER: Answers = {200: {JSON: AnyObject}}
Order = Literal["asc", "desc"]
Limit = Annotated[int, Query(ge=1, le=100)]


def openai_conversation(conversation: Conversation) -> dict[str, Any]:
    """A conversation in the shape of OpenAI's API."""
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": int(conversation.created_at.timestamp()),
        "metadata": dict(conversation.metadata),
    }


def _metadata_of(value: Json) -> dict[str, str]:
    """The pairs of a body. Raises `InvalidRequest`."""
    pairs = {} if value is None else value
    is_good = isinstance(pairs, Mapping) and len(pairs) <= PAIRS
    if not is_good or not all(
        isinstance(text, str) and len(key) <= KEY_LENGTH and len(text) <= VALUE_LENGTH
        for key, text in pairs.items()  # type: ignore[union-attr]
    ):
        raise InvalidRequest(
            f"Metadata has at most {PAIRS} pairs of texts, with keys of {KEY_LENGTH} and values of {VALUE_LENGTH} "
            "characters.",
            hint="Send fewer or shorter ones.",
            param="metadata",
        )
    return {key: str(text) for key, text in pairs.items()}  # type: ignore[union-attr]


def _only(body: Mapping[str, Any], *names: str) -> None:
    """Raises `InvalidRequest` for a body with any other field."""
    if unknown := sorted(set(body) - set(names)):
        raise InvalidRequest(f"There is no field {unknown[0][:60]}.", hint="Leave it out.", param=unknown[0][:60])


async def _find(app: App, identity: Identity, conversation_id: str) -> Conversation:
    with in_vendor_words(conversation_id):
        return await app.store.conversations.conversation(identity.caller, conversation_id)


async def _newest(app: App, identity: Identity, conversation: Conversation) -> TurnRecord | None:
    if conversation.running_turn is not None:
        raise TurnInProgress("This conversation is still answering.", hint="Wait for its response, or cancel it.")
    return await app.store.turns.turn(identity.caller, conversation.head) if conversation.head is not None else None


@router.post("/conversations", responses=ANSWER)
async def create_openai_conversation(
    app: TheApp, identity: TheIdentity, body: dict[str, Any] | None = None, key: IdempotencyKey = None
) -> Response:
    """A new conversation, with up to 20 `items` and `metadata`."""
    body = body or {}
    _only(body, "items", "metadata")
    drafts = read_items(body["items"], None) if body.get("items") else []
    asked = NewConversation(metadata=_metadata_of(body.get("metadata")))
    conversation = await app.conversations.create(identity.caller, asked, key)
    if drafts and conversation.head is None:
        try:
            await store_items(app, identity, conversation, drafts)
        except NotFound:
            await app.chat.delete(identity.caller, conversation.id)
            raise
    return JSONResponse(openai_conversation(conversation))


@router.get("/conversations/{conversation_id}", responses=ANSWER)
async def retrieve_openai_conversation(conversation_id: str, app: TheApp, identity: TheIdentity) -> Response:
    """One conversation."""
    return JSONResponse(openai_conversation(await _find(app, identity, conversation_id)))


@router.post("/conversations/{conversation_id}", responses=ANSWER)
async def update_openai_conversation(
    conversation_id: str, body: dict[str, Any], app: TheApp, identity: TheIdentity
) -> Response:
    """Replace the `metadata` of a conversation."""
    _only(body, "metadata")
    await _find(app, identity, conversation_id)
    edit = ConversationEdit(metadata=_metadata_of(body.get("metadata")))
    return JSONResponse(openai_conversation(await app.conversations.change(identity.caller, conversation_id, edit)))


@router.delete("/conversations/{conversation_id}", responses=ANSWER)
async def delete_openai_conversation(conversation_id: str, app: TheApp, identity: TheIdentity) -> Response:
    """Delete a conversation with everything in it: items, responses, requests."""
    conversation = await _find(app, identity, conversation_id)
    await _newest(app, identity, conversation)
    await app.chat.delete(identity.caller, conversation_id)
    return JSONResponse({"id": conversation_id, "object": "conversation.deleted", "deleted": True})


@router.get("/conversations/{conversation_id}/items", responses=ANSWER)
async def list_items(
    conversation_id: str,
    app: TheApp,
    identity: TheIdentity,
    limit: Limit = 20,
    order: Order = "desc",
    after: str | None = None,
    include: Include = None,
) -> Response:
    """The items of a conversation, newest first: of its turns on the current path."""
    conversation = await _find(app, identity, conversation_id)
    found: list[Item] = []
    turn_id = None
    if after is not None:
        turn = await _turn_of(app, identity, conversation, after)
        ordered = _ordered(await items_of(app, identity, turn), order) if turn is not None else []
        place = next((n for n, item in enumerate(ordered) if item["id"] == after), None)
        if turn is None or place is None:
            raise no_cursor(after)
        found, turn_id = ordered[place + 1 :], turn.id
    has_more = True
    while has_more and len(found) <= limit:
        query = PageQuery(limit + 1 - len(found), turn_id, order)
        page = await app.store.branches.turns_on_path(identity.caller, conversation_id, query)
        for on_path in page.data:
            found += _ordered(await items_of(app, identity, on_path.turn), order)
        has_more, turn_id = page.has_more, page.data[-1].turn.id if page.data else None
    return JSONResponse(listed_items(found[:limit], has_more=len(found) > limit))


def _ordered(items: list[Item], order: Order) -> list[Item]:
    return items if order == "asc" else items[::-1]


async def _turn_of(app: App, identity: Identity, conversation: Conversation, item_id: str) -> TurnRecord | None:
    """The turn of a conversation that an item is part of; None if there is none."""
    turn_id = turn_id_of(item_id)
    try:
        turn = await app.store.turns.turn(identity.caller, turn_id or "")
    except NotFound:
        return None
    return turn if turn.conversation_id == conversation.id else None


async def _find_item(
    app: App, identity: Identity, conversation: Conversation, item_id: str
) -> tuple[TurnRecord, Item, bool]:
    """An item with its turn, and whether it is the last item of that. Raises `NotFound`."""
    turn = await _turn_of(app, identity, conversation, item_id)
    items = await items_of(app, identity, turn) if turn is not None else []
    item = next((item for item in items if item["id"] == item_id), None)
    if turn is None or item is None:
        raise NotFound(f"Item with id '{item_id[:80]}' not found.", param="item_id")
    return turn, item, item is items[-1]


@router.post("/conversations/{conversation_id}/items", responses=ANSWER)
async def create_items(
    conversation_id: str, body: dict[str, Any], app: TheApp, identity: TheIdentity, include: Include = None
) -> Response:
    """Add up to 20 items at the end of a conversation, without an answer to them. Returns them."""
    _only(body, "items")
    while True:
        try:
            added = await _add(app, identity, conversation_id, body)
        except HeadMoved:  # others were added meanwhile: these follow them
            continue
        return JSONResponse(listed_items(added, has_more=False))


async def _add(app: App, identity: Identity, conversation_id: str, body: Mapping[str, Any]) -> list[Item]:
    """Add items; returns them. Raises `HeadMoved` if the newest turn was changed meanwhile: nothing is stored then."""
    conversation = await _find(app, identity, conversation_id)
    newest = await _newest(app, identity, conversation)
    known = {item["id"] for item in await items_of(app, identity, newest)} if newest is not None else set()
    drafts = read_items(body.get("items"), newest)
    return [
        item
        for turn in await store_items(app, identity, conversation, drafts)
        for item in await items_of(app, identity, turn)
        if item["id"] not in known
    ]


@router.get("/conversations/{conversation_id}/items/{item_id}", responses=ANSWER)
async def retrieve_item(
    conversation_id: str, item_id: str, app: TheApp, identity: TheIdentity, include: Include = None
) -> Response:
    """One item."""
    conversation = await _find(app, identity, conversation_id)
    return JSONResponse((await _find_item(app, identity, conversation, item_id))[1])


@router.delete("/conversations/{conversation_id}/items/{item_id}", responses=ANSWER)
async def delete_item(conversation_id: str, item_id: str, app: TheApp, identity: TheIdentity) -> Response:
    """Delete the newest item of a conversation, if it was added and no model answered it. Returns the conversation."""
    conversation = await _find(app, identity, conversation_id)
    turn, _, is_last = await _find_item(app, identity, conversation, item_id)
    if not is_last:
        raise InvalidRequest(
            "Only the newest item of a conversation can be deleted.",
            hint="Delete those after it first, newest first, or the conversation.",
            param="item_id",
        )
    await remove_newest(app, identity, conversation, turn)
    return JSONResponse(openai_conversation(conversation))


# Turns as items; `added_items.py` is the way back

_ID = re.compile(r"[a-z]+_([0-9a-z]+)(?:_\w+)?", re.ASCII)


def turn_id_of(item_id: str) -> str | None:
    """The turn that an item is part of."""
    found = _ID.fullmatch(item_id)
    return TURN + found[1] if found is not None else None


async def items_of(app: App, identity: Identity, turn: TurnRecord) -> list[Item]:
    """The items of a turn, in order."""
    said = [] if turn.text == NOTHING_SAID else input_items_of(turn)
    if is_imported(turn):
        return [*said, *_added_items(turn)]
    _, fields = await find_response(app, identity, RESPONSE + turn.id.removeprefix(TURN), deleted=True)
    response = await whole_response(app, identity, turn, fields)
    return [*said, *response["output"]]


def _added_items(turn: TurnRecord) -> Iterator[Item]:
    suffix, block = turn.id.removeprefix(TURN), 0
    for step in turn.steps:
        for part in step.parts:
            yield _item_of(part, f"{suffix}_{block}")
            block += 1
        for number, result in enumerate(step.results):
            output = {"call_id": result.call_id, "output": result.content, "status": "completed"}
            yield {"id": f"fco_{suffix}_{block}_{number}", "type": "function_call_output", **output}


def _item_of(part: AnswerPart, place: str) -> Item:
    match part:
        case Text(text):
            content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
            made: Item = {"id": f"msg_{place}", "type": "message", "status": "completed", "role": "assistant"}
            return {**made, "content": content}
        case Reasoning(text):
            return {"id": f"rs_{place}", "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
        case ToolCall(id, name, arguments):
            call = {"call_id": id, "name": name, "arguments": arguments, "status": "completed"}
            return {"id": f"fc_{place}", "type": "function_call", **call}
