"""A user's picture on every wire: its bytes in the body, a marker behind it, and what the provider bills for it."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import pytest
from PIL import Image as Pillow

from lamella.core.json import digest, encode
from lamella.core.messages import Image, Text
from lamella.core.prompt import Marker, Sampling, Segment, Ttl, Zone

from .prompts import ENCODED, PICTURE, prompt, segment
from .provider import MAKERS, TABLE, VENDORS, Json, Provider, connected, listen

pytestmark = pytest.mark.anyio
SYSTEM = segment("s", "system", Text("Be brief."), zone=Zone.FIXED)
ASKED = segment("u", "user", PICTURE, Text("What is this?"))
LIVES = {"anthropic": Ttl.FIVE_MINUTES, "openai": Ttl.THIRTY_MINUTES, "responses": Ttl.THIRTY_MINUTES}
BLOCKS: dict[str, list[Json]] = {
    "anthropic": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}},
        {"type": "text", "text": "What is this?"},
    ],
    "openai": [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}},
        {"type": "text", "text": "What is this?"},
    ],
    "responses": [
        {"type": "input_image", "image_url": f"data:image/png;base64,{ENCODED}", "detail": "auto"},
        {"type": "input_text", "text": "What is this?"},
    ],
}
BREAKPOINTS: dict[str, Json] = {
    "anthropic": {"cache_control": {"type": "ephemeral", "ttl": "5m"}},
    "openai": {"prompt_cache_breakpoint": {"mode": "explicit"}},
    "responses": {"prompt_cache_breakpoint": {"mode": "explicit"}},
}


def content_of(vendor: str, asked: Segment, marked: bool = False) -> object:
    """The content of the user message of a body; `marked` puts a marker on its last block."""
    model = connected(vendor, "http://127.0.0.1:1")
    made = prompt(model.facts.name, SYSTEM, asked)
    blocks = model.wire(made).blocks
    markers = [Marker(len(blocks) - 1, LIVES[vendor], "test")] if marked else []
    body = model.body(model.request(made, blocks, markers))
    messages = body["input" if vendor == "responses" else "messages"]
    assert isinstance(messages, list)
    assert messages[-1]["role"] == "user"
    return messages[-1]["content"]


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_picture_is_a_part_of_its_message(vendor: str) -> None:
    assert content_of(vendor, ASKED) == BLOCKS[vendor]


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_marker_goes_on_the_last_part(vendor: str) -> None:
    first, last = BLOCKS[vendor]
    assert content_of(vendor, ASKED, marked=True) == [first, {**last, **BREAKPOINTS[vendor]}]
    turned = segment("u", "user", Text("What is this?"), PICTURE)
    assert content_of(vendor, turned, marked=True) == [last, {**first, **BREAKPOINTS[vendor]}]


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_same_picture_has_the_same_bytes_and_another_has_others(vendor: str) -> None:
    model = connected(vendor, "http://127.0.0.1:1")

    def bytes_of(picture: Image) -> list[bytes]:
        made = prompt(model.facts.name, segment("u", "user", picture, Text("What is this?")))
        return [block.data for block in model.wire(made).blocks]

    assert bytes_of(PICTURE) == bytes_of(replace(PICTURE, file_id="file_2"))
    assert bytes_of(PICTURE) != bytes_of(replace(PICTURE, data=PICTURE.data + b"\0"))
    values = [block.value for block in model.wire(prompt(model.facts.name, ASKED)).blocks]
    assert bytes_of(PICTURE) == [encode(value) for value in values]


def test_the_first_picture_changes_the_key_of_messages_where_the_vendor_says_so() -> None:
    """Anthropic lists it among what invalidates the messages; OpenAI's list has no pictures (2)."""
    plain, seen = Sampling(4_000), Sampling(4_000, images=True)
    claude, gpt, same = (connected(vendor, "http://127.0.0.1:1") for vendor in VENDORS)
    assert set(claude.salts(seen)) == {"messages"}
    assert claude.salts(seen) != claude.salts(plain)
    assert claude.salts(replace(seen, tool_choice="none")) != claude.salts(replace(plain, tool_choice="none"))
    assert gpt.salts(seen) == gpt.salts(plain)
    assert same.salts(seen) == same.salts(plain)


def photo(width: int, height: int) -> Image:
    target = BytesIO()
    Pillow.new("RGB", (width, height), "red").save(target, "JPEG")
    return Image("file_1", "image/jpeg", width, height, digest(target.getvalue()), target.getvalue())


@pytest.mark.parametrize("size", [(28, 28), (640, 480), (1_920, 1_080), (2_000, 2_000), (2_000, 3)])
@pytest.mark.parametrize(
    ("vendor", "name"),
    [
        ("anthropic", "claude-opus-5-5"),
        ("anthropic", "claude-sonnet-4-6"),
        ("anthropic", "claude-haiku-4-5"),
        ("openai", "gpt-6.1-sol"),
        ("openai", "gpt-5.4"),
        ("responses", "gpt-6.1-sol"),
        ("responses", "gpt-5.4"),
    ],
)
async def test_our_count_of_a_picture_is_the_bill(
    provider: Provider, vendor: str, name: str, size: tuple[int, int]
) -> None:
    provider.script(r={"text": "ok"})
    model = provider.model(vendor, name)
    bills = []
    for parts in ((Text("a"),), (photo(*size), Text("a"))):
        made = prompt(name, segment("u", "user", *parts))
        heard = await listen(model, model.request(made, model.wire(made).blocks, []), reply="r")
        assert heard.error is None
        bills.append(heard.usage.input)
    rule = TABLE.facts(name, MAKERS[vendor]).images
    assert rule is not None
    assert bills[1] - bills[0] == rule.tokens(*size)


async def test_the_first_picture_costs_the_messages_their_cache_as_predicted(provider: Provider) -> None:
    """What the salt says is what the provider does: system text is read again, the messages are not."""
    provider.script(r={"text": "ok"})
    model = provider.model("anthropic", "claude-opus-5")
    long = segment("s", "system", Text("You answer from documents. " * 400), zone=Zone.FIXED)
    first = segment("u1", "user", Text("Tell me of the sea. " * 300))
    told = segment("a1", "assistant", Text("It is wide."))

    async def read(*asked: Segment) -> int:
        made = prompt("claude-opus-5", long, first, *asked)
        markers = [Marker(index, Ttl.FIVE_MINUTES, "test") for index in (0, 1)]
        heard = await listen(model, model.request(made, model.wire(made).blocks, markers), reply="r")
        assert heard.error is None
        return heard.usage.cache_read

    assert await read() == 0
    with_words = await read(told, segment("u2", "user", Text("And now?")))
    with_picture = await read(told, segment("u2", "user", PICTURE, Text("And now?")))
    assert with_words > with_picture > 0
