"""Turns as they are stored: shown, followed by their packets, stopped; and the answer that is gone on from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response

from lamella.core.errors import InvalidRequest
from lamella.core.messages import StopReason, TurnStatus
from lamella.core.packets import AnyPacket, UsageBody
from lamella.core.records import Branch, RunRecord, TurnOnPath, TurnRecord
from lamella.server.objects import Body, ErrorBody, ExpiredObject, Id, ListObject, Moment, Object, listed, usage_of
from lamella.server.routes.conversations import ConversationObject, conversation_object
from lamella.server.routing import TheApp, TheCaller, ThePage, api_router
from lamella.server.sse import EVENT_STREAM, event_stream

LAST_PACKET = 2**53
"""No turn has more packets, and no client's number holds more."""

router = api_router()


class PreferBody(Body):
    """`POST /api/v1/turns/{id}/prefer`. `run_id` left out is the answer that is followed there; `latest`: go on to the
    newest turn that came after it.
    """

    run_id: Id | None = None
    latest: bool = False


class RunObject(Object, kw_only=True):
    """One model's answer; `message_id` is its last message, which a turn can follow, `stop_reason` why that ended."""

    id: str
    object: Literal["run"] = "run"
    model_index: int
    model: str
    status: TurnStatus
    message_id: str | None
    answer: str
    stop_reason: StopReason | None
    error: ErrorBody | None
    usage: UsageBody
    cost: float
    finished_at: Moment | None


class AttachmentObject(Object, kw_only=True):
    """A file or picture of a message, under its number in the conversation; `reason` says why it has no text."""

    document: int
    file_id: str
    title: str
    media_type: str
    size: int
    tokens: int
    reason: str | None


class CallResultObject(Object, kw_only=True):
    """What a caller gave back for a call that was handed to it."""

    call_id: str
    name: str
    content: str
    is_error: bool


class TurnObject(Object, kw_only=True):
    """A turn. Its packets have the whole answer, `answer` the text. `parent_id` is the turn that it follows, null at
    the beginning; usage and cost are sums over its `runs`. `expired`: its packets are not kept any more. `results` are
    those that its caller brought for the calls of that turn; without a text it goes on with them.
    """

    id: str
    object: Literal["turn"] = "turn"
    conversation_id: str
    parent_id: str | None
    parent_run_id: str | None
    status: TurnStatus
    model: str
    user_message_id: str
    text: str
    results: list[CallResultObject]
    sent_at: Moment
    timezone: str
    documents: list[AttachmentObject]
    answer: str
    runs: list[RunObject]
    error: ErrorBody | None
    usage: UsageBody
    cost: float
    started_at: Moment
    finished_at: Moment | None
    expired: ExpiredObject | None


class PathTurnObject(TurnObject, kw_only=True):
    """A turn of the current path: `run_id` is the answer that is followed; `siblings` are the turns that follow the
    same answer, itself among them, the oldest first."""

    run_id: str | None
    siblings: list[str]


class BranchRunObject(Object, kw_only=True):
    """One model's answer, in short."""

    id: str
    model: str
    status: TurnStatus


class BranchObject(Object, kw_only=True):
    """A turn as a node of the tree."""

    id: str
    object: Literal["branch"] = "branch"
    parent_id: str | None
    parent_run_id: str | None
    text: str
    status: TurnStatus
    started_at: Moment
    runs: list[BranchRunObject]


class TreeObject(ListObject[BranchObject], kw_only=True):
    """The turns of a conversation in all branches, and its current position."""

    head: str | None
    head_run_id: str | None


class StoppingTurnObject(Object, kw_only=True):
    """A turn that was asked to stop. `status` is `running` until it stopped."""

    id: str
    object: Literal["turn"] = "turn"
    status: TurnStatus


class StoppingRunObject(Object, kw_only=True):
    """A run that was asked to stop."""

    id: str
    object: Literal["run"] = "run"
    turn_id: str


def run_object(run: RunRecord) -> RunObject:
    """One model's answer."""
    return RunObject.of(
        run,
        model_index=run.index,
        message_id=run.steps[-1].id if run.steps else None,
        stop_reason=run.steps[-1].stop_reason if run.steps else None,
        error=dict(run.error) if run.error else None,
        usage=usage_of(run.usage),
    )


