"""What a client sets in its body besides messages and tools: limits, sampling, thinking, the form of the answer.

    settings, changes = client_settings(Dialect.CHAT, {"temperature": 0, "seed": 7})
    settings.temperature     # 0
    changes                  # ["seed: the other API has no such field"]

A field is read, named in `changes`, or refused, because the answer would not be what was asked for. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lamella.core.errors import InvalidRequest
from lamella.core.json import Json, JsonObject
from lamella.gateway.dialects import Dialect

NO_FIELD = "the other API has no such field"

_OF_MESSAGES = (
    *("model", "messages", "system", "tools", "tool_choice", "max_tokens", "temperature", "top_p", "stop_sequences"),
    *("thinking", "output_config", "output_format", "stream"),
)
_OF_CHAT = (
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens"),
    *("temperature", "top_p", "stop", "reasoning_effort", "response_format", "verbosity", "prompt_cache_key", "stream"),
    "stream_options",
)
_OF_RESPONSES = (
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens", "include"),
    *("temperature", "top_p", "reasoning", "text", "prompt_cache_key", "stream", "stream_options"),
)
"""The fields that are read."""

_USUAL: Mapping[str, tuple[Json, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "modalities": (["text"],),
    "audio": (),
    "functions": ([],),
    "function_call": ("none",),
    "web_search_options": (),
    "mcp_servers": ([],),
    "container": (),
    "background": (False,),
    "prompt": (),
    "previous_response_id": ("",),
    "conversation": (),
}
"""Fields that can't be carried, with values that ask for nothing."""

_PROVIDER = "it only concerns the provider"
_TOLD = {
    "metadata": _PROVIDER,
    "user": _PROVIDER,
    "safety_identifier": _PROVIDER,
    "service_tier": _PROVIDER,
    "client_metadata": _PROVIDER,
    "store": "nothing is stored by the provider",
    "context_management": "the other API clears no context",
    "cache_control": "the marker on the newest block is not carried",
}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a caller sets besides its messages and tools. None and empty: it says nothing.

    `effort` is the caller's word (`off`, `minimal`, `xhigh`) or a number of tokens. `tool` is the tool that must be
    called. `answer_format` has `name`, `schema` and `strict` of a JSON schema; it is `{}` for any JSON object.
    """

    max_output: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    effort: str | None = None
    tool_choice: Literal["auto", "none", "required"] = "auto"
    tool: str = ""
    parallel_calls: bool = True
    answer_format: JsonObject | None = None
    verbosity: str = ""
    cache_key: str = ""
    strict_tools: frozenset[str] = frozenset()
    streams: bool = False
    asks_for_usage: bool = False
    hides_thinking: bool = False


def refused(place: str, what: str, hint: str = "Leave it out.") -> InvalidRequest:
    """The refusal of something that can't be carried."""
    return InvalidRequest(f"{place}: {what}.", hint=hint, param=place)


def client_settings(dialect: Dialect, body: JsonObject) -> tuple[ClientSettings, list[str]]:
    """The settings of a body, and what of its fields is not carried, each as "field: why".

    Raises `InvalidRequest` with the field that can't be carried.
    """
    make, known = _KINDS[dialect]
    changes: list[str] = []
    for name, value in body.items():
        if name in known or value is None or value in _USUAL.get(name, ()):
            continue
        if name in _USUAL:
            raise refused(name, "this can't be carried to another API")
        changes.append(f"{name[:60]}: {_TOLD.get(name, NO_FIELD)}")
    return make(body, changes), changes


def _of_messages(body: JsonObject, changes: list[str]) -> ClientSettings:
    choice = _object(body, "tool_choice")
    config = _object(body, "output_config")
    if unknown := sorted(set(config) - {"effort", "format"}):
        changes.append(f"output_config.{unknown[0][:40]}: {NO_FIELD}")
    return ClientSettings(
        max_output=_whole(body, "max_tokens"),
        temperature=_number(body, "temperature"),
        top_p=_number(body, "top_p"),
        stop=_texts(body, "stop_sequences"),
        effort=_messages_effort(_object(body, "thinking"), config),
        hides_thinking=_object(body, "thinking").get("display") == "omitted",
        tool_choice=_chosen("tool_choice.type", str(choice.get("type") or "auto")),
        tool=str(choice.get("name") or "") if choice.get("type") == "tool" else "",
        parallel_calls=choice.get("disable_parallel_tool_use") is not True,
        answer_format=_schema(config.get("format") or body.get("output_format"), "output_config.format"),
        streams=body.get("stream") is True,
    )


