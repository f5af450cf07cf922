"""Changes that are planted in the body of a request, and where they are, found without the gateway.

planted = PLANTS["a word of a tool"]
before, after = planted.of(dialect, before, after, Random(1))
first_difference(dialect, before, after)      # Place(block=3, byte=41): blocks in the order of the cache
"""

from __future__ import annotations

import copy
import json
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

Object = dict[str, Any]
Plant = Callable[[str, Object, Random], None]
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OTHER_PICTURE = PICTURE.replace("mNk", "mNg")
DIALECTS = ("anthropic", "openai", "responses")


class Place(NamedTuple):
    """A block, counted over the whole window, and a byte in it."""

    block: int
    byte: int


def _bare(value: Any) -> Any:
    """A block without cache markers, its own or those of its parts."""
    marks = ("cache_control", "prompt_cache_breakpoint")
    bare = {name: inner for name, inner in value.items() if name not in marks}
    if isinstance(bare.get("content"), list):
        bare["content"] = [
            {n: i for n, i in part.items() if n not in marks} if isinstance(part, dict) else part
            for part in bare["content"]
        ]
    return bare


def _parts(content: Any) -> list[Object]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _groups(dialect: str, body: Object) -> Iterator[list[Object]]:
    """The blocks as the provider caches them: tools, then the system prompt, then message by message."""
    yield body.get("tools") or []
    if dialect == "anthropic":
        yield _parts(body.get("system"))
        for message in body["messages"]:
            yield _parts(message["content"])
        return
    messages = body["messages"] if dialect == "openai" else body["input"]
    messages = [
        {**one, "content": _texts(dialect, one)} if "role" in one and "content" in one else one for one in messages
    ]
    if dialect == "responses":
        messages = [{**one, "type": "message"} if "role" in one and "type" not in one else one for one in messages]
    leading = next((n for n, one in enumerate(messages) if one.get("role") not in ("system", "developer")), 0)
    first = [{"instructions": body["instructions"]}] if body.get("instructions") else []
    yield [*first, *messages[:leading]]
    for message in messages[leading:]:
        yield [message]


def _texts(dialect: str, message: Object) -> Any:
    kind = "text" if dialect == "openai" else "output_text" if message["role"] == "assistant" else "input_text"
    said = message["content"]
    return [{"type": kind, "text": said}] if isinstance(said, str) else said


def first_difference(dialect: str, before: Object, after: Object) -> Place | None:
    """The first byte of the old window that the new one has otherwise; None if the new one begins with all of it."""
    one, other = ([list(map(_written, group)) for group in _groups(dialect, body)] for body in (before, after))
    block = 0
    for number, old in enumerate(one):
        new = other[number] if number < len(other) else []
        for at in range(max(len(old), len(new) if number < len(one) else 0)):
            was, becomes = (group[at] if at < len(group) else b"" for group in (old, new))
            if was != becomes:
                same = next((n for n, (a, b) in enumerate(zip(was, becomes, strict=False)) if a != b), None)
                return Place(block + at, min(len(was), len(becomes)) if same is None else same)
        block += len(old)
    return None


def _written(block: Object) -> bytes:
    return json.dumps(_bare(block), ensure_ascii=False, separators=(",", ":")).encode()


# What is planted


def tools_of(body: Object) -> list[Object]:
    """The tools, which Codex sends as an item of its input."""
    item = next((one for one in body.get("input", ()) if isinstance(one, dict) and one.get("tools")), None)
    found: list[Object] = body.get("tools") or (item or {}).get("tools") or []
    nested = next((tool["tools"] for tool in found if tool.get("type") == "namespace" and tool.get("tools")), None)
    return nested or found


def _described(tool: Object) -> Object:
    found: Object = tool.get("function", tool)
    return found


def _schema(tool: Object) -> Object:
    found = _described(tool)
    schema: Object = found.setdefault("input_schema" if "input_schema" in found else "parameters", {"type": "object"})
    return schema


