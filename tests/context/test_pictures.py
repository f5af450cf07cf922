"""Pictures ride on the user message that they came with, counted as each vendor counts them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from lamella.context.assemble import Assembled, letters
from lamella.context.layouts import LAYOUTS
from lamella.core.agents import Project
from lamella.core.counting import count_tokens
from lamella.core.messages import Attachment, Image, Part, Text
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind
from lamella_simulator import models
from lamella_simulator.pictures import Picture

from .plans import BINDING, BLIND, BLUE, CHAT, GPT, LEGACY, LOOSE, OLD, RED, picture
from .windows import answer, document, made, request, shown_images, text_of, the, turn, words
from .wires import adapter, body

SIZES = ((1, 1), (28, 28), (640, 480), (1_000, 1_000), (2_000, 1_500), (300, 2_000), (1_999, 11))


def text_line(part: Part) -> str:
    """The first line of a text."""
    assert isinstance(part, Text)
    return part.text.splitlines()[0]


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
    billed, named = rule.tokens(Picture("image/png", *size)), count_tokens("[Picture “photo.png”]")
    assert (local - named) * model.token_factor == pytest.approx(billed, rel=0.02, abs=model.token_factor + 1)


def test_they_stand_before_the_words_in_their_order() -> None:
    second = replace(attached(640, 480, 3), file_id="second", title="blue.png")
    window = made(request(turn(1, text="Compare them.", attached=[attached(1, 1), document(2, 5), second])))
    (message,) = the(window, "turn_1/user").messages
    assert [part.width if isinstance(part, Image) else text_line(part) for part in message.parts] == [
        "[Picture “photo.png”]",
        1,
        "[Picture “blue.png”]",
        640,
        "Compare them.",
    ]
    assert [image.width for image in shown_images(window)] == [1, 640]
    assert "photo.png" not in text_of(the(window, "turn_1/files"))


@pytest.mark.parametrize("model", [LOOSE, BINDING, GPT, CHAT, LEGACY], ids=lambda model: model.name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_name_stands_right_before_its_picture_on_every_wire(model: ModelFacts, layout: str) -> None:
    """Pictures of a message and those of the project, so that “compare red.png with blue.png” can be answered."""
    note = replace(attached(1, 1), title="note.png")
    asked = request(
        turn(1, text="Compare red.png with blue.png.", attached=[note]),
        model=model,
        project=Project("proj_1", "Colours", files=(RED, BLUE)),
    )
    window = made(asked, layout)
    assert letters(window.prompt.segments) == "S P U1"
    parts = shown_on_the_wire(window, str(model.protocol))
    pictures = ["image"] if model.provider == "anthropic" else ["image_url", "input_image"]
    names = [
        before["text"]
        for before, after in pairwise(parts)
        if after["type"] in pictures and before["type"] not in pictures
    ]
    assert names == ["[Picture “red.png”]", "[Picture “blue.png”]", "[Picture “note.png”]"]
    assert window.prompt.sampling.images


def shown_on_the_wire(window: Assembled, wire: str) -> list[Any]:
    """The content parts of the user messages of a body, in order."""
    sent: Any = body(window, wire)
    asked = [one for one in sent.get("messages") or sent["input"] if one["role"] == "user"]
    return [part for one in asked for part in one["content"]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_pictures_of_a_project_are_admitted_as_its_documents_are(layout: str) -> None:
    project = Project("proj_1", "Colours", "Compare them.", (document(7, 20), RED, BLUE))
    small = made(request(turn(1), project=project, budget=1_500), layout)
    window = the(small, "proj_1")
    shown = ["[A picture, “blue.png”, 1900 × 1900 pixels: there is no room for it in the window.]"]
    if LAYOUTS[layout].is_fixed(Kind.PROJECT):
        shown = ["[Picture “red.png”]", "400 × 300", *shown]
    else:
        shown = ["[A picture, “red.png”, 400 × 300 pixels: there is no room for it in the window.]", *shown]
    parts = [
        f"{part.width} × {part.height}" if isinstance(part, Image) else text_line(part)
        for part in window.messages[0].parts
    ]
    assert parts == [*shown, "Instructions of the project “Colours”:"]
    assert "“blue.png” is listed, not included" in [note.text for note in small.report.notes]
    assert small.prompt.sampling.images == LAYOUTS[layout].is_fixed(Kind.PROJECT)
    large = made(request(turn(1), project=project), layout)
    assert [image.width for image in shown_images(large)] == [400, 1_900]
    assert the(large, "proj_1").tokens > the(small, "proj_1").tokens


def test_the_pictures_of_a_project_give_way_before_this_message_s_files() -> None:
    project = Project("proj_1", "Colours", files=(RED, BLUE))
    first = made(request(turn(1, answer("step_1")), turn(2), project=project, budget=6_000))
    assert [decision.outcome for decision in first.decisions] == ["included", "included"]
    running = turn(2, text=words(3_000))
    later = made(request(turn(1, answer("step_1")), running, project=project, budget=6_000, decisions=first.decisions))
    [decision] = [decision for decision in later.decisions if decision.first_changed == "proj_1"][-1:]
    assert decision.why.endswith("“blue.png” is listed from here on by its name alone")
    assert later.report.estimate * 1.05 <= 6_000


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_model_that_sees_none_reads_the_names_of_a_project_s_pictures(layout: str) -> None:
    window = made(request(turn(1), model=BLIND, project=Project("proj_1", "Colours", files=(RED, BLUE))), layout)
    assert text_of(the(window, "proj_1")) == (
        "[A picture, “red.png”, 400 × 300 pixels: this model can't see it.]\n"
        "[A picture, “blue.png”, 1900 × 1900 pixels: this model can't see it.]"
    )
    assert [(note.segment, note.text) for note in window.report.notes] == [
        ("proj_1", "“red.png” is not shown: lamella-demo sees no pictures"),
        ("proj_1", "“blue.png” is not shown: lamella-demo sees no pictures"),
    ]
    assert window.decisions == ()
    assert not window.prompt.sampling.images


@pytest.mark.parametrize("layout", LAYOUTS)
def test_more_pictures_than_a_request_may_carry_are_listed(layout: str) -> None:
    heavy = [
        replace(RED, file_id=f"f{n}", document=n, title=f"{n}.png", image=replace(RED.image, data=bytes(3_900_000)))
        for n in range(1, 9)
        if RED.image is not None
    ]
    window = made(request(turn(1), project=Project("proj_1", "Scans", files=tuple(heavy))), layout)
    assert sum(len(image.data) for image in shown_images(window)) < 20_000_000
    assert len(shown_images(window)) == (4 if LAYOUTS[layout].is_fixed(Kind.PROJECT) else 0)
    assert window.decisions[-1].numbers["most_bytes"] == 18_000_000
    assert "8.png" in text_of(the(window, "proj_1"))


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
