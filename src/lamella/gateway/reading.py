"""Reads a client's body into the canonical request: Messages, Chat Completions or Responses.

    asked = read_request(Dialect.CHAT, decode_object(body))
    asked.instructions            # ("You are brief.",)
    asked.messages                # (PromptMessage("user", (Text("Hello."),)), …)
    asked.settings.max_output     # 1000
    asked.changes                 # ("seed: the other API has no such field",)

Everything is read, named in `changes`, or refused with its place (`InvalidRequest`). Nothing is dropped silently. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from lamella.core.json import Json, JsonObject, encode_text
from lamella.core.messages import Part, Reasoning, Text, ToolCall, ToolResult
from lamella.core.prompt import ToolSpec, Ttl
from lamella.gateway.canonical import (
    CUSTOM_SCHEMA,
    PDF,
    CarriedThinking,
    ClientRequest,
    RequestBuilder,
    ToolForm,
    carried_by,
    file_of_data,
    file_of_url,
    unwrapped_seal,
)
from lamella.gateway.client_settings import client_settings, refused
from lamella.gateway.dialects import Dialect, content_of, input_of, leading_system, life_of, mark_of, objects
from lamella.llm.responses_wire import BETWEEN_SUMMARIES, ReasoningSeal

Tool = tuple[ToolSpec, ToolForm | None, bool]
"""A tool, its form if it is no plain function, and whether its schema is strict."""


def read_request(dialect: Dialect, body: JsonObject, *, tags_system: bool = True) -> ClientRequest:
    """The request of a body. Raises `InvalidRequest` with the place of what can't be carried.

    `tags_system`: a system message after others becomes a user message in tags; else it stays a system message.
    """
    if dialect is Dialect.EMBEDDINGS:
        raise refused("model", "embeddings are not translated")
    settings, changes = client_settings(dialect, body)
    builder = RequestBuilder(tags_system=tags_system)
    match dialect:
        case Dialect.MESSAGES:
            tools = _messages_tools(body, builder)
            _messages(body, builder)
        case Dialect.CHAT:
            tools = _chat_tools(body, builder)
            _chat(body, builder)
        case Dialect.RESPONSES:
            tools = [*_response_tools("tools", body.get("tools"), builder), *_items(body, builder)]
        case _:
            assert_never(dialect)
    builder.end()
    return ClientRequest(
        str(body.get("model") or ""),
        tuple(builder.instructions),
        tuple(builder.messages),
        tuple(spec for spec, _, _ in tools),
        replace(settings, strict_tools=frozenset(spec.name for spec, _, strict in tools if strict)),
        (*changes, *builder.changes),
        {spec.name: form for spec, form, _ in tools if form is not None},
        builder.marked,
    )


# Messages


def _messages(body: JsonObject, builder: RequestBuilder) -> None:
    for number, block in enumerate(content_of(body.get("system"))):
        builder.instruct(_text_of(f"system.{number}", block), life_of(block))
    for number, message in enumerate(objects(body.get("messages"))):
        place, content = f"messages.{number}", content_of(message.get("content"))
        match message.get("role"):
            case "user":
                _messages_user(place, content, builder)
            case "assistant":
                parts = [_messages_answer(f"{place}.content.{n}", block, builder) for n, block in enumerate(content)]
                builder.say("assistant", parts, [life_of(block) for block in content])
            case "system":
                texts = [_text_of(f"{place}.content.{n}", block) for n, block in enumerate(content)]
                builder.system(place, "\n\n".join(texts))
            case role:
                raise refused(f"{place}.role", f"there is no role “{str(role)[:40]}”", "Use user or assistant.")


def _messages_user(place: str, content: Sequence[JsonObject], builder: RequestBuilder) -> None:
    """A user's message. The results in it come first, as every API wants them."""
    said: list[tuple[Part, Ttl | None]] = []
    has_results = False
    for number, block in enumerate(content):
        where = f"{place}.content.{number}"
        if block.get("type") == "tool_result":
            has_results = True
            call_id, is_error = str(block.get("tool_use_id") or ""), block.get("is_error") is True
            _result(where, call_id, block.get("content"), builder, life_of(block), is_error=is_error)
        else:
            said += [(part, life_of(block)) for part in _said(where, block)]
    if said or not has_results:
        builder.say("user", [part for part, _ in said], [life for _, life in said])