def _replaced(holder: Object, name: str, random: Random) -> None:
    """Another letter in the middle of a text."""
    text = holder[name]
    at = random.randrange(len(text) // 4, max(len(text) // 4 + 1, 3 * len(text) // 4))
    holder[name] = f"{text[:at]}{'#' if text[at] != '#' else '%'}{text[at + 1 :]}"


def system_of(dialect: str, body: Object) -> list[Object]:
    """The holders of the system prompt's texts: each has `text`, or the field that `_text_name` says."""
    if dialect == "anthropic":
        body["system"] = _parts(body.get("system"))
        return [block for block in body["system"] if block.get("type") == "text"]
    if dialect == "responses" and body.get("instructions"):
        return [body]
    messages = body["messages"] if dialect == "openai" else body["input"]
    return [holder for one in messages if one.get("role") in ("system", "developer") for holder in _said(one)]


def _said(message: Object) -> list[Object]:
    """The holders of a message's texts."""
    content = message.get("content")
    if isinstance(content, str):
        return [message]
    return [part for part in content or () if isinstance(part, dict) and isinstance(part.get("text"), str)]


def _text_name(holder: Object) -> str:
    return (
        "text"
        if "text" in holder and isinstance(holder["text"], str)
        else "instructions"
        if "instructions" in holder
        else "content"
    )


def history_of(dialect: str, body: Object) -> list[Object]:
    """The messages."""
    found: list[Object] = body["input" if dialect == "responses" else "messages"]
    return found


def _of_role(dialect: str, body: Object, role: str) -> list[Object]:
    """Holders of texts of the older messages of a role."""
    older = history_of(dialect, body)[:-1]
    return [holder for one in older if one.get("role") == role for holder in _said(one)]


def tool_word(dialect: str, body: Object, random: Random) -> None:
    described = [tool for tool in map(_described, tools_of(body)) if len(tool.get("description") or "") > 8]
    _replaced(random.choice(described), "description", random)


def first_tool_word(dialect: str, body: Object, random: Random) -> None:
    described = next(tool for tool in map(_described, tools_of(body)) if len(tool.get("description") or "") > 8)
    _replaced(described, "description", random)


def tool_added(dialect: str, body: Object, random: Random) -> None:
    made = copy.deepcopy(tools_of(body)[0])
    _described(made)["name"] = "planted"
    tools_of(body).insert(random.randrange(len(tools_of(body)) + 1), made)


def tool_removed(dialect: str, body: Object, random: Random) -> None:
    tools_of(body).pop(random.randrange(len(tools_of(body))))


def tools_reordered(dialect: str, body: Object, random: Random) -> None:
    tools = tools_of(body)
    if len(tools) < 2:
        raise LookupError("one tool has no order")
    tools.insert(0, tools.pop())


def field_of_all_tools(dialect: str, body: Object, random: Random) -> None:
    for tool in (tools_of(body)[0], *tools_of(body)[1:]):
        tool["planted_field"] = True


def schema_keys(dialect: str, body: Object, random: Random) -> None:
    schema = _schema(tools_of(body)[0])
    turned = dict(reversed(schema.items()))
    schema.clear()
    schema.update(turned)


def schema_number(dialect: str, body: Object, random: Random) -> None:
    _schema(tools_of(body)[0])["maxProperties"] = 1


def schema_number_as_float(dialect: str, body: Object, random: Random) -> None:
    _schema(tools_of(body)[0])["maxProperties"] = 1.0


def system_word(dialect: str, body: Object, random: Random) -> None:
    holder = max(system_of(dialect, body), key=lambda one: len(one[_text_name(one)]))
    _replaced(holder, _text_name(holder), random)


def _system_begins(dialect: str, body: Object, text: str) -> None:
    holder = system_of(dialect, body)[-1]
    holder[_text_name(holder)] = text + holder[_text_name(holder)]


def system_date(dialect: str, body: Object, random: Random) -> None:
    _system_begins(dialect, body, "Today's date is 2026-11-24. ")


def system_date_next_day(dialect: str, body: Object, random: Random) -> None:
    _system_begins(dialect, body, "Today's date is 2026-11-25. ")


def system_accent(dialect: str, body: Object, random: Random) -> None:
    _system_begins(dialect, body, unicodedata.normalize("NFC", "The keeper's café. "))


def system_accent_apart(dialect: str, body: Object, random: Random) -> None:
    _system_begins(dialect, body, unicodedata.normalize("NFD", "The keeper's café. "))


def system_space(dialect: str, body: Object, random: Random) -> None:
    holder = max(system_of(dialect, body), key=lambda one: len(one[_text_name(one)]))
    holder[_text_name(holder)] = holder[_text_name(holder)].replace(" ", "  ", 1)


def system_order(dialect: str, body: Object, random: Random) -> None:
    if dialect == "anthropic":
        body["system"] = _parts(body["system"])
        body["system"].insert(0, body["system"].pop())
    else:
        messages = history_of(dialect, body)
        messages.insert(0, messages.pop(1))


def two_system_blocks(dialect: str, body: Object, random: Random) -> None:
    more = "You are the second block of the system prompt."
    if dialect == "anthropic":
        body["system"] = [{"type": "text", "text": more}, *_parts(body["system"])]
    else:
        for number in (2, 1):
            history_of(dialect, body).insert(0, {"role": "developer", "content": f"{number}. {more}"})


def question_edited(dialect: str, body: Object, random: Random) -> None:
    holder = random.choice(_of_role(dialect, body, "user"))
    _replaced(holder, _text_name(holder), random)


def question_trimmed(dialect: str, body: Object, random: Random) -> None:
    holder = _of_role(dialect, body, "user")[0]
    holder[_text_name(holder)] += " "


def answer_edited(dialect: str, body: Object, random: Random) -> None:
    holder = _of_role(dialect, body, "assistant")[0]
    _replaced(holder, _text_name(holder), random)


def message_dropped(dialect: str, body: Object, random: Random) -> None:
    """A plain message, since a call and its result can't stand alone."""
    messages = history_of(dialect, body)
    plain = [
        n
        for n, one in enumerate(messages[:-1])
        if one.get("role") in ("user", "assistant")
        and not one.get("tool_calls")
        and all(part.get("type") in ("text", "input_text", "output_text") for part in _parts(one.get("content")))
    ]
    if len(plain) < 2:
        raise LookupError("no message may go")
    del messages[plain[1]]


def message_inserted(dialect: str, body: Object, random: Random) -> None:
    """After the first question."""
    messages = history_of(dialect, body)
    first = next(n for n, one in enumerate(messages) if one.get("role") == "user")
    messages.insert(first + 1, {"role": "user", "content": "Planted, between two others."})


def _with_picture(dialect: str, body: Object, picture: str) -> None:
    """The first message of the user with a picture after its text."""
    message = next(one for one in history_of(dialect, body) if one.get("role") == "user")
    kind = {"anthropic": "text", "openai": "text", "responses": "input_text"}[dialect]
    said = message["content"]
    parts = [{"type": kind, "text": said}] if isinstance(said, str) else list(said)
    url = f"data:image/png;base64,{picture}"
    part: Object = {"type": "input_image", "image_url": url}
    if dialect == "anthropic":
        part = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}}
    elif dialect == "openai":
        part = {"type": "image_url", "image_url": {"url": url}}
    message["content"] = [*parts, part]


