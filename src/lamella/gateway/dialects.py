"""The dialects that clients speak, read as windows: the blocks that a provider caches, and the caller's own markers.

    window = read("messages", decode_object(body))
    window.segments      # tools, system, then one for each message
    window.blocks        # as the caller wrote them, without cache markers
    window.keys          # one for each message: equal keys mean that a conversation went on unchanged

Two requests are compared in a canonical form, because clients write one message in two ways: a message that was sent
with marked blocks comes back as a plain string. Markers are taken out, a string becomes one text block, and `keys`
leave out what says nothing to a model (ids of items, empty fields). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from typing import Any, assert_never

from lamella.cache.difference import CLIENT
from lamella.core.counting import MESSAGE_TOKENS, count_tokens
from lamella.core.json import Json, JsonObject, digest, encode, encode_sorted
from lamella.core.models import OFF, WireProtocol
from lamella.core.prompt import Kind, Level, Lifetime, Marker, Segment, Ttl, WireBlock, Zone
from lamella.core.records import StoredSegment

PLACED = "placed by the client"


class Dialect(StrEnum):
    """An API of a vendor; the value is the wire by which its requests are stored."""

    MESSAGES = WireProtocol.MESSAGES.value
    CHAT = WireProtocol.CHAT.value
    RESPONSES = WireProtocol.RESPONSES.value
    EMBEDDINGS = "embeddings"
    """Forwarded, and no window."""


@dataclass(frozen=True, slots=True)
class ObservedWindow:
    """A request's window. `head` is the body without its blocks, `keys[i]` names all messages up to the i-th, `roles`
    are theirs. `is_follow_up[i]`: the i-th message belongs to the turn of the one before (an answer, a tool's result).
    """

    dialect: Dialect
    model: str
    head: JsonObject
    segments: tuple[Segment, ...]
    groups: tuple[tuple[WireBlock, ...], ...]
    markers: tuple[Marker, ...]
    keys: tuple[str, ...]
    roles: tuple[str, ...]
    is_follow_up: tuple[bool, ...]
    texts: tuple[str, ...]
    endings: tuple[int, ...]
    """The blocks after which OpenAI caches without a marker: messages of the user and groups of results. The last is
    written, and one of the others may be read. Empty if the caller wants its own markers alone.
    """
    paths: tuple[tuple[Any, ...], ...]
    """Where each block stands in a Messages body: `("messages", 4, 0)`; its field alone in the other dialects."""

    @property
    def is_marked(self) -> bool:
        """Whether the caller set a marker anywhere."""
        return bool(self.markers)

    @property
    def blocks(self) -> tuple[WireBlock, ...]:
        """All blocks, in the order in which a provider caches them."""
        return tuple(block for group in self.groups for block in group)

    @property
    def stored(self) -> tuple[StoredSegment, ...]:
        """The segments as a request is stored with them."""
        pairs = zip(self.segments, self.groups, strict=True)
        return tuple(StoredSegment.of(segment, group) for segment, group in pairs)

    @property
    def system(self) -> str:
        """A digest of tools and system prompt."""
        return digest(*(b.digest.encode() for b in self.blocks if b.level != "messages"))

    @property
    def newest_answer(self) -> tuple[int, str]:
        """The number of messages before the newest answer, and what it says (`said_digest`): "" without one, and if
        nothing follows it.
        """
        end = next((n for n in range(len(self.roles), 0, -1) if self.roles[n - 1] == "assistant"), 0)
        start = next((n for n in range(end, 0, -1) if self.roles[n - 1] != "assistant"), 0)
        if end in (0, len(self.roles)):
            return 0, ""
        messages = self.groups[len(self.groups) - len(self.roles) :]
        calls = [id for group in messages[start:end] for block in group for id in _calls_of(block.value)]
        return start, said_digest("".join(self.texts[start:end]), calls)

    @property
    def has_tools(self) -> bool:
        """Whether the caller offers tools."""
        return any(block.level == "tools" for block in self.blocks)


def said_digest(text: str, calls: Iterable[str]) -> str:
    """A name of what an answer says: its text, whose white space does not count, and the ids of its calls."""
    said, ids = "".join(text.split()), sorted(calls)
    return digest(said.encode(), *(id.encode() for id in ids)) if said or ids else ""


def _calls_of(value: JsonObject) -> Iterator[str]:
    """The ids of the calls in a block of an answer."""
    match value:
        case {"type": "tool_use", "id": str(id)} | {"type": "function_call" | "custom_tool_call", "call_id": str(id)}:
            yield id
        case {"tool_calls": [*calls]}:
            yield from (str(call["id"]) for call in objects(calls) if "id" in call)
        case _:
            pass


@dataclass(frozen=True, slots=True)
class _Raw:
    """A block as it came: where it stands, its value without markers, and the life of its marker."""

    level: Level
    role: str
    value: JsonObject
    ttl: Ttl | None = None
    markable: bool = True


@dataclass(frozen=True, slots=True)
class _Group:
    """The blocks of one segment."""

    id: str
    kind: Kind
    label: str
    letters: str
    blocks: tuple[_Raw, ...]
    number: int = 0


def tokens_of(block: WireBlock) -> int:
    """Local tokens of a block."""
    return _tokens(block.value, count_tokens)


def rough_tokens_of(block: WireBlock) -> int:
    """As `tokens_of`, a token for every four characters: a hundred times as fast, and often a quarter off."""
    return _tokens(block.value, lambda text: len(text) // 4)


def read(dialect: Dialect, body: JsonObject, weigh: Callable[[WireBlock], int] = tokens_of) -> ObservedWindow:
    """The window of a body. What it does not know is kept as a block or in the head; nothing is refused.

    `weigh` returns a block's local tokens, for a caller that remembers them.
    """
    match dialect:
        case Dialect.MESSAGES:
            groups, names = [*_tools(body), *_messages_system(body), *_messages(body)], ("tools", "system", "messages")
        case Dialect.CHAT:
            groups, names = [*_tools(body), *_chat(body)], ("tools", "messages", "")
        case Dialect.RESPONSES:
            groups, names = [*_tools(body), *_instructions(body), *_items(body)], ("tools", "instructions", "input")
        case Dialect.EMBEDDINGS:
            groups, names = [], ("", "", "")
        case _:
            assert_never(dialect)
    head = {name: value for name, value in body.items() if name not in names and name != "cache_control"}
    return _window(dialect, body, head, groups, weigh)


def _window(
    dialect: Dialect,
    body: JsonObject,
    head: JsonObject,
    groups: Sequence[_Group],
    weigh: Callable[[WireBlock], int],
) -> ObservedWindow:
    wired: list[tuple[WireBlock, ...]] = []
    markers: list[Marker] = []
    segments: list[Segment] = []
    index = 0
    for group in groups:
        made = []
        for raw in group.blocks:
            if raw.ttl is not None:
                markers.append(Marker(index, raw.ttl, PLACED))
            made.append(_wire_block(raw, group.id))
            index += 1
        wired.append(tuple(made))
        segments.append(_segment(group, made, sum(map(weigh, made))))
    messages = [group for group in groups if group.blocks[0].level == "messages"]
    if "cache_control" in body and index and not any(marker.index == index - 1 for marker in markers):
        markers.append(Marker(index - 1, life_of(body) or Ttl.FIVE_MINUTES, PLACED))
    return ObservedWindow(
        dialect,
        str(body.get("model") or ""),
        head,
        tuple(segments),
        tuple(wired),
        tuple(markers),
        _keys(messages),
        tuple(group.blocks[0].role for group in messages),
        tuple(group.kind is Kind.STEP for group in messages),
        tuple(text_of([raw.value for raw in group.blocks]) for group in messages),
        _endings(dialect, body, groups),
        tuple(path for group in groups for path in _paths(group)),
    )


_AS_WRITTEN = frozenset({"input", "arguments", "parameters", "schema", "tools"})
"""Fields whose JSON the model reads as it was written: arguments of calls, and descriptions of tools."""


def _wire_block(raw: _Raw, segment: str) -> WireBlock:
    """A block whose digest does not depend on the order of fields that the provider's prompt does not have (decision
    79). Its bytes are as they came.
    """
    block = WireBlock.of(raw.level, raw.role, raw.value, segment, markable=raw.markable)
    if raw.level == "tools":
        return block
    said = encode(_ordered(raw.value))
    return block if said == block.data else replace(block, digest=digest(raw.level.encode(), raw.role.encode(), said))


def _ordered(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {key: value[key] if key in _AS_WRITTEN else _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_ordered(inner) for inner in value]
    return value


def _endings(dialect: Dialect, body: JsonObject, groups: Sequence[_Group]) -> tuple[int, ...]:
    options = body.get("prompt_cache_options")
    explicit = isinstance(options, Mapping) and options.get("mode") == "explicit"
    if dialect not in (Dialect.CHAT, Dialect.RESPONSES) or explicit:
        return ()
    roles = [group.blocks[0].role for group in groups]
    ends = accumulate(len(group.blocks) for group in groups)
    following = [*roles[1:], ""][: len(roles)]
    told = zip(roles, following, ends, strict=True)
    return tuple(end - 1 for role, after, end in told if role == "user" or (role == "tool" != after))


def _paths(group: _Group) -> Iterator[tuple[Any, ...]]:
    """Where the blocks of a segment stand."""
    for place, raw in enumerate(group.blocks):
        yield ("messages", group.number, place) if raw.level == "messages" else (raw.level, place)


def _segment(group: _Group, blocks: Sequence[WireBlock], tokens: int) -> Segment:
    fixed = group.blocks[0].level != "messages"
    return Segment(
        id=group.id,
        kind=group.kind,
        zone=Zone.FIXED if fixed else Zone.HISTORY,
        lifetime=Lifetime.SESSION,
        source=group.id,
        owner=CLIENT,
        label=group.label,
        letters=group.letters,
        tokens=MESSAGE_TOKENS + tokens,
        digest=digest(*(block.digest.encode() for block in blocks)),
    )


def _keys(messages: Sequence[_Group]) -> tuple[str, ...]:
    keys, key = [], ""
    for group in messages:
        said = [encode_sorted(_meaning(raw.value)).encode() for raw in group.blocks]
        key = digest(key.encode(), group.blocks[0].role.encode(), *said)
        keys.append(key)
    return tuple(keys)


_MEANINGLESS = frozenset({"id", "status", "annotations", "logprobs", "cache_control", "prompt_cache_breakpoint"})
"""Fields of an item or a part that a client may leave out when it sends it back."""

_CALLED = frozenset({"tool_use", "server_tool_use", "function"})


def _meaning(value: Json) -> Json:
    """A block without what says nothing to a model. The id of a call stays: its result names it."""
    if isinstance(value, Mapping):
        kept = str(value.get("type")) in _CALLED
        return {
            name: _meaning(inner)
            for name, inner in value.items()
            if (name not in _MEANINGLESS or (name == "id" and kept)) and inner not in (None, [], {})
        }
    if isinstance(value, str):
        return value
    return [_meaning(inner) for inner in value] if isinstance(value, Sequence) else value


# Tools, in every dialect


def _tools(body: JsonObject) -> Iterator[_Group]:
    tools = body.get("tools")
    found = [_raw("tools", "tool", tool) for tool in objects(tools)]
    if found:
        yield _Group("tools", Kind.TOOLS, "Tools", "T", tuple(found))


# Messages


def _messages_system(body: JsonObject) -> Iterator[_Group]:
    found = [_raw("system", "system", block) for block in content_of(body.get("system"))]
    if found:
        yield _Group("system", Kind.SYSTEM, "System prompt", "S", tuple(found))


def _messages(body: JsonObject) -> Iterator[_Group]:
    for number, message in enumerate(objects(body.get("messages"))):
        role = str(message.get("role") or "user")
        content = content_of(message.get("content"))
        results = any(part.get("type") == "tool_result" for part in content)
        blocks = [_raw("messages", role, part) for part in content] or [_Raw("messages", role, {"type": "empty"})]
        yield _message(number, role, blocks, step=role == "assistant" or results)


def content_of(content: Json) -> list[JsonObject]:
    """The parts of a content, which a plain string is too."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(objects(content))


