"""A Responses request: its fields as received, and the items of its input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from lamella_simulator.blocks import Json
from lamella_simulator.errors import invalid
from lamella_simulator.openai.request import CacheOptions, Effort, Verbosity, worded

ENCRYPTED = "reasoning.encrypted_content"


class ReasoningOptions(msgspec.Struct, forbid_unknown_fields=True):
    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    generate_summary: str | None = None
    mode: str | None = None


class TextOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    format: Json | None = None
    verbosity: Verbosity | None = None


class ResponsesRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /v1/responses; a parameter the simulator does not know is a 400."""

    model: str
    input: str | list[Json]
    instructions: str | None = None
    tools: list[Json] = []
    tool_choice: str | Json | None = None
    parallel_tool_calls: bool = True
    max_output_tokens: int | None = None
    stream: bool = False
    stream_options: Json | None = None
    store: bool | None = None
    include: list[str] = []
    reasoning: ReasoningOptions | None = None
    text: TextOptions = TextOptions()
    prompt_cache_key: str | None = None
    prompt_cache_options: CacheOptions | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    context_management: list[Json] | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    temperature: float | None = None
    top_p: float | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: bool | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: Json | None = None
    service_tier: str | None = None
    max_tool_calls: int | None = None
    top_logprobs: int | None = None

    @property
    def items(self) -> list[Json]:
        """The input as items: a text is one message of the user."""
        if isinstance(self.input, str):
            return [{"type": "message", "role": "user", "content": self.input}]
        return self.input

    @property
    def effort(self) -> str:
        return (self.reasoning.effort if self.reasoning is not None else None) or "medium"

    @property
    def compact_threshold(self) -> int | None:
        """Tokens of a prompt from which on it is compacted in line; None where that was not asked for."""
        asked = (entry for entry in self.context_management or () if entry.get("type") == "compaction")
        return next((int(entry["compact_threshold"]) for entry in asked), None)

    @property
    def shows_summary(self) -> bool:
        return self.reasoning is not None and bool(self.reasoning.summary or self.reasoning.generate_summary)


def parse(body: bytes) -> ResponsesRequest:
    """The request of a body. Raises 400 in the words of the vendor's validator."""
    try:
        return msgspec.json.decode(body, type=ResponsesRequest)
    except msgspec.ValidationError as error:
        raise worded(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"We could not parse the JSON body of your request: {error}") from error


def kind_of(item: Json) -> str:
    """The type of an item; one with a role and no type is a message."""
    return str(item.get("type") or ("message" if "role" in item else ""))


def parts_of(item: Json) -> Iterator[tuple[str, Json]]:
    """The content of an item in parts, each with its path inside the item. A text is one part."""
    kind = kind_of(item)
    if kind not in ("message", "function_call_output"):
        yield "", item
        return
    field = "content" if kind == "message" else "output"
    content = item.get(field)
    if isinstance(content, str):
        yield f".{field}", {"type": "output_text" if item.get("role") == "assistant" else "input_text", "text": content}
    else:
        for index, part in enumerate(content or ()):
            yield f".{field}[{index}]", part