def _messages_answer(place: str, block: JsonObject, builder: RequestBuilder) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            signature = block.get("signature")
            ours = unwrapped_seal(signature) if isinstance(signature, str) else None
            return Reasoning(text, *ours) if ours else Reasoning(text, str(signature) if signature else None)
        case {"type": "redacted_thinking", "data": str(data)}:
            return Reasoning("", *(unwrapped_seal(data) or (None, data)))
        case {"type": "tool_use", "id": str(id), "name": str(name), "input": arguments}:
            builder.names[id] = name
            return ToolCall(id, name, encode_text(arguments))
        case _:
            raise _unknown(place, block)


def _messages_tools(body: JsonObject, builder: RequestBuilder) -> list[Tool]:
    found: list[Tool] = []
    for number, tool in enumerate(objects(body.get("tools"))):
        kind = tool.get("type") or "custom"
        if kind != "custom":
            builder.change(f"tools.{number}", f"“{str(kind)[:40]}” is a tool of the vendor and is not offered")
            continue
        found.append(_function(f"tools.{number}", tool, "input_schema"))
    return found


# Chat Completions


def _chat(body: JsonObject, builder: RequestBuilder) -> None:
    messages = list(objects(body.get("messages")))
    front = leading_system(messages)
    for number, message in enumerate(messages):
        place, content = f"messages.{number}", content_of(message.get("content"))
        match message.get("role"):
            case "system" | "developer":
                texts = [_text_of(f"{place}.content.{n}", part) for n, part in enumerate(content)]
                if number < front:
                    for text, part in zip(texts, content, strict=True):
                        builder.instruct(text, mark_of(part) or mark_of(message))
                else:
                    builder.system(place, "\n\n".join(texts))
            case "user":
                said = [(p, mark_of(c)) for n, c in enumerate(content) for p in _said(f"{place}.content.{n}", c)]
                builder.say("user", [part for part, _ in said], [life for _, life in said])
            case "assistant":
                _chat_answer(place, message, content, builder)
            case "tool":
                call_id, _ = carried_by(str(message.get("tool_call_id") or ""))
                _result(place, call_id, message.get("content"), builder, mark_of(message))
            case role:
                raise refused(f"{place}.role", f"there is no role “{str(role)[:40]}”", "Use user, assistant or tool.")


def _chat_answer(place: str, message: JsonObject, content: Sequence[JsonObject], builder: RequestBuilder) -> None:
    parts: list[Part] = []
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str):
        parts.append(Reasoning(thought))
    said = [Text(_text_of(f"{place}.content.{n}", part)) for n, part in enumerate(content)]
    if isinstance(message.get("refusal"), str):
        said.append(Text(str(message["refusal"])))
    for name in ("audio", "function_call"):
        if message.get(name) is not None:
            raise refused(f"{place}.{name}", "this can't be carried to another API", "Send tool_calls and texts.")
    calls: list[Part] = []
    for number, call in enumerate(objects(message.get("tool_calls"))):
        made, carried = _chat_call(f"{place}.tool_calls.{number}", call, builder)
        first = [] if number else [one for one in carried if not one.after_text]
        parts += [one.part for one in first]
        calls += [*(one.part for one in carried if one not in first), made]
    builder.say("assistant", [part for part in (*parts, *said, *calls) if part != Text("")])


def _chat_call(place: str, call: JsonObject, builder: RequestBuilder) -> tuple[ToolCall, Sequence[CarriedThinking]]:
    match call:
        case {"id": str(id), "function": {"name": str(name), "arguments": str(arguments)}}:
            made = ToolCall(id, name, arguments)
        case {"id": str(id), "type": "custom", "custom": {"name": str(name), "input": str(text)}}:
            made = ToolCall(id, name, encode_text({"input": text}))
        case _:
            raise refused(place, "the call has no id, name or arguments", "Send it as it was given.")
    own, carried = carried_by(made.id)
    builder.names[own] = made.name
    return replace(made, id=own), carried