# Chat Completions and Responses, where a message or an item is a block


def _chat(body: JsonObject) -> Iterator[_Group]:
    messages = list(objects(body.get("messages")))
    leading = leading_system(messages)
    if leading:
        blocks = tuple(_raw("system", str(message.get("role")), message) for message in messages[:leading])
        yield _Group("system", Kind.SYSTEM, "System prompt", "S", blocks)
    for number, message in enumerate(messages[leading:]):
        role = str(message.get("role") or "user")
        yield _message(number, role, [_raw("messages", role, message)], step=role not in ("user", *SYSTEM_ROLES))


SYSTEM_ROLES = ("system", "developer")


def leading_system(messages: Sequence[JsonObject]) -> int:
    """How many system messages stand before all others."""
    return next((n for n, one in enumerate(messages) if one.get("role") not in SYSTEM_ROLES), len(messages))


def _instructions(body: JsonObject) -> Iterator[_Group]:
    said = body.get("instructions")
    items = input_of(body)
    blocks = [_Raw("system", "instructions", {"instructions": said})] if isinstance(said, str) and said else []
    blocks += [_raw("system", str(item.get("role")), item) for item in items[: leading_system(items)]]
    if blocks:
        yield _Group("system", Kind.SYSTEM, "System prompt", "S", tuple(blocks))