def picture(dialect: str, body: Object, random: Random) -> None:
    _with_picture(dialect, body, PICTURE)


def other_picture(dialect: str, body: Object, random: Random) -> None:
    _with_picture(dialect, body, OTHER_PICTURE)


def thinking_dropped(dialect: str, body: Object, random: Random) -> None:
    messages, kinds = history_of(dialect, body), ("thinking", "redacted_thinking", "reasoning")
    before = copy.deepcopy(messages)
    messages[:] = [one for one in messages if one.get("type") not in kinds]
    for message in messages:
        if isinstance(message.get("content"), list):
            message["content"] = [part for part in message["content"] if part.get("type") not in kinds]
    if messages == before:
        raise LookupError("nothing was thought")


def effort(dialect: str, body: Object, random: Random) -> None:
    if dialect == "openai":
        body["reasoning_effort"] = "low" if body.get("reasoning_effort") != "low" else "high"
    else:
        name = "output_config" if dialect == "anthropic" else "reasoning"
        old = body.get(name) or {}
        body[name] = {**old, "effort": "low" if old.get("effort") != "low" else "high"}


def tool_choice(dialect: str, body: Object, random: Random) -> None:
    body["tool_choice"] = {"type": "none"} if dialect == "anthropic" else "none"


def model(dialect: str, body: Object, random: Random) -> None:
    body["model"] = "claude-sonnet-5-5" if dialect == "anthropic" else "gpt-6.1-sol"


