"""Stores items of OpenAI's API as turns: items that are added to a conversation, and the history of a first request.

A user's message begins a turn. The items up to the next message are its steps: answers, thinking, function calls and
their outputs. So a model reads added items as it reads its own turns.

    user "Hi" · assistant "Hello." · user "And?"    two turns; the second has no answer yet
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lamella.app.app import App
from lamella.core.access import Identity
from lamella.core.counting import count_tokens
from lamella.core.errors import HeadMoved, InvalidRequest
from lamella.core.json import Json, JsonObject
from lamella.core.messages import AnswerPart, Reasoning, Step, StopReason, Text, ToolCall, ToolResult, TurnStatus
from lamella.core.records import Conversation, ImportedTurn, NewRun, NewTurn, TurnRecord
from lamella.gateway.histories import NOTHING_SAID
from lamella.server.routes.openai_items import TURN

MOST_ITEMS = 20
"""Items in one request, as in OpenAI's API."""

_TAKEN = "Send messages of the user and the assistant, function calls and their outputs."


def is_imported(turn: TurnRecord) -> bool:
    """Whether a turn was added as items: no request was made for it."""
    return turn.status is TurnStatus.FINISHED and not any(step.made_after for step in turn.steps)


@dataclass(slots=True)
class DraftStep:
    """A step that is being read."""

    parts: list[AnswerPart] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)

    @property
    def waits_for(self) -> dict[str, str]:
        """The names of the calls without a result, by id."""
        given = {result.call_id for result in self.results}
        return {part.id: part.name for part in self.parts if isinstance(part, ToolCall) and part.id not in given}


@dataclass(slots=True)
class DraftTurn:
    """A turn that is being read. `record` is the stored turn that it continues, None for a new turn."""

    text: str = NOTHING_SAID
    file_ids: tuple[str, ...] = ()
    steps: list[DraftStep] = field(default_factory=list)
    record: TurnRecord | None = None
    changed: bool = False


def read_items(items: Json, newest: TurnRecord | None, param: str = "items", most: int = MOST_ITEMS) -> list[DraftTurn]:
    """Turns made from items. If the conversation's newest turn was added too, the first items continue it.

    Raises `InvalidRequest` with the place of an item that can't be stored.
    """
    if not isinstance(items, list) or not items or len(items) > most:
        raise InvalidRequest(f"“{param}” is a list of 1 to {most} items.", hint="Send fewer at once.", param=param)
    turns: list[DraftTurn] = []
    if newest is not None and is_imported(newest):
        steps = [DraftStep(list(step.parts), list(step.results)) for step in newest.steps]
        turns.append(DraftTurn(newest.text, steps=steps, record=newest))
    for number, item in enumerate(items):
        _take(turns, item if isinstance(item, Mapping) else {}, f"{param}.{number}")
    return [turn for turn in turns if turn.changed]


def _take(turns: list[DraftTurn], item: JsonObject, place: str) -> None:
    kind = item.get("type", "message" if "role" in item else None)
    match item:
        case {"role": "user", "content": content} if kind == "message":
            text, file_ids = _user_content(content, f"{place}.content")
            turns.append(DraftTurn(text, file_ids, changed=True))
        case {"role": "assistant", "content": content} if kind == "message":
            _answer(turns, Text(_texts(content, f"{place}.content")))
        case {"type": "function_call", "call_id": str(id), "name": str(name), "arguments": str(arguments)}:
            _answer(turns, ToolCall(id, name, arguments))
        case {"type": "function_call_output", "call_id": str(id), "output": output}:
            _result(turns, id, _texts(output, f"{place}.output"), place)
        case {"type": "reasoning"}:
            summary = item.get("summary") or item.get("content")
            if text := _texts(summary, f"{place}.summary") if summary else "":
                _answer(turns, Reasoning(text))
        case {"role": "system" | "developer"}:
            hint = "Send it as the instructions of each response, or make an agent of it."
            raise InvalidRequest("A conversation here has no messages of the system.", hint=hint, param=f"{place}.role")
        case _:
            said = f"“{str(kind)[:60]}” can't be stored in a conversation here."
            raise InvalidRequest(said, hint=_TAKEN, param=place)


def _answer(turns: list[DraftTurn], part: AnswerPart) -> None:
    """Add a part of an answer to the newest step, or to a new one if that step has results."""
    if not turns:
        turns.append(DraftTurn())
    turn = turns[-1]
    if not turn.steps or turn.steps[-1].results:
        turn.steps.append(DraftStep())
    turn.steps[-1].parts.append(part)
    turn.changed = True