def _chat_tools(body: JsonObject, builder: RequestBuilder) -> list[Tool]:
    found: list[Tool] = []
    for number, tool in enumerate(objects(body.get("tools"))):
        place, custom, function = f"tools.{number}", tool.get("custom"), tool.get("function")
        if isinstance(custom, Mapping):
            found.append(_custom(place, custom, "", builder))
        elif isinstance(function, Mapping):
            found.append(_function(f"{place}.function", function, "parameters"))
        else:
            builder.change(place, f"“{str(tool.get('type'))[:40]}” is a tool of the vendor and is not offered")
    return found


# Responses


def _items(body: JsonObject, builder: RequestBuilder) -> list[Tool]:
    """Reads the input; the tools that its items bring."""
    builder.instruct(str(body.get("instructions") or ""))
    items, tools = input_of(body), list[Tool]()
    front = leading_system(items)
    for number, item in enumerate(items):
        place = f"input.{number}"
        if item.get("type") == "additional_tools":
            tools += _response_tools(f"{place}.tools", item.get("tools"), builder)
        elif item.get("type") == "message":
            _item_message(place, item, builder, is_front=number < front)
        else:
            _item(place, item, builder)
    return tools


def _item_message(place: str, item: JsonObject, builder: RequestBuilder, *, is_front: bool) -> None:
    content = content_of(item.get("content"))
    match item.get("role"):
        case "system" | "developer":
            texts = [_text_of(f"{place}.content.{n}", part) for n, part in enumerate(content)]
            if is_front:
                for text, part in zip(texts, content, strict=True):
                    builder.instruct(text, mark_of(part))
            else:
                builder.system(place, "\n\n".join(texts))
        case "assistant":
            builder.go_on([Text(_text_of(f"{place}.content.{n}", part)) for n, part in enumerate(content)])
        case "user":
            said = [(p, mark_of(c)) for n, c in enumerate(content) for p in _said(f"{place}.content.{n}", c)]
            builder.say("user", [part for part, _ in said], [life for _, life in said])
        case role:
            raise refused(f"{place}.role", f"there is no role “{str(role)[:40]}”", "Use user, assistant or developer.")


def _item(place: str, item: JsonObject, builder: RequestBuilder) -> None:
    match item:
        case {"type": "function_call", "call_id": str(id), "name": str(name), "arguments": str(arguments)}:
            call = ToolCall(id, full_name(name, item.get("namespace")), arguments)
        case {"type": "custom_tool_call", "call_id": str(id), "name": str(name), "input": str(text)}:
            call = ToolCall(id, full_name(name, item.get("namespace")), encode_text({"input": text}))
        case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(id), "output": output}:
            _result(place, id, output, builder)
            return
        case {"type": "reasoning"}:
            builder.go_on([_reasoning(item)])
            return
        case {"type": "item_reference"}:
            raise refused(place, "the item is not stored here", "Send the item itself, with store: false.")
        case _:
            raise _unknown(place, item)
    builder.names[call.id] = call.name
    builder.go_on([call])


def _reasoning(item: JsonObject) -> Reasoning:
    summary = [str(part.get("text") or "") for part in objects(item.get("summary"))]
    text = BETWEEN_SUMMARIES.join(summary) or "".join(str(part.get("text")) for part in objects(item.get("content")))
    sealed = item.get("encrypted_content")
    if not isinstance(sealed, str):
        return Reasoning(text)
    if ours := unwrapped_seal(sealed):
        return Reasoning(text, *ours)
    seal = ReasoningSeal(str(item.get("id") or ""), tuple(len(piece) for piece in summary))
    return Reasoning(text, seal.text(), sealed)


def full_name(name: str, namespace: Json) -> str:
    """The name of a tool in a namespace as one word."""
    return f"{namespace}__{name}" if isinstance(namespace, str) and namespace else name