def turn_object(turn: TurnRecord) -> TurnObject:
    """A turn."""
    return TurnObject.of(turn, **_of_turn(turn))


def path_turn_object(turn: TurnOnPath) -> PathTurnObject:
    """A turn of the current path."""
    return PathTurnObject.of(turn.turn, run_id=turn.run_id, siblings=turn.siblings, **_of_turn(turn.turn))


def _of_turn(turn: TurnRecord) -> dict[str, Any]:
    return {
        "parent_id": turn.parent.turn_id,
        "parent_run_id": turn.parent.run_id,
        "results": [CallResultObject.of(result) for result in turn.results],
        "documents": [AttachmentObject.of(attachment) for attachment in turn.attachments],
        "answer": turn.run.answer,
        "runs": [run_object(run) for run in turn.runs],
        "error": dict(turn.error) if turn.error else None,
        "usage": usage_of(turn.usage),
        "expired": ExpiredObject.of(turn.expired) if turn.expired is not None else None,
    }


def branch_object(branch: Branch) -> BranchObject:
    """A turn as a node of the tree."""
    return BranchObject.of(
        branch,
        parent_id=branch.parent.turn_id,
        parent_run_id=branch.parent.run_id,
        runs=[BranchRunObject.of(run, status=status) for run, status in branch.runs],
    )


@router.get("/conversations/{conversation_id}/turns")
async def turns(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[PathTurnObject]:
    """The turns of a conversation's current path, the newest first: by place in the path, not by id."""
    return listed(await app.store.branches.turns_on_path(caller, conversation_id, page), path_turn_object)


@router.get("/conversations/{conversation_id}/tree")
async def tree(conversation_id: str, page: ThePage, app: TheApp, caller: TheCaller) -> TreeObject:
    """All turns of a conversation in short form, in all branches, and its current position."""
    conversation = await app.store.conversations.conversation(caller, conversation_id)
    found = listed(await app.store.branches.tree(caller, conversation_id, page), branch_object)
    return TreeObject.of(found, head=conversation.head, head_run_id=conversation.head_run_id)


@router.get("/turns/{turn_id}")
async def turn(turn_id: str, app: TheApp, caller: TheCaller) -> TurnObject:
    """One turn."""
    return turn_object(await app.store.turns.turn(caller, turn_id))


@router.get("/turns/{turn_id}/events", responses={200: {EVENT_STREAM: AnyPacket}})
async def events(
    turn_id: str,
    request: Request,
    app: TheApp,
    caller: TheCaller,
    after: Annotated[int | None, Query(ge=0, le=LAST_PACKET)] = None,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> Response:
    """The packets of a turn from any number on, then live ones."""
    packets = await app.chat.follow(caller, turn_id, after_of(after, last_event_id))
    return event_stream(packets, request.state.silence)


def after_of(after: int | None, last_event_id: str | None) -> int:
    """The number of the last packet that a client has; raises `InvalidRequest`."""
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
async def stop(turn_id: str, app: TheApp, caller: TheCaller) -> StoppingTurnObject:
    """Ask a turn to stop; its stream ends with `turn.stopped`. `status` is `running` until it has."""
    return StoppingTurnObject(id=turn_id, status=await app.chat.stop(caller, turn_id))


@router.post("/turns/{turn_id}/prefer")
async def prefer(turn_id: str, body: PreferBody, app: TheApp, caller: TheCaller) -> ConversationObject:
    """Continue from one of a turn's answers. Returns the conversation. Nothing is removed."""
    return conversation_object(await app.chat.prefer(caller, turn_id, body.run_id, latest=body.latest))


@router.post("/runs/{run_id}/stop", status_code=202)
async def stop_run(run_id: str, app: TheApp, caller: TheCaller) -> StoppingRunObject:
    """Ask one model's answer to stop; the others continue. The turn's packets report its end."""
    return StoppingRunObject(id=run_id, turn_id=await app.chat.stop_run(caller, run_id))
