"""Pictures in a Chat Completions request: which are refused, in words close to the vendor's."""

from __future__ import annotations

import re
from typing import Any

from lamella_simulator.blocks import Json
from lamella_simulator.errors import invalid
from lamella_simulator.models import Model
from lamella_simulator.openai.request import ChatRequest
from lamella_simulator.pictures import Pictures

DATA = re.compile(r"data:([^;,]*);base64,")
KINDS = ("png", "jpeg", "gif", "webp")


def data_of(raw: Json) -> tuple[str, str] | None:
    """Media type and base64 text of a picture that travels in its address; None for one that lies elsewhere."""
    image: Any = raw.get("image_url")
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str) or (found := DATA.match(url)) is None:
        return None
    return found[1], url[found.end() :]


def check_images(request: ChatRequest, model: Model, pictures: Pictures, most: int) -> None:
    """Raises 400 for the first picture that the API would refuse."""
    count = 0
    for index, message in enumerate(request.messages):
        for position, part in enumerate(message.content if isinstance(message.content, list) else ()):
            if part.get("type") != "image_url":
                continue
            count += 1
            check_image(f"messages[{index}].content[{position}]", part, model, pictures)
    if count > most:
        raise invalid(f"Invalid 'messages': too many images in request. Maximum is {most}, got {count}.")


def check_image(path: str, part: Json, model: Model, pictures: Pictures) -> None:
    if model.pictures is None:
        raise invalid(f"Invalid content type at '{path}'. image_url is only supported by certain models.")
    image: Any = part.get("image_url")
    if not isinstance(image, dict) or not isinstance(image.get("url"), str):
        raise invalid(f"Missing required parameter: '{path}.image_url.url'.", code="missing_required_parameter")
    encoded = data_of(part)
    if encoded is None:
        if not image["url"].startswith(("https://", "http://")):
            raise invalid(
                f"Invalid '{path}.image_url.url'. Expected a valid URL or a base64-encoded data URL.",
                code="invalid_value",
            )
        return
    picture = pictures.of(encoded[1])
    if picture is None:
        raise invalid(
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
            f"{list(KINDS)}. ({path})",
            code="invalid_image_format",
        )
