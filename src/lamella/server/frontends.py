"""Frontends: what the doors of AG-UI and of the AI SDK have in common.

A frontend keeps the messages of a *thread* itself, chooses their ids, and sends all of them with each request. Here a
thread is a conversation of its owner, and of the messages only the new ones count:

    stored: u1 ─▶ a1 ─▶ u2 ─▶ a2      sent: u1 a1 u2 a2 u3     u3 follows a2
                                      sent: u1 a1 u2'          u2' follows a1: a branch, as an edit or another answer
                                      sent: x  u1              u1 begins; what x said goes along as dynamic context
"""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote_to_bytes
from weakref import WeakValueDictionary

from pydantic import Field, StringConstraints

from lamella.app.app import App
from lamella.chat.message import MAX_FILES, ExecutionRequest
from lamella.core.access import Identity
from lamella.core.errors import InvalidRequest, LamellaError, NotFound, TurnInProgress
from lamella.core.handover import pending
from lamella.core.json import digest
from lamella.core.messages import ToolResult, ToolSpec
from lamella.core.packets import decode_packet
from lamella.core.records import UNCHANGED, Caller, PageQuery, Thread, TurnOnPath, TurnRecord, Unchanged
from lamella.server.objects import Body, Effort, Id, effort_given
from lamella.server.turn_events import TurnEvents
from lamella.tooling.tool import Verdict

TURN, CONVERSATION = "turn_", "conv_"
"""How ids of turns and conversations begin; messages that were made here are named after their turn."""

NO_RESULT = "The application gave no result."

SETTLE_SECONDS = 3.0
"""For so long a message waits for a turn that was just stopped, or is being followed up."""

FILE_URL = re.compile(r".*/api/v1/files/(file_\w+)(/content)?", re.DOTALL)
DATA_URL = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),(.*)", re.DOTALL)