def input_of(body: JsonObject) -> list[JsonObject]:
    said = body.get("input")
    if isinstance(said, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}]
    return [_item(item) for item in objects(said)]


def _item(item: JsonObject) -> JsonObject:
    """An input item with its short form written out: a message needs no `type`, and its content may be a string."""
    if "role" not in item or item.get("type") not in (None, "message"):
        return item
    content = item.get("content")
    kind = "output_text" if item.get("role") == "assistant" else "input_text"
    parts: Json = [{"type": kind, "text": content}] if isinstance(content, str) else content
    return {**item, "type": "message", "content": parts}


def _items(body: JsonObject) -> Iterator[_Group]:
    items = input_of(body)
    for number, item in enumerate(items[leading_system(items) :]):
        role = str(item.get("role") or _role_of(str(item.get("type"))))
        yield _message(number, role, [_raw("messages", role, item)], step=role not in ("user", *SYSTEM_ROLES))


def _role_of(kind: str) -> str:
    """Whose an item without a role is."""
    if kind.endswith("_output"):
        return "tool"
    return "developer" if kind == "configuration_update" else "assistant"


# Pieces


def _message(number: int, role: str, blocks: Sequence[_Raw], *, step: bool) -> _Group:
    kind = Kind.STEP if step else Kind.USER if role == "user" else Kind.REMINDER
    letter = {"user": "U", "assistant": "A", "tool": "TR"}.get(role, "R")
    letter = "TR" if step and role == "user" else letter
    return _Group(f"message {number + 1}", kind, f"Message {number + 1} ({role})", letter, tuple(blocks), number)


