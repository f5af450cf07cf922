"""The messages of a client as turns: what the engine knows of windows then holds for them too.

    history = history_of(window, at)
    history.turns            # one for each message of the user, with the steps and results that followed
    history.starts           # where each of them begins among the messages

A turn begins with a message of the user. Messages of a system before it belong to the turn before. A step is what the
model said and called at once, with the results of its calls. Ids come from the keys of the messages, so that the same
messages are the same turns in every request. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lamella.cache.pruning import QUESTION_TOKENS
from lamella.core.counting import MESSAGE_TOKENS
from lamella.core.json import Json, JsonObject, encode_text
from lamella.core.messages import (
    AnswerPart,
    Step,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    TurnStatus,
    UserMessage,
)
from lamella.core.prompt import WireBlock
from lamella.gateway.dialects import ObservedWindow, text_of

SYSTEM_ROLES = ("system", "developer")
REMINDER = ("<system-reminder>", "</system-reminder>")
"""The tag in which programs put their own texts before what the user wrote."""


@dataclass(frozen=True, slots=True)
class History:
    """The turns of a client's messages. `starts[n]` is the message with which the n-th turn begins. `thinks` are the
    messages with signed thinking, `quoted` what programs said in them, by message.
    """

    keys: tuple[str, ...]
    turns: tuple[Turn, ...]
    starts: tuple[int, ...]
    thinks: frozenset[int]
    quoted: Mapping[int, tuple[str, ...]]

    def turn_at(self, message: int) -> int:
        """How many turns begin before this message."""
        return sum(start < message for start in self.starts)

    def quoted_before(self, cut: int) -> tuple[str, ...]:
        """What programs said in the messages before `cut`, each text once."""
        return tuple(dict.fromkeys(text for place in sorted(self.quoted) if place < cut for text in self.quoted[place]))


@dataclass(slots=True)
class _OpenTurn:
    """A turn while its messages are read."""

    start: int
    texts: list[str] = field(default_factory=list)
    tokens: int = 0
    steps: list[Step] = field(default_factory=list)


def history_of(window: ObservedWindow, at: datetime) -> History:
    """The turns of a window, whose times are all `at`: clients do not say when a message was sent."""
    first = len(window.groups) - len(window.keys)
    groups, segments = window.groups[first:], window.segments[first:]
    found: list[_OpenTurn] = []
    place = 0
    while place < len(groups):
        role, is_step = window.roles[place], window.is_follow_up[place]
        if is_step:
            end = _end_of_step(window, place)
            if found:
                tokens = sum(segments[n].tokens for n in range(place, end))
                found[-1].steps.append(_step(window.keys[end - 1], groups[place:end], tokens, window.model))
            place = end
            continue
        begins = role == "user" and (not found or bool(found[-1].steps))
        if begins:
            found.append(_OpenTurn(place))
        if found:
            if role == "user":
                found[-1].texts.append(said_of(groups[place]))
            found[-1].tokens += segments[place].tokens
        place += 1
    turns = tuple(_turn(window.keys, one, at) for one in found)
    thinks = frozenset(n for n, group in enumerate(groups) if any(_is_signed(block.value) for block in group))
    opening = next((n for n, is_step in enumerate(window.is_follow_up) if is_step), len(groups))
    said = ((n, tuple(_quoted(window.roles[n], group, tagged=n < opening))) for n, group in enumerate(groups))
    quoted = {n: texts for n, texts in said if texts}
    return History(window.keys, turns, tuple(one.start for one in found), thinks, quoted)


def _end_of_step(window: ObservedWindow, place: int) -> int:
    """Where a step ends: what the model said, then the results of its calls."""
    end = place
    while end < len(window.roles) and window.is_follow_up[end] and window.roles[end] == "assistant":
        end += 1
    while end < len(window.roles) and window.is_follow_up[end] and window.roles[end] != "assistant":
        end += 1
    return end


def _turn(keys: Sequence[str], found: _OpenTurn, at: datetime) -> Turn:
    id, text = keys[found.start], "\n\n".join(text for text in found.texts if text)
    tokens = max(0, found.tokens - QUESTION_TOKENS)
    user = UserMessage(f"msg_{found.start + 1}", text, at, "UTC", tokens)
    return Turn(id, user, tuple(found.steps), TurnStatus.FINISHED)


def _step(id: str, groups: Sequence[Sequence[WireBlock]], tokens: int, model: str) -> Step:
    blocks = [block for group in groups for block in group]
    parts = tuple(part for block in blocks if block.role == "assistant" for part in _answer_parts(block.value))
    names = {part.id: part.name for part in parts if isinstance(part, ToolCall)}
    results = tuple(
        ToolResult(call_id, names.get(call_id, "tool"), content, is_error=failed)
        for block in blocks
        if block.role != "assistant"
        for call_id, content, failed in _results(block.value)
    )
    stop = StopReason.TOOL_CALLS if names else StopReason.END_TURN
    return Step(id, model, parts, stop, "", max(0, tokens - MESSAGE_TOKENS), results=results)


def _answer_parts(value: JsonObject) -> Iterator[AnswerPart]:
    kind = value.get("type")
    if kind == "tool_use":
        yield ToolCall(str(value.get("id")), str(value.get("name")), encode_text(value.get("input") or {}))
    elif kind in ("function_call", "custom_tool_call"):
        arguments = value.get("arguments", value.get("input", ""))
        yield ToolCall(str(value.get("call_id")), str(value.get("name")), str(arguments))
    else:
        if text := text_of([value]):
            yield Text(text)
        for call in _objects(value.get("tool_calls")):
            function = _fields(call.get("function"))
            yield ToolCall(str(call.get("id")), str(function.get("name")), str(function.get("arguments", "")))


def _results(value: JsonObject) -> Iterator[tuple[str, str, bool]]:
    """The results in a block: id of the call, text, whether it failed."""
    call = value.get("tool_use_id") or value.get("tool_call_id") or value.get("call_id")
    if isinstance(call, str):
        said = value.get("content") if "content" in value else value.get("output")
        yield call, said if isinstance(said, str) else _said(_objects(said)), bool(value.get("is_error"))


def _objects(value: Json) -> list[JsonObject]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, Sequence) else []


def _fields(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def said_of(group: Sequence[WireBlock]) -> str:
    """What a person reads of a message, with the names of its pictures and files."""
    return "\n\n".join(text for block in group if (text := _said([block.value])))


_FILES = ("image", "image_url", "input_image", "input_audio", "document", "file", "input_file")


def _said(values: Sequence[JsonObject]) -> str:
    """The texts of some parts; what is no text is named: `[image: image/png]`."""
    found = []
    for value in values:
        inner = _objects(value.get("content")) if "role" in value else []
        if inner:
            found.append(_said(inner))
        else:
            found.append(f"[{_named(value)}]" if value.get("type") in _FILES else text_of([value]))
    return "\n\n".join(text for text in found if text)


def _named(value: JsonObject) -> str:
    """What a part that is no text is, and its name."""
    kind = str(value.get("type")).removeprefix("input_").removesuffix("_url")
    inner, source = {**value, **_fields(value.get("file"))}, _fields(value.get("source"))
    names = [*(inner.get(name) for name in ("title", "filename", "file_id")), source.get("media_type")]
    name = next((str(one) for one in names if one), "")
    return f"{kind}: {name}" if name else kind


def _is_signed(value: JsonObject) -> bool:
    return value.get("type") in ("thinking", "redacted_thinking")


def _quoted(role: str, group: Sequence[WireBlock], *, tagged: bool) -> Iterator[str]:
    """What a program said in a message: in one of the system, or in the first one in a tag of its own."""
    for block in group:
        text = text_of([block.value]).strip()
        own = tagged and role == "user" and text.startswith(REMINDER[0]) and text.endswith(REMINDER[1])
        if text and (own or role in SYSTEM_ROLES):
            yield text
