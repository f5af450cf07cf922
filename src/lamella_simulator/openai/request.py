"""Requests to OpenAI: what its APIs have in common, and the body, pictures and tool choice of Chat Completions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Literal

import msgspec

from lamella_simulator.blocks import Json
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.models import Model
from lamella_simulator.pictures import Pictures
from lamella_simulator.request import AnswerRequest, Shape, parsed

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


class OpenAIRequest(AnswerRequest, kw_only=True):
    """What Chat Completions and Responses have in common."""

    tool_choice: str | Json | None = None
    parallel_tool_calls: bool = True
    prompt_cache_key: str | None = None
    prompt_cache_options: CacheOptions | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    store: bool | None = None
    top_logprobs: int | None = None

    @property
    def cache_ttl(self) -> str:
        """The life of what implicit caching writes, and of a breakpoint that names none."""
        return self.prompt_cache_options.ttl if self.prompt_cache_options is not None else "30m"

    @property
    def prewarms(self) -> bool:
        return self.prompt_cache_options is not None and self.prompt_cache_options.prewarm


class ChatRequest(OpenAIRequest, kw_only=True):
    """Body of POST /v1/chat/completions."""

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    stream_options: StreamOptions | None = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    response_format: Json | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    n: int | None = None
    logprobs: bool | None = None


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


def parse(body: bytes, shape: type[Shape]) -> Shape:
    """The request of a body. Raises 400 in the words of the vendor's validator."""
    return parsed(body, shape, worded, "We could not parse the JSON body of your request")


def worded(text: str) -> ProviderError:
    if field := re.search(r"unknown field `(\w+)`", text):
        if field[1] in NOT_SIMULATED:
            page = "docs/reference/simulator.md"
            return invalid(f"'{field[1]}': the simulator does not model this parameter, see {page}.")
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


DATA = re.compile(r"data:([^;,]*);base64,")
KINDS = ("png", "jpeg", "gif", "webp")


def data_of(raw: Json) -> tuple[str, str] | None:
    """Media type and base64 text of a picture that travels in its address; None for one that lies elsewhere."""
    image: Any = raw.get("image_url")
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str) or (found := DATA.match(url)) is None:
        return None
    return found[1], url[found.end() :]


def check_images(request: ChatRequest, model: Model, pictures: Pictures, most: int) -> None:
    """Raises 400 for the first picture that the API would refuse."""
    count = 0
    for index, message in enumerate(request.messages):
        for position, part in enumerate(message.content if isinstance(message.content, list) else ()):
            if part.get("type") != "image_url":
                continue
            count += 1
            check_image(f"messages[{index}].content[{position}]", part, model, pictures)
    if count > most:
        raise invalid(f"Invalid 'messages': too many images in request. Maximum is {most}, got {count}.")


def check_image(path: str, part: Json, model: Model, pictures: Pictures) -> None:
    if model.pictures is None:
        raise invalid(f"Invalid content type at '{path}'. image_url is only supported by certain models.")
    image: Any = part.get("image_url")
    if not isinstance(image, dict) or not isinstance(image.get("url"), str):
        raise invalid(f"Missing required parameter: '{path}.image_url.url'.", code="missing_required_parameter")
    encoded = data_of(part)
    if encoded is None:
        if not image["url"].startswith(("https://", "http://")):
            raise invalid(
                f"Invalid '{path}.image_url.url'. Expected a valid URL or a base64-encoded data URL.",
                code="invalid_value",
            )
        return
    picture = pictures.of(encoded[1])
    if picture is None:
        raise invalid(
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
            f"{list(KINDS)}. ({path})",
            code="invalid_image_format",
        )


def name_of(entry: Any) -> str:
    """The function that a tool or a choice names: nested in Chat Completions, flat in Responses."""
    function = entry.get("function") if isinstance(entry, dict) else None
    named = function if isinstance(function, dict) else entry
    return str(named.get("name", "")) if isinstance(named, dict) else ""


def allowed_by(choice: str | Json | None) -> list[Any] | None:
    """The tools of `allowed_tools`, which Chat Completions nests once more."""
    if not isinstance(choice, dict):
        return None
    nested = choice.get("allowed_tools")
    tools = (nested if isinstance(nested, dict) else choice).get("tools")
    return tools if isinstance(tools, list) else None


def check_choice(choice: str | Json | None, tools: Collection[Json]) -> None:
    """Raises 400 for a choice that the API would refuse, and for one of a tool that the simulator does not have."""
    offered = [name_of(tool) for tool in tools]
    match choice:
        case None | "none" | "auto":
            return
        case "required":
            if not tools:
                raise invalid("Tool choice 'required' must be specified with 'tools' parameter.")
            return
        case {"type": "function"}:
            named = [name_of(choice)]
        case {"type": "allowed_tools"} if (allowed := allowed_by(choice)) is not None:
            named = [name_of(entry) for entry in allowed]
        case _:
            raise invalid(
                f"Invalid value for 'tool_choice': {choice!r}. The simulator knows 'none', 'auto', 'required', and "
                "objects of type 'function' and 'allowed_tools'."
            )
    for name in named:
        if name not in offered:
            raise invalid(f"Tool choice '{name}' not found in 'tools' parameter.")


def callable_names(choice: str | Json | None, tools: Collection[Json]) -> frozenset[str]:
    """The tools that the model may call."""
    match choice:
        case "none":
            return frozenset()
        case {"type": "function"}:
            return frozenset({name_of(choice)})
        case {"type": "allowed_tools"}:
            return frozenset(name_of(entry) for entry in allowed_by(choice) or ())
        case _:
            return frozenset(name_of(tool) for tool in tools)
