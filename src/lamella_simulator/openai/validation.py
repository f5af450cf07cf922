"""Requests that Chat Completions refuses, in words close to its own."""

from __future__ import annotations

import re

from lamella_simulator.blocks import Json
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.models import Model, find
from lamella_simulator.openai.request import ChatMessage, ChatRequest, check_choice

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PARTS = {"user": ("text", "image_url", "input_audio", "file"), "assistant": ("text", "refusal")}


def known_model(name: str) -> Model:
    model = find(name, "openai")
    if model is None:
        message = f"The model `{name}` does not exist or you do not have access to it."
        raise ProviderError(404, message, code="model_not_found")
    return model


def validate(request: ChatRequest, model: Model) -> None:
    if not request.messages:
        raise invalid("Invalid 'messages': empty array. Expected an array with minimum length 1.")
    check_cache_options(request, model)
    if (request.n or 1) > 1 or request.logprobs:
        raise invalid("'n' and 'logprobs': the simulator gives one answer, without probabilities.")
    check_choice(request.tool_choice, request.tools)
    for index, tool in enumerate(request.tools):
        check_function(f"tools[{index}]", tool, "name")
    for index, message in enumerate(request.messages):
        check_parts(index, message)
    pending: list[str] = []
    for index, message in enumerate(request.messages):
        pending = check_pairing(index, message, pending)
    check_answered(len(request.messages), pending)


def check_cache_options(request: ChatRequest, model: Model) -> None:
    if request.prompt_cache_options is not None and model.cache_rules != "blocks":
        raise invalid(f"'prompt_cache_options' is not supported with the model `{model.id}`.")


def check_function(path: str, raw: Json, *fields: str) -> None:
    """A tool or a call: of type function, with these texts."""
    function = raw.get("function")
    if raw.get("type") != "function" or not isinstance(function, dict):
        raise invalid(
            f"Invalid value: '{path}' must be of type 'function', the only one that the simulator has, and have a "
            "'function'."
        )
    for field in fields:
        if not isinstance(function.get(field), str):
            raise invalid(f"Missing required parameter: '{path}.function.{field}'.")
    if not NAME.fullmatch(function["name"]):
        raise invalid(f"Invalid '{path}.function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.")


def check_parts(index: int, message: ChatMessage) -> None:
    for position, part in enumerate(message.content if isinstance(message.content, list) else ()):
        kind = part.get("type")
        if kind not in PARTS.get(message.role, ("text",)):
            raise invalid(f"Invalid value: '{kind}' in 'messages[{index}].content[{position}].type'.")
        if kind == "text" and not isinstance(part.get("text"), str):
            raise invalid(f"Missing required parameter: 'messages[{index}].content[{position}].text'.")
    for position, call in enumerate(message.tool_calls or ()):
        check_function(f"messages[{index}].tool_calls[{position}]", call, "name", "arguments")


def check_pairing(index: int, message: ChatMessage, pending: list[str]) -> list[str]:
    """Follows open calls through the messages: the ids that still wait for their tool message."""
    if message.role == "tool":
        if message.tool_call_id is None:
            raise invalid(f"Missing required parameter: 'messages[{index}].tool_call_id'.")
        if message.tool_call_id not in pending:
            raise invalid(
                "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
                f"'tool_calls'. (messages[{index}], tool_call_id {message.tool_call_id!r})"
            )
        return [call for call in pending if call != message.tool_call_id]
    check_answered(index, pending)
    if message.role != "assistant":
        if message.content is None:
            raise invalid(f"Invalid value for 'messages[{index}].content': expected a string or an array, got null.")
        return []
    if message.tool_calls is None:
        if message.content is None and message.refusal is None:
            raise invalid(f"Invalid value for 'messages[{index}].content': expected a string, got null.")
        return []
    ids = [str(call.get("id", "")) for call in message.tool_calls]
    if not ids:
        raise invalid(f"Invalid 'messages[{index}].tool_calls': empty array.")
    if len(set(ids)) < len(ids) or "" in ids:
        raise invalid(f"Invalid 'messages[{index}].tool_calls': every call needs an id of its own.")
    return ids


def check_answered(index: int, pending: list[str]) -> None:
    if pending:
        raise invalid(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(pending)} "
            f"(before messages[{index}])"
        )
