"""A Responses request: its fields as received, the items of its input, and what is encrypted in them.

Reasoning and compactions are sealed notes. Only the account that they were made for may send them back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from lamella_simulator import sealing
from lamella_simulator.blocks import Json
from lamella_simulator.errors import ProviderError, invalid
from lamella_simulator.openai.request import Effort, OpenAIRequest, Verbosity
from lamella_simulator.sealing import Note

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


class ResponsesRequest(OpenAIRequest, kw_only=True):
    """Body of POST /v1/responses."""

    input: str | list[Json]
    instructions: str | None = None
    max_output_tokens: int | None = None
    stream_options: Json | None = None
    include: list[str] = msgspec.field(default_factory=list)
    reasoning: ReasoningOptions | None = None
    text: TextOptions = TextOptions()
    context_management: list[Json] | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    truncation: Literal["auto", "disabled"] | None = None
    background: bool | None = None
    max_tool_calls: int | None = None
    client_metadata: Json | None = None

    @property
    def items(self) -> list[Json]:
        """The input as items: a text is one message of the user."""
        if isinstance(self.input, str):
            return [{"type": "message", "role": "user", "content": self.input}]
        return self.input

    @property
    def offered(self) -> list[Json]:
        """The tools that the model may call: those of the request and of its items, without their namespaces."""
        added = (tool for item in self.items if kind_of(item) == "additional_tools" for tool in item["tools"])
        return [inner for tool in (*self.tools, *added) for inner in tools_of(tool)]

    @property
    def effort(self) -> str:
        return (self.reasoning.effort if self.reasoning is not None else None) or "medium"

    @property
    def compact_threshold(self) -> int | None:
        """Tokens of a prompt from which it is compacted in line. None if the request did not ask for it."""
        asked = (entry for entry in self.context_management or () if entry.get("type") == "compaction")
        return next((int(entry["compact_threshold"]) for entry in asked), None)

    @property
    def shows_summary(self) -> bool:
        return self.reasoning is not None and bool(self.reasoning.summary or self.reasoning.generate_summary)


def kind_of(item: Json) -> str:
    """The type of an item; one with a role and no type is a message."""
    return str(item.get("type") or ("message" if "role" in item else ""))


def tools_of(tool: Json) -> list[Json]:
    """The tools of a namespace, each with its name; any other tool alone."""
    if tool.get("type") != "namespace":
        return [tool]
    return [{**inner, "namespace": tool["name"]} for inner in tool["tools"]]


CALLS = ("function_call", "custom_tool_call")
RESULTS = ("function_call_output", "custom_tool_call_output")


def parts_of(item: Json) -> Iterator[tuple[str, Json]]:
    """The content of an item in parts, each with its path inside the item. A text is one part."""
    kind = kind_of(item)
    if kind not in ("message", *RESULTS):
        yield "", item
        return
    field = "content" if kind == "message" else "output"
    content = item.get(field)
    if isinstance(content, str):
        yield f".{field}", {"type": "output_text" if item.get("role") == "assistant" else "input_text", "text": content}
    else:
        for index, part in enumerate(content or ()):
            yield f".{field}[{index}]", part


class Sealed(msgspec.Struct, frozen=True):
    """What is encrypted: whose it is, and how many tokens the reasoning has when the model reads it again."""

    account: str
    model: str
    id: str
    tokens: int
    text: str


class Compacted(msgspec.Struct, frozen=True):
    """What is encrypted in a compaction item: a summary, and whether it stands for the items before it."""

    account: str
    summary: str
    tokens: int
    drops: bool
    """Of an in-line compaction; the output of `/responses/compact` has the user's messages too."""


def unseal(item: Json, account: str, model: str, seed: int) -> Sealed:
    """The reasoning of an item. Raises 400 for one that was changed, or was made for somebody else."""
    sealed = opened(item, Sealed, seed)
    if sealed.id != item.get("id"):
        raise unverified(item, "Encrypted content item_id did not match the target item id.")
    if (sealed.account, sealed.model) != (account, model):
        raise unverified(item, "Encrypted content organization_id or model did not match.")
    return sealed


def uncompact(item: Json, account: str, seed: int) -> Compacted:
    """The summary of a compaction item. Raises 400 for one that was changed, or was made for somebody else."""
    compacted = opened(item, Compacted, seed)
    if compacted.account != account:
        raise unverified(item, "Encrypted content organization_id did not match.")
    return compacted


def opened(item: Json, kind: type[Note], seed: int) -> Note:
    """What an item has encrypted. Raises 400 for anything that this simulator did not encrypt."""
    note = sealing.unseal(item.get("encrypted_content"), kind, seed)
    if note is None:
        raise unverified(item, "Encrypted content could not be decrypted or parsed.")
    return note


def unverified(item: Json, reason: str) -> ProviderError:
    message = f"The encrypted content for item {item.get('id')} could not be verified. Reason: {reason}"
    return invalid(message, code="invalid_encrypted_content")