def _result(turns: list[DraftTurn], call_id: str, output: str, place: str) -> None:
    for turn in reversed(turns):
        for step in turn.steps:
            if call_id in step.waits_for:
                step.results.append(ToolResult(call_id, step.waits_for[call_id], output))
                turn.changed = True
                return
    raise InvalidRequest(
        f"No tool call found for function call output with call_id {call_id[:80]}.",
        hint="Add the function_call before its output.",
        param=place,
    )


def _user_content(content: Json, place: str) -> tuple[str, tuple[str, ...]]:
    """Text and files of a user's message."""
    if isinstance(content, str):
        return _some(content, place), ()
    texts, files = list[Json](), list[str]()
    for part in content if isinstance(content, list) else [content]:
        match part:
            case {"type": "input_file" | "input_image", "file_id": str(file_id)}:
                files.append(file_id)
            case _:
                texts.append(part)
    return _texts(texts, place), tuple(files)


def _texts(content: Json, place: str) -> str:
    """The texts of a content. Raises `InvalidRequest` for anything else in it."""
    if isinstance(content, str):
        return _some(content, place)
    texts = list[str]()
    for part in content if isinstance(content, list) else [None]:
        text = part.get("text", part.get("refusal")) if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise InvalidRequest(
                "This content can't be stored here.", hint="Send texts, and files by their file_id.", param=place
            )
        texts.append(text)
    return _some("\n\n".join(texts), place)


def _some(text: str, place: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("The text is no valid Unicode.", hint="Send valid Unicode.", param=place) from None
    if not text.strip():
        raise InvalidRequest("The text is empty.", hint="Write something.", param=place)
    return text


async def store_items(
    app: App, identity: Identity, conversation: Conversation, drafts: Sequence[DraftTurn]
) -> list[TurnRecord]:
    """Store turns that were read at the end of a conversation; returns them.

    Raises as `change_imported` does, before anything is stored. New turns come after those that others added meanwhile.
    """
    caller, now, made = identity.caller, app.clock.now(), list[str]()
    new = [_imported(app, conversation, draft) for draft in drafts if draft.record is None]
    for draft in drafts:
        if draft.record is not None:
            steps = tuple(_step(app, conversation.model, step) for step in draft.steps)
            await app.store.histories.change_imported(caller, draft.record, steps, now, adds=True)
            made.append(draft.record.id)
    while new:
        place = (await app.store.conversations.conversation(caller, conversation.id)).place
        with suppress(HeadMoved):
            await app.store.histories.import_turns(caller, None, place, new, now)
            break
    return [await app.store.turns.turn(caller, id) for id in (*made, *(one.turn.id for one in new))]


def _imported(app: App, conversation: Conversation, draft: DraftTurn) -> ImportedTurn:
    turn_id = app.ids.new("turn")
    suffix = turn_id.removeprefix(TURN)
    turn = NewTurn(
        id=turn_id,
        conversation_id=conversation.id,
        user_message_id=f"msg_{suffix}",
        runs=(NewRun(f"run_{suffix}", conversation.model),),
        text=draft.text,
        sent_at=app.clock.now(),
        timezone="UTC",
        tokens=count_tokens(draft.text),
        file_ids=draft.file_ids,
    )
    return ImportedTurn(turn, tuple(_step(app, conversation.model, step) for step in draft.steps))


def _step(app: App, model: str, draft: DraftStep) -> Step:
    calls = any(isinstance(part, ToolCall) for part in draft.parts)
    texts = [part.arguments if isinstance(part, ToolCall) else part.text for part in draft.parts]
    return Step(
        id=app.ids.new("msg"),
        model=model,
        parts=tuple(draft.parts),
        stop_reason=StopReason.TOOL_CALLS if calls else StopReason.END_TURN,
        made_after="",
        tokens=sum(map(count_tokens, [*texts, *(result.content for result in draft.results)])),
        results=tuple(draft.results),
    )


def without_newest(turn: TurnRecord) -> list[DraftStep] | None:
    """The steps of an added turn without its newest item. None if that item is the user's message."""
    steps = [DraftStep(list(step.parts), list(step.results)) for step in turn.steps]
    if not steps:
        return None
    last = steps[-1]
    (last.results or last.parts).pop()
    return steps if last.parts else steps[:-1]


async def remove_newest(app: App, identity: Identity, conversation: Conversation, turn: TurnRecord) -> None:
    """Remove the newest item of a conversation. Raises as `change_imported` does."""
    kept = without_newest(turn)
    is_empty = kept is None or (not kept and turn.text == NOTHING_SAID)
    steps = None if is_empty else tuple(_step(app, conversation.model, step) for step in kept or ())
    await app.store.histories.change_imported(identity.caller, turn, steps, app.clock.now())
