"""`POST /api/v1/ui/chat`: the chat for `useChat` of the AI SDK, versions 5 to 7.

A request has all messages of the chat, of which the new ones count (`server/frontends.py`); the answer is a UI message
stream: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol. Tools of the server are marked `providerExecuted`, so that
the client neither runs them nor sends the chat again because of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from msgspec import DecodeError
from pydantic import BaseModel, ConfigDict, Field

from lamella.chat.message import own_tool
from lamella.core.errors import InvalidRequest
from lamella.core.json import decode_arguments, encode_text
from lamella.core.messages import ToolResult, ToolSpec
from lamella.core.packets import (
    AnyPacket,
    CitationPacket,
    ErrorFields,
    SourcePacket,
    ToolApprovalPacket,
    ToolResultPacket,
    TurnFinished,
)
from lamella.core.records import TurnRecord
from lamella.server.frontends import (
    Approval,
    Content,
    SentFile,
    ThreadId,
    ThreadMessage,
    TurnOptions,
    file_at,
)
from lamella.server.objects import AnyObject, Body
from lamella.server.routing import IdempotencyKey, TheApp, TheFrontends, TheIdentity, api_router
from lamella.server.sse import EVENT_STREAM, EventStream
from lamella.server.turn_events import Event, Events, OpenCall, Said, TurnEvents, fields_of, sentence_of

router = api_router()

CHAT_PATH = "/api/v1/ui/chat"
STREAM_HEADER = ("x-vercel-ai-ui-message-stream", "v1")
DONE = b"data: [DONE]\n\n"

LEFT_OUT = {
    "command": "Texts that begin with / go to the model here.",
    "turn.queued": "A message is answered at once or refused here.",
    "tool.verdict": "The client knows the answer that it gave; a call that was denied ends as `tool-output-denied`.",
}
"""Packets that never have a chunk, and why."""

KEPT = (CitationPacket,)
"""Packets whose data stay in the message; others are only told to `onData`."""

FINISH = {"max_tokens": "length", "refusal": "content-filter", "step_limit": "tool-calls"}
"""Why an answer ended before it was complete, in the words of the AI SDK."""


class UiMessage(BaseModel):
    """A message of the chat. Parts are read of new messages only, and of calls that wait for the user's answer."""

    model_config = ConfigDict(strict=True)

    id: ThreadId
    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, Any]]


class UiTool(Body):
    """A tool that the application runs."""

    description: str = ""
    inputSchema: dict[str, Any] | None = None


