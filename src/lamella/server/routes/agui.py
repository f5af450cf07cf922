"""`POST /api/v1/agui`: the chat for clients of AG-UI, the Agent-User Interaction Protocol (https://docs.ag-ui.com).

A run has all messages of its thread, of which the new ones count (`server/frontends.py`). A run without a new message
answers with the thread's messages. A call that waits for the user ends the run with an interrupt, which the next run
answers by `resume`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lamella.chat.message import own_tool
from lamella.core.errors import InvalidRequest
from lamella.core.json import encode_sorted
from lamella.core.messages import Reasoning, Text, ToolCall, ToolResult, ToolSpec, TurnStatus
from lamella.core.packets import (
    AnyPacket,
    ErrorFields,
    SourcePacket,
    ToolApprovalPacket,
    ToolResultPacket,
    TurnFinished,
)
from lamella.core.records import TurnOnPath
from lamella.core.tokens import Usage
from lamella.server.frontends import (
    Approval,
    Content,
    SentFile,
    ThreadId,
    ThreadMessage,
    TurnOptions,
    decoded,
    file_at,
    sent_file,
)
from lamella.server.objects import AnyObject, Body
from lamella.server.routing import IdempotencyKey, TheApp, TheFrontends, TheIdentity, api_router
from lamella.server.sse import EVENT_STREAM, EventStream, event
from lamella.server.turn_events import Event, Events, OpenCall, Said, TurnEvents, fields_of, sentence_of

router = api_router()

AGUI_PATH = "/api/v1/agui"
PROTOCOL_VERSION = "1.0"

LEFT_OUT = {
    "command": "Texts that begin with / go to the model here.",
    "turn.queued": "A message is answered at once or refused here.",
    "tool.verdict": "The client knows the answer that it gave.",
}
"""Packets that never have an event, and why."""

VERDICT_SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""The answer to a call that waits."""

MEDIA = ("image", "audio", "video", "document")


class AgentMessage(BaseModel):
    """A message of the thread. Content is read of new messages only."""

    model_config = ConfigDict(strict=True)

    id: ThreadId
    role: Literal["developer", "system", "assistant", "user", "tool", "activity", "reasoning"]
    content: Any = None
    toolCallId: str = ""
    error: str | None = None


class AgentContext(Body):
    """What the model is told about the application in this run."""

    description: str
    value: str


class AgentTool(BaseModel):
    """A tool that the application runs."""

    model_config = ConfigDict(strict=True)

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class ResumeEntry(Body):
    """The answer to an interrupt: `payload` is {approved, reason}."""

    interruptId: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None
    metadata: dict[str, Any] | None = None


class AgentRunBody(Body):
    """`RunAgentInput` of AG-UI. `forwardedProps` are the options of the turn."""

    threadId: ThreadId
    runId: ThreadId
    protocolVersion: str | None = None
    parentRunId: str | None = None
    state: Any = None
    messages: Annotated[list[AgentMessage], Field(max_length=10_000)]
    tools: list[AgentTool] | None = None
    context: Annotated[list[AgentContext], Field(max_length=100)] | None = None
    forwardedProps: TurnOptions | None = None
    resume: list[ResumeEntry] | None = None


@router.post("/agui", responses={200: {EVENT_STREAM: AnyObject}})
async def agui(
    body: AgentRunBody,
    request: Request,
    app: TheApp,
    frontends: TheFrontends,
    identity: TheIdentity,
    key: IdempotencyKey = None,
) -> Response:
    """Run the agent on the newest message of a thread, as a stream of AG-UI's events.

    A message that was sent before begins a branch. If the client leaves, the turn stops, unless `resumable` is true
    in `forwardedProps`.
    """
    options = body.forwardedProps or TurnOptions()
    if body.resume:
        turn_id, after = await frontends.answered(identity, body.threadId, [_approval(one) for one in body.resume])
        turn = await app.store.turns.turn(identity.caller, turn_id)
        events = AgentEvents(body, turn_id, await frontends.own_tools(identity.caller, turn))
    elif not body.messages or body.messages[-1].role not in ("user", "tool"):
        turns = await frontends.turns(identity.caller, body.threadId)
        running = [one.turn for one in turns if one.turn.status is TurnStatus.RUNNING]
        shown = [message for one in turns for message in _messages(one)]
        if not running:
            return EventStream(_history(AgentEvents(body, "", shown=shown)), request.state.silence)
        own = await frontends.own_tools(identity.caller, running[0])
        events = AgentEvents(body, running[0].id, own, shown)
        return EventStream(frontends.stream(identity, events, resumable=True), request.state.silence)
    else:
        messages = [_message(one, index) for index, one in enumerate(body.messages)]
        others = [one for one in messages if one.role not in ("system", "developer")]
        told, tools, after = _told(body, messages), _tools(body.tools), 0
        turn = await frontends.begin(identity, body.threadId, others, options, told, tools, key)
        events = AgentEvents(body, turn.id, await frontends.own_tools(identity.caller, turn))
    written = frontends.stream(identity, events, after, resumable=options.resumable)
    return EventStream(written, request.state.silence)