def nothing(dialect: str, body: Object, random: Random) -> None:
    pass


def longer_answer(dialect: str, body: Object, random: Random) -> None:
    name = {"anthropic": "max_tokens", "openai": "max_completion_tokens", "responses": "max_output_tokens"}[dialect]
    body.pop("max_tokens", None)
    body[name] = 4_321


def marker_moved(dialect: str, body: Object, random: Random) -> None:
    """The first marker of the system prompt goes to the block before or after it."""
    system = body["system"]
    at = next(n for n, block in enumerate(system) if "cache_control" in block)
    other = at - 1 if at else at + 1
    system[other]["cache_control"] = system[at].pop("cache_control")


@dataclass(frozen=True)
class Planted:
    """A change: `prepare` is done to both bodies, `plant` to the second. `causes` are what may be found; `None` stands
    for a change that leaves the cache alone. `only`: the dialect that can have it.
    """

    plant: Plant
    causes: frozenset[str] | None
    prepare: Plant = nothing
    only: str = ""
    instead: Plant | None = None
    """Done to the second body in the place of `prepare`."""

    def of(self, dialect: str, before: Object, after: Object, random: Random) -> tuple[Object, Object]:
        """Both bodies, with the change in the second. Raises LookupError if there is no place for it."""
        before, after = copy.deepcopy(before), copy.deepcopy(after)
        self.prepare(dialect, before, Random(1))
        (self.instead or self.prepare)(dialect, after, Random(1))
        self.plant(dialect, after, random)
        return before, after


TOOLS, EDITED = frozenset({"tools"}), frozenset({"edited"})
TIMED = frozenset({"time"})

PLANTS: dict[str, Planted] = {
    "a word of a tool": Planted(tool_word, TOOLS),
    "a word of the first tool": Planted(first_tool_word, TOOLS),
    "a tool more": Planted(tool_added, TOOLS),
    "a tool less": Planted(tool_removed, TOOLS),
    "tools in another order": Planted(tools_reordered, TOOLS),
    "a field of all tools": Planted(field_of_all_tools, TOOLS),
    "keys of a schema": Planted(schema_keys, TOOLS),
    "1 as 1.0": Planted(nothing, TOOLS, schema_number, instead=schema_number_as_float),
    "a word of the system prompt": Planted(system_word, EDITED),
    "a date": Planted(nothing, TIMED, system_date, instead=system_date_next_day),
    "an accent apart": Planted(nothing, EDITED, system_accent, instead=system_accent_apart),
    "a space": Planted(system_space, EDITED),
    "system blocks in another order": Planted(system_order, EDITED, two_system_blocks),
    "a question edited": Planted(question_edited, EDITED),
    "a question trimmed": Planted(question_trimmed, EDITED),
    "an answer edited": Planted(answer_edited, EDITED),
    "a message dropped": Planted(message_dropped, EDITED),
    "a message inserted": Planted(message_inserted, EDITED),
    "a picture": Planted(nothing, EDITED, picture, instead=other_picture),
    "thinking dropped": Planted(thinking_dropped, EDITED),
    "effort": Planted(effort, frozenset({"effort"})),
    "tool_choice": Planted(tool_choice, frozenset({"settings"})),
    "model": Planted(model, frozenset({"model"})),
    "nothing": Planted(nothing, None),
    "a longer answer": Planted(longer_answer, None),
    "a marker moved": Planted(marker_moved, None, only="anthropic"),
}