class UiChatBody(TurnOptions):
    """What `useChat` sends: the chat's `id`, all its `messages`, and what to do. More fields come from `body`.

    `tools` are the application's own, by name.
    """

    id: ThreadId
    messages: Annotated[list[UiMessage], Field(max_length=10_000)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messageId: ThreadId | None = None
    tools: Annotated[dict[str, UiTool], Field(max_length=128)] | None = None


@router.post("/ui/chat", responses={200: {EVENT_STREAM: AnyObject}})
async def ui_chat(
    body: UiChatBody,
    request: Request,
    app: TheApp,
    frontends: TheFrontends,
    identity: TheIdentity,
    key: IdempotencyKey = None,
) -> Response:
    """Answer the newest message of a chat of the AI SDK, as a UI message stream.

    A message that was sent before, and `regenerate-message`, begin a branch. If the client leaves, the turn stops,
    unless `resumable` is true.
    """
    if approvals := _approvals(body.messages[-1:]):
        turn_id, after = await frontends.answered(identity, body.id, approvals)
        turn = await app.store.turns.turn(identity.caller, turn_id)
    else:
        messages = [_message(one, index) for index, one in enumerate(body.messages)]
        told = [one.said for one in messages if one.role == "system" and one.said]
        others = [one for one in messages if one.role != "system"]
        tools, after = _tools(body.tools), 0
        turn = await frontends.begin(identity, body.id, others, body, told, tools, key)
    last = body.messages[-1]
    goes_on = last.id if last.role == "assistant" else turn.id
    events = UiChatEvents(turn, goes_on, await frontends.own_tools(identity.caller, turn))
    written = frontends.stream(identity, events, after, resumable=body.resumable)
    return _streamed(written, request.state.silence)


@router.get("/ui/chat/{chat_id}/stream", responses={200: {EVENT_STREAM: AnyObject}, 204: {}})
async def ui_chat_stream(
    chat_id: str, request: Request, app: TheApp, frontends: TheFrontends, identity: TheIdentity
) -> Response:
    """Follow the turn that a chat is answering, from its first packet; 204 if there is none."""
    turn_id = await frontends.running(identity.caller, chat_id)
    if turn_id is None:
        return Response(status_code=204)
    turn = await app.store.turns.turn(identity.caller, turn_id)
    events = UiChatEvents(turn, turn_id, await frontends.own_tools(identity.caller, turn))
    return _streamed(frontends.stream(identity, events, resumable=True), request.state.silence)


@router.post("/ui/chat/{chat_id}/stop", status_code=204)
async def stop_ui_chat(chat_id: str, app: TheApp, frontends: TheFrontends, identity: TheIdentity) -> Response:
    """Stop the turn that a chat is answering, if there is one. Its stream ends with `abort`."""
    turn_id = await frontends.running(identity.caller, chat_id)
    if turn_id is not None:
        await app.chat.stop(identity.caller, turn_id)
    return Response(status_code=204)


def _streamed(written: Any, silence: float) -> EventStream:
    answer = EventStream(written, silence)
    name, value = STREAM_HEADER
    answer.headers[name] = value
    return answer


# Messages


def _message(message: UiMessage, index: int) -> ThreadMessage:
    said = "\n\n".join(str(part.get("text", "")) for part in message.parts if part.get("type") == "text")
    read = partial(_content, message, f"messages.{index}.parts")
    return ThreadMessage(message.id, message.role, said, read, tuple(_results(message)))


def _tools(tools: Mapping[str, UiTool] | None) -> tuple[ToolSpec, ...] | None:
    if tools is None:
        return None
    return tuple(own_tool(name, tool.description, tool.inputSchema, f"tools.{name}") for name, tool in tools.items())


def _results(message: UiMessage) -> Iterator[ToolResult]:
    """What the application gave for calls of its own tools."""
    for part in message.parts if message.role == "assistant" else ():
        match part:
            case {"providerExecuted": True}:
                continue
            case {"state": "output-available", "toolCallId": str(id)}:
                output = part.get("output")
                yield ToolResult(id, "", output if isinstance(output, str) else encode_text(output))
            case {"state": "output-error", "toolCallId": str(id)}:
                yield ToolResult(id, "", _text(part.get("errorText")) or "", is_error=True)


def _content(message: UiMessage, where: str) -> Content:
    """Text and files of a new message. Raises `InvalidRequest` for a part that can't be sent to a model."""
    texts: list[str] = []
    files: list[str | SentFile] = []
    for number, part in enumerate(message.parts):
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "file", "url": str(url)}:
                name, media_type = part.get("filename"), part.get("mediaType")
                files.append(file_at(url, _text(name), _text(media_type), f"{where}.{number}.url"))
            case _:
                kind = str(part.get("type"))[:60]
                raise InvalidRequest(
                    f"A message of the user has texts and files, and no part of type “{kind}”.",
                    hint="Leave the part out, or send it as text.",
                    param=f"{where}.{number}",
                )
    return Content("\n\n".join(texts), tuple(files))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _approvals(last: list[UiMessage]) -> list[Approval]:
    """The user's answers to calls of the last message that wait."""
    found: list[Approval] = []
    for part in (part for message in last if message.role == "assistant" for part in message.parts):
        match part:
            case {"state": "approval-responded", "approval": {"id": str(id), "approved": bool(approved)} as approval}:
                found.append(Approval(id, approved, _text(approval.get("reason")) or ""))
    return found


# Chunks


