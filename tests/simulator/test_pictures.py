"""Pictures on both wires: what is billed for a size, and what is refused (the vendors' vision guides)."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from lamella_simulator.models import CLAUDE_PICTURES, GPT_PICTURES, OLD_CLAUDE_PICTURES
from lamella_simulator.pictures import Picture, PictureRule, read
from lamella_simulator.testing import EXACT, InProcess

from .texts import Json, assistant, tokens, user

pytestmark = pytest.mark.anyio
OLD_GPT = PictureRule(patch=32, edge=10_000, most=1_536, whole=True)


def written(width: int = 64, height: int = 32, form: str = "PNG", **options: Any) -> bytes:
    target = BytesIO()
    Image.new("RGB", (width, height), "red").save(target, form, **options)
    return target.getvalue()


def image(data: bytes | None = None, kind: str = "image/png", encoded: str | None = None) -> Json:
    """An image block of the Messages API."""
    text = b64encode(written() if data is None else data).decode() if encoded is None else encoded
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": text}}


def part(data: bytes | None = None, url: str | None = None) -> Json:
    """A content part of Chat Completions."""
    own = f"data:image/png;base64,{b64encode(written() if data is None else data).decode()}"
    return {"type": "image_url", "image_url": {"url": own if url is None else url}}


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("JPEG", {"exif": b"Exif\0\0" + bytes(3000), "comment": b"\xff\xc0 no frame"}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0" + bytes(20)}),
    ],
)
@pytest.mark.parametrize("size", [(1, 1), (300, 257), (257, 4000)])
def test_a_size_is_read_from_the_first_bytes(form: str, options: Json, size: tuple[int, int]) -> None:
    assert read(written(*size, form, **options)) == Picture(f"image/{form.lower()}", *size)


@pytest.mark.parametrize(
    "data",
    [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + bytes(30), b"\xff\xd8\xff", b"\xff\xd8\xff\xe0\0\0" * 9, b"<svg/>", b"BM"],
)
def test_what_is_no_picture_has_no_size(data: bytes) -> None:
    assert read(data) is None


@pytest.mark.parametrize(
    ("rule", "width", "height", "expected"),
    [
        (CLAUDE_PICTURES, 1, 1, 1),
        (CLAUDE_PICTURES, 28, 28, 1),
        (CLAUDE_PICTURES, 29, 28, 2),
        (CLAUDE_PICTURES, 1_024, 1_024, 1_369),
        (CLAUDE_PICTURES, 1_920, 1_080, 2_691),
        (CLAUDE_PICTURES, 2_000, 2_000, 4_761),
        (OLD_CLAUDE_PICTURES, 1_024, 1_024, 1_369),
        (OLD_CLAUDE_PICTURES, 1_920, 1_080, 1_560),
        (OLD_CLAUDE_PICTURES, 3_840, 2_160, 1_560),
        (GPT_PICTURES, 256, 256, 77),
        (GPT_PICTURES, 1_024, 1_024, 1_229),
        (GPT_PICTURES, 1_920, 1_080, 2_448),
        (OLD_GPT, 1_024, 1_024, 1_024),
        (OLD_GPT, 1_800, 2_400, 1_452),
    ],
)
def test_documented_sizes_cost_what_is_published(rule: PictureRule, width: int, height: int, expected: int) -> None:
    assert rule.tokens(Picture("image/png", width, height)) == expected


@pytest.mark.parametrize("rule", [CLAUDE_PICTURES, OLD_CLAUDE_PICTURES, GPT_PICTURES, OLD_GPT])
@pytest.mark.parametrize(("width", "height"), [(8_000, 8_000), (20_000, 3), (3, 20_000), (7_999, 31)])
def test_no_picture_costs_more_than_the_most(rule: PictureRule, width: int, height: int) -> None:
    assert 0 < rule.tokens(Picture("image/png", width, height)) <= rule.most * rule.factor


async def input_of(provider: InProcess, model: str, *blocks: Json | str) -> int:
    body = {"model": model, "messages": [user(*blocks)], "max_tokens": None}
    answer = await provider.messages(body, path="/v1/messages/count_tokens")
    assert answer.status == 200, answer.text
    return int(answer.json["input_tokens"])


@pytest.mark.parametrize(
    ("model", "expected"), [("claude-opus-5-5", 2_691), ("claude-haiku-4-5", 1_560), ("claude-of-tomorrow", 2_691)]
)
async def test_claude_bills_a_picture_by_its_size(provider: InProcess, model: str, expected: int) -> None:
    picture = image(written(1_920, 1_080, "JPEG"), "image/jpeg")
    plain = await input_of(provider, model, tokens(5))
    assert await input_of(provider, model, picture, tokens(5)) - plain == expected
    assert await input_of(provider, model, picture, picture, tokens(5)) - plain == 2 * expected


async def test_a_picture_in_a_result_is_billed_too(provider: InProcess) -> None:
    call: Json = {"type": "tool_use", "id": "c1", "name": "t", "input": {}}

    async def total(*content: Json) -> int:
        result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a"}, *content]}
        body = {"messages": [user("a"), assistant(call), user(result)], "max_tokens": None}
        answer = await provider.messages(body, path="/v1/messages/count_tokens")
        return int(answer.json["input_tokens"])

    assert await total(image(written(280, 56))) - await total() == 20


async def test_gpt_bills_a_picture_by_its_size(provider: InProcess) -> None:
    async def total(*parts: Json) -> int:
        content = [{"type": "text", "text": "a"}, *parts]
        answer = await provider.chat({"messages": [{"role": "user", "content": content}]})
        assert answer.status == 200, answer.text
        return int(answer.usage["prompt_tokens"])

    assert await total(part(written(1_920, 1_080))) - await total() == 2_448
    assert await total(part(url="https://example.org/a.png")) - await total() == EXACT.image_tokens


REFUSED = {
    "no base64": (image(encoded="not base64!"), "Could not process image"),
    "nothing": (image(encoded=""), "Could not process image"),
    "no picture": (image(b"just words"), "Could not process image"),
    "another kind": (image(written(form="JPEG")), "specified using the image/png media type"),
    "a kind that is not taken": (image(written(form="BMP"), "image/bmp"), "media_type: Input should be one of"),
    "too many bytes": (image(encoded="A" * 5_300_000), "image exceeds 5 MB maximum: 5300000 bytes"),
    "too many pixels": (image(written(8_001, 10)), "max allowed size for 8000 pixels"),
    "no source type": ({"type": "image", "source": {"type": "disk"}}, "source.type: Input should be"),
    "no data": ({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}, "data: Field required"),
}


@pytest.mark.parametrize(("block", "words"), REFUSED.values(), ids=REFUSED)
async def test_claude_refuses(provider: InProcess, block: Json, words: str) -> None:
    answer = await provider.messages({"messages": [user("a", block)]})
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
    assert "messages.0.content.1" in answer.error
    assert words in answer.error


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (part(b"just words"), "unsupported image"),
        (part(url="data:image/png;base64,!!"), "unsupported image"),
        (part(url="disk://a.png"), "Expected a valid URL"),
        ({"type": "image_url"}, "image_url.url"),
    ],
)
async def test_gpt_refuses(provider: InProcess, bad: Json, words: str) -> None:
    answer = await provider.chat({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, bad]}]})
    assert answer.status == 400
    assert words in answer.error
    assert "messages[0].content[1]" in answer.error


async def test_at_most_a_hundred_pictures(provider: InProcess) -> None:
    assert (await provider.messages({"messages": [user(*[image()] * 100)]})).status == 200
    refused = await provider.messages({"messages": [user(*[image()] * 100), assistant("ok"), user(image())]})
    assert (refused.status, "101 > 100 maximum" in refused.error) == (400, True)
    assert (await provider.chat({"messages": [{"role": "user", "content": [part()] * 100}]})).status == 200
    refused = await provider.chat({"messages": [{"role": "user", "content": [part()] * 101}]})
    assert (refused.status, "Maximum is 100, got 101" in refused.error) == (400, True)


async def test_many_pictures_have_to_be_smaller(provider: InProcess) -> None:
    large = image(written(2_001, 20))
    assert (await provider.messages({"messages": [user(*[large] * 20)]})).status == 200
    refused = await provider.messages({"messages": [user(*[large] * 21)]})
    assert (refused.status, "many-image requests: 2000 pixels" in refused.error) == (400, True)


async def test_a_model_without_vision_refuses_pictures() -> None:
    provider = InProcess(replace(EXACT))
    refused = await provider.messages({"model": "lamella-demo", "messages": [user("a", image())]})
    assert (refused.status, "not supported by lamella-demo" in refused.error) == (400, True)
    body = {"model": "lamella-demo", "messages": [{"role": "user", "content": [part()]}]}
    assert (await provider.chat(body)).status == 400
