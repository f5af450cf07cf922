"""Goes on with a client's conversation here: a line, up to one of its turns, becomes an ordinary conversation.

The body of the turn's newest request has the whole history as the client sent it, and the turn has the answer to it.
Both become turns of a new conversation, in the canonical form that all APIs share: texts, calls with their results,
pictures. Thinking stays behind, since another model could not read it. The client's system prompt is written for the
client's tools; it is left out unless it is asked for, and then stands in the first message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella.app.agent_models import AgentModels
from lamella.app.conversations import NewConversation
from lamella.app.request_map import stored_body
from lamella.core.errors import InvalidRequest
from lamella.core.json import JsonObject, decode_object, encode
from lamella.core.messages import Text, ToolCall, ToolResult
from lamella.core.prompt import PromptMessage
from lamella.core.records import Caller, Conversation, Line, Place, RequestRecord
from lamella.gateway.dialects import Dialect
from lamella.gateway.histories import ToldStep, ToldTurn, turns_of
from lamella.gateway.reading import read_request

NO_RESULT = "There is no result: the client's conversation ended before it."


@dataclass(frozen=True, slots=True)
class LineFork:
    """What is taken of a line: all up to this turn, None for its newest, with the client's system prompt or without."""

    turn_id: str | None = None
    system: bool = False


async def fork_line(into: AgentModels, caller: Caller, line_id: str, fork: LineFork) -> Conversation:
    """A new conversation with the turns of a line. Raises `NotFound`, and `InvalidRequest` for what can't be taken."""
    line = await into.store.lines.line(caller, line_id)
    if not (await into.store.conversations.conversation(caller, line_id)).observed:
        raise InvalidRequest("It is a conversation of this server already.", hint="Send it a message.", param="line_id")
    record = await _newest(into, caller, line, fork.turn_id or line.turn_id)
    body = stored_body(record, await into.store.requests.blocks(caller, record.id))
    for kept in ("hashed", "expired", "withheld"):
        if kept in body and len(body) == 1:
            raise InvalidRequest(str(body[kept]), hint="Choose another turn.", param="turn_id")
    messages = _messages(record, decode_object(encode(body)), with_system=fork.system)
    turns = [told for told, _ in turns_of(messages)]
    turn = await into.store.turns.turn(caller, record.turn_id)
    if turns and turn.steps:
        parts = tuple(part for part in turn.steps[-1].parts if isinstance(part, Text | ToolCall))
        turns[-1] = replace(turns[-1], steps=(*turns[-1].steps, ToldStep(parts)))
    if not turns:
        raise InvalidRequest("This request has no message to go on from.", hint="Choose another turn.", param="turn_id")
    return await _conversation(into, caller, line, [_whole(told) for told in turns])


async def _newest(into: AgentModels, caller: Caller, line: Line, turn_id: str) -> RequestRecord:
    """The newest request of a turn of this line. Raises `InvalidRequest` for any other turn."""
    turn = await into.store.turns.turn(caller, turn_id)
    found = await into.store.requests.requests(caller, turn_id)
    if turn.conversation_id != line.id or not found:
        raise InvalidRequest(f"{turn_id} is no turn of this line.", hint="Choose one of its turns.", param="turn_id")
    return next((one for one in reversed(found) if one.error is None), found[-1])


def _messages(record: RequestRecord, body: JsonObject, *, with_system: bool) -> Sequence[PromptMessage]:
    request = read_request(Dialect(record.protocol), body)
    instructions = "\n\n".join(request.instructions)
    if not with_system or not instructions.strip():
        return request.messages
    return (PromptMessage("system", (Text(instructions),)), *request.messages)


def _whole(told: ToldTurn) -> ToldTurn:
    """The turn with a result for each of its calls: a model has to have one."""
    return replace(told, steps=tuple(_answered(step) for step in told.steps))


def _answered(step: ToldStep) -> ToldStep:
    known = {result.call_id for result in step.results}
    calls = [part for part in step.parts if isinstance(part, ToolCall) and part.id not in known]
    missing = tuple(ToolResult(call.id, call.name, NO_RESULT, is_error=True) for call in calls)
    return replace(step, results=(*step.results, *missing))


async def _conversation(into: AgentModels, caller: Caller, line: Line, turns: Sequence[ToldTurn]) -> Conversation:
    model = line.model if line.model in into.models.names() else None
    made = await into.conversations.create(caller, NewConversation(title=line.title, model=model))
    imported = [await into.imported_turn(caller, made.id, made.model, told) for told in turns]
    await into.store.histories.import_turns(caller, None, Place(), imported, into.clock.now())
    return await into.store.conversations.conversation(caller, made.id)
