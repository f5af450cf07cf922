"""Pictures ride on the user message that they came with, counted as each vendor counts them (SPEC O3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.messages import Attachment, Text
from lamella.core.models import ModelFacts
from lamella.simulator import models
from lamella.simulator.pictures import Picture

from .plans import BINDING, BLIND, GPT, LEGACY, LOOSE, OLD, picture
from .windows import answer, document, made, request, shown_images, text_of, the, turn
from .wires import adapter, body

SIZES = ((1, 1), (28, 28), (640, 480), (1_000, 1_000), (2_000, 1_500), (300, 2_000), (1_999, 11))


def attached(width: int, height: int, number: int = 1) -> Attachment:
    image = picture("photo", width, height)
    return Attachment("photo", number, "photo.png", "image/png", 33, 0, None, image=image)


@pytest.mark.parametrize("model", [BINDING, OLD, GPT, LEGACY], ids=lambda model: model.name)
@pytest.mark.parametrize("size", SIZES)
def test_a_picture_counts_what_the_vendor_bills(model: ModelFacts, size: tuple[int, int]) -> None:
    """The simulator has its own table of the vendors' rules."""
    asked = request(turn(1, attached=[attached(*size)]), model=model)
    without = made(replace(asked, turn=turn(1)))
    local = the(made(asked), "turn_1/user").tokens - the(without, "turn_1/user").tokens
    rule = next(known for known in models.MODELS if known.id == model.name).pictures
    assert rule is not None
    billed = rule.tokens(Picture("image/png", *size))
    assert local * model.token_factor == pytest.approx(billed, rel=0.02, abs=model.token_factor + 1)


def test_they_stand_before_the_words_in_their_order() -> None:
    asked = turn(1, attached=[attached(1, 1), document(2, 5), replace(attached(640, 480, 3), file_id="second")])
    window = made(request(asked))
    (message,) = the(window, "turn_1/user").messages
    assert [type(part).__name__ for part in message.parts] == ["Image", "Image", "Text"]
    assert [image.width for image in shown_images(window)] == [1, 640]
    assert "photo.png" not in text_of(the(window, "turn_1/files"))


def test_a_message_with_a_picture_and_no_file_has_no_documents() -> None:
    window = made(request(turn(1, attached=[attached(1, 1)])))
    assert [segment.id for segment in window.prompt.segments] == ["tools", "system", "turn_1/user"]
    assert window.decisions == ()


def test_a_model_that_sees_none_reads_what_is_there() -> None:
    asked = request(turn(1, attached=[attached(640, 480)]), model=BLIND)
    window = made(asked)
    (message,) = the(window, "turn_1/user").messages
    assert message.parts[0] == Text("[A picture, “photo.png”, 640 × 480 pixels: this model can't see it.]")
    assert [(note.segment, note.text) for note in window.report.notes] == [
        ("turn_1/user", "“photo.png” is not shown: lamella-demo sees no pictures")
    ]
    assert not window.prompt.sampling.images
    seen = made(replace(asked, model=LOOSE))
    assert shown_images(seen)
    assert not seen.report.notes


def test_it_stays_where_it_was_sent() -> None:
    first = turn(1, answer("step_1"), attached=[attached(640, 480)])
    window = made(request(first, turn(2)))
    assert (
        the(window, "turn_1/user").messages
        == the(made(request(turn(1, attached=first.user.attachments))), "turn_1/user").messages
    )


@pytest.mark.parametrize("model", [LOOSE, BINDING, GPT], ids=lambda model: model.name)
def test_the_first_picture_is_a_salt_where_the_vendor_says_so(model: ModelFacts) -> None:
    """It loses Anthropic's cache of the messages, once: from then on there is a picture in every window."""
    wire = adapter(model.provider, model)
    plain = made(request(turn(1, answer("step_1")), turn(2), model=model))
    shown = turn(2, answer("step_2"), attached=[attached(1, 1)])
    first = made(request(turn(1, answer("step_1")), replace(shown, steps=()), model=model))
    later = made(request(turn(1, answer("step_1")), shown, turn(3), model=model))
    assert (plain.prompt.sampling.images, first.prompt.sampling.images, later.prompt.sampling.images) == (0, 1, 1)
    salts = [wire.salts(window.prompt.sampling) for window in (plain, first, later)]
    assert salts[1] == salts[2]
    assert (salts[0] == salts[1]) == (model.provider == "openai")


def test_its_bytes_are_in_the_body_and_its_fingerprint_in_the_segment() -> None:
    window = made(request(turn(1, attached=[attached(640, 480)])))
    other = made(request(turn(1, attached=[attached(641, 480)])))
    assert the(window, "turn_1/user").digest != the(other, "turn_1/user").digest
    assert '"media_type": "image/png"' in str(body(window, "anthropic")).replace("'", '"')
