"""Canonical blocks of a request to OpenAI: endings found, breakpoints read and stripped, tokens counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from lamella_simulator.blocks import Block, Json, Marker, Prefix, Salts, build_prefix, digest, encode, rendered
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model
from lamella_simulator.openai.request import ChatRequest, OpenAIRequest, data_of, parts_of
from lamella_simulator.state import Simulator
from lamella_simulator.tokens import scaled

LIVES = {"30m": 1_800, "12h": 43_200}
INSTRUCTIONS = ("system", "developer")
RequestT = TypeVar("RequestT", bound=OpenAIRequest)


@dataclass(frozen=True, slots=True)
class Ending:
    eligible: bool
    last: bool


NO_ENDING = Ending(eligible=False, last=False)


class Sealer(ABC, Generic[RequestT]):
    """Makes the blocks of one request; content seen before costs a hash and a look-up."""

    media: ClassVar[tuple[str, ...]]
    """Parts that are no text."""

    def __init__(self, request: RequestT, model: Model, account: str, simulator: Simulator) -> None:
        self.request = request
        self.model = model
        self.account = account
        self.simulator = simulator
        self.settings = simulator.settings
        self._factor = simulator.settings.token_factor or model.token_factor
        self._keep_text = model.cache_rules == "tokens" or self.settings.engine != "off"

    @abstractmethod
    def blocks(self) -> Iterator[Block]: ...

    @abstractmethod
    def text(self, raw: Json) -> str:
        """The text that a block's tokens are counted on: its own, or its JSON if it has none."""

    @abstractmethod
    def picture(self, raw: Json) -> str | None:
        """The base64 text of a picture that travels in the request."""

    @abstractmethod
    def takes_breakpoint(self, raw: Json, role: str) -> bool: ...

    def tools(self) -> Iterator[Block]:
        for index, tool in enumerate(self.request.tools):
            yield self.seal("tool", tool, f"tools[{index}]", first=index == 0, level="tools")

    def message(
        self, role: str, parts: Sequence[tuple[str, Json]], *, extra: str, eligible: bool, last: bool
    ) -> Iterator[Block]:
        """The blocks of a message or an item, `parts` with their paths; the last of them carries its ending."""
        for position, (path, part) in enumerate(parts):
            ends = eligible and position == len(parts) - 1
            ending = Ending(ends, ends and last)
            yield self.seal(role, part, path, first=position == 0, extra=extra, ending=ending)

    def seal(
        self,
        role: str,
        raw: Json,
        path: str,
        *,
        first: bool,
        extra: str = "",
        ending: Ending = NO_ENDING,
        level: str = "messages",
    ) -> Block:
        marker = self._marker(raw, role, path)
        raw = self.bare(raw)
        written = encode if level == "tools" else rendered
        content = digest(role.encode(), extra.encode(), b"first" if first else b"", written(raw))
        return Block(
            "tools" if level == "tools" else "messages",
            role,
            content,
            self.tokens(raw, content, first=first),
            path,
            marker,
            thinking=raw.get("type") == "reasoning",
            ending=ending.eligible,
            writes=ending.last,
            text=self.text(raw) if self._keep_text else "",
            opens=first,
        )

    def bare(self, raw: Json) -> Json:
        """A block without its breakpoint."""
        if "prompt_cache_breakpoint" not in raw:
            return raw
        return {key: value for key, value in raw.items() if key != "prompt_cache_breakpoint"}

    def overhead(self, *, first: bool) -> int:
        return (self.settings.message_overhead if first else 0) + self.settings.block_overhead

    def tokens(self, raw: Json, content: bytes, *, first: bool) -> int:
        tokens = scaled(self.simulator.counter.count(content, lambda: self.text(raw)), self._factor)
        return tokens + self.overhead(first=first) + (self._shown(raw) if raw.get("type") in self.media else 0)

    def _shown(self, raw: Json) -> int:
        """Tokens of a picture by its size; of other media, and of one that lies elsewhere, the fixed number."""
        encoded = self.picture(raw)
        picture = self.simulator.pictures.of(encoded) if encoded is not None else None
        rule = self.model.pictures
        return rule.tokens(picture) if picture is not None and rule is not None else self.settings.image_tokens

    def _marker(self, raw: Json, role: str, path: str) -> Marker | None:
        breakpoint_ = raw.get("prompt_cache_breakpoint")
        if breakpoint_ is None:
            return None
        if not self.takes_breakpoint(raw, role):
            raise invalid(f"Unknown parameter: '{path}.prompt_cache_breakpoint'.", code="unknown_parameter")
        if not isinstance(breakpoint_, dict) or breakpoint_.get("mode") != "explicit":
            raise invalid(f"Invalid value: '{path}.prompt_cache_breakpoint.mode' must be 'explicit'.")
        ttl = breakpoint_.get("ttl", self.request.cache_ttl)
        if ttl not in LIVES:
            raise invalid(f"Invalid value: '{path}.prompt_cache_breakpoint.ttl' must be '30m' or '12h'.")
        return Marker(LIVES[ttl])