def _response_tools(place: str, tools: Json, builder: RequestBuilder, namespace: str = "") -> list[Tool]:
    found: list[Tool] = []
    for number, tool in enumerate(objects(tools)):
        where = f"{place}.{number}"
        match tool.get("type"):
            case "function":
                spec, _, strict = _function(where, tool, "parameters")
                form = ToolForm(spec.name, namespace) if namespace else None
                found.append((replace(spec, name=full_name(spec.name, namespace)), form, strict))
            case "custom":
                found.append(_custom(where, tool, namespace, builder))
            case "namespace" if not namespace:
                found += _response_tools(f"{where}.tools", tool.get("tools"), builder, str(tool.get("name") or ""))
            case kind:
                builder.change(where, f"“{str(kind)[:40]}” is a tool of the vendor and is not offered")
    return found


# Parts of all


def _said(place: str, part: JsonObject) -> Iterator[Part]:
    """A part of a user's message."""
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            yield Text(text)
        case {"type": "image", "source": {"type": "base64", "media_type": str(media_type), "data": str(data)}}:
            yield file_of_data(place, media_type, data)
        case {"type": "image", "source": {"type": "url", "url": url}}:
            yield file_of_url(place, url)
        case {"type": "image_url", "image_url": Mapping() as image}:
            yield file_of_url(place, image.get("url"))
        case {"type": "input_image", "image_url": str(url)}:
            yield file_of_url(place, url)
        case {"type": "document", "source": {"type": "base64", "media_type": str(media_type), "data": str(data)}}:
            yield file_of_data(place, media_type, data)
        case {"type": "document", "source": {"type": "url", "url": url}}:
            yield file_of_url(place, url, PDF)
        case {"type": "file", "file": {"file_data": str(url)}} | {"type": "input_file", "file_data": str(url)}:
            yield file_of_url(place, url if url.startswith("data:") else f"data:{PDF};base64,{url}")
        case {"type": "input_file", "file_url": str(url)}:
            yield file_of_url(place, url, PDF)
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            title = encode_text(str(part.get("title") or ""))
            yield Text(f"<document title={title}>\n{text}\n</document>")
        case _:
            raise _unknown(place, part)


def _text_of(place: str, part: JsonObject) -> str:
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return text
        case {"type": "refusal", "refusal": str(text)}:
            return text
        case _:
            raise _unknown(place, part)


def _result(
    place: str, call_id: str, content: Json, builder: RequestBuilder, ttl: Ttl | None = None, *, is_error: bool = False
) -> None:
    """The result of a call: its texts as one, its pictures after it."""
    parts = [part for n, one in enumerate(content_of(content)) for part in _said(f"{place}.content.{n}", one)]
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    result = ToolResult(call_id, builder.names.get(call_id, ""), text, is_error)
    builder.result(place, result, [part for part in parts if not isinstance(part, Text)], ttl)


def _unknown(place: str, part: JsonObject) -> Exception:
    kind = str(part.get("type") or "a part without a type")[:60]
    return refused(place, f"“{kind}” can't be carried to another API", "Leave it out, or use a model of that API.")


def _function(place: str, tool: JsonObject, schema: str) -> Tool:
    name, parameters = tool.get("name"), tool.get(schema)
    if not isinstance(name, str) or not name:
        raise refused(place, "the tool has no name", "Give it one.")
    text = encode_text(parameters if isinstance(parameters, Mapping) else {"type": "object", "properties": {}})
    return ToolSpec(name, str(tool.get("description") or ""), text), None, tool.get("strict") is True


def _custom(place: str, tool: JsonObject, namespace: str, builder: RequestBuilder) -> Tool:
    """A tool whose input is any text: a function with one argument, which becomes its input again."""
    name = str(tool.get("name") or "")
    described = str(tool.get("description") or "")
    form = tool.get("format")
    if isinstance(form, Mapping) and form.get("type") == "grammar":
        inner = form.get("grammar")
        grammar = inner if isinstance(inner, Mapping) else form
        described += f"\n\nThe input follows this grammar:\n{grammar.get('definition') or ''}"
        builder.change(place, "a custom tool is a function with the argument “input”; its grammar is only described")
    else:
        builder.change(place, "a custom tool is a function with the argument “input”")
    return ToolSpec(full_name(name, namespace), described, CUSTOM_SCHEMA), ToolForm(name, namespace, True), False
