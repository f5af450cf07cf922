"""Pictures in a Messages request: which are refused, and what the others are billed (the vendor's vision guide)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lamella_simulator.anthropic.request import WireBlock
from lamella_simulator.blocks import Json
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model
from lamella_simulator.pictures import Picture, Pictures
from lamella_simulator.settings import Settings

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
    """The base64 text of an image block; None where the picture lies elsewhere."""
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


def billed(raw: Json, model: Model, pictures: Pictures, settings: Settings) -> int:
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