class ChatSealer(Sealer[ChatRequest]):
    media = ("image_url", "input_audio", "file")

    def blocks(self) -> Iterator[Block]:
        yield from self.tools()
        messages = self.request.messages
        eligible = endings([message.role for message in messages], "tool")
        final = last_of(eligible)
        for index, message in enumerate(messages):
            parts = [(f"messages[{index}].{path}", part) for path, part in parts_of(message)]
            extra = message.tool_call_id or ""
            yield from self.message(message.role, parts, extra=extra, eligible=eligible[index], last=index == final)

    def text(self, raw: Json) -> str:
        if raw.get("type") == "text":
            return str(raw.get("text", ""))
        if raw.get("type") in self.media:
            return ""
        function = raw.get("function")
        if raw.get("type") == "function" and isinstance(function, dict) and "arguments" in function:
            return f"{function.get('name')}{function['arguments']}"
        return encode(raw).decode()

    def picture(self, raw: Json) -> str | None:
        found = data_of(raw)
        return found[1] if found is not None else None

    def takes_breakpoint(self, raw: Json, role: str) -> bool:
        return not (role in ("assistant", "tool") and raw.get("type") == "function")


def build(request: ChatRequest, model: Model, account: str, simulator: Simulator) -> Prefix:
    """The prefix that is hashed and billed."""
    settings = [request.reasoning_effort or "medium", format_of(request.response_format), request.verbosity or "medium"]
    sealer = ChatSealer(request, model, account, simulator)
    return build_prefix(salts(request, model, account, "chat", settings), sealer.blocks())


def salts(request: OpenAIRequest, model: Model, account: str, api: str, settings: Sequence[object]) -> Salts:
    """All that opens another cache: API, account, model, prompt_cache_key and the settings that change the prefix."""
    salted = encode([request.parallel_tool_calls, *settings]).decode()
    return Salts(f"{api}|{account}|{model.id}|{request.prompt_cache_key or ''}|{salted}")


def format_of(asked: Json | None) -> Json | None:
    """The format of an answer; plain text, the default, equals none."""
    return None if asked is None or asked.get("type") == "text" else asked


def endings(roles: Sequence[str], result: str) -> list[bool]:
    """Messages at whose end implicit caching may match: the initial instructions, user messages, groups of results."""
    eligible = []
    opening = True
    for role, following in zip(roles, [*roles[1:], ""], strict=True):
        ends = role == "user" or (role == result and following != result)
        ends = ends or (opening and role in INSTRUCTIONS and following not in INSTRUCTIONS)
        opening = opening and role in INSTRUCTIONS
        eligible.append(ends)
    return eligible


def last_of(eligible: Sequence[bool]) -> int:
    """The position of the last ending, which implicit caching writes; -1 if there is none."""
    return max((index for index, ends in enumerate(eligible) if ends), default=-1)
