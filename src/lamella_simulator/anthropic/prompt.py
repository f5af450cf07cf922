"""The prompt of a Messages request as it is hashed and billed: pictures, cache markers, then canonical blocks.

Pictures follow the vendor's vision guide. A marker is explicit, on a block, or the automatic one of the request; both
obey the same rules. A block is sealed with its content hashed and its tokens counted, without its marker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lamella_simulator.anthropic.request import MessagesRequest, WireBlock
from lamella_simulator.anthropic.thinking import read_seal
from lamella_simulator.blocks import Block, Json, Marker, Prefix, Salts, build_prefix, encode
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model
from lamella_simulator.pictures import Picture, Pictures
from lamella_simulator.settings import Settings
from lamella_simulator.tokens import TokenCounter, scaled

KINDS = ("image/jpeg", "image/png", "image/gif", "image/webp")
MOST_BYTES = 5 * 1024 * 1024
"""Of the base64 text of one picture."""
MOST_PIXELS = 8_000
MANY = 20
MOST_PIXELS_OF_MANY = 2_000


def images_in(raw: Json, path: str) -> Iterator[tuple[str, Json]]:
    """The image blocks of a block, those nested in a tool result included, each with its path."""
    if raw.get("type") == "image":
        yield path, raw
    elif raw.get("type") == "tool_result" and isinstance(raw.get("content"), list):
        for index, part in enumerate(raw["content"]):
            if isinstance(part, dict):
                yield from images_in(part, f"{path}.content.{index}")


def encoded(raw: Json) -> str | None:
    """The base64 text of an image block. None if the block has a URL or a file id."""
    source: Any = raw.get("source")
    data = source.get("data") if isinstance(source, dict) and source.get("type") == "base64" else None
    return data if isinstance(data, str) else None


def check_images(blocks: Sequence[WireBlock], model: Model, pictures: Pictures, settings: Settings) -> None:
    """Raises 400 for the first picture that the API would refuse."""
    found = [image for block in blocks if block.level == "messages" for image in images_in(block.raw, block.path)]
    if found and model.pictures is None:
        raise invalid(f"{found[0][0]}: image input is not supported by {model.id}")
    if len(found) > settings.most_images:
        raise invalid(f"messages: too many images: {len(found)} > {settings.most_images} maximum")
    for path, raw in found:
        check_image(path, raw, pictures, many=len(found) > MANY)


def check_image(path: str, raw: Json, pictures: Pictures, *, many: bool) -> None:
    source: Any = raw.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if kind not in ("base64", "url", "file"):
        raise invalid(f"{path}.image.source.type: Input should be 'base64', 'url' or 'file'")
    if kind != "base64":
        return
    if source.get("media_type") not in KINDS:
        raise invalid(f"{path}.image.source.base64.media_type: Input should be one of {', '.join(KINDS)}")
    data = encoded(raw)
    if data is None:
        raise invalid(f"{path}.image.source.base64.data: Field required")
    if len(data) > MOST_BYTES:
        raise invalid(f"{path}.image.source.base64: image exceeds 5 MB maximum: {len(data)} bytes > {MOST_BYTES} bytes")
    picture = pictures.of(data)
    if picture is None:
        raise invalid(f"{path}.image.source.base64.data: Could not process image")
    check_shown(path, source["media_type"], picture, many=many)


def check_shown(path: str, media_type: str, picture: Picture, *, many: bool) -> None:
    """What the bytes show: the kind that was said, and no more pixels than are taken."""
    if picture.kind != media_type:
        raise invalid(
            f"{path}.image.source.base64.data: The image was specified using the {media_type} media type, but the "
            f"image appears to be a {picture.kind} image"
        )
    most = MOST_PIXELS_OF_MANY if many else MOST_PIXELS
    if max(picture.width, picture.height) > most:
        which = f"many-image requests: {most}" if many else f"{most}"
        raise invalid(
            f"{path}.image.source.base64.data: At least one of the image dimensions exceed max allowed size for "
            f"{which} pixels"
        )


def picture_tokens(raw: Json, model: Model, pictures: Pictures, settings: Settings) -> int:
    """Tokens of the pictures in a block; `image_tokens` for one that lies elsewhere."""
    total = 0
    for _, image in images_in(raw, ""):
        data = encoded(image)
        picture = pictures.of(data) if data is not None else None
        if picture is None or model.pictures is None:
            total += settings.image_tokens
        else:
            total += model.pictures.tokens(picture)
    return total


LIVES = {"5m": 300, "1h": 3_600}
FORCED_TOOL_PROMPT = 120
"""Extra tokens of the hidden tool prompt if a tool must be called."""


def marker_of(raw: Json) -> Marker | None:
    """The marker of a block, or of a part nested in a tool result, which marks the same place."""
    control = raw.get("cache_control")
    if control is None and raw.get("type") == "tool_result" and isinstance(raw.get("content"), list):
        nested = [part.get("cache_control") for part in raw["content"] if isinstance(part, dict)]
        control = next((item for item in reversed(nested) if item is not None), None)
    return Marker(LIVES[control.get("ttl", "5m")]) if isinstance(control, dict) else None


def text_of(raw: Json) -> str:
    """The text that a block's tokens are counted on: its own, or its JSON if it has none."""
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


