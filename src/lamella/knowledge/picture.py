"""Uploaded pictures as models are shown them: upright, small enough, one frame, and nothing but pixels.

Runs in the reading child only; Pillow's decoders are native code.
"""

from __future__ import annotations

import importlib
import struct
import warnings
import zlib
from io import BytesIO

from PIL import Image, ImageOps

from lamella.knowledge.extraction_job import ExtractionLimits, Picture, UnreadableFile, damaged

_PLUGINS = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
    "image/tiff": "TIFF",
    "image/avif": "AVIF",
    "image/x-icon": "ICO",
}
"""The formats that are opened, by what the file is; Pillow knows many more, and is not asked to guess."""

_MODULES = {"WEBP": "WebP", "TIFF": "Tiff", "AVIF": "Avif", "ICO": "Ico"}
"""Readers that Pillow does not load by itself."""

_QUALITIES = (90, 80, 65)
_STEP = 0.8
"""How much smaller a picture becomes when no quality makes it small enough."""

_BROKEN = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError),
    *(struct.error, zlib.error),
)
"""What Pillow raises for files that break their own format."""


def read(data: bytes, media_type: str, limits: ExtractionLimits) -> Picture:
    """The picture in a file of this media type. Raises `Unreadable` with `too_large` or `corrupt`."""
    warnings.simplefilter("ignore")
    Image.MAX_IMAGE_PIXELS = limits.max_pixels
    try:
        return _stored(_upright(_opened(data, media_type, limits), limits), media_type, limits)
    except Image.DecompressionBombError as error:
        raise _too_many_pixels(limits) from error
    except UnreadableFile:
        raise
    except _BROKEN as error:
        raise damaged() from error


def _opened(data: bytes, media_type: str, limits: ExtractionLimits) -> Image.Image:
    """The first frame, not decoded yet: its size is checked before a single pixel is."""
    name = _PLUGINS[media_type]
    if name in _MODULES:
        importlib.import_module(f"PIL.{_MODULES[name]}ImagePlugin")
    image = Image.open(BytesIO(data), formats=(name,))
    if image.width * image.height > limits.max_pixels:
        raise _too_many_pixels(limits)
    # A JPEG is decoded at half, a quarter or an eighth of its size if that is enough.
    image.draft(None, (limits.max_picture_edge, limits.max_picture_edge))
    return image


def _upright(image: Image.Image, limits: ExtractionLimits) -> Image.Image:
    """Its pixels as RGB, RGBA or grey, turned as its EXIF says, its longest edge within the limit."""
    image.load()
    turned = ImageOps.exif_transpose(image)
    plain = turned.convert(_mode(turned)) if turned.mode[:1] not in "IF" else _grey(turned)
    plain.info = {}
    edge = limits.max_picture_edge
    return plain if max(plain.size) <= edge else _scaled(plain, edge / max(plain.size))


def _mode(image: Image.Image) -> str:
    if image.has_transparency_data:
        return "RGBA"
    return "L" if image.mode in ("1", "L") else "RGB"


def _grey(image: Image.Image) -> Image.Image:
    """16 bits and more of grey as 8: from the darkest to the brightest that is in it."""
    wide = image.convert("F")
    low, high = wide.getextrema()
    assert isinstance(low, float)
    assert isinstance(high, float)
    scale = 255 / max(high - low, 1.0)
    return wide.point(lambda value: value * scale + -low * scale).convert("L")


def _scaled(image: Image.Image, factor: float) -> Image.Image:
    size = (max(1, round(image.width * factor)), max(1, round(image.height * factor)))
    return image.resize(size, Image.Resampling.LANCZOS)


def _stored(image: Image.Image, media_type: str, limits: ExtractionLimits) -> Picture:
    """The picture in a format that every provider takes, within the limit of bytes."""
    stored = "image/jpeg" if media_type == "image/jpeg" else "image/webp" if media_type == "image/webp" else "image/png"
    data = _written(image, stored, _QUALITIES[0])
    while len(data) > limits.max_picture_bytes:
        stored = "image/jpeg"
        image = _on_white(image)
        for quality in _QUALITIES:
            data = _written(image, stored, quality)
            if len(data) <= limits.max_picture_bytes:
                return Picture(stored, image.width, image.height, data)
        if max(image.size) == 1:
            raise UnreadableFile(
                "too_large", "The picture can't be made small enough. Save it smaller and upload that."
            )
        image = _scaled(image, _STEP)
    return Picture(stored, image.width, image.height, data)


def _on_white(image: Image.Image) -> Image.Image:
    """Without transparency: what is clear becomes white, as on paper."""
    if image.mode != "RGBA":
        return image
    paper = Image.new("RGB", image.size, "white")
    paper.paste(image, mask=image.getchannel("A"))
    return paper


def _written(image: Image.Image, media_type: str, quality: int) -> bytes:
    target = BytesIO()
    match media_type:
        case "image/png":
            image.save(target, "PNG", optimize=max(image.size) <= 1024)
        case "image/webp":
            importlib.import_module("PIL.WebPImagePlugin")
            image.save(target, "WEBP", quality=quality)
        case _:
            image.save(target, "JPEG", quality=quality, optimize=True)
    return target.getvalue()


def _too_many_pixels(limits: ExtractionLimits) -> UnreadableFile:
    millions = limits.max_pixels // 1_000_000
    return UnreadableFile(
        "too_large", f"The picture has more than {millions} million pixels. Save it smaller and upload that."
    )