def objects(value: Json) -> Iterator[JsonObject]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (one if isinstance(one, Mapping) else {"value": one} for one in value)


def _raw(level: Level, role: str, value: JsonObject) -> _Raw:
    """A block, and the life of the marker that it or its last part has."""
    ttl = life_of(value)
    bare = {name: _unmarked(inner) for name, inner in value.items() if name != "cache_control"}
    if ttl is None and "role" in value and _breakpoint(value.get("content")):
        ttl = Ttl.THIRTY_MINUTES
    if isinstance(bare.get("content"), str) and "role" in bare and bare.get("type") != "message":
        bare["content"] = [{"type": "text", "text": bare["content"]}]
    markable = value.get("type") not in ("thinking", "redacted_thinking", "reasoning")
    return _Raw(level, role, bare, ttl, markable)


def _breakpoint(content: Json) -> bool:
    return any("prompt_cache_breakpoint" in part for part in objects(content))


def _unmarked(value: Json) -> Json:
    """A content without its markers; other values as they are."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return value
    marks = ("cache_control", "prompt_cache_breakpoint")
    return [
        {name: inner for name, inner in part.items() if name not in marks} if isinstance(part, Mapping) else part
        for part in value
    ]


def life_of(block: JsonObject) -> Ttl | None:
    """The life of a `cache_control`."""
    control = block.get("cache_control")
    if not isinstance(control, Mapping):
        return None
    try:
        return Ttl(str(control.get("ttl") or Ttl.FIVE_MINUTES))
    except ValueError:
        return Ttl.FIVE_MINUTES


def mark_of(part: JsonObject) -> Ttl | None:
    """The life of a marker of either vendor."""
    return Ttl.THIRTY_MINUTES if "prompt_cache_breakpoint" in part else life_of(part)


PICTURE = 1_500
"""Tokens of a picture or another file, whose size in pixels is not looked up."""

_DATA = 20_000
"""A string without a space that is longer than so many characters is data, no text."""


def _tokens(value: Json, count: Callable[[str], int]) -> int:
    if isinstance(value, str):
        return PICTURE if len(value) > _DATA and " " not in value[:_DATA] else count(value)
    if isinstance(value, Mapping):
        return sum(_tokens(inner, count) + 1 for inner in value.values())
    if isinstance(value, Sequence):
        return sum(_tokens(inner, count) for inner in value)
    return 1


def text_of(values: Sequence[Json]) -> str:
    """What a person reads of blocks: their texts, separated by blank lines."""
    return "\n\n".join(text for value in values for text in _texts(value) if text.strip())


def _texts(value: Json) -> Iterator[str]:
    match value:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            yield text
        case {"role": _, "content": str(text)}:
            yield text
        case {"role": _, "content": [*parts]}:
            for part in parts:
                yield from _texts(part)
        case _:
            pass


def salts_of(window: ObservedWindow) -> Mapping[Level, str]:
    """The settings outside of the blocks that are part of a provider's cache key, as the adapters compute them."""
    head = window.head
    if window.dialect is Dialect.MESSAGES:
        said: dict[str, Json] = {n: head[n] for n in ("thinking", "tool_choice") if head.get(n) is not None}
        effort = effort_of(window)
        said |= {"effort": effort} if effort != OFF else {}
        return {"messages": encode_sorted(said)} if said else {}
    effort = effort_of(window)
    return {"tools": effort, "system": effort} if effort != OFF else {}


def effort_of(window: ObservedWindow) -> str:
    """The effort of thinking that the caller asks for; `off` for none."""
    for name in ("output_config", "reasoning"):
        found = window.head.get(name)
        if isinstance(found, Mapping) and found.get("effort") is not None:
            return str(found["effort"])
    return str(window.head.get("reasoning_effort") or OFF)
