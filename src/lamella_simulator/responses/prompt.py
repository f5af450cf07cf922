"""Canonical blocks of a Responses request: endings found, breakpoints read and stripped, tokens counted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from lamella_simulator.blocks import Block, Json, Marker, Prefix, Salts, build_prefix, digest, encode
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model
from lamella_simulator.openai.prompt import INSTRUCTIONS, LIVES, Ending, format_of
from lamella_simulator.responses.reasoning import Compacted, opened, uncompact, unseal
from lamella_simulator.responses.request import ResponsesRequest, kind_of, parts_of
from lamella_simulator.responses.validation import data_of
from lamella_simulator.state import Simulator
from lamella_simulator.tokens import scaled

MEDIA = ("input_image", "input_file")
NO_ENDING = Ending(eligible=False, last=False)


def build(request: ResponsesRequest, model: Model, account: str, simulator: Simulator) -> Prefix:
    """The prefix that is hashed and billed. Raises 400 for reasoning that can't be read again."""
    sealer = Sealer(request, model, account, simulator)
    return build_prefix(Salts(root(request, model, account)), sealer.blocks())


def root(request: ResponsesRequest, model: Model, account: str) -> str:
    """All that opens another cache: account, model, prompt_cache_key and the settings that change the prefix."""
    text = [format_of(request.text.format), request.text.verbosity or "medium"]
    settings = [request.parallel_tool_calls, request.effort, *text]
    return f"responses|{account}|{model.id}|{request.prompt_cache_key or ''}|{encode(settings).decode()}"


def rendered(request: ResponsesRequest, model: Model, seed: int) -> list[Json]:
    """The items that the model reads: some leave out the reasoning of earlier turns (PROVIDERS 2)."""
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


class Sealer:
    """Makes the blocks of one request; content seen before costs a hash and a look-up."""

    def __init__(self, request: ResponsesRequest, model: Model, account: str, simulator: Simulator) -> None:
        self._request = request
        self._model = model
        self._account = account
        self._simulator = simulator
        self._settings = simulator.settings
        self._factor = simulator.settings.token_factor or model.token_factor
        self._keep_text = model.cache_rules == "tokens" or self._settings.engine != "off"
        options = request.prompt_cache_options
        self._ttl = options.ttl if options is not None else "30m"

    def blocks(self) -> Iterator[Block]:
        for index, tool in enumerate(self._request.tools):
            yield self._seal("tool", tool, f"tools[{index}]", first=index == 0)
        items = rendered(self._request, self._model, self._settings.seed)
        for item in self._request.items:
            if kind_of(item) == "reasoning":
                unseal(item, self._account, self._model.id, self._settings.seed)
            elif kind_of(item) == "compaction":
                uncompact(item, self._account, self._settings.seed)
        eligible = endings(items)
        final = max((i for i, ends in enumerate(eligible) if ends), default=-1)
        for index, item in enumerate(items):
            parts = list(parts_of(item))
            for position, (path, part) in enumerate(parts):
                ending = eligible[index] and position == len(parts) - 1
                yield self._seal(
                    role_of(item),
                    part,
                    f"input[{index}]{path}",
                    first=position == 0,
                    extra=str(item.get("call_id") or ""),
                    ending=Ending(ending, ending and index == final),
                )

    def _seal(
        self,
        role: str,
        raw: Json,
        path: str,
        *,
        first: bool,
        extra: str = "",
        ending: Ending = NO_ENDING,
    ) -> Block:
        marker = self._marker(raw, role, path)
        if "prompt_cache_breakpoint" in raw:
            raw = {key: value for key, value in raw.items() if key != "prompt_cache_breakpoint"}
        if raw.get("type") == "compaction":
            raw = {"type": "compaction", "encrypted_content": raw["encrypted_content"]}
        content = digest(role.encode(), extra.encode(), b"first" if first else b"", encode(raw))
        return Block(
            "tools" if role == "tool" else "messages",
            role,
            content,
            self._tokens(raw, content, first=first),
            path,
            marker,
            thinking=raw.get("type") == "reasoning",
            ending=ending.eligible,
            writes=ending.last,
            text=text_of(raw) if self._keep_text else "",
            opens=first,
        )

    def _tokens(self, raw: Json, content: bytes, *, first: bool) -> int:
        """Reasoning has the tokens that it was billed with; its summary is not read by the model."""
        settings = self._settings
        overhead = (settings.message_overhead if first else 0) + settings.block_overhead
        if raw.get("type") == "reasoning":
            return unseal(raw, self._account, self._model.id, settings.seed).tokens + settings.block_overhead
        if raw.get("type") == "compaction":
            return uncompact(raw, self._account, settings.seed).tokens + overhead
        tokens = scaled(self._simulator.counter.count(content, lambda: text_of(raw)), self._factor)
        return tokens + overhead + (self._shown(raw) if raw.get("type") in MEDIA else 0)

    def _shown(self, raw: Json) -> int:
        encoded = data_of(raw)
        picture = self._simulator.pictures.of(encoded) if encoded is not None else None
        rule = self._model.pictures
        return rule.tokens(picture) if picture is not None and rule is not None else self._settings.image_tokens

    def _marker(self, raw: Json, role: str, path: str) -> Marker | None:
        breakpoint_ = raw.get("prompt_cache_breakpoint")
        if breakpoint_ is None:
            return None
        if not str(raw.get("type")).startswith("input_"):
            raise invalid(f"Unknown parameter: '{path}.prompt_cache_breakpoint'.", code="unknown_parameter")
        if not isinstance(breakpoint_, dict) or breakpoint_.get("mode") != "explicit":
            raise invalid(f"Invalid value: '{path}.prompt_cache_breakpoint.mode' must be 'explicit'.")
        ttl = breakpoint_.get("ttl", self._ttl)
        if ttl not in LIVES:
            raise invalid(f"Invalid value: '{path}.prompt_cache_breakpoint.ttl' must be '30m' or '12h'.")
        return Marker(LIVES[ttl])


def role_of(item: Json) -> str:
    """Whose an item is, in the words of messages; what a tool gave is `result`, as `tool` is its definition."""
    match kind_of(item):
        case "message":
            return str(item["role"])
        case "function_call_output":
            return "result"
        case _:
            return "assistant"


def endings(items: list[Json]) -> list[bool]:
    """Items at whose end implicit caching may match: the initial instructions, user messages, tool groups."""
    roles = [role_of(item) for item in items]
    eligible = []
    opening = True
    for role, following in zip(roles, [*roles[1:], ""], strict=True):
        ends = role == "user" or (role == "result" and following != "result")
        ends = ends or (opening and role in INSTRUCTIONS and following not in INSTRUCTIONS)
        opening = opening and role in INSTRUCTIONS
        eligible.append(ends)
    return eligible


def text_of(raw: Json) -> str:
    """What a block's tokens are counted on: its text, or its JSON where it has none."""
    match raw.get("type"):
        case "input_text" | "output_text":
            return str(raw.get("text", ""))
        case "input_image" | "input_file":
            return ""
        case "function_call":
            return f"{raw.get('name')}{raw.get('arguments')}"
        case "reasoning":
            return str(raw.get("encrypted_content"))
        case _:
            return encode(raw).decode()