def _approval(entry: ResumeEntry) -> Approval:
    """The answer of an entry. Raises `InvalidRequest` for one that says neither yes nor no."""
    match entry.payload:
        case _ if entry.status == "cancelled":
            return Approval(entry.interruptId, approved=False)
        case bool(approved):
            return Approval(entry.interruptId, approved)
        case {"approved": bool(approved), **more}:
            return Approval(entry.interruptId, approved, str(more.get("reason") or ""))
        case _:
            raise InvalidRequest(
                "The payload does not say whether the call may run.",
                hint="Send {“approved”: true} or {“approved”: false, “reason”: …}.",
                param="resume.payload",
            )


# Messages


def _message(message: AgentMessage, index: int) -> ThreadMessage:
    where = f"messages.{index}.content"
    said = _said(message.content)
    results: tuple[ToolResult, ...] = ()
    if message.role == "tool":
        results = (ToolResult(message.toolCallId, "", said or message.error or "", is_error=message.error is not None),)
    return ThreadMessage(message.id, message.role, said, partial(_content, message, where), results)


def _tools(tools: Sequence[AgentTool] | None) -> tuple[ToolSpec, ...] | None:
    if tools is None:
        return None
    return tuple(own_tool(one.name, one.description, one.parameters, f"tools.{n}") for n, one in enumerate(tools))


