"""Canonical blocks of a Chat Completions request: endings found, breakpoints read and stripped, tokens counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lamella_simulator.blocks import Block, Json, Marker, Prefix, Salts, build_prefix, digest, encode
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model
from lamella_simulator.openai.images import data_of
from lamella_simulator.openai.request import ChatMessage, ChatRequest, parts_of
from lamella_simulator.pictures import Pictures
from lamella_simulator.settings import Settings
from lamella_simulator.tokens import TokenCounter, scaled

LIVES = {"30m": 1_800, "12h": 43_200}
INSTRUCTIONS = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Ending:
    eligible: bool
    last: bool


def build(
    request: ChatRequest, model: Model, account: str, counter: TokenCounter, pictures: Pictures, settings: Settings
) -> Prefix:
    """The prefix that is hashed and billed."""
    sealer = Sealer(request, model, counter, pictures, settings)
    return build_prefix(Salts(root(request, model, account)), sealer.blocks())


def root(request: ChatRequest, model: Model, account: str) -> str:
    """All that opens another cache: account, model, prompt_cache_key and the settings that change the prefix."""
    settings = [
        request.parallel_tool_calls,
        format_of(request.response_format),
        request.reasoning_effort or "medium",
        request.verbosity or "medium",
    ]
    return f"{account}|{model.id}|{request.prompt_cache_key or ''}|{encode(settings).decode()}"


def format_of(asked: Json | None) -> Json | None:
    """The format of an answer; plain text, the default, equals none."""
    return None if asked is None or asked.get("type") == "text" else asked


class Sealer:
    """Makes the blocks of one request; content seen before costs a hash and a look-up."""

    def __init__(
        self, request: ChatRequest, model: Model, counter: TokenCounter, pictures: Pictures, settings: Settings
    ) -> None:
        self._request = request
        self._model = model
        self._counter = counter
        self._pictures = pictures
        self._settings = settings
        self._factor = settings.token_factor or model.token_factor
        self._keep_text = model.cache_rules == "tokens" or self._settings.engine != "off"
        options = request.prompt_cache_options
        self._ttl = options.ttl if options is not None else "30m"

    def blocks(self) -> Iterator[Block]:
        for index, tool in enumerate(self._request.tools):
            yield self._seal("tools", "tool", tool, f"tools[{index}]", index == 0)
        eligible = endings(self._request.messages)
        final = max((i for i, ends in enumerate(eligible) if ends), default=-1)
        for index, message in enumerate(self._request.messages):
            parts = list(parts_of(message))
            for position, (path, part) in enumerate(parts):
                ending = eligible[index] and position == len(parts) - 1
                yield self._seal(
                    "messages",
                    message.role,
                    part,
                    f"messages[{index}].{path}",
                    position == 0,
                    extra=message.tool_call_id or "",
                    ending=Ending(ending, ending and index == final),
                )

    def _seal(
        self,
        level: str,
        role: str,
        raw: Json,
        path: str,
        first: bool,
        *,
        extra: str = "",
        ending: Ending = Ending(False, False),
    ) -> Block:
        marker = self._marker(raw, role, path)
        if "prompt_cache_breakpoint" in raw:
            raw = {key: value for key, value in raw.items() if key != "prompt_cache_breakpoint"}
        content = digest(role.encode(), extra.encode(), b"first" if first else b"", encode(raw))
        tokens = scaled(self._counter.count(content, lambda: text_of(raw)), self._factor)
        tokens += (self._settings.message_overhead if first else 0) + self._settings.block_overhead
        tokens += self._shown(raw) if media(raw) else 0
        return Block(
            "tools" if level == "tools" else "messages",
            role,
            content,
            tokens,
            path,
            marker,
            ending=ending.eligible,
            writes=ending.last,
            text=text_of(raw) if self._keep_text else "",
            opens=first,
        )

    def _shown(self, raw: Json) -> int:
        """Tokens of a picture by its size; of other media, and of one that lies elsewhere, the fixed number."""
        encoded = data_of(raw)
        picture = self._pictures.of(encoded[1]) if encoded is not None else None
        rule = self._model.pictures
        return rule.tokens(picture) if picture is not None and rule is not None else self._settings.image_tokens

    def _marker(self, raw: Json, role: str, path: str) -> Marker | None:
        breakpoint_ = raw.get("prompt_cache_breakpoint")
        if breakpoint_ is None:
            return None
        if not isinstance(breakpoint_, dict) or breakpoint_.get("mode") != "explicit":
            raise invalid(f"Invalid value: '{path}.prompt_cache_breakpoint.mode' must be 'explicit'.")
        if role in ("assistant", "tool") and raw.get("type") == "function":
            raise invalid(f"Unknown parameter: '{path}.prompt_cache_breakpoint'.", code="unknown_parameter")
        ttl = breakpoint_.get("ttl", self._ttl)
        if ttl not in LIVES:
            raise invalid(f"Invalid value: '{path}.prompt_cache_breakpoint.ttl' must be '30m' or '12h'.")
        return Marker(LIVES[ttl])


def endings(messages: Sequence[ChatMessage]) -> list[bool]:
    """Messages at whose end implicit caching may match: the initial instructions, user messages, tool groups."""
    eligible = []
    opening = True
    for index, message in enumerate(messages):
        following = messages[index + 1].role if index + 1 < len(messages) else ""
        instructions = message.role in INSTRUCTIONS
        ends = message.role == "user"
        ends = ends or (message.role == "tool" and following != "tool")
        ends = ends or (opening and instructions and following not in INSTRUCTIONS)
        opening = opening and instructions
        eligible.append(ends)
    return eligible


def text_of(raw: Json) -> str:
    """What a block's tokens are counted on: its text, or its JSON where it has none."""
    if raw.get("type") == "text":
        return str(raw.get("text", ""))
    if media(raw):
        return ""
    function = raw.get("function")
    if raw.get("type") == "function" and isinstance(function, dict) and "arguments" in function:
        return f"{function.get('name')}{function['arguments']}"
    return encode(raw).decode()


def media(raw: Json) -> bool:
    return raw.get("type") in ("image_url", "input_audio", "file")