class MessageSealer:
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
        if block.kind == "thinking" and (seal := read_seal(block.raw, self._settings.seed)) is not None:
            return seal.tokens
        count = self._counter.count(block.content, lambda: text_of(block.bare))
        shown = picture_tokens(block.bare, self._model, self._pictures, self._settings)
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
    """What else the cache key depends on; a default that is spelt out equals an omitted one."""
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


def build(blocks: Sequence[WireBlock], markers: dict[str, Marker], sealer: MessageSealer, salts: Salts) -> Prefix:
    """The prefix that is hashed and billed; `markers` are by path, the automatic one included."""
    return build_prefix(salts, [sealer.seal(block, markers.get(block.path)) for block in blocks])


def forces(request: MessagesRequest) -> bool:
    """Whether a tool must be called, which lengthens the hidden prompt about tools."""
    return (request.tool_choice or {}).get("type") in ("any", "tool")


def place_markers(blocks: Sequence[WireBlock], automatic: Any, limit: int) -> dict[str, Marker]:
    """Markers by path. Raises 400 for a fifth marker, a wrong order of lives, or a block that cannot carry one."""
    markers: dict[str, Marker] = {}
    for block in blocks:
        check_controls(block)
        if (marker := marker_of(block.raw)) is not None:
            markers[block.path] = marker
    if len(markers) > limit:
        raise invalid(f"A maximum of {limit} blocks with cache_control may be provided. Found {len(markers)}.")
    if automatic is not None:
        add_automatic(markers, blocks, automatic, limit)
    check_order([(block.path, markers[block.path]) for block in blocks if block.path in markers])
    return markers


def add_automatic(markers: dict[str, Marker], blocks: Sequence[WireBlock], automatic: Any, limit: int) -> None:
    """The top-level marker goes to the last block that can carry one, and takes a slot."""
    check_control(automatic, "cache_control")
    wanted = Marker(LIVES[automatic.get("ttl", "5m")])
    target = next((block for block in reversed(blocks) if not block.thinking), None)
    if target is None:
        return
    explicit = markers.get(target.path)
    if explicit == wanted:
        return
    if explicit is not None:
        raise invalid(
            f"{target.path}.cache_control: the top-level cache_control has another ttl than the marker on the last "
            "cacheable block"
        )
    if len(markers) >= limit:
        raise invalid(
            f"A maximum of {limit} blocks with cache_control may be provided. Found {len(markers)} and a top-level "
            "cache_control, which takes a slot."
        )
    markers[target.path] = wanted


def check_controls(block: WireBlock) -> None:
    for name, parts in (("citations", block.raw.get("citations")), ("source.content", source_parts(block.raw))):
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict) and "cache_control" in part:
                raise invalid(
                    f"{block.path}.{name}.{index}.cache_control: Extra inputs are not permitted; mark the block itself"
                )
    control = block.raw.get("cache_control")
    if control is None:
        return
    check_control(control, f"{block.path}.cache_control")
    if block.thinking:
        raise invalid(f"{block.path}.{block.kind}.cache_control: Extra inputs are not permitted")
    if block.kind == "text" and not block.raw.get("text"):
        raise invalid(f"{block.path}.text: cache_control cannot be set for empty text blocks")


def source_parts(raw: Json) -> Any:
    source = raw.get("source")
    return source.get("content") if isinstance(source, dict) else None


def check_control(control: Any, path: str) -> None:
    if not isinstance(control, dict) or control.get("type") != "ephemeral":
        raise invalid(f"{path}.type: Input should be 'ephemeral'")
    if str(control.get("ttl", "5m")) not in LIVES:
        raise invalid(f"{path}.ephemeral.ttl: Input should be '5m' or '1h'")
    if unknown := set(control) - {"type", "ttl"}:
        raise invalid(f"{path}.ephemeral.{min(unknown)}: Extra inputs are not permitted")


def check_order(ordered: Sequence[tuple[str, Marker]]) -> None:
    """Longer lives first, in the order tools, system, messages."""
    short_at = ""
    for path, marker in ordered:
        if marker.seconds == LIVES["5m"]:
            short_at = path
        elif short_at:
            raise invalid(
                f"{path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
                f"cache_control block ({short_at}). Blocks are processed in the order `tools`, `system`, `messages`."
            )