ThreadId = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class TurnOptions(Body):
    """How to answer; each field as in `POST /api/v1/conversations/{conversation_id}/turns`.

    `append`: the messages are all new and follow the conversation's current position. `resumable`: the turn goes on
    if the client leaves, and can be followed again.
    """

    model: Id | None = None
    timezone: Annotated[str, StringConstraints(max_length=80)] = "UTC"
    dynamic_context: Annotated[list[str], Field(max_length=20)] | None = None
    layout: Id | None = None
    marker_policy: Id | None = None
    agent_id: Id | None = None
    thinking_effort: Effort | None = None
    knowledge_base_ids: Annotated[list[Id], Field(max_length=20)] = Field(default_factory=list)
    append: bool = False
    resumable: bool = False


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file as a message brings it."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Content:
    """What a new message says; `files` are ids of uploaded files, or the files themselves."""

    text: str
    files: tuple[str | SentFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """A message as a frontend has it. `said` is its text; `read` reads a new one, and raises `InvalidRequest`.

    `results` are those of calls of the application's own tools.
    """

    id: str
    role: str
    said: str
    read: Callable[[], Content]
    results: tuple[ToolResult, ...] = ()


def file_at(url: str, name: str | None, media_type: str | None, where: str) -> str | SentFile:
    """The file of a URL: one of ours by its id, or the bytes of a data URL. Raises `InvalidRequest`."""
    if (ours := FILE_URL.fullmatch(url)) is not None:
        return ours[1]
    found = DATA_URL.fullmatch(url)
    if found is None:
        raise InvalidRequest(
            "A file is a data URL, or the address of a file that was uploaded here.",
            hint="Upload it to /api/v1/files and send the URL /api/v1/files/{file_id}/content.",
            param=where,
        )
    media_type, options, data = found[1] or media_type, found[2], found[3]
    plain = decoded(data, where) if ";base64" in options.lower() else unquote_to_bytes(data)
    return sent_file(plain, name, media_type)


def sent_file(data: bytes, name: str | None, media_type: str | None) -> SentFile:
    """A file with a name, made from its type if it has none."""
    extension = mimetypes.guess_extension(media_type or "") or ""
    return SentFile(name or f"file{extension}", data)


def decoded(data: str, where: str) -> bytes:
    """The bytes of a base64 text. Raises `InvalidRequest`."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:  # also for letters that are not ASCII, which `binascii.Error` does not tell of
        raise InvalidRequest("The file is not valid base64.", hint="Send its bytes again.", param=where) from None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where new messages go: `parent` is the run that they follow, None for the beginning. `results` are those of the
    calls that it handed out. `earlier` are messages between that and the new ones, which are not stored here."""

    parent: str | Unchanged | None
    new: tuple[ThreadMessage, ...]
    results: tuple[ToolResult, ...] = ()
    earlier: tuple[ThreadMessage, ...] = ()


class Frontends:
    """The threads of one server."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def conversation_of(self, caller: Caller, thread_id: str) -> tuple[str | None, Thread]:
        """The conversation of a thread, if there is one. A thread may be called as its conversation.

        Raises `NotFound` for an id that looks like a conversation's and is none of the caller's.
        """
        thread = await self._app.store.threads.thread(caller, thread_id)
        if thread.conversation_id is None and thread_id.startswith(CONVERSATION):
            return (await self._app.store.conversations.conversation(caller, thread_id)).id, thread
        return thread.conversation_id, thread

    async def begin(
        self,
        identity: Identity,
        thread_id: str,
        messages: Sequence[ThreadMessage],
        options: TurnOptions,
        told: Sequence[str] = (),
        tools: tuple[ToolSpec, ...] | None = None,
        key: str | None = None,
    ) -> TurnRecord:
        """Begin the turn of a thread's new messages, or of the results of the calls that it handed out.

        `told` is more dynamic context, `tools` are the application's own. Raises as `App.begin` does.
        """
        caller = identity.caller
        lock = self._locks.setdefault((caller.user_id, thread_id), asyncio.Lock())
        async with lock:
            conversation_id, thread = await self.conversation_of(caller, thread_id)
            place = await self._place(caller, conversation_id, thread, messages, append=options.append)
            text, file_ids, unread = await self._read(caller, place.new)
            request = ExecutionRequest(
                text=text,
                conversation_id=conversation_id,
                file_ids=file_ids,
                models=(options.model,) if options.model is not None else (),
                timezone=options.timezone,
                parent_message_id=place.parent if conversation_id is not None else UNCHANGED,
                layout=options.layout,
                marker_policy=options.marker_policy,
                agent_id=options.agent_id if "agent_id" in options.model_fields_set else UNCHANGED,
                thinking_effort=effort_given(options.thinking_effort),
                knowledge_base_ids=tuple(options.knowledge_base_ids),
                dynamic_context=(*(options.dynamic_context or ()), *told, *_transcript([*place.earlier, *unread])),
                tools=tools,
                results=place.results,
            )
            turn_id = await self._begun(request, identity, key)
            named = [one.id for one in (place.new or messages[-1:])]
            await self._app.store.threads.name_messages(caller, thread_id, turn_id, named)
        return await self._app.store.turns.turn(caller, turn_id)

    async def _begun(self, request: ExecutionRequest, identity: Identity, key: str | None) -> str:
        """Begin the turn. A turn that the client has just left may still be ending: wait for it."""
        try:
            return await self._app.begin(request, identity, key=key)
        except TurnInProgress:
            if request.conversation_id is None:
                raise
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await self._app.chat.rest(request.conversation_id)
        return await self._app.begin(request, identity, key=key)

    async def _place(
        self,
        caller: Caller,
        conversation_id: str | None,
        thread: Thread,
        messages: Sequence[ThreadMessage],
        *,
        append: bool,
    ) -> _Place:
        """Where the new messages of a thread go. Raises `InvalidRequest` if there are none."""
        start = _first_new(messages, thread)
        if append:
            told = tuple(result for one in messages for result in one.results)
            return _Place(UNCHANGED, tuple(one for one in messages if one.role == "user"), told)
        for index in range(start - 1, -1, -1):
            turn = await self._turn_of(caller, conversation_id, thread, messages[index].id)
            if turn is not None:
                given = [result for one in messages for result in one.results]
                turn, results = await self._answering(caller, turn, given, is_continued=start == len(messages))
                between = tuple(one for one in messages[index + 1 : start] if not one.results)
                return _Place(await self._followed(caller, turn), tuple(messages[start:]), results, between)
        if start == len(messages):
            raise _nothing_new()
        return _Place(None, tuple(messages[start:]), (), tuple(messages[:start]))

    async def _followed(self, caller: Caller, turn: TurnRecord) -> str:
        """The run of a turn that its conversation goes on from: people may have chosen one of several."""
        place = await self._app.store.branches.place_of(caller, turn.conversation_id, turn.user_message_id)
        return place.run_id or turn.run.id

    async def _answering(
        self, caller: Caller, turn: TurnRecord, given: Sequence[ToolResult], *, is_continued: bool
    ) -> tuple[TurnRecord, tuple[ToolResult, ...]]:
        """The results for the calls that a turn handed out. The same results again go on from the same turn.

        What the application leaves open when the user says something else has no result. Raises `InvalidRequest` if
        nothing waits, and the user says nothing.
        """
        found = {result.call_id: result for result in given}
        calls = [call.id for call in pending(turn.run.steps)]
        if is_continued and found.keys().isdisjoint(calls):
            if not continues(turn) or not found.keys() >= {result.call_id for result in turn.results}:
                raise _nothing_new()
            assert turn.parent.turn_id is not None
            parent = await self._app.store.turns.turn(caller, turn.parent.turn_id)
            return await self._answering(caller, parent, given, is_continued=True)
        results = [found.get(id) or ToolResult(id, "", NO_RESULT, is_error=True) for id in calls]
        return turn, () if found.keys().isdisjoint(calls) else tuple(results)

    async def own_tools(self, caller: Caller, turn: TurnRecord) -> tuple[str, ...]:
        """The names of the application's tools that a turn may call."""
        while turn.tools is None and continues(turn):
            assert turn.parent.turn_id is not None
            turn = await self._app.store.turns.turn(caller, turn.parent.turn_id)
        return tuple(tool.name for tool in turn.tools or ())

    async def _turn_of(
        self, caller: Caller, conversation_id: str | None, thread: Thread, message_id: str
    ) -> TurnRecord | None:
        """The turn that a message of the thread belongs to: as it was stored, or as we named it."""
        own = message_id.partition(":")[0]
        turn_id = thread.turns.get(message_id) or thread.turns.get(own) or own
        if conversation_id is None or not turn_id.startswith(TURN):
            return None
        with suppress(NotFound):
            turn = await self._app.store.turns.turn(caller, turn_id)
            return turn if turn.conversation_id == conversation_id else None
        return None

    async def _read(
        self, caller: Caller, messages: Sequence[ThreadMessage]
    ) -> tuple[str, tuple[str, ...], list[ThreadMessage]]:
        """Texts and files of new messages, and those that can't be read.

        Only the last may not be one of these: an earlier one was refused when it was sent.
        """
        texts: list[str] = []
        files: list[str] = []
        unread: list[ThreadMessage] = []
        for one in messages:
            try:
                content = one.read()
                files += await self._stored(caller, content.files)
            except LamellaError:
                if one is messages[-1]:
                    raise
                unread.append(one)
            else:
                texts.append(content.text)
        return "\n\n".join(text for text in texts if text), tuple(dict.fromkeys(files)), unread

    async def _stored(self, caller: Caller, files: Sequence[str | SentFile]) -> list[str]:
        """The ids of files; those that came with the message are uploaded. The same file again is the same upload."""
        if len(files) > MAX_FILES:
            raise InvalidRequest(f"A message can have {MAX_FILES} files at most.", hint="Send fewer.", param="messages")
        found: list[str] = []
        for file in files:
            if isinstance(file, SentFile):
                key = f"thread-file:{digest(file.name.encode(), file.data)}"
                file = (await self._app.intake.receive(caller, file.name, _pieces(file.data), key)).id
            found.append(file)
        return found

    async def answered(self, identity: Identity, thread_id: str, approvals: Sequence[Approval]) -> tuple[str, int]:
        """Give the user's answers to calls that wait; the turn, and the packet after which it goes on.

        An answer that comes too late changes nothing: the packets say what happened.
        """
        conversation_id, _ = await self.conversation_of(identity.caller, thread_id)
        places = {one: waiting_call(one.id) for one in approvals}
        turn_ids = {turn_id for turn_id, _, _ in places.values()}
        turns = [await self._app.store.turns.turn(identity.caller, turn_id) for turn_id in turn_ids]
        if [turn.conversation_id for turn in turns] != [conversation_id]:
            raise NotFound("No call of this thread waits for these answers.", param="messages")
        for approval, (turn_id, _, call_id) in places.items():
            with suppress(InvalidRequest):
                verdict = Verdict(approval.approved, approval.reason)
                await self._app.chat.approve(identity.caller, turn_id, call_id, verdict)
        return turns[0].id, max(n for _, n, _ in places.values())

    async def running(self, caller: Caller, thread_id: str) -> str | None:
        """The turn that runs in a thread."""
        conversation_id, _ = await self.conversation_of(caller, thread_id)
        if conversation_id is None:
            return None
        return (await self._app.store.conversations.conversation(caller, conversation_id)).running_turn

    async def turns(self, caller: Caller, thread_id: str) -> list[TurnOnPath]:
        """The turns of a thread's current path, the oldest first."""
        conversation_id, _ = await self.conversation_of(caller, thread_id)
        found: list[TurnOnPath] = []
        after, more = None, conversation_id is not None
        while conversation_id is not None and more:
            query = PageQuery(100, after, "asc")
            page = await self._app.store.branches.turns_on_path(caller, conversation_id, query)
            found += page.data
            after, more = (found[-1].turn.id if found else None), page.has_more
        return found

    async def stream(
        self, identity: Identity, events: TurnEvents, after: int = 0, *, resumable: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """The events of a turn after packet `after`, to its end or to a call that waits for the user.

        Unless it is `resumable`, the turn is stopped if the client leaves before.
        """
        caller, has_left = identity.caller, True
        packets = self._app.chat.stream(caller, events.turn_id, after)
        try:
            yield events.begin()
            async for data in _each(packets):
                if written := events.take(decode_packet(data)):
                    yield written
                if events.waits is not None:
                    break
            has_left = False
            yield events.end()
        except LamellaError as error:
            has_left = False
            yield events.fail(error.as_dict())
        finally:
            if has_left and not resumable:
                await self._app.chat.stop(caller, events.turn_id)
            await packets.aclose()  # type: ignore[attr-defined]  # every source is an async generator


@dataclass(frozen=True, slots=True)
class Approval:
    """The user's answer to a call that waits."""

    id: str
    approved: bool
    reason: str = ""


def waiting_call(approval_id: str) -> tuple[str, int, str]:
    """Turn, packet and call of an id that `TurnEvents.approval_id` made. Raises `NotFound`."""
    turn_id, _, rest = approval_id.partition(":")
    n, _, call_id = rest.partition(":")
    if not turn_id.startswith(TURN) or not (n.isascii() and n.isdigit()) or not call_id:
        raise NotFound(f"Nothing waits for the answer “{approval_id[:80]}”.", param="approval")
    return turn_id, int(n[:15]), call_id


def continues(turn: TurnRecord) -> bool:
    """Whether a turn goes on with results, and no word of the user."""
    return bool(turn.results) and not turn.text


def _first_new(messages: Sequence[ThreadMessage], thread: Thread) -> int:
    """The index of the first new message of the user: the last message in any case, and those before it that were
    never answered; the number of messages if the last is not the user's.
    """
    start = len(messages)
    if messages and messages[-1].role == "user":
        start -= 1
        while start and messages[start - 1].role == "user" and messages[start - 1].id not in thread.turns:
            start -= 1
    return start


def _nothing_new() -> InvalidRequest:
    return InvalidRequest(
        "There is nothing to answer: no new message of the user, and no result of a call that waits.",
        hint="Send the messages of the thread, the new one last.",
        param="messages",
    )


def _transcript(messages: Sequence[ThreadMessage]) -> tuple[str, ...]:
    """Messages that are not stored here, as one block."""
    said = [f"{one.role}: {one.said}" for one in messages if one.said]
    return ("\n\n".join(["Said before this message, outside of this conversation:", *said]),) if said else ()


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _each(batches: AsyncIterator[Sequence[tuple[int, bytes]]]) -> AsyncIterator[bytes]:
    async for batch in batches:
        for _, data in batch:
            yield data
