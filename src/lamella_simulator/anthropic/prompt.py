"""Seals wire blocks into canonical blocks: markers read and stripped, content hashed, tokens counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamella_simulator.anthropic import signature
from lamella_simulator.anthropic.images import billed, images_in
from lamella_simulator.anthropic.request import MessagesRequest, WireBlock
from lamella_simulator.blocks import Block, Json, Marker, Prefix, Salts, build_prefix, encode
from lamella_simulator.models import Model
from lamella_simulator.pictures import Pictures
from lamella_simulator.settings import Settings
from lamella_simulator.tokens import TokenCounter, scaled

LIVES = {"5m": 300, "1h": 3_600}
FORCED_TOOL_PROMPT = 120
"""Tokens that the hidden prompt about tools is longer where one must be called."""


def marker_of(raw: Json) -> Marker | None:
    """The marker of a block, or of a part nested in a tool result, which marks the same place."""
    control = raw.get("cache_control")
    if control is None and raw.get("type") == "tool_result" and isinstance(raw.get("content"), list):
        nested = [part.get("cache_control") for part in raw["content"] if isinstance(part, dict)]
        control = next((item for item in reversed(nested) if item is not None), None)
    return Marker(LIVES[control.get("ttl", "5m")]) if isinstance(control, dict) else None


def text_of(raw: Json) -> str:
    """What a block's tokens are counted on: its text, or its JSON where it has none."""
    match raw.get("type"):
        case "text":
            return str(raw.get("text", ""))
        case "thinking":
            return str(raw.get("thinking", ""))
        case "compaction":
            return str(raw.get("content") or "")
        case "tool_use":
            return f"{raw.get('name')}{encode(raw.get('input')).decode()}"
        case "tool_result":
            return "".join(text_of(part) for part in raw.get("content", ()) if isinstance(part, dict))
        case "image":
            return ""
        case "document" if binary(raw):
            return ""
        case _:
            return encode(raw).decode()


def binary(raw: Json) -> bool:
    """Whether a document is no text."""
    source: Any = raw.get("source")
    return raw.get("type") == "document" and isinstance(source, dict) and source.get("type") != "text"


def documents(raw: Json) -> int:
    """Binary documents in a block, each billed at a fixed number of tokens."""
    if raw.get("type") == "tool_result" and isinstance(raw.get("content"), list):
        return sum(documents(part) for part in raw["content"] if isinstance(part, dict))
    return 1 if binary(raw) else 0


def has_image(blocks: Sequence[WireBlock]) -> bool:
    """Whether there is a picture, or a document that is shown as pictures."""
    shown = [block.bare for block in blocks if block.level == "messages"]
    return any(documents(raw) or any(images_in(raw, "")) for raw in shown)


def cites(blocks: Sequence[WireBlock]) -> bool:
    """Whether citations are on: of any document, also one in a tool result."""
    return any(cited(block.bare) for block in blocks if block.level == "messages")


def cited(raw: Json) -> bool:
    if raw.get("type") == "tool_result" and isinstance(raw.get("content"), list):
        return any(cited(part) for part in raw["content"] if isinstance(part, dict))
    citations: Any = raw.get("citations")
    return (
        raw.get("type") in ("document", "search_result")
        and isinstance(citations, dict)
        and bool(citations.get("enabled"))
    )


class Sealer:
    """Makes canonical blocks for one model; content seen before costs a hash and a look-up."""

    def __init__(
        self, counter: TokenCounter, pictures: Pictures, settings: Settings, model: Model, *, forced: bool = False
    ) -> None:
        self._counter = counter
        self._pictures = pictures
        self._settings = settings
        self._model = model
        self._forced = FORCED_TOOL_PROMPT if forced else 0
        self.factor = settings.token_factor or model.token_factor

    def seal(self, block: WireBlock, marker: Marker | None) -> Block:
        tokens = self._tokens(block) + self._overhead(block)
        text = text_of(block.bare) if self._settings.engine != "off" else ""
        return Block(
            block.level,
            block.role,
            block.content,
            tokens,
            block.path,
            marker,
            block.thinking,
            text=text,
            opens=block.first,
        )

    def _tokens(self, block: WireBlock) -> int:
        if block.kind == "thinking" and (seal := signature.read(block.raw, self._settings.seed)) is not None:
            return seal.tokens
        count = self._counter.count(block.content, lambda: text_of(block.bare))
        shown = billed(block.bare, self._model, self._pictures, self._settings)
        return scaled(count, self.factor) + shown + documents(block.bare) * self._settings.image_tokens

    def _overhead(self, block: WireBlock) -> int:
        settings = self._settings
        if block.level == "tools":
            return settings.block_overhead + (self._model.tool_prompt if block.first else 0)
        if block.level == "system" or not block.first:
            return settings.block_overhead
        # What a forced call adds stands before the first message: another tool_choice keeps tools and system.
        return settings.block_overhead + settings.message_overhead + (self._forced if block.message <= 0 else 0)


def salts(
    request: MessagesRequest, model: Model, account: str, blocks: Sequence[WireBlock], settings: Settings
) -> Salts:
    """What else the cache key depends on; a default that is spelt out equals an omitted one (PROVIDERS 1.2)."""
    choice = dict(request.tool_choice or {})
    parallel = not choice.pop("disable_parallel_tool_use", False)
    if choice.get("type") == "auto":
        choice = {}
    output = request.output_config or {}
    reasoning = [thinking_mode(request, model), output.get("effort") or model.default_effort]
    system = [request.speed or "standard", output.get("format"), cites(blocks)]
    if settings.thinking_salts_system:
        system.append(reasoning)
    messages = [choice, parallel, has_image(blocks), reasoning]
    return Salts(f"{account}|{model.id}", encode(system).decode(), encode(messages).decode())


def thinking_mode(request: MessagesRequest, model: Model) -> list[Any]:
    """Mode and budget in force: how thinking is shown, and what happens on a mismatch, do not touch the prompt."""
    asked = request.thinking or {}
    default = "disabled" if model.thinking in ("off", "none") else "adaptive"
    return [asked.get("type") or default, asked.get("budget_tokens")]


def thinks(request: MessagesRequest, model: Model) -> bool:
    return model.thinking == "always" or thinking_mode(request, model)[0] != "disabled"


def build(blocks: Sequence[WireBlock], markers: dict[str, Marker], sealer: Sealer, salts: Salts) -> Prefix:
    """The prefix that is hashed and billed; `markers` are by path, the automatic one included."""
    return build_prefix(salts, [sealer.seal(block, markers.get(block.path)) for block in blocks])


def forces(request: MessagesRequest) -> bool:
    """Whether a tool must be called, which lengthens the hidden prompt about tools (PROVIDERS 1.3)."""
    return (request.tool_choice or {}).get("type") in ("any", "tool")
