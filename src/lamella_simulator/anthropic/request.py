"""A Messages request: its fields as received, and its content flattened to wire blocks in prompt order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from lamella_simulator.blocks import Json, Level, digest, encode, rendered
from lamella_simulator.errors import invalid
from lamella_simulator.request import AnswerRequest, parsed

THINKING = ("thinking", "redacted_thinking")
NOT_SIMULATED = frozenset({"thread", "fallbacks", "fallback_credit_token", "billing_policy"})
"""Parameters of the API that the simulator does not have."""


class Message(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[Json] = ""
    clear_at: Literal["next_user_message", "never"] | None = None
    output_config: Json | None = None

    @property
    def blocks(self) -> list[Json]:
        """A string is one text block; a system message that only sets the effort has none."""
        return [] if self.content == "" and self.output_config else content_blocks(self.content)


class MessagesRequest(AnswerRequest, kw_only=True):
    """Body of POST /v1/messages and /v1/messages/count_tokens."""

    messages: list[Message]
    max_tokens: int | None = None
    system: str | list[Json] = ""
    tool_choice: Json | None = None
    thinking: Json | None = None
    output_config: Json | None = None
    cache_control: Json | None = None
    stop_sequences: list[str] = msgspec.field(default_factory=list)
    top_k: int | None = None
    inference_geo: str | None = None
    speed: str | None = None
    context_management: Json | None = None
    compaction: Json | None = None
    container: Any = None
    mcp_servers: list[Json] = msgspec.field(default_factory=list)
    diagnostics: Json | None = None


@dataclass(frozen=True, slots=True)
class WireBlock:
    """One block in its place: `raw` as received, `bare` without markers, `content` the hash of role and `bare`."""

    level: Level
    role: str
    raw: Json
    bare: Json
    content: bytes
    path: str
    message: int = -1
    """Index in `messages`; -1 outside."""
    first: bool = False
    """Opens a message after merging same-role neighbours: it carries the message's fixed tokens."""
    turn_scoped: bool = False
    """Of a system message with `clear_at: next_user_message`."""
    hidden: bool = False
    """A later user message exists, so the model is no longer shown this turn-scoped block."""
    kind: str = ""
    thinking: bool = False


def parse(body: bytes) -> MessagesRequest:
    """The request of a body. Raises 400 in the words of the vendor's validator."""
    return parsed(body, MessagesRequest, lambda text: invalid(worded(text)), "The request body is not valid JSON")


def worded(text: str) -> str:
    """msgspec's complaint as `path: what`, the vendor's form."""
    found = re.fullmatch(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", text, re.DOTALL)
    path = (found["path"] or "") if found else ""
    path = re.sub(r"\[(\d+)\]", r".\1", path).replace("[...]", "")
    what = found["what"] if found else text
    if field := re.search(r"missing required field `(\w+)`", what):
        return f"{joined(path, field[1])}: Field required"
    if field := re.search(r"unknown field `(\w+)`", what):
        if field[1] in NOT_SIMULATED:
            return f"{field[1]}: the simulator does not model this parameter, see docs/reference/simulator.md"
        return f"{joined(path, field[1])}: Extra inputs are not permitted"
    return f"{path}: {what}" if path else what


def joined(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def content_blocks(content: str | list[Json]) -> list[Json]:
    """A string is one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def stripped(raw: Json) -> Json:
    """A block without its markers; a tool result's nested content is stripped too, a tool's input never."""
    if "cache_control" in raw:
        raw = {key: value for key, value in raw.items() if key != "cache_control"}
    if raw.get("type") == "tool_result" and "content" in raw:
        content = raw["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        elif isinstance(content, list):
            content = [stripped(part) if isinstance(part, dict) else part for part in content]
        raw = {**raw, "content": content}
    return raw


def flatten(request: MessagesRequest) -> list[WireBlock]:
    """Tools, system blocks, content blocks: the order in which a prompt is rendered and hashed."""
    return [*outside_messages(request), *inside_messages(request)]


def is_web_search(tool: Json) -> bool:
    return str(tool.get("type")).startswith("web_search_")


def outside_messages(request: MessagesRequest) -> Iterator[WireBlock]:
    """A tool with `defer_loading` is no part of the prompt until a search finds it."""
    shown = [(index, tool) for index, tool in enumerate(request.tools) if not tool.get("defer_loading")]
    searches = [(index, tool) for index, tool in shown if is_web_search(tool)]
    others = [(index, tool) for index, tool in shown if not is_web_search(tool)]
    for place, (index, tool) in enumerate(others):
        yield wire_block("tools", "tool", tool, f"tools.{index}", first=place == 0)
    for index, tool in searches:
        # It is switched on and off in the system prompt: the other tools stay in the cache.
        yield wire_block("system", "tool", tool, f"tools.{index}")
    if request.system:
        for index, block in enumerate(content_blocks(request.system)):
            yield wire_block("system", "system", block, f"system.{index}", first=index == 0)


def inside_messages(request: MessagesRequest) -> Iterator[WireBlock]:
    """A turn-scoped system message is hidden once a later user message exists (`clear_at`)."""
    last_user = max((i for i, message in enumerate(request.messages) if message.role == "user"), default=-1)
    previous = ""
    for index, message in enumerate(request.messages):
        scoped = message.clear_at == "next_user_message"
        hidden = scoped and index < last_user
        for position, block in enumerate(message.blocks):
            yield wire_block(
                "messages",
                message.role,
                block,
                f"messages.{index}.content.{position}",
                message=index,
                first=message.role != previous,
                turn_scoped=scoped,
                hidden=hidden,
            )
            previous = previous if hidden else message.role


def wire_block(
    level: Level,
    role: str,
    raw: Json,
    path: str,
    *,
    message: int = -1,
    first: bool = False,
    turn_scoped: bool = False,
    hidden: bool = False,
) -> WireBlock:
    bare = stripped(raw)
    if raw.get("type") == "compaction":
        # Its seal is not read by the model, and comes back in either of two fields.
        bare = {"type": "compaction", "content": raw.get("content")}
    content = digest(role.encode(), encode(bare) if level == "tools" else rendered(bare))
    kind = str(raw.get("type", ""))
    thinking = kind in THINKING
    return WireBlock(level, role, raw, bare, content, path, message, first, turn_scoped, hidden, kind, thinking)
