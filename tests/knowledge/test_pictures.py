"""Pictures as they are uploaded, read by real children: what a model is shown is upright, small and only pixels."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from pathlib import Path
from time import monotonic

import pytest
from PIL import Image, ImageCms, PngImagePlugin

from lamella.knowledge.extraction import ExtractionLimits, Picture

from .conftest import Extract

pytestmark = pytest.mark.anyio

FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
OTHERS = {"BMP": "image/bmp", "TIFF": "image/tiff", "AVIF": "image/avif", "ICO": "image/x-icon"}
ORIENTATION, ARTIST = 0x0112, 0x013B


def halves(width: int = 64, height: int = 32, mode: str = "RGB") -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", (width, height), "red")
    image.paste("blue", (width // 2, 0, width, height))
    return image.convert(mode)


def written(image: Image.Image, form: str, **options: object) -> bytes:
    target = BytesIO()
    image.save(target, form, **options)
    return target.getvalue()


async def picture_of(extract: Extract, data: bytes, limits: ExtractionLimits | None = None) -> Picture:
    extraction = await extract(data, "letter.txt", limits)
    assert (extraction.status, extraction.text, extraction.tokens) == ("ready", "", 0)
    assert extraction.picture is not None
    shown = shown_of(extraction.picture)
    assert shown.size == (extraction.picture.width, extraction.picture.height)
    assert FORMATS[str(shown.format)] == extraction.picture.media_type
    return extraction.picture


def shown_of(picture: Picture) -> Image.Image:
    image = Image.open(BytesIO(picture.data))
    image.load()
    return image


def colour(image: Image.Image, x: int, y: int) -> str:
    red, green, blue = image.convert("RGB").getpixel((x, y))  # type: ignore[misc]
    return max(zip((red, green, blue), ("red", "green", "blue"), strict=True))[1]


@pytest.mark.parametrize(("form", "media_type"), [*FORMATS.items(), *OTHERS.items()])
async def test_a_picture_is_kept_in_a_form_that_providers_take(extract: Extract, form: str, media_type: str) -> None:
    options = {"sizes": [(64, 32)]} if form == "ICO" else {}
    data = written(halves(), form, **options)
    assert (await extract(data, "a.pdf")).media_type == media_type
    picture = await picture_of(extract, data)
    kept = media_type if media_type in ("image/jpeg", "image/webp") else "image/png"
    assert (picture.media_type, picture.width, picture.height) == (kept, 64, 32)
    assert (colour(shown_of(picture), 5, 5), colour(shown_of(picture), 60, 5)) == ("red", "blue")


@pytest.mark.parametrize("form", ["PNG", "GIF", "WEBP"])
async def test_of_an_animation_the_first_frame_is_kept(extract: Extract, form: str) -> None:
    frames = [Image.new("RGB", (40, 20), name) for name in ("blue", "red", "red")]
    data = written(frames[0], form, save_all=True, append_images=frames[1:], duration=50)
    shown = shown_of(await picture_of(extract, data))
    assert getattr(shown, "n_frames", 1) == 1
    assert colour(shown, 3, 3) == "blue"


@pytest.mark.parametrize(("turn", "size", "left"), [(3, (64, 32), "blue"), (6, (32, 64), "red"), (8, (32, 64), "blue")])
async def test_a_photo_stands_upright(extract: Extract, turn: int, size: tuple[int, int], left: str) -> None:
    """Orientation 3 is upside down; 6 and 8 lie on a side, so that left becomes top or bottom."""
    exif = Image.Exif()
    exif[ORIENTATION] = turn
    picture = await picture_of(extract, written(halves(), "JPEG", exif=exif))
    assert (picture.width, picture.height) == size
    assert colour(shown_of(picture), 3, 3) == left


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "TIFF"])
async def test_what_is_not_pixels_is_dropped(extract: Extract, form: str) -> None:
    exif = Image.Exif()
    exif[ARTIST] = "Secret Person"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    note = PngImagePlugin.PngInfo()
    note.add_text("Comment", "Secret Person")
    options = {"pnginfo": note} if form == "PNG" else {"comment": b"Secret Person"} if form == "JPEG" else {}
    data = written(halves(), form, exif=exif, icc_profile=profile, **options)
    assert b"Secret" in data
    picture = await picture_of(extract, data)
    assert b"Secret" not in picture.data
    assert b"sRGB" not in picture.data
    assert not shown_of(picture).getexif()


@pytest.mark.parametrize(
    ("size", "kept"),
    [((2000, 10), (2000, 10)), ((2001, 1000), (2000, 1000)), ((500, 4000), (250, 2000)), ((30_000, 1), (2000, 1))],
)
@pytest.mark.parametrize("form", ["PNG", "JPEG"])
async def test_a_large_picture_is_scaled_down(
    extract: Extract, form: str, size: tuple[int, int], kept: tuple[int, int]
) -> None:
    picture = await picture_of(extract, written(halves(*size), form))
    assert abs(picture.width - kept[0]) <= 1
    assert abs(picture.height - kept[1]) <= 1
    assert max(picture.width, picture.height) <= 2000


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
async def test_a_picture_of_noise_is_kept_within_its_bytes(extract: Extract, mode: str) -> None:
    noise = Image.merge("RGB", [Image.effect_noise((1600, 1200), 90) for _ in range(3)]).convert(mode)
    noise.putpixel((0, 0), (0, 0, 0, 0)[: len(mode)])
    picture = await picture_of(extract, written(noise, "PNG", compress_level=1))
    assert len(picture.data) <= ExtractionLimits().max_picture_bytes
    assert (picture.media_type, picture.width) == ("image/jpeg", 1600)
    small = await picture_of(extract, written(noise, "PNG", compress_level=1), ExtractionLimits(max_picture_bytes=9000))
    assert len(small.data) <= 9000
    assert small.width < 400


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "I;16", "CMYK"])
async def test_every_kind_of_pixel_is_kept(extract: Extract, mode: str) -> None:
    if mode == "I;16":
        image = Image.new("I;16", (64, 32), 300)
        image.paste(60_000, (32, 0, 64, 32))
    elif mode == "1":
        image = Image.new("1", (64, 32), 0)
        image.paste(1, (32, 0, 64, 32))
    else:
        image = halves(mode=mode)
    picture = await picture_of(extract, written(image, "TIFF" if mode == "CMYK" else "PNG"))
    shown = shown_of(picture)
    assert (picture.width, picture.height) == (64, 32)
    assert shown.mode == {"1": "L", "L": "L", "I;16": "L", "LA": "RGBA", "RGBA": "RGBA"}.get(mode, "RGB")
    assert shown.convert("L").getpixel((5, 5)) != shown.convert("L").getpixel((60, 5))


async def test_what_is_clear_stays_clear(extract: Extract) -> None:
    image = halves(mode="RGBA")
    image.putalpha(0)
    assert shown_of(await picture_of(extract, written(image, "PNG"))).getpixel((1, 1))[3] == 0  # type: ignore[index]


async def test_the_same_file_gives_the_same_bytes(extract: Extract) -> None:
    data = written(halves(300, 200), "JPEG")
    assert await picture_of(extract, data) == await picture_of(extract, data)


def png_of(width: int, height: int, pixels: bytes) -> bytes:
    """A PNG that says it is so large, whatever its pixels are."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


