"""Canonical blocks of a Responses request: endings found, breakpoints read and stripped, tokens counted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from lamella_simulator.blocks import Block, Json, Prefix, build_prefix, encode
from lamella_simulator.models import Model
from lamella_simulator.openai.prompt import INSTRUCTIONS, Sealer, endings, format_of, last_of, salts
from lamella_simulator.responses.request import (
    Compacted,
    ResponsesRequest,
    kind_of,
    opened,
    parts_of,
    uncompact,
    unseal,
)
from lamella_simulator.responses.validation import data_of
from lamella_simulator.state import Simulator


def build(request: ResponsesRequest, model: Model, account: str, simulator: Simulator) -> Prefix:
    """The prefix that is hashed and billed. Raises 400 for reasoning that can't be read again."""
    settings = [request.effort, format_of(request.text.format), request.text.verbosity or "medium"]
    sealer = ResponsesSealer(request, model, account, simulator)
    return build_prefix(salts(request, model, account, "responses", settings), sealer.blocks())


def rendered(request: ResponsesRequest, model: Model, seed: int) -> list[Json]:
    """The items that the model reads: some leave out the reasoning of earlier turns."""
    items = uncompacted(request.items, seed)
    if request.instructions is not None:
        items = [{"type": "message", "role": "developer", "content": request.instructions}, *items]
    context = request.reasoning.context if request.reasoning is not None else None
    if context in (None, "auto"):
        context = "all_turns" if model.cache_rules == "blocks" else "current_turn"
    if context == "all_turns":
        return items
    asked = max((index for index, item in enumerate(items) if item.get("role") == "user"), default=-1)
    return [item for index, item in enumerate(items) if index > asked or kind_of(item) != "reasoning"]


def uncompacted(items: list[Json], seed: int) -> list[Json]:
    """The items without those that an in-line compaction stands for; the opening instructions stay."""
    last = max(
        (i for i, item in enumerate(items) if kind_of(item) == "compaction" and opened(item, Compacted, seed).drops),
        default=None,
    )
    if last is None:
        return items
    opening = takewhile(lambda item: item.get("role") in INSTRUCTIONS, items[:last])
    return [*opening, *items[last:]]


class ResponsesSealer(Sealer[ResponsesRequest]):
    media = ("input_image", "input_file")

    def blocks(self) -> Iterator[Block]:
        yield from self.tools()
        seed = self.settings.seed
        for item in self.request.items:
            if kind_of(item) == "reasoning":
                unseal(item, self.account, self.model.id, seed)
            elif kind_of(item) == "compaction":
                uncompact(item, self.account, seed)
        items = rendered(self.request, self.model, seed)
        roles = [role_of(item) for item in items]
        eligible = endings(roles, "result")
        final = last_of(eligible)
        for index, item in enumerate(items):
            parts = [(f"input[{index}]{path}", part) for path, part in parts_of(item)]
            extra = str(item.get("call_id") or "")
            yield from self.message(roles[index], parts, extra=extra, eligible=eligible[index], last=index == final)

    def bare(self, raw: Json) -> Json:
        """Of a compaction, the summary alone."""
        if raw.get("type") == "compaction":
            return {"type": "compaction", "encrypted_content": raw["encrypted_content"]}
        return super().bare(raw)

    def tokens(self, raw: Json, content: bytes, *, first: bool) -> int:
        """Reasoning has the tokens that it was billed with; its summary is not read by the model."""
        if raw.get("type") == "reasoning":
            sealed = unseal(raw, self.account, self.model.id, self.settings.seed)
            return sealed.tokens + self.settings.block_overhead
        if raw.get("type") == "compaction":
            return uncompact(raw, self.account, self.settings.seed).tokens + self.overhead(first=first)
        return super().tokens(raw, content, first=first)

    def text(self, raw: Json) -> str:
        match raw.get("type"):
            case "input_text" | "output_text":
                return str(raw.get("text", ""))
            case "input_image" | "input_file":
                return ""
            case "function_call" | "custom_tool_call":
                return f"{raw.get('name')}{raw.get('arguments') or raw.get('input')}"
            case "reasoning":
                return str(raw.get("encrypted_content"))
            case _:
                return encode(raw).decode()

    def picture(self, raw: Json) -> str | None:
        return data_of(raw)

    def takes_breakpoint(self, raw: Json, role: str) -> bool:
        return str(raw.get("type")).startswith("input_")


def role_of(item: Json) -> str:
    """Whose an item is, in the words of messages; what a tool gave is `result`, as `tool` is its definition."""
    match kind_of(item):
        case "message":
            return str(item["role"])
        case "function_call_output" | "custom_tool_call_output":
            return "result"
        case "additional_tools" | "configuration_update":
            return "developer"
        case _:
            return "assistant"