def _messages_effort(thinking: JsonObject, config: JsonObject) -> str | None:
    effort = config.get("effort")
    match thinking.get("type"):
        case "disabled":
            return "off"
        case "enabled":
            return str(thinking.get("budget_tokens") or "medium")
        case "adaptive":
            return str(effort or "high")
        case _:
            return str(effort) if effort else None


def _of_chat(body: JsonObject, _: list[str]) -> ClientSettings:
    options, choice = _object(body, "stream_options"), body.get("tool_choice")
    return ClientSettings(
        max_output=_whole(body, "max_completion_tokens") or _whole(body, "max_tokens"),
        temperature=_number(body, "temperature"),
        top_p=_number(body, "top_p"),
        stop=_texts(body, "stop"),
        effort=_effort(body.get("reasoning_effort")),
        tool_choice=_choice(choice),
        tool=_forced(choice),
        parallel_calls=body.get("parallel_tool_calls") is not False,
        answer_format=_schema(body.get("response_format"), "response_format"),
        verbosity=str(body.get("verbosity") or ""),
        cache_key=str(body.get("prompt_cache_key") or ""),
        streams=body.get("stream") is True,
        asks_for_usage=bool(options.get("include_usage")),
    )


def _of_responses(body: JsonObject, changes: list[str]) -> ClientSettings:
    text, choice = _object(body, "text"), body.get("tool_choice")
    for name in _texts(body, "include"):
        if "logprobs" in name:
            raise refused("include", f"“{name[:60]}” can't be carried to another API")
        if name != "reasoning.encrypted_content":
            changes.append(f"include: “{name[:60]}” is of the vendor's own tools")
    return ClientSettings(
        max_output=_whole(body, "max_output_tokens"),
        temperature=_number(body, "temperature"),
        top_p=_number(body, "top_p"),
        effort=_effort(_object(body, "reasoning").get("effort")),
        tool_choice=_choice(choice),
        tool=_forced(choice),
        parallel_calls=body.get("parallel_tool_calls") is not False,
        answer_format=_schema(text.get("format"), "text.format"),
        verbosity=str(text.get("verbosity") or ""),
        cache_key=str(body.get("prompt_cache_key") or ""),
        streams=body.get("stream") is True,
    )


def _object(body: JsonObject, name: str) -> JsonObject:
    value = body.get(name)
    return value if isinstance(value, Mapping) else {}


def _number(body: JsonObject, name: str) -> float | None:
    value = body.get(name)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise refused(name, "a number was expected", "Send a number.")


def _whole(body: JsonObject, name: str) -> int | None:
    value = body.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise refused(name, "a whole number was expected", "Send a whole number.")


def _texts(body: JsonObject, name: str) -> tuple[str, ...]:
    value = body.get(name)
    if value is None or isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        return tuple(str(one) for one in value)
    raise refused(name, "a list of texts was expected", "Send a list of texts.")


def _effort(value: Json) -> str | None:
    return None if value is None else "off" if value == "none" else str(value)


def _chosen(place: str, word: str) -> Literal["auto", "none", "required"]:
    match word:
        case "auto" | "none" | "required":
            return word
        case "any" | "tool" | "function" | "custom":
            return "required"
        case _:
            raise refused(place, f"“{word[:40]}” can't be carried to another API", "Use auto, none or one tool.")


def _choice(choice: Json) -> Literal["auto", "none", "required"]:
    """A tool choice of OpenAI's."""
    said = choice.get("type") if isinstance(choice, Mapping) else choice
    return _chosen("tool_choice", str(said or "auto"))


def _forced(choice: Json) -> str:
    match choice:
        case {"name": str(name)} | {"function": {"name": str(name)}} | {"custom": {"name": str(name)}}:
            return name
        case _:
            return ""


def _schema(form: Json, place: str) -> JsonObject | None:
    """The form of the answer: of a JSON schema its name, schema and strictness; `{}` for any JSON object."""
    match form:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {}
        case {"type": "json_schema", "json_schema": {"schema": Mapping() as schema, **told}}:
            strict = told.get("strict") is True
        case {"type": "json_schema", "schema": Mapping() as schema, **told}:
            strict = told.get("strict") is not False
        case _:
            raise refused(place, "this form of answer can't be carried to another API", "Use a JSON schema.")
    return {"name": str(told.get("name") or "answer"), "schema": schema, "strict": strict}


_KINDS: Mapping[Dialect, tuple[Callable[[JsonObject, list[str]], ClientSettings], tuple[str, ...]]] = {
    Dialect.MESSAGES: (_of_messages, _OF_MESSAGES),
    Dialect.CHAT: (_of_chat, _OF_CHAT),
    Dialect.RESPONSES: (_of_responses, _OF_RESPONSES),
}