class UiChatEvents(TurnEvents):
    """The chunks of a turn, as one message of the assistant."""

    def __init__(self, turn: TurnRecord, message_id: str, own: Collection[str] = ()) -> None:
        super().__init__(turn.id, own)
        self._message_id = message_id
        self._metadata = {"conversationId": turn.conversation_id, "turnId": turn.id, "model": turn.model}

    def take(self, packet: AnyPacket) -> bytes:
        """The chunks of a packet; the last is followed by the end of the stream."""
        return super().take(packet) + (DONE if isinstance(packet, TurnFinished) else b"")

    def end(self) -> bytes:
        """See `TurnEvents.end`."""
        return super().end() + (DONE if self.waits is not None else b"")

    def fail(self, error: ErrorFields) -> bytes:
        """See `TurnEvents.fail`."""
        return super().fail(error) + DONE

    def started(self) -> Events:
        """See `TurnEvents`."""
        yield {"type": "start", "messageId": self._message_id, "messageMetadata": self._metadata}

    def step_started(self, step: int) -> Events:
        """See `TurnEvents`."""
        yield {"type": "start-step"}

    def step_ended(self, step: int) -> Events:
        """See `TurnEvents`."""
        yield {"type": "finish-step"}

    def block_started(self, kind: Said, block: int) -> Events:
        """See `TurnEvents`."""
        yield {"type": f"{kind}-start", "id": str(block)}

    def block_delta(self, kind: Said, block: int, text: str) -> Events:
        """See `TurnEvents`."""
        yield {"type": f"{kind}-delta", "id": str(block), "delta": text}

    def block_ended(self, kind: Said, block: int) -> Events:
        """See `TurnEvents`."""
        yield {"type": f"{kind}-end", "id": str(block)}

    def call_started(self, call: OpenCall) -> Events:
        """See `TurnEvents`."""
        yield {"type": "tool-input-start", "toolCallId": call.id, "toolName": call.name, **_marks(call)}

    def call_arguments(self, call: OpenCall, piece: str) -> Events:
        """See `TurnEvents`."""
        yield {"type": "tool-input-delta", "toolCallId": call.id, "inputTextDelta": piece}

    def call_ended(self, call: OpenCall) -> Events:
        """See `TurnEvents`."""
        called = {"toolCallId": call.id, "toolName": call.name, "input": _input(call.arguments)}
        yield {"type": "tool-input-available", **called, **_marks(call)}

    def call_refused(self, call: OpenCall, why: str) -> Events:
        """See `TurnEvents`."""
        called = {"toolCallId": call.id, "toolName": call.name, "input": _input(call.arguments)}
        yield {"type": "tool-input-error", **called, "errorText": why}

    def approval(self, packet: ToolApprovalPacket) -> Events:
        """See `TurnEvents`."""
        yield {"type": "tool-approval-request", "approvalId": self.approval_id(packet), "toolCallId": packet.call_id}

    def result(self, packet: ToolResultPacket) -> Events:
        """See `TurnEvents`."""
        if packet.call_id in self.denied:
            yield {"type": "tool-output-denied", "toolCallId": packet.call_id}
        elif packet.is_error:
            error = {"toolCallId": packet.call_id, "errorText": packet.content}
            yield {"type": "tool-output-error", **error, **_OURS}
        else:
            output = {"toolCallId": packet.call_id, "output": packet.content}
            yield {"type": "tool-output-available", **output, **_OURS}
        if packet.queries or packet.rich:
            yield from self.noted(packet)

    def source(self, packet: SourcePacket) -> Events:
        """See `TurnEvents`."""
        named = {"sourceId": f"document-{packet.document}", "title": packet.title}
        known = {"document": packet.document, "fileId": packet.file_id}
        ours = {"providerMetadata": {"lamella": known}}
        if packet.url is not None:
            yield {"type": "source-url", "url": packet.url, **named, **ours}
        else:
            yield {"type": "source-document", "mediaType": "text/plain", "filename": packet.title, **named, **ours}

    def noted(self, packet: AnyPacket) -> Events:
        """See `TurnEvents`: the packet as data, under its type with dashes."""
        kind = str(packet.__struct_config__.tag)
        if kind not in LEFT_OUT:
            yield {
                "type": f"data-{kind.replace('.', '-')}",
                "data": fields_of(packet),
                **({} if isinstance(packet, KEPT) else {"transient": True}),
            }

    def paused(self, waits: ToolApprovalPacket) -> Events:
        """See `TurnEvents`."""
        yield {"type": "finish", "finishReason": "tool-calls"}

    def finished(self, packet: TurnFinished) -> Events:
        """See `TurnEvents`."""
        if self.stopped is not None:
            yield {"type": "abort", "reason": self.stopped}
        reason = FINISH[self.partial] if self.partial else "other" if self.stopped else "stop"
        reason = "tool-calls" if self.handed else reason
        yield {"type": "finish", "finishReason": reason, "messageMetadata": _bill(packet)}

    def failed(self, error: ErrorFields) -> Events:
        """See `TurnEvents`."""
        yield {"type": "error", "errorText": sentence_of(error)}


_OURS: Mapping[str, Any] = {"providerExecuted": True, "dynamic": True}
"""Marks of calls that this server runs, of tools that the client does not know."""


def _marks(call: OpenCall) -> Mapping[str, Any]:
    return {} if call.is_own else _OURS


def _bill(packet: TurnFinished) -> Event:
    return {"usage": packet.usage, "cost": packet.cost, "status": packet.status}


def _input(arguments: str) -> Any:
    """The arguments of a call; what is no JSON object as the text that it is."""
    try:
        return decode_arguments(arguments)
    except DecodeError:
        return arguments
