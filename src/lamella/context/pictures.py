"""How a picture stands in the window: after its name, so that a question can say which one it means (SPEC O3)."""

from __future__ import annotations

from lamella.core.counting import count_tokens
from lamella.core.messages import Attachment, Image, Part, Text
from lamella.core.models import ModelFacts


def picture_parts(attachment: Attachment, image: Image, model: ModelFacts) -> tuple[Part, ...]:
    """The name and the picture, or a short text in their place for a model that sees none."""
    if model.images is None:
        return (_unseen(attachment, image, "this model can't see it"),)
    return (Text(f"[Picture “{attachment.title}”]"), image)


def listed_picture(attachment: Attachment, image: Image, model: ModelFacts) -> tuple[Part, ...]:
    """What stands for a picture of a project that does not fit the window."""
    if model.images is None:
        return picture_parts(attachment, image, model)
    return (_unseen(attachment, image, "there is no room for it in the window"),)


def _unseen(attachment: Attachment, image: Image, why: str) -> Text:
    return Text(f"[A picture, “{attachment.title}”, {image.width} × {image.height} pixels: {why}.]")


def parts_tokens(parts: tuple[Part, ...], model: ModelFacts) -> int:
    """The local tokens of such parts: a picture's are the provider's own count, divided by what it counts for one."""
    return sum(_part_tokens(part, model) for part in parts)


def _part_tokens(part: Part, model: ModelFacts) -> int:
    match part:
        case Image(width=width, height=height) if model.images is not None:
            return int(model.images.tokens(width, height) / model.token_factor) + 1
        case Text(text):
            return count_tokens(text)
        case _:
            return 0


def content_tokens(attachment: Attachment, model: ModelFacts) -> int:
    """The local tokens that a document or a picture takes in the window when it is not only listed."""
    if attachment.image is None:
        return attachment.tokens
    return parts_tokens(picture_parts(attachment, attachment.image, model), model)


def has_content(attachment: Attachment, model: ModelFacts) -> bool:
    """Whether there is something to include: a text, or a picture that the model sees."""
    return attachment.text is not None or (attachment.image is not None and model.images is not None)
