"""A Chat Completions request: its fields as received, and its content flattened to canonical blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from lamella_simulator.blocks import Json
from lamella_simulator.errors import ProviderError, invalid

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Verbosity = Literal["low", "medium", "high"]


class ChatMessage(msgspec.Struct):
    """A message of any role; fields that the simulator does not read are let through."""

    role: Literal["developer", "system", "user", "assistant", "tool"]
    content: str | list[Json] | None = None
    tool_calls: list[Json] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    refusal: str | None = None


class CacheOptions(msgspec.Struct, forbid_unknown_fields=True):
    mode: Literal["implicit", "explicit"] = "implicit"
    ttl: Literal["30m", "12h"] = "30m"
    prewarm: bool = False
    """Write the prompt and say nothing."""
    comparison_response_id: str | None = None
    """Responses: the answer to compare this prompt with, when the cache was missed."""


class StreamOptions(msgspec.Struct):
    include_usage: bool = False
    include_obfuscation: bool = True


class ChatRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /v1/chat/completions; a parameter the simulator does not know is a 400."""

    model: str
    messages: list[ChatMessage]
    tools: list[Json] = []
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool = True
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    response_format: Json | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: CacheOptions | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    n: int | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: Json | None = None
    store: bool | None = None
    service_tier: str | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


NOT_SIMULATED = frozenset(
    {
        "access_programs",
        "audio",
        "background_options",
        "function_call",
        "functions",
        "image",
        "logit_bias",
        "modalities",
    }
    | {"moderation", "personality", "prediction", "prompt", "web_search_options"}
)
"""Parameters of Chat Completions and of Responses that the simulator does not have."""


def parse(body: bytes) -> ChatRequest:
    """The request of a body. Raises 400 in the words of the vendor's validator."""
    try:
        return msgspec.json.decode(body, type=ChatRequest)
    except msgspec.ValidationError as error:
        raise worded(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"We could not parse the JSON body of your request: {error}") from error


def worded(text: str) -> ProviderError:
    if field := re.search(r"unknown field `(\w+)`", text):
        if field[1] in NOT_SIMULATED:
            return invalid(f"'{field[1]}': the simulator does not model this parameter, see docs/simulator.md.")
        return invalid(f"Unknown parameter: '{field[1]}'.", code="unknown_parameter")
    if field := re.search(r"missing required field `(\w+)`", text):
        return invalid(f"Missing required parameter: '{field[1]}'.", code="missing_required_parameter")
    return invalid(text.replace("$.", ""), code="invalid_type")


def parts_of(message: ChatMessage) -> Iterator[tuple[str, Json]]:
    """Content parts and tool calls of a message, each with its path inside the message. A string is one part."""
    if isinstance(message.content, str):
        if message.content or not message.tool_calls:
            yield "content", {"type": "text", "text": message.content}
    else:
        for index, part in enumerate(message.content or ()):
            yield f"content[{index}]", part
    for index, call in enumerate(message.tool_calls or ()):
        yield f"tool_calls[{index}]", call