def _said(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return "\n\n".join(str(part.get("text") or "") for part in texts)


def _content(message: AgentMessage, where: str) -> Content:
    """Text and files of a new message. Raises `InvalidRequest`."""
    if isinstance(message.content, str):
        return Content(message.content)
    texts: list[str] = []
    files: list[str | SentFile] = []
    for number, part in enumerate(message.content if isinstance(message.content, list) else [message.content]):
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": str(kind), "source": dict(source)} if kind in MEDIA:
                files.append(_file(source, part.get("metadata"), f"{where}.{number}.source"))
            case {"type": "binary"}:
                files.append(_binary(dict(part), f"{where}.{number}"))
            case _:
                raise InvalidRequest(
                    "A message of the user is a text, or a list of texts, images and documents.",
                    hint="Leave the part out, or send it as text.",
                    param=f"{where}.{number}",
                )
    return Content("\n\n".join(texts), tuple(files))


def _file(source: dict[str, Any], metadata: Any, where: str) -> str | SentFile:
    """The file of a part: its bytes, its address here, or its id here."""
    named = metadata.get("filename") if isinstance(metadata, dict) else None
    name = named if isinstance(named, str) else None
    media_type = source.get("mimeType")
    media_type = media_type if isinstance(media_type, str) else None
    match source:
        case {"type": "data", "value": str(value)}:
            return sent_file(decoded(value, where), name, media_type)
        case {"type": "url", "value": str(value)}:
            return file_at(value, name, media_type, where)
        case {"type": "file", "value": str(value)}:
            return value
    raise InvalidRequest("The source of a file is data, a url or a file.", hint="Send one of them.", param=where)


def _binary(part: dict[str, Any], where: str) -> str | SentFile:
    """A file as versions before 1.0 sent it: by `data`, `url` or `id`."""
    for name, kind in (("data", "data"), ("url", "url"), ("id", "file")):
        if isinstance(part.get(name), str):
            source = {"type": kind, "value": part[name], "mimeType": part.get("mimeType")}
            return _file(source, {"filename": part.get("filename")}, where)
    raise InvalidRequest("The file has neither data nor a url nor an id.", hint="Send one of them.", param=where)


def _told(body: AgentRunBody, messages: Sequence[ThreadMessage]) -> list[str]:
    """What goes along as dynamic context: instructions, context and state of the application."""
    told = [one.said for one in messages if one.role in ("system", "developer") and one.said]
    told += [f"{one.description}:\n{one.value}" for one in body.context or ()]
    if body.state not in (None, {}, [], ""):
        told.append(f"The state of the application, as JSON:\n{encode_sorted(body.state)}")
    return told


async def _history(events: AgentEvents) -> AsyncGenerator[bytes, None]:
    """A run that answers nothing: it gives the messages of the thread."""
    yield events.begin() + events.over()


def _messages(one: TurnOnPath) -> Iterator[Event]:
    """The messages of a turn, under the ids that its events gave them. The answer is that which is followed."""
    turn = one.turn
    run = next((run for run in turn.runs if run.id == one.run_id), turn.run)
    for result in turn.results:
        yield {
            "id": f"{turn.id}:{result.call_id}",
            "role": "tool",
            "toolCallId": result.call_id,
            "content": result.content,
        }
    if turn.text:
        yield {"id": f"{turn.id}:user", "role": "user", "content": turn.text}
    block = 0
    for step in run.steps:
        results = {result.call_id: result for result in step.results}
        parent: dict[str, Any] = {}
        for part in step.parts:
            id = f"{turn.id}:{block}"
            block += 1
            match part:
                case Reasoning(text) if text:
                    yield {"id": id, "role": "reasoning", "content": text}
                case Text(text):
                    parent = {"id": id, "role": "assistant", "content": text}
                    yield parent
                case ToolCall(call_id, name, arguments):
                    if not parent:
                        parent = {"id": id, "role": "assistant"}
                        yield parent
                    function = {"name": name, "arguments": arguments}
                    parent.setdefault("toolCalls", []).append({"id": call_id, "type": "function", "function": function})
        for result in results.values():
            known = {"toolCallId": result.call_id, "content": result.content}
            yield {"id": f"{turn.id}:{result.call_id}", "role": "tool", **known}


# Events


class AgentEvents(TurnEvents):
    """The events of a turn, as one run."""

    def __init__(
        self, body: AgentRunBody, turn_id: str, own: Collection[str] = (), shown: Sequence[Event] | None = None
    ) -> None:
        super().__init__(turn_id, own)
        self._shown = shown
        """The messages that the client is to have before the run."""
        self._run = {"threadId": body.threadId, "runId": body.runId}
        self._parent: str | None = None
        """The message that holds the calls of a step: its last text, else its first call."""

    def started(self) -> Events:
        """See `TurnEvents`."""
        yield {"type": "RUN_STARTED", **self._run, "protocolVersion": PROTOCOL_VERSION}
        if self._shown is not None:
            yield {"type": "MESSAGES_SNAPSHOT", "messages": self._shown}

    def over(self) -> bytes:
        """The end of a run in which nothing was asked."""
        return event({"type": "RUN_FINISHED", **self._run, "outcome": {"type": "success"}})

    def step_started(self, step: int) -> Events:
        """See `TurnEvents`."""
        self._parent = None
        yield {"type": "STEP_STARTED", "stepName": f"step {step + 1}"}

    def step_ended(self, step: int) -> Events:
        """See `TurnEvents`."""
        yield {"type": "STEP_FINISHED", "stepName": f"step {step + 1}"}

    def block_started(self, kind: Said, block: int) -> Events:
        """See `TurnEvents`."""
        named = {"messageId": self._id(block)}
        if kind == "text":
            self._parent = named["messageId"]
            yield {"type": "TEXT_MESSAGE_START", **named, "role": "assistant"}
        else:
            yield {"type": "REASONING_START", **named}
            yield {"type": "REASONING_MESSAGE_START", **named, "role": "reasoning"}

    def block_delta(self, kind: Said, block: int, text: str) -> Events:
        """See `TurnEvents`."""
        name = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
        yield {"type": name, "messageId": self._id(block), "delta": text}

    def block_ended(self, kind: Said, block: int) -> Events:
        """See `TurnEvents`."""
        named = {"messageId": self._id(block)}
        if kind == "text":
            yield {"type": "TEXT_MESSAGE_END", **named}
        else:
            yield {"type": "REASONING_MESSAGE_END", **named}
            yield {"type": "REASONING_END", **named}

    def call_started(self, call: OpenCall) -> Events:
        """See `TurnEvents`."""
        self._parent = self._parent or self._id(call.block)
        named = {"toolCallId": call.id, "toolCallName": call.name}
        yield {"type": "TOOL_CALL_START", **named, "parentMessageId": self._parent}

    def call_arguments(self, call: OpenCall, piece: str) -> Events:
        """See `TurnEvents`."""
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call.id, "delta": piece}

    def call_ended(self, call: OpenCall) -> Events:
        """See `TurnEvents`."""
        yield {"type": "TOOL_CALL_END", "toolCallId": call.id}

    def call_refused(self, call: OpenCall, why: str) -> Events:
        """See `TurnEvents`: a result tells the client that nothing is left to do."""
        yield {"type": "TOOL_CALL_END", "toolCallId": call.id}
        result = {"messageId": f"{self.turn_id}:{call.id}", "toolCallId": call.id, "content": why, "role": "tool"}
        yield {"type": "TOOL_CALL_RESULT", **result}

    def approval(self, packet: ToolApprovalPacket) -> Events:
        """See `TurnEvents`: the interrupt stands in the event that ends the run."""
        yield from self.noted(packet)

    def result(self, packet: ToolResultPacket) -> Events:
        """See `TurnEvents`."""
        named = {"messageId": f"{self.turn_id}:{packet.call_id}", "toolCallId": packet.call_id}
        yield {"type": "TOOL_CALL_RESULT", **named, "content": packet.content, "role": "tool"}
        if packet.is_error or packet.queries or packet.rich:
            yield from self.noted(packet)

    def source(self, packet: SourcePacket) -> Events:
        """See `TurnEvents`."""
        yield from self.noted(packet)

    def noted(self, packet: AnyPacket) -> Events:
        """See `TurnEvents`: the packet as a custom event, `lamella.` before its type."""
        kind = str(packet.__struct_config__.tag)
        if kind not in LEFT_OUT:
            yield {"type": "CUSTOM", "name": f"lamella.{kind}", "value": fields_of(packet)}

    def paused(self, waits: ToolApprovalPacket) -> Events:
        """See `TurnEvents`."""
        interrupt = {
            "id": self.approval_id(waits),
            "reason": "tool_call",
            "message": f"May {waits.name} run?",
            "toolCallId": waits.call_id,
            "responseSchema": VERDICT_SCHEMA,
        }
        yield self._ending({"type": "interrupt", "interrupts": [interrupt]})

    def finished(self, packet: TurnFinished) -> Events:
        """See `TurnEvents`."""
        success = {"type": "success", **({"pendingToolCallIds": self.handed} if self.handed else {})}
        yield self._ending(success if self.stopped is None else {"type": "cancelled"})

    def failed(self, error: ErrorFields) -> Events:
        """See `TurnEvents`."""
        code = str(error.get("code") or "internal_error")
        yield {"type": "RUN_ERROR", "message": sentence_of(error), "code": code, "usage": self._bills()}

    def _ending(self, outcome: Event) -> Event:
        return {"type": "RUN_FINISHED", **self._run, "outcome": outcome, "usage": self._bills()}

    def _bills(self) -> list[Event]:
        return [_bill(model, usage) for model, usage in self.usage.items()]

    def _id(self, block: int) -> str:
        return f"{self.turn_id}:{block}"


def _bill(model: str, usage: Usage) -> Event:
    """The tokens of one model in this run."""
    return {
        "model": model,
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "totalTokens": usage.input + usage.output,
        "reasoningTokens": usage.reasoning,
        "cachedInputTokens": usage.cache_read,
        "cacheWriteInputTokens": usage.cache_write,
    }