JPEG = written(halves(200, 200), "JPEG")
BAD = {
    "only a signature": (b"\x89PNG\r\n\x1a\n" + bytes(50), "corrupt"),
    "a broken off photo": (JPEG[: len(JPEG) // 2], "corrupt"),
    "a jpeg without pixels": (JPEG[:100], "corrupt"),
    "too few pixels": (png_of(500, 500, b"short"), "corrupt"),
    "no pixels at all": (png_of(0, 0, b""), "corrupt"),
    "an empty gif": (b"GIF89a" + bytes(20), "corrupt"),
    "an empty webp": (b"RIFF\x10\0\0\0WEBPVP8 " + bytes(20), "corrupt"),
    "a bomb by its header": (png_of(200_000, 200_000, b""), "too_large"),
    "a bomb of zeros": (png_of(20_000, 20_000, bytes(20_000_000)), "too_large"),
    "a gif as wide as it gets": (b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\0;", "too_large"),
}


@pytest.mark.parametrize(("data", "code"), BAD.values(), ids=BAD)
async def test_a_bad_picture_fails_with_a_reason(extract: Extract, data: bytes, code: str) -> None:
    started = monotonic()
    extraction = await extract(data, "a.png")
    assert (extraction.status, extraction.code) == ("failed", code)
    assert extraction.media_type.startswith("image/")
    assert extraction.picture is None
    assert str(extraction.reason).endswith(".")
    assert monotonic() - started < 10


async def test_a_picture_as_large_as_is_allowed_is_read(extract: Extract) -> None:
    limits = ExtractionLimits()
    side = int(limits.max_pixels**0.5)
    picture = await picture_of(extract, png_of(side, side, bytes((3 * side + 1) * side)))
    assert (picture.width, picture.height) == (2000, 2000)


async def test_a_picture_of_another_kind_says_what_to_do(extract: Extract) -> None:
    extraction = await extract(b"\0\0\0\x18ftypheic" + bytes(40), "IMG_1.HEIC")
    assert (extraction.code, extraction.media_type) == ("unsupported_type", "image/heic")
    assert "save it as PNG or JPEG" in str(extraction.reason)


def test_pillow_is_loaded_by_nothing_that_serves() -> None:
    """Its decoders are native code: only the reading child may load them."""
    importers = [
        path.name
        for path in (Path(__file__).parents[2] / "src" / "lamella").rglob("*.py")
        if "PIL" in path.read_text().replace("PILE", "")
    ]
    assert importers == ["picture.py"]
